//! Differences of measurements as text, one line each, and as an HTML page.

use std::fmt::Write;

use maud::{DOCTYPE, Markup, html};

use super::{BenchDifference, Figure, FigureKind, Value};
use crate::diff::show::{heading, machine};
use crate::output::{one_line, visible};
use crate::report::html::{head, number, quantity};

/// All figures, those with a difference first, and their counts.
pub(in crate::diff) fn text(difference: &BenchDifference) -> String {
    let mut text = heading(&difference.before, &difference.after, &difference.machine);
    // Writing to a `String` cannot fail.
    for figure in &difference.figures {
        let kind = figure.kind.map_or("unchanged", FigureKind::name);
        let line = format!("{kind:<9} {}: {}", figure.title(), states(figure));
        let _ = writeln!(text, "{}", one_line(&line));
    }
    let _ = writeln!(text, "noise: {}", difference.noise);
    let _ = writeln!(text, "{}", counts(difference));
    text
}

/// Both values, their ratio, and the limit.
fn states(figure: &Figure) -> String {
    let of = |value: &Value| shown(figure, value);
    let mut text = match (&figure.before, &figure.after) {
        (Some(before), Some(after)) => format!("{} -> {}", of(before), of(after)),
        (Some(only), None) | (None, Some(only)) => of(only),
        (None, None) => figure.reason.clone().unwrap_or_default(),
    };
    if let Some(ratio) = figure.ratio {
        let _ = write!(text, " (x {})", number(ratio));
    }
    if let Some(limit) = limit(figure) {
        let _ = write!(text, ", {limit}");
    }
    text
}

/// The median with its unit.
pub(super) fn shown(figure: &Figure, value: &Value) -> String {
    match &figure.unit {
        Some(unit) => quantity(value.median, unit),
        None => number(value.median),
    }
}

/// The limit, and the runs that keep it: `limit <= 1.02: kept by 3 of 3, then by 0 of 3`.
pub(super) fn limit(figure: &Figure) -> Option<String> {
    let sides = [&figure.before, &figure.after];
    let limit = sides.into_iter().rev().flatten().find_map(|value| value.limit)?;
    let kept =
        sides.into_iter().flatten().filter_map(|value| Some(format!("{} of {}", value.kept?, value.medians.len())));
    Some(format!("limit {limit}: kept by {}", kept.collect::<Vec<_>>().join(", then by ")))
}

/// The counts of all kinds that occur.
pub(super) fn counts(difference: &BenchDifference) -> String {
    let kinds = FigureKind::ALL.into_iter().map(|kind| (difference.of(Some(kind)).count(), kind.name()));
    let mut counts: Vec<String> =
        kinds.filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect();
    counts.push(format!("{} unchanged", difference.of(None).count()));
    counts.join(", ")
}

/// The page.
pub(in crate::diff) fn page(difference: &BenchDifference) -> String {
    let verdict = counts(difference);
    let kinds = FigureKind::ALL.into_iter().map(Some).chain([None]);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("gpu-interop conformance, differences of measurements: {verdict}"), &[]))
            body {
                header {
                    h1 { "gpu-interop conformance: differences of measurements" }
                    p class="verdict" { (verdict) }
                }
                main {
                    dl {
                        dt { "before" } dd { (difference.before.join(", ")) }
                        dt { "after" } dd { (difference.after.join(", ")) }
                        dt { "noise" } dd { (difference.noise) }
                    }
                    (machine(&difference.machine))
                    @for kind in kinds {
                        @let figures: Vec<&Figure> = difference.of(kind).collect();
                        @if !figures.is_empty() { (section(kind, &figures)) }
                    }
                }
                footer { p { "Made by " (difference.tool.name) " " (difference.tool.version) "." } }
            }
        }
    };
    visible(&page.into_string()).into_owned()
}

fn section(kind: Option<FigureKind>, figures: &[&Figure]) -> Markup {
    let (id, meaning) = kind.map_or(("unchanged", "Within the noise"), |kind| (kind.name(), kind.meaning()));
    let class = if kind.is_some() { "change" } else { "unchanged" };
    html! {
        section aria-labelledby=(id) {
            h2 id=(id) { (meaning) " (" (figures.len()) ")" }
            div class="wide" {
                table class="sides" {
                    thead {
                        tr {
                            @for heading in ["figure", "before", "after", "after / before"] { th scope="col" { (heading) } }
                        }
                    }
                    tbody { @for figure in figures { (row(figure, class)) } }
                }
            }
        }
    }
}

fn row(figure: &Figure, class: &str) -> Markup {
    html! {
        tr class=(class) {
            th scope="row" {
                code { (figure.title()) }
                @if let Some(limit) = limit(figure) { br; small { (limit) } }
            }
            @if let Some(reason) = &figure.reason {
                td {} td data-side="reason" { (reason) } td {}
            } @else {
                @for (side, value) in [("before", &figure.before), ("after", &figure.after)] {
                    td data-side=(side) { (cell(figure, value.as_ref())) }
                }
                td data-side="after / before" { @if let Some(ratio) = figure.ratio { (number(ratio)) } }
            }
        }
    }
}

/// The median and its range.
fn cell(figure: &Figure, value: Option<&Value>) -> Markup {
    let end = |median| value.map(|value| shown(figure, &Value { median, ..value.clone() })).unwrap_or_default();
    html! {
        @if let Some(value) = value {
            (shown(figure, value))
            @if value.low < value.high { br; small { (end(value.low)) " to " (end(value.high)) } }
        }
    }
}
