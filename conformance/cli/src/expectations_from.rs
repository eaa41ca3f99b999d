//! `conformance expectations from`: a file of expectations from the failures of a report.

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use gpu_interop_conformance::{ExporterName, Outcome, Verdict, Version};

use crate::diff::steady;
use crate::files::{check_writable, write_file};
use crate::report::{CaseReport, Emulated, Report, Sourced, merge};

/// The options of `conformance expectations`.
#[derive(Debug, Args)]
pub(crate) struct ExpectationsArgs {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Write the failures of a report as entries for --expectations, with empty reasons to fill in.
    ///
    /// Cases that failed with the same exporter for the same reason share an entry. `run` rejects the file until every
    /// entry has a reason.
    From(FromArgs),
}

#[derive(Debug, Args)]
struct FromArgs {
    /// A JSON report of `run` or `merge`.
    report: PathBuf,
    /// Write a file instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the entries.
pub(crate) fn run(args: &ExpectationsArgs) -> Verdict {
    let Task::From(args) = &args.task;
    if let Some(path) = &args.output {
        check_writable(path)?;
    }
    let merged = merge::read(&args.report)?;
    let mut text = String::from("# Fill in every `reason`: `run --expectations` rejects an entry without one.\n");
    for Sourced { report, .. } in &merged.reports {
        text.push_str(&entries(report));
    }
    match &args.output {
        Some(path) => write_file(path, &text),
        None => {
            crate::output::print(format_args!("{text}"));
            Ok(())
        }
    }
}

/// Cases that failed in the same way.
struct Alike<'a> {
    outcome: Outcome,
    exporter: Option<ExporterName>,
    reason: String,
    cases: Vec<&'a CaseReport>,
}

/// The entries of one report.
fn entries(report: &Report) -> String {
    let mut text = String::new();
    let mut groups: Vec<Alike<'_>> = Vec::new();
    for case in &report.results {
        match case.outcome {
            Outcome::UnexpectedPass => {
                let reason = comment(case.reason.as_deref().unwrap_or_default());
                // Writing to a `String` cannot fail.
                let _ = writeln!(text, "\n# {} passed: remove its entry. {reason}", case.name());
            }
            outcome if outcome.is_failure() || outcome == Outcome::Flaky => {
                let reason = case.reason.as_deref().map(steady).unwrap_or_default();
                let alike = |group: &&mut Alike<'_>| {
                    group.outcome == outcome && group.exporter == case.exporter && group.reason == reason
                };
                match groups.iter_mut().find(alike) {
                    Some(group) => group.cases.push(case),
                    None => groups.push(Alike { outcome, exporter: case.exporter, reason, cases: vec![case] }),
                }
            }
            _ => {}
        }
    }
    for group in &groups {
        text.push_str(&entry(report, group));
    }
    text
}

fn entry(report: &Report, group: &Alike<'_>) -> String {
    let ids: Vec<&str> = group.cases.iter().map(|case| case.id.as_str()).collect();
    let pattern = match ids.as_slice() {
        [only] => (*only).to_owned(),
        several => format!("{{{}}}", several.join(",")),
    };
    let seen = group.cases.first().and_then(|case| case.reason.as_deref()).unwrap_or("no reason");
    let is_flaky = group.outcome == Outcome::Flaky;
    let table = if is_flaky { "flaky" } else { "expected_failure" };
    let mut text = format!("\n# {}: {}\n[[{table}]]\n", group.outcome, comment(seen));
    let mut field = |name: &str, value: &str| {
        let _ = writeln!(text, "{name} = {}", quoted(value));
    };
    field("scenario", &pattern);
    field("backend", &report.backend.name);
    if let Some(exporter) = group.exporter {
        field("exporter", exporter.name());
    }
    field("device", &globset::escape(&report.device.name));
    let emulated = report.emulated.as_ref();
    let driver = emulated.and_then(Emulated::version).unwrap_or(&report.backend.driver);
    if let Some(version) = Version::text_in(driver) {
        let _ = writeln!(text, "driver = {{ from = {} }}", quoted(version));
    }
    if is_flaky {
        let _ = writeln!(text, "rate = {:.2}", rate(group));
    }
    if emulated.is_some() {
        text.push_str("emulated = true\n");
    }
    let date = report.started.map(|time| time.format(", %Y-%m-%d").to_string()).unwrap_or_default();
    let measured = format!("{}, {driver}{date}", report.device.name);
    let _ = writeln!(text, "reason = \"\"\nmeasured = {}", quoted(&measured));
    text
}

/// The share of failed runs among all runs of these cases.
fn rate(group: &Alike<'_>) -> f64 {
    let attempts = || group.cases.iter().flat_map(|case| &case.attempts);
    let count = |number: usize| u32::try_from(number).map_or(f64::from(u32::MAX), f64::from);
    let failed = count(attempts().filter(|attempt| attempt.outcome.is_failure()).count());
    // More than 0 and less than 1, as expectations need.
    (failed / count(attempts().count()).max(1.0)).clamp(0.01, 0.99)
}

/// A TOML string of one line: JSON's escapes are valid in it, and JSON leaves one forbidden character.
fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string().replace('\u{7f}', "\\u007f")
}

/// Text for a comment: one line without control characters, of moderate length.
fn comment(text: &str) -> String {
    const MOST: usize = 300;
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    let mut line: String = text.chars().take(MOST).map(printable).collect();
    if line.len() < text.len() {
        line.push_str(" [...]");
    }
    line
}
