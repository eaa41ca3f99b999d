//! Differences as one HTML page.

use maud::{DOCTYPE, Markup, html};

use super::report::{Change, Difference, Kind, Setting};
use super::text::{counts, durations, outcomes};
use crate::output::visible;
use crate::report::html::head;

/// The page.
pub(super) fn render(difference: &Difference) -> String {
    let verdict = counts(difference);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head(&format!("gpu-interop conformance, differences: {verdict}"), &[]))
            body {
                header {
                    h1 { "gpu-interop conformance: differences" }
                    p class="verdict" { (verdict) }
                }
                main {
                    dl {
                        dt { "before" } dd { (difference.before.join(", ")) }
                        dt { "after" } dd { (difference.after.join(", ")) }
                        @if let Some(note) = difference.durations_note() { dt { "durations" } dd { (note) } }
                    }
                    (machine(&difference.machine))
                    @for kind in Kind::ALL {
                        @let changes: Vec<&Change> = difference.of(kind).collect();
                        @if !changes.is_empty() { (section(kind, &changes)) }
                    }
                    @if difference.changes.is_empty() { p { "No case differs." } }
                }
                footer { p { "Made by " (difference.tool.name) " " (difference.tool.version) "." } }
            }
        }
    };
    visible(&page.into_string()).into_owned()
}

/// Differences of the machine and of options.
pub(super) fn machine(settings: &[Setting]) -> Markup {
    html! {
        @if !settings.is_empty() {
            section aria-labelledby="machine" {
                h2 id="machine" { "Machine and options" }
                div class="wide" {
                    table class="sides" {
                        thead { tr { th scope="col" { "property" } th scope="col" { "before" } th scope="col" { "after" } } }
                        tbody {
                            @for Setting { what, before, after } in settings {
                                tr { th scope="row" { (what) } td data-side="before" { (before) } td data-side="after" { (after) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn section(kind: Kind, changes: &[&Change]) -> Markup {
    let timed = matches!(kind, Kind::Slower | Kind::Faster);
    let states = if timed { durations } else { outcomes };
    html! {
        section aria-labelledby=(kind) {
            h2 id=(kind) { (kind.meaning()) " (" (changes.len()) ")" }
            div class="wide" {
                table class="sides" {
                    thead { tr { th scope="col" { "case" } th scope="col" { "before" } th scope="col" { "after" } } }
                    tbody {
                        @for change in changes {
                            tr class="change" {
                                th scope="row" { code { (change.name()) } }
                                td data-side="before" { (states(&change.before)) }
                                td data-side="after" { (states(&change.after)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
