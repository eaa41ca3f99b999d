//! Measurements as plots: ratios with their limits, then all measurements.
//!
//! Coordinates are percentages of the plot's width, so that plots scale with the window.

use maud::{Markup, html};

use super::number::{number, quantity};
use super::run::in_order;
use super::{machines, pacing};
use crate::output::counted;
use gpu_interop_conformance_bench::{BenchReport, Limit, Measurement, Ratio};

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
    fn place(&self, value: f64) -> f64 {
        let width = (self.high / self.low).ln();
        let place = 100.0 * (value / self.low).ln() / width;
        if place.is_finite() { place.clamp(0.0, 100.0) } else { 0.0 }
    }
}

fn percent(place: f64) -> String {
    format!("{place:.2}%")
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
    let place = |value| percent(axis.place(value));
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
                line class="one" x1=(place(1.0)) x2=(place(1.0)) y1="2" y2="18" {}
                line class="interval" x1=(place(ratio.low)) x2=(place(ratio.high)) y1="10" y2="10" {}
                circle cx=(place(ratio.value)) cy="10" r="4" {}
            }
            span class="value" { (shown) }
        }
    }
}

/// The limit on an axis: what is beyond it, its mark, and both labels, which lead away from each other.
fn of_limit(limit: Limit, axis: &Axis) -> Markup {
    let (value, one) = (limit_value(limit), percent(axis.place(1.0)));
    let place = axis.place(value);
    let (x, width) = match limit {
        Limit::AtMost(_) => (place, 100.0 - place),
        Limit::AtLeast(_) => (0.0, place),
    };
    let [start, end] = ["start", "end"];
    let (of_limit, of_one) = if value < 1.0 { (end, start) } else { (start, end) };
    html! {
        rect class="beyond" x=(percent(x)) y="0" width=(percent(width)) height="20" {}
        line class="limit" x1=(percent(place)) x2=(percent(place)) y1="0" y2="20" {}
        text x=(percent(place)) y="31" text-anchor=(of_limit) { (value) }
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
    let place = |value: f64| percent(if most > 0.0 { (100.0 * value / most).clamp(0.0, 100.0) } else { 0.0 });
    html! {
        div class="bars" {
            h4 { code { (name) } }
            @for Measurement { variant, unit, median, p10, p90, samples, left_out, on_busy_cores, .. } in variants {
                @let shown = quantity(*median, unit);
                div class="plot" {
                    span { (variant) }
                    svg width="100%" height="14" role="img" aria-label={ (variant) ": " (shown) } {
                        rect x="0" y="2" width=(place(*median)) height="10" {}
                        line class="interval" x1=(place(*p10)) x2=(place(*p90)) y1="7" y2="7" {}
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
            (pacing::plots(variants))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_room_for_all_and_orders_them() {
        let axis = Axis::around([0.5, 1.02, 8.0, f64::NAN, 0.0].into_iter());
        let places: Vec<f64> = [0.5, 1.0, 1.02, 8.0].iter().map(|value| axis.place(*value)).collect();
        assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
        assert!(places[0] > 0.0 && places[3] < 100.0, "{places:?}");
        // 2 and 1/2 are equally far from 1.
        assert!((axis.place(2.0) - axis.place(1.0) - (axis.place(1.0) - axis.place(0.5))).abs() < 1e-9);
        assert_eq!((axis.place(f64::NAN), axis.place(-1.0), axis.place(1e9)), (0.0, 0.0, 100.0));
    }
}
