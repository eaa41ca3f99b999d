//! Differences of measurements as text: one line each.

use std::fmt::Write;

use super::report::{BenchDifference, Figure, FigureKind, Value};
use crate::diff::text::heading;
use crate::output::one_line;
use crate::report::html::{number, quantity};

/// All figures, those with a difference first, and their counts.
pub(in crate::diff) fn render(difference: &BenchDifference) -> String {
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
