//! Differences as text and as an HTML page: one line each, and one for all cases with the same rewording of their reason.

use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use maud::{DOCTYPE, Markup, html};

use super::reason::steady;
use super::{Change, Difference, Kind, Setting, State};
use crate::output::{one_line, visible};
use crate::report::html::head;

/// All differences, and their counts.
pub(super) fn text(difference: &Difference) -> String {
    let mut text = heading(&difference.before, &difference.after, &difference.machine);
    // Writing to a `String` cannot fail.
    for (first, others) in by_rewording(&difference.changes) {
        let more = if others == 0 { String::new() } else { format!(" and {others} more") };
        let _ = writeln!(text, "{}", one_line(&line_of(first, &more)));
    }
    if let Some(note) = difference.durations_note() {
        let _ = writeln!(text, "durations: {note}");
    }
    let _ = writeln!(text, "{}", counts(difference));
    text
}

/// The files of both sides, and differences of the machine.
pub(super) fn heading(before: &[String], after: &[String], machine: &[Setting]) -> String {
    let mut text = format!("before    {}\nafter     {}\n", before.join(", "), after.join(", "));
    for Setting { what, before, after } in machine {
        let line = format!("machine   {what}: {} -> {}", or_none(before), or_none(after));
        let _ = writeln!(text, "{}", one_line(&line));
    }
    text
}

fn or_none(value: &str) -> &str {
    if value.is_empty() { "(none)" } else { value }
}

/// The differences in their order, each with the number of later ones with the same rewording.
fn by_rewording(changes: &[Change]) -> Vec<(&Change, usize)> {
    let mut found: Vec<(&Change, usize)> = Vec::new();
    let mut indices = HashMap::new();
    for change in changes {
        let known = rewording(change).map(|texts| *indices.entry(texts).or_insert(found.len()));
        match known.and_then(|index| found.get_mut(index)) {
            Some((_, others)) => *others += 1,
            None => found.push((change, 0)),
        }
    }
    found
}

/// The texts before and after of a case whose outcomes are the same, without parts that differ between equal runs.
fn rewording(change: &Change) -> Option<[String; 2]> {
    let sides = [&change.before, &change.after];
    let [before, after] = sides.map(|side| side.iter().map(|state| state.outcome).collect::<Vec<_>>());
    (change.kind == Kind::Changed && before == after).then(|| sides.map(|side| steady(&outcomes(side))))
}

/// One difference.
pub(crate) fn line(change: &Change) -> String {
    line_of(change, "")
}

/// One difference; `more` follows the name.
fn line_of(change: &Change, more: &str) -> String {
    let sides = |text: fn(&[State]) -> String| match (change.before.as_slice(), change.after.as_slice()) {
        ([], after) => text(after),
        (before, []) => text(before),
        (before, after) => format!("{} -> {}", text(before), text(after)),
    };
    let states = match change.kind {
        Kind::Slower | Kind::Faster => sides(durations),
        _ => sides(outcomes),
    };
    format!("{:<9} {}{more}: {states}", change.kind, change.name())
}

/// The counts of all kinds that occur.
pub(crate) fn counts(difference: &Difference) -> String {
    let unchanged = difference.summary.get("unchanged").copied().unwrap_or(0);
    let mut counts: Vec<String> = Kind::ALL
        .into_iter()
        .map(|kind| (difference.of(kind).count(), kind))
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{count} {kind}"))
        .collect();
    counts.push(format!("{unchanged} unchanged"));
    counts.join(", ")
}

/// The distinct results of a side.
pub(super) fn outcomes(states: &[State]) -> String {
    let several = states.len() > 1;
    let of = |state: &State| {
        let mut text = state.outcome.name().to_owned();
        if several {
            let _ = write!(text, " in {} of the runs", state.runs);
        }
        if let Some(reason) = &state.reason {
            let _ = write!(text, ": {reason}");
        }
        if !state.left_out.is_empty() {
            let _ = write!(text, ", left out: {}", state.left_out.join("; "));
        }
        text
    };
    states.iter().map(of).collect::<Vec<_>>().join(", ")
}

/// The durations of a side.
pub(super) fn durations(states: &[State]) -> String {
    let all = states.iter().flat_map(|state| &state.durations_us);
    all.map(|us| format!("{:.1?}", Duration::from_micros(*us))).collect::<Vec<_>>().join(", ")
}

/// The page.
pub(super) fn page(difference: &Difference) -> String {
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
