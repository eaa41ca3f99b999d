//! Measurements as plots: ratios with their limits, then all measurements.
//!
//! Coordinates are percentages of the plot's width, so that plots scale with the window.

use gpu_interop_conformance_bench::{BenchReport, Limit, Measurement, Ratio};
use maud::{Markup, html};

use super::{in_order, machines, number, quantity};
use crate::output::counted;

/// One report of `conformance bench`.
pub(crate) fn section(report: &BenchReport, source: &str, number: usize) -> Markup {
    let id = format!("bench-{number}");
    let (mut judged, informing): (Vec<&Ratio>, Vec<&Ratio>) =
        report.ratios.iter().partition(|ratio| ratio.limit.is_some());
    // The one that is nearest to its limit first.
    judged.sort_by(|a, b| a.margin().unwrap_or(0.0).total_cmp(&b.margin().unwrap_or(0.0)));
    let (kept, _) = report.kept();
    let groups = in_order(report.measurements.iter().map(|each| first_part(&each.name)));
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) {
                "Measurements: " (report.backend.name) " · " (report.device.name) (machines::mark(&report.backend, &report.emulated))
            }
            (machines::of_bench(report, source))
            @if !judged.is_empty() {
                details class="group" open {
                    summary {
                        h3 { "Ratios with a limit" }
                        span class="counts" { (kept) " of " (judged.len()) " keep to it" }
                    }
                    (ratios(&judged))
                }
            }
            @if !informing.is_empty() {
                details class="group" {
                    summary { h3 { "Ratios without a limit" } span class="counts" { (informing.len()) } }
                    (ratios(&informing))
                }
            }
            @for group in groups { (measurements(report, group)) }
            @if !report.not_measured.is_empty() {
                details class="group" {
                    summary { h3 { "Not measured" } span class="counts" { (report.not_measured.len()) } }
                    ul { @for gap in &report.not_measured { li { code { (gap.what) } ": " (gap.stop) } } }
                }
            }
        }
    }
}

fn first_part(name: &str) -> &str {
    name.split(['.', ' ']).next().unwrap_or_default()
}

/// The logarithmic axis of one ratio.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    /// An axis that covers all of these values and 1, with a margin.
    fn around(values: impl Iterator<Item = f64>) -> Self {
        let (mut low, mut high) = (1.0_f64, 1.0_f64);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        let margin = (high / low).powf(0.1).max(1.001);
        Self { low: low / margin, high: high * margin }
    }

    /// Percent from the left.
    fn position(&self, value: f64) -> f64 {
        let width = (self.high / self.low).ln();
        let position = 100.0 * (value / self.low).ln() / width;
        if position.is_finite() { position.clamp(0.0, 100.0) } else { 0.0 }
    }
}

fn percent(position: f64) -> String {
    format!("{position:.2}%")
}

fn limit_value(limit: Limit) -> f64 {
    match limit {
        Limit::AtMost(value) | Limit::AtLeast(value) => value,
    }
}

/// One plot a ratio, each on an axis of its own: interval, value, limit, and a line at 1.
fn ratios(ratios: &[&Ratio]) -> Markup {
    let has_limits = ratios.iter().any(|ratio| ratio.limit.is_some());
    html! {
        p class="note" {
            "Each row has a logarithmic axis of its own. The dot is the value, the bar its 95 % interval, the thin mark 1."
            @if has_limits {
                " The dashed mark is the limit, and red is beyond it. The row with the least margin to its limit is first."
            }
        }
        div class="plots" { @for each in ratios { (ratio(each)) } }
    }
}

fn ratio(ratio: &Ratio) -> Markup {
    let axis = Axis::around([ratio.value, ratio.low, ratio.high, ratio.limit.map_or(1.0, limit_value)].into_iter());
    let class = match ratio.holds {
        Some(true) => "within",
        Some(false) => "missed",
        None => "plain",
    };
    let position = |value| percent(axis.position(value));
    let shown = format!(
        "{}{} ({} to {}){}",
        ratio.margin().map(|margin| format!("margin {:.1} %: ", 100.0 * margin)).unwrap_or_default(),
        number(ratio.value),
        number(ratio.low),
        number(ratio.high),
        ratio.limit.map(|limit| format!(", limit {limit}: {}", ratio.verdict())).unwrap_or_default()
    );
    html! {
        div class={ "plot ratio " (class) } {
            code { (ratio.name) }
            svg width="100%" height="32" role="img" aria-label=(shown) {
                @if let Some(limit) = ratio.limit { (of_limit(limit, &axis)) }
                line class="one" x1=(position(1.0)) x2=(position(1.0)) y1="2" y2="18" {}
                line class="interval" x1=(position(ratio.low)) x2=(position(ratio.high)) y1="10" y2="10" {}
                circle cx=(position(ratio.value)) cy="10" r="4" {}
            }
            span class="value" { (shown) }
        }
    }
}

/// The limit on an axis: the range beyond it, its mark, and both labels, on opposite sides of it.
fn of_limit(limit: Limit, axis: &Axis) -> Markup {
    let (value, one) = (limit_value(limit), percent(axis.position(1.0)));
    let position = axis.position(value);
    let (x, width) = match limit {
        Limit::AtMost(_) => (position, 100.0 - position),
        Limit::AtLeast(_) => (0.0, position),
    };
    let [start, end] = ["start", "end"];
    let (of_limit, of_one) = if value < 1.0 { (end, start) } else { (start, end) };
    html! {
        rect class="beyond" x=(percent(x)) y="0" width=(percent(width)) height="20" {}
        line class="limit" x1=(percent(position)) x2=(percent(position)) y1="0" y2="20" {}
        text x=(percent(position)) y="31" text-anchor=(of_limit) { (value) }
        @if (value - 1.0).abs() > f64::EPSILON { text x=(one) y="31" text-anchor=(of_one) { "1" } }
    }
}

/// The measurements of one group, by the prefix of their names.
fn measurements(report: &BenchReport, group: &str) -> Markup {
    let within: Vec<&Measurement> = report.measurements.iter().filter(|each| first_part(&each.name) == group).collect();
    let names = in_order(within.iter().map(|each| each.name.as_str()));
    html! {
        details class="group" {
            summary { h3 { (group) } span class="counts" { (counted(within.len(), "measurement")) } }
            p class="note" {
                "Bars of one name share a scale that begins at 0. The bar is the median; the line goes from the 10th "
                "to the 90th percentile."
            }
            @for name in names {
                @let variants: Vec<&Measurement> = within.iter().copied().filter(|each| each.name == name).collect();
                (bars(name, &variants))
            }
        }
    }
}

/// One bar a variant.
fn bars(name: &str, variants: &[&Measurement]) -> Markup {
    let most = variants.iter().map(|each| each.p90.max(each.median)).fold(0.0, f64::max);
    let position = |value: f64| percent(if most > 0.0 { (100.0 * value / most).clamp(0.0, 100.0) } else { 0.0 });
    html! {
        div class="bars" {
            h4 { code { (name) } }
            @for Measurement { variant, unit, median, p10, p90, samples, left_out, on_busy_cores, .. } in variants {
                @let shown = quantity(*median, unit);
                div class="plot" {
                    span { (variant) }
                    svg width="100%" height="14" role="img" aria-label={ (variant) ": " (shown) } {
                        rect x="0" y="2" width=(position(*median)) height="10" {}
                        line class="interval" x1=(position(*p10)) x2=(position(*p90)) y1="7" y2="7" {}
                    }
                    span class="value" {
                        (shown)
                        small {
                            @if *samples > 1 {
                                " (" (quantity(*p10, unit)) " to " (quantity(*p90, unit)) ", " (samples) " samples"
                                @if let Some(rounds) = left_out.filter(|rounds| *rounds > 0) { ", " (rounds) " left out" }
                                @if let Some(rounds) = on_busy_cores { ", " (rounds) " of them on a busy core" }
                                ")"
                            } @else { " (once)" }
                        }
                    }
                }
            }
            (plots(variants))
        }
    }
}

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 60.0;

/// One plot a variant with a series; all share the vertical axis, which begins at 0.
fn plots(variants: &[&Measurement]) -> Markup {
    let paced: Vec<&Measurement> = variants.iter().copied().filter(|each| each.series.len() > 2).collect();
    let top = paced.iter().flat_map(|each| &each.series).copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    html! {
        @if let Some(first) = paced.first() {
            figure class="pacing" {
                figcaption {
                    "Frame by frame, from 0 to " (quantity(top, &first.unit)) "; the dashed line is the median."
                }
                @for each in paced { (plot(each, top)) }
            }
        }
    }
}

fn plot(each: &Measurement, top: f64) -> Markup {
    let Measurement { variant, unit, median, series, .. } = each;
    let most = series.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let position = series.iter().position(|value| value.total_cmp(&most).is_eq()).unwrap_or(0) + 1;
    let about = format!("{} frames, the longest {} (number {position})", series.len(), quantity(most, unit));
    let median = format!("{:.1}", y(*median, top));
    html! {
        div class="plot" {
            span { (variant) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" width="100%" height=(HEIGHT) role="img"
                aria-label={ (variant) ": " (about) }
            {
                line class="limit" x1="0" x2=(WIDTH) y1=(median) y2=(median) {}
                polyline points=(points(series, top)) {}
            }
            span class="value" { small { (about) } }
        }
    }
}

fn points(series: &[f64], top: f64) -> String {
    // At most a few hundred samples.
    #[allow(clippy::cast_precision_loss, reason = "see above")]
    let x = |index: usize| index as f64 / series.len().saturating_sub(1).max(1) as f64 * WIDTH;
    let position = |(index, value): (usize, &f64)| format!("{:.1},{:.1}", x(index), y(*value, top));
    series.iter().enumerate().map(position).collect::<Vec<_>>().join(" ")
}

/// From the top, with room for the width of the line.
fn y(value: f64, top: f64) -> f64 {
    let share = if top > 0.0 && value.is_finite() { (value / top).clamp(0.0, 1.0) } else { 0.0 };
    HEIGHT - 1.0 - share * (HEIGHT - 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_room_for_all_and_orders_them() {
        let axis = Axis::around([0.5, 1.02, 8.0, f64::NAN, 0.0].into_iter());
        let positions: Vec<f64> = [0.5, 1.0, 1.02, 8.0].iter().map(|value| axis.position(*value)).collect();
        assert!(positions.windows(2).all(|pair| pair[0] < pair[1]), "{positions:?}");
        assert!(positions[0] > 0.0 && positions[3] < 100.0, "{positions:?}");
        // 2 and 1/2 are equally far from 1.
        assert!((axis.position(2.0) - axis.position(1.0) - (axis.position(1.0) - axis.position(0.5))).abs() < 1e-9);
        assert_eq!((axis.position(f64::NAN), axis.position(-1.0), axis.position(1e9)), (0.0, 0.0, 100.0));
    }

    #[test]
    fn samples_keep_their_order_and_proportion() {
        assert_eq!(points(&[0.0, 10.0, 5.0], 10.0), "0.0,59.0 500.0,1.0 1000.0,30.0");
        assert_eq!(points(&[f64::NAN, 20.0], 10.0), "0.0,59.0 1000.0,1.0");
        assert_eq!(points(&[3.0], 0.0), "0.0,59.0");
    }

    #[test]
    fn every_variant_with_a_series_has_a_plot() {
        let of = |variant: &str, series: &[f64]| Measurement {
            name: "frame.ring.4K.interval".into(),
            variant: variant.into(),
            unit: "ns".into(),
            median: 2e6,
            p10: 1e6,
            p90: 4e6,
            samples: 3,
            left_out: None,
            on_busy_cores: None,
            series: series.to_vec(),
        };
        let (ring, older) = (of("ring", &[2e6, 4e6, 1e6]), of("fence", &[]));
        let page = plots(&[&ring, &older]).into_string();
        assert_eq!(page.matches("<polyline").count(), 1, "{page}");
        assert!(page.contains("3 frames, the longest 4.000 ms (number 2)"), "{page}");
        assert_eq!(plots(&[&older]).into_string(), "");
    }
}
