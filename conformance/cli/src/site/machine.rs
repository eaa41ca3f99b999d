//! The page of one machine: failures with the first failing build, unsteady cases, cases over time, runs, measurements.

use gpu_interop_conformance_bench::{BenchReport, Limit};
use maud::{Markup, html};

use super::history::{Failing, History, Unsteady, build, date, heat_map, legend, strip};
use super::{Found, page};
use crate::report::html::{bar, bench_section, counts, in_order, quantity, tally, words};
use crate::report::{CaseReport, Report};

/// The page.
pub(super) fn render(machine: &History<'_>) -> String {
    let content = html! {
        @if !machine.runs.is_empty() {
            (failing(machine))
            @if !machine.unsteady().is_empty() { (unsteady(machine)) }
            (cases(machine))
            (runs(machine))
        }
        @if let Some(newest) = machine.benches.last() { (bench_section(&newest.report, &newest.file, 1)) }
        @if machine.benches.len() > 1 { (trends(&machine.benches)) }
    };
    page(&format!("gpu-interop conformance: {}", machine.name()), &content)
}

fn failing(machine: &History<'_>) -> Markup {
    let all = machine.failing();
    let label = |index: usize| machine.runs.get(index).map(|run| run_label(run)).unwrap_or_default();
    let newest = |case: &str| machine.results(case).into_iter().flatten().last();
    html! {
        section aria-labelledby="failing" {
            h2 id="failing" { "Failing (" (all.len()) ")" }
            @if all.is_empty() {
                p { "No case fails." }
            } @else {
                div class="wide" {
                    table {
                        thead {
                            tr {
                                @for heading in ["case", "first failing build", "last good build", "outcome"] {
                                    th scope="col" { (heading) }
                                }
                            }
                        }
                        tbody {
                            @for Failing { case, since, last_good } in &all {
                                tr class="failing" {
                                    th scope="row" { code { (case) } }
                                    td { (label(*since)) }
                                    td { (last_good.map_or_else(|| "none in these reports".into(), label)) }
                                    @if let Some(result) = newest(case) {
                                        td { (result.outcome) @if let Some(reason) = &result.reason { ": " (reason) } }
                                    } @else { td {} }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn unsteady(machine: &History<'_>) -> Markup {
    let all = machine.unsteady();
    html! {
        section aria-labelledby="unsteady" {
            h2 id="unsteady" { "Unsteady (" (all.len()) ")" }
            p class="note" { "Flaky in a run, or failed in one and passed in another run of the same build." }
            ul {
                @for Unsteady { case, failed, ran } in &all {
                    li class="unsteady" { code { (case) } " " (failed) " of " (ran) " runs, " (percent(*failed, *ran)) " %" }
                }
            }
        }
    }
}

/// Rounded to the nearest percent, and at least 1.
fn percent(part: usize, all: usize) -> usize {
    ((200 * part + all) / (2 * all.max(1))).max(1)
}

fn run_label(run: &Found<Report>) -> String {
    format!("{} ({})", build(&run.report), date(run.report.started))
}

fn runs(machine: &History<'_>) -> Markup {
    html! {
        section aria-labelledby="runs" {
            h2 id="runs" { "Runs" }
            div class="wide" {
                table {
                    thead {
                        tr {
                            @for heading in ["began", "build", "driver", "outcomes", "report"] { th scope="col" { (heading) } }
                        }
                    }
                    tbody {
                        @for run in machine.runs.iter().rev() {
                            tr class="run" {
                                td class="date" { (date(run.report.started)) }
                                td { (build(&run.report)) }
                                td { (run.report.backend.driver) }
                                @let tally = tally(run.report.results.iter());
                                td { (bar(&tally)) div class="counts" { (counts(&tally)) } }
                                td { code { (run.file) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A heat map of the newest results for each group, and, opened, every case over time.
fn cases(machine: &History<'_>) -> Markup {
    let names = machine.cases();
    let newest: Vec<(&str, &CaseReport)> = names
        .iter()
        .filter_map(|name| Some((name.as_str(), machine.results(name).into_iter().flatten().last()?)))
        .collect();
    html! {
        section aria-labelledby="cases" {
            h2 id="cases" { "Cases" }
            (legend("One box for each case, with its newest outcome. Open a group for the names, and one box for each run."))
            div class="heat" {
                @for group in in_order(newest.iter().map(|(_, case)| case.group())) {
                    @let cases: Vec<_> = newest.iter().copied().filter(|(_, case)| case.group() == group).collect();
                    details class="group" {
                        summary {
                            h3 { (group) }
                            span class="counts" { (counts(&tally(cases.iter().map(|(_, case)| *case)))) }
                            (heat_map(&cases))
                        }
                        table {
                            @for (name, case) in &cases {
                                tr { th scope="row" { code { (name) } } td { (strip(machine, name)) (words(case.outcome)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Every ratio with a limit, and every measurement, over time.
fn trends(benches: &[&Found<BenchReport>]) -> Markup {
    let label = |bench: &Found<BenchReport>| format!("{}, {}", bench.report.backend.driver, date(bench.report.started));
    let ratios = in_order(benches.iter().flat_map(|bench| {
        bench.report.ratios.iter().filter(|ratio| ratio.limit.is_some()).map(|ratio| ratio.name.as_str())
    }));
    let measured = in_order(benches.iter().flat_map(|bench| {
        bench.report.measurements.iter().map(|each| (each.name.as_str(), each.variant.as_str(), each.unit.as_str()))
    }));
    let ratio_points = |name: &str| {
        let found = benches.iter().flat_map(|bench| {
            let same = bench.report.ratios.iter().filter(|ratio| ratio.name == name);
            same.map(|ratio| Point { label: label(bench), value: ratio.value, low: ratio.low, high: ratio.high })
        });
        found.collect::<Vec<_>>()
    };
    let limit = |name: &str| {
        let ratios = benches.iter().rev().flat_map(|bench| &bench.report.ratios);
        ratios.filter(|ratio| ratio.name == name).find_map(|ratio| ratio.limit).map(|limit| match limit {
            Limit::AtMost(value) | Limit::AtLeast(value) => value,
        })
    };
    let points = |(name, variant, unit): (&str, &str, &str)| {
        let found = benches.iter().flat_map(|bench| {
            let is_same = move |each: &&gpu_interop_conformance_bench::Measurement| {
                each.name == name && each.variant == variant && each.unit == unit
            };
            let same = bench.report.measurements.iter().filter(is_same);
            same.map(|each| Point { label: label(bench), value: each.median, low: each.p10, high: each.p90 })
        });
        found.collect::<Vec<_>>()
    };
    html! {
        @if !benches.is_empty() {
            section aria-labelledby="trends" {
                h2 id="trends" { "Measurements over time" }
                p class="note" {
                    "The line is the median, the band goes from the 10th to the 90th percentile, or is the 95 % interval of a "
                    "ratio; the dashed line is its limit. Axes begin at 0."
                }
                @if !ratios.is_empty() {
                    details class="group" open {
                        summary { h3 { "Ratios with a limit" } }
                        div class="trends" { @for name in ratios { (trend(name, "", &ratio_points(name), limit(name))) } }
                    }
                }
                details class="group" {
                    summary { h3 { "All measurements" } }
                    div class="trends" {
                        @for key in measured { (trend(&format!("{} {}", key.0, key.1), key.2, &points(key), None)) }
                    }
                }
            }
        }
    }
}

/// A value at one time.
#[derive(Debug, Clone)]
struct Point {
    /// The time and the build.
    pub(super) label: String,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;
/// The room above and below, and at the sides.
const MARGIN: f64 = 8.0;

/// The vertical axis. It begins at 0, so that heights are proportional to values.
struct Axis {
    top: f64,
}

impl Axis {
    fn of(points: &[Point], limit: Option<f64>) -> Self {
        let values = points.iter().flat_map(|point| [point.value, point.high]).chain(limit);
        let top = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        Self { top: if top > 0.0 { top * 1.05 } else { 1.0 } }
    }

    fn y(&self, value: f64) -> f64 {
        let share = if value.is_finite() { (value / self.top).clamp(0.0, 1.0) } else { 0.0 };
        HEIGHT - MARGIN - share * (HEIGHT - 2.0 * MARGIN)
    }
}

fn x(index: usize, count: usize) -> f64 {
    // Numbers of runs are far below the limit of exact numbers.
    #[allow(clippy::cast_precision_loss, reason = "see above")]
    let (index, last) = (index as f64, count.saturating_sub(1) as f64);
    if last > 0.0 { MARGIN + index / last * (WIDTH - 2.0 * MARGIN) } else { WIDTH / 2.0 }
}

/// A line through the values, a band between low and high, and the limit.
fn trend(name: &str, unit: &str, points: &[Point], limit: Option<f64>) -> Markup {
    let axis = Axis::of(points, limit);
    let position = |(index, value): (usize, f64)| format!("{:.1},{:.1}", x(index, points.len()), axis.y(value));
    let line: Vec<String> = points.iter().map(|point| point.value).enumerate().map(position).collect();
    let low = points.iter().map(|point| point.low).enumerate().map(position);
    let high: Vec<String> = points.iter().map(|point| point.high).enumerate().map(position).collect();
    let band: Vec<String> = low.chain(high.into_iter().rev()).collect();
    let newest = points.last().map(|point| quantity(point.value, unit)).unwrap_or_default();
    html! {
        figure class="trend" {
            figcaption { code { (name) } " " (newest) }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img"
                aria-label=(format!("{name}: {} values, the newest {newest}", points.len()))
            {
                polygon points=(band.join(" ")) {}
                @if let Some(limit) = limit {
                    @let y = format!("{:.1}", axis.y(limit));
                    line class="limit" x1="0" x2=(WIDTH) y1=(y) y2=(y) {}
                }
                polyline points=(line.join(" ")) {}
                @for (index, point) in points.iter().enumerate() {
                    circle cx=(format!("{:.1}", x(index, points.len()))) cy=(format!("{:.1}", axis.y(point.value))) r="3" {
                        title { (point.label) ": " (quantity(point.value, unit)) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heights_are_proportional_and_within_the_plot() {
        let point = |value: f64| Point { label: String::new(), value, low: value, high: value };
        let axis = Axis::of(&[point(1.0), point(4.0), point(f64::NAN)], Some(2.0));
        let height = |value: f64| HEIGHT - MARGIN - axis.y(value);
        assert!((height(4.0) / height(1.0) - 4.0).abs() < 1e-9);
        assert!(axis.y(4.0) >= MARGIN && (axis.y(f64::NAN) - axis.y(0.0)).abs() < 1e-9);
        assert!((x(0, 2) - MARGIN).abs() < 1e-9 && (x(1, 2) - (WIDTH - MARGIN)).abs() < 1e-9);
        assert!((x(0, 1) - WIDTH / 2.0).abs() < 1e-9);
    }
}
