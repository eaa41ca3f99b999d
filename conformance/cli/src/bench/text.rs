//! Measurements as text: ratios first.

use std::fmt::Write;

use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};

use super::report::{BenchReport, Measurement, Ratio};
use crate::output::counted;
use crate::report::text::subject;

/// The first lines: backend, device, exporter.
pub(super) fn heading(report: &BenchReport) -> String {
    let mut text = subject(&report.backend, report.emulated.as_ref(), &report.device);
    // Writing to a `String` cannot fail.
    if let Some(exporter) = &report.exporter {
        let _ = writeln!(text, "vulkan    {}", exporter.driver);
    }
    if cfg!(debug_assertions) {
        let _ = writeln!(text, "note      a build without optimisation: the library's own part is far too slow here");
    }
    text
}

/// The whole report: tables for a terminal, lines for a pipe.
pub(super) fn results(report: &BenchReport, as_table: bool) -> String {
    let mut text = String::new();
    let ratio_rows: Vec<[String; 5]> = report.ratios.iter().map(ratio_row).collect();
    let measurement_rows: Vec<[String; 7]> = report.measurements.iter().map(measurement_row).collect();
    if as_table {
        let _ = writeln!(text, "{}", table(["ratio", "value", "95 % interval", "limit", "verdict"], ratio_rows));
        let header = ["measurement", "variant", "median", "p10", "p90", "samples", "left out"];
        let _ = writeln!(text, "{}", table(header, measurement_rows));
    } else {
        for [name, value, interval, limit, verdict] in ratio_rows {
            let line = format!("ratio {name:<44} {value:>7} {interval:>17} {limit:>8} {verdict}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for [name, variant, median, p10, p90, samples, left_out] in measurement_rows {
            let line = format!("{name:<36} {variant:<10} {median:>10} {p10:>10} {p90:>10} {samples:>5} {left_out:>5}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
    }
    for gap in &report.not_measured {
        let _ = writeln!(text, "not measured: {}: {}", gap.what, gap.stop);
    }
    let (held, judged) = report.kept();
    let seconds = std::time::Duration::from_micros(report.duration_us);
    let _ = writeln!(
        text,
        "{held} of {judged} ratios with a limit keep to it; {} in {seconds:.1?}",
        counted(report.measurements.len(), "measurement")
    );
    text
}

fn table<const N: usize>(header: [&str; N], rows: Vec<[String; N]>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn ratio_row(ratio: &Ratio) -> [String; 5] {
    let interval =
        if ratio.low < ratio.high { format!("{:.3} to {:.3}", ratio.low, ratio.high) } else { String::new() };
    [
        ratio.name.clone(),
        factor(ratio.value),
        interval,
        ratio.limit.map(|limit| limit.to_string()).unwrap_or_default(),
        ratio.verdict().to_owned(),
    ]
}

fn measurement_row(measurement: &Measurement) -> [String; 7] {
    let show = |value| quantity(value, &measurement.unit);
    [
        measurement.name.clone(),
        measurement.variant.clone(),
        show(measurement.median),
        show(measurement.p10),
        show(measurement.p90),
        measurement.samples.to_string(),
        match (measurement.left_out, measurement.on_busy_cores) {
            (Some(rounds), _) => rounds.to_string(),
            (None, Some(busy)) => format!("{busy} busy"),
            (None, None) => String::new(),
        },
    ]
}

/// A ratio with a suitable number of digits.
fn factor(value: f64) -> String {
    if value < 0.1 { format!("{value:.5}") } else { format!("{value:.3}") }
}

/// A value with its unit, durations in ns, µs or ms.
fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "ns" if value >= 1e9 => format!("{:.2} s", value / 1e9),
        "ns" if value >= 1e6 => format!("{:.2} ms", value / 1e6),
        "ns" if value >= 1e4 => format!("{:.1} us", value / 1e3),
        "ns" => format!("{value:.1} ns"),
        "%" => format!("{value:.3} %"),
        _ => format!("{value:.1} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_a_unit_that_suits_them() {
        let shown: Vec<String> = [612.3, 9_999.0, 71_250.0, 1_610_000.0, 2.5e9].map(|ns| quantity(ns, "ns")).into();
        assert_eq!(shown, ["612.3 ns", "9999.0 ns", "71.2 us", "1.61 ms", "2.50 s"]);
        assert_eq!(quantity(4987.04, "GB/s"), "4987.0 GB/s");
    }

    #[test]
    fn small_parts_of_a_whole_are_not_shown_as_nothing() {
        assert_eq!(
            (factor(0.00042), factor(1.0194), factor(12.0)),
            ("0.00042".into(), "1.019".into(), "12.000".into())
        );
        assert_eq!(quantity(0.042, "%"), "0.042 %");
    }
}
