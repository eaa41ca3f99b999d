//! Differences of measurements as one HTML page.

use maud::{DOCTYPE, Markup, html};

use super::report::{BenchDifference, Figure, FigureKind, Value};
use super::text::{counts, limit, shown};
use crate::diff::html::machine;
use crate::output::visible;
use crate::report::html::{head, number};

/// The page.
pub(in crate::diff) fn render(difference: &BenchDifference) -> String {
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
