//! The command `bench`: options, text and exit status. The measurements are those of `gpu-interop-conformance-bench`.

use std::fmt::Write;
use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use globset::GlobMatcher;
use gpu_interop_conformance::{Stop, StopKind, Suite, Verdict, ensure};
use gpu_interop_conformance_bench::{Bench, BenchReport, Measurement, Ratio, names};
use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::{FAILED, glob};
use crate::drivers::{DriverArgs, emulate};
use crate::files::{check_writable, to_report_json, write_file};
use crate::output::{self, counted};
use crate::report::text::subject;
use crate::report::{Merged, html};

/// The options of `conformance bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// The backend. Default: GPU_INTEROP_BACKEND, or the first with a device.
    #[arg(long)]
    backend: Option<String>,
    #[command(flatten)]
    pub(crate) drivers: DriverArgs,
    /// Only measurements with a matching name: load, context, memory.64KiB, memory.1MiB, memory.64MiB, memory.heap, signal.1,
    /// signal.8, signal.64, wait.1, wait.8, wait.64, bandwidth.256MiB, bandwidth.1GiB, live_imports;
    /// frame.graphics.1080p, frame.graphics.4K, frame.graphics.8K, frame.transfer.1080p, frame.transfer.4K,
    /// frame.transfer.8K, frame.ring.graphics.1080p, frame.ring.graphics.4K, frame.ring.transfer.1080p,
    /// frame.ring.transfer.4K, frame.wgpu.720p, frame.wgpu.4K; video.nv12, video.p010, feed.rgba8, feed.nv12, convert.nv12,
    /// convert.p010;
    /// timeline.round_trip.graphics, timeline.round_trip.transfer, timeline.round_trip.own, timeline.one_way.graphics,
    /// timeline.one_way.transfer, timeline.in_flight.graphics, timeline.in_flight.transfer, timeline.idle.
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as one HTML page without network resources.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// A tenth of the time, imprecise: a smoke test.
    #[arg(long)]
    quick: bool,
    /// Fail if a ratio misses its limit, if none with a limit was measured, or if this machine lacks a requirement of
    /// a measurement.
    #[arg(long)]
    strict: bool,
}

/// Measures, prints and writes the report, and returns the exit status.
pub(crate) fn run(suite: &Suite, args: &BenchArgs) -> Verdict<u8> {
    let filter = args.filter.as_deref().map(glob).transpose()?;
    filter.as_ref().map_or(Ok(()), check_filter)?;
    let backend = match args.drivers.backend(args.backend.as_deref())? {
        Some(name) => name,
        None => suite.default_backend()?.0,
    };
    // Checked before the run rather than after it.
    let under_test = suite.backend(&backend)?;
    for path in args.json.iter().chain(&args.html) {
        check_writable(path)?;
    }
    let bench = Bench::open(under_test, emulate::detect)?;
    output::print(format_args!("{}", heading(bench.report())));
    let report = measure(bench, filter.as_ref(), args.quick);
    output::print(format_args!("{}", results(&report, std::io::stdout().is_terminal())));
    if let Some(path) = &args.json {
        write_file(path, &to_report_json(&report)?)?;
    }
    let status = status_of(&report, args.strict);
    if let Some(path) = &args.html {
        write_file(path, &html::render(&Merged::single_bench(report)))?;
    }
    status
}

/// Fails unless the pattern matches a measurement.
fn check_filter(filter: &GlobMatcher) -> Verdict {
    let mut known = names();
    if known.any(|name| filter.is_match(name)) {
        return Ok(());
    }
    let known: Vec<&str> = names().collect();
    Err(Stop::failed(format!("--filter matches no measurement; there are: {}", known.join(", "))))
}

/// Measures, with a progress bar if standard error is a terminal.
fn measure(bench: Bench, filter: Option<&GlobMatcher>, quick: bool) -> BenchReport {
    let chosen = |name: &str| filter.is_none_or(|filter| filter.is_match(name));
    let bar = ProgressBar::new(names().filter(|name| chosen(name)).count() as u64);
    // A wrong template falls back to the default style.
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
        bar.set_style(style);
    }
    let mut done = 0;
    let report = bench.measure(chosen, quick, |name| {
        // Printed once and not redrawn: drawing would distort measurements.
        bar.set_message(name);
        bar.set_position(done);
        bar.tick();
        done += 1;
    });
    bar.finish_and_clear();
    report
}

/// The exit status of a report.
fn status_of(report: &BenchReport, strict: bool) -> Verdict<u8> {
    if report.not_measured.iter().any(|gap| gap.stop.is_failure()) {
        return Ok(FAILED);
    }
    ensure!(!report.measurements.is_empty(), "nothing was measured, for the reasons above");
    if !strict {
        return Ok(0);
    }
    let judged: Vec<bool> = report.ratios.iter().filter_map(|ratio| ratio.holds).collect();
    ensure!(!judged.is_empty(), "--strict: no ratio with a limit was measured");
    // A missing package is a gap in the measurements; an unsupported feature is not.
    let gaps = report.not_measured.iter().filter(|gap| gap.stop.kind == StopKind::Skipped);
    let gaps: Vec<&str> = gaps.map(|gap| gap.what.as_str()).collect();
    ensure!(gaps.is_empty(), "--strict: not measured on this machine: {}", gaps.join(", "));
    Ok(if judged.contains(&false) { FAILED } else { 0 })
}

/// The first lines: backend, device, exporter.
fn heading(report: &BenchReport) -> String {
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
fn results(report: &BenchReport, as_table: bool) -> String {
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
    use gpu_interop::{BackendInfo, DeviceIdentity};
    use gpu_interop_conformance::Tool;
    use gpu_interop_conformance_bench::{BENCH_SCHEMA, Limit, NotMeasured};

    use super::*;

    fn report(ratio: f64, stop: Option<Stop>) -> BenchReport {
        let measurement = Measurement {
            name: "signal.1".into(),
            variant: "library".into(),
            unit: "ns".into(),
            median: 1.0,
            p10: 1.0,
            p90: 1.0,
            samples: 1,
            left_out: None,
            on_busy_cores: None,
            series: Vec::new(),
        };
        BenchReport {
            schema: BENCH_SCHEMA,
            tool: Tool { name: "t".into(), version: "1".into() },
            backend: BackendInfo::new("b", "d"),
            emulated: None,
            device: DeviceIdentity::default(),
            exporter: None,
            started: None,
            ratios: vec![Ratio::new("r".into(), ratio, (ratio, ratio), Some(Limit::AtMost(1.02)))],
            measurements: vec![measurement],
            not_measured: stop.map(|stop| NotMeasured { what: "frame".into(), stop }).into_iter().collect(),
            duration_us: 1,
        }
    }

    #[test]
    fn a_missed_limit_fails_only_a_strict_run() {
        let unsupported = || Some(Stop::unsupported("no such queue".into()));
        assert_eq!(status_of(&report(1.01, unsupported()), true), Ok(0));
        assert_eq!(status_of(&report(1.03, None), false), Ok(0));
        assert_eq!(status_of(&report(1.03, None), true), Ok(FAILED));
        let unjudged = BenchReport { ratios: Vec::new(), ..report(1.0, None) };
        assert_eq!(status_of(&unjudged, false), Ok(0));
        assert!(status_of(&unjudged, true).is_err(), "nothing that could have missed a limit");
    }

    #[test]
    fn what_failed_and_what_measured_nothing_fail_every_run() {
        let failed = Stop::failed("the frame never arrived".into());
        assert_eq!(status_of(&report(1.0, Some(failed)), false), Ok(FAILED));
        let nothing = BenchReport { measurements: Vec::new(), ..report(1.0, None) };
        assert!(status_of(&nothing, false).is_err());
    }

    #[test]
    fn a_filter_that_matches_nothing_names_what_there_is() {
        assert_eq!(check_filter(&glob("memory.*").expect("a glob")), Ok(()));
        let stop = check_filter(&glob("nonsense").expect("a glob")).expect_err("nothing matches");
        assert!(names().all(|name| stop.reason().contains(name)), "{stop}");
    }

    /// The help text of `--filter` lists the measurements.
    #[test]
    fn the_help_names_every_measurement() {
        let command = BenchArgs::augment_args(clap::Command::new("bench"));
        let help = command.get_arguments().find(|argument| argument.get_id() == "filter").and_then(clap::Arg::get_help);
        let help = help.expect("help").to_string();
        assert!(names().all(|name| help.contains(name)), "{help}");
    }

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
