//! Reports of several runs in one, and `conformance merge`.

use std::path::{Path, PathBuf};

use clap::Args;
use gpu_interop::{BackendInfo, DeviceIdentity};
use gpu_interop_conformance::{Stop, Verdict};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use gpu_interop_conformance_bench::{BENCH_SCHEMA, BenchReport};

use super::{Emulated, Report, SCHEMA, Tool, html, markdown, shards, text};
use crate::files::{self, check_writable, to_merged_json, write_file};
use crate::output::{complain, counted, one_line, say};
use crate::requirement::Flakes;
use crate::requirement::{Requirement, status_of};

/// The options of `conformance merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// JSON reports of `run`, `bench` or `merge`.
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// Write one HTML page without network resources: machines, a matrix of scenario groups, every scenario, and
    /// measurements.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write all reports as one JSON file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write tables in Markdown: outcomes by groups of scenarios, and ratios with a limit.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Exit with 1 if a scenario failed in any report, with 2 if nothing ran in one, with 3 if a GPU was lost.
    #[arg(long)]
    fail: bool,
    /// With --fail: the effect of flaky cases.
    #[arg(long, value_enum, default_value_t, value_name = "EFFECT")]
    flaky: Flakes,
}

/// Merges reports and returns the exit status.
pub(crate) fn run(args: &MergeArgs) -> Verdict<u8> {
    for path in args.html.iter().chain(&args.json).chain(&args.markdown) {
        check_writable(path)?;
    }
    let folder = common_folder(&args.reports);
    let mut merged = Merged::empty();
    for path in &args.reports {
        // Rebuilt from its components, without redundant slashes.
        let source = path.strip_prefix(&folder).unwrap_or(path).components().collect::<PathBuf>().display().to_string();
        if let Err(reason) = add(&mut merged, path, source.clone()) {
            complain(&one_line(&format!("{}: {reason}", path.display())));
            merged.not_read.push(NotRead { source, reason });
        }
    }
    shards::join(&mut merged);
    if merged.reports.is_empty() && merged.benches.is_empty() {
        return Err(Stop::failed("there is nothing to merge".into()));
    }
    let subject = |backend: &BackendInfo, emulated: &Option<Emulated>, device: &DeviceIdentity| {
        let mark = text::mark(backend, emulated.as_ref()).map(|mark| format!(" {mark}")).unwrap_or_default();
        format!("{}{mark}, {}", backend.name, device.name)
    };
    for Sourced { source, report } in &merged.reports {
        say!("{source}: {}: {}", subject(&report.backend, &report.emulated, &report.device), text::counts(report));
    }
    for Sourced { source, report } in &merged.benches {
        let count = counted(report.measurements.len(), "measurement");
        say!("{source}: {}: {count}", subject(&report.backend, &report.emulated, &report.device));
    }
    if let Some(path) = &args.html {
        write_file(path, &html::render(&merged))?;
    }
    if let Some(path) = &args.json {
        write_file(path, &to_merged_json(&merged)?)?;
    }
    if let Some(path) = &args.markdown {
        write_file(path, &markdown::render(&merged))?;
    }
    let status = if args.fail { judge(&merged, &[], args.flaky)? } else { 0 };
    match merged.missing() {
        Some(missing) if status == 0 => {
            Err(Stop::failed(format!("the rest was merged; missing or incomplete: {missing}")))
        }
        _ => Ok(status),
    }
}

/// The exit status of the runs: a lost GPU before a failure, a failure before a run of nothing.
pub(crate) fn judge(merged: &Merged, required: &[Requirement], flakes: Flakes) -> Verdict<u8> {
    let (mut worst, mut not_run) = (0, None);
    for Sourced { source, report } in &merged.reports {
        match status_of(report, required, flakes) {
            Ok(status) => worst = worst.max(status),
            Err(stop) if source.is_empty() => not_run = not_run.or(Some(stop)),
            Err(stop) => not_run = not_run.or_else(|| Some(Stop::failed(format!("{source}: {}", stop.reason())))),
        }
    }
    match not_run {
        Some(stop) if worst == 0 => Err(stop),
        _ => Ok(worst),
    }
}

/// The common parent folder of all files.
fn common_folder(paths: &[PathBuf]) -> PathBuf {
    let mut parents = paths.iter().map(|path| path.parent().unwrap_or(Path::new("")));
    let first = parents.next().unwrap_or(Path::new("")).to_path_buf();
    parents.fold(first, |common, parent| {
        let shared = common.components().zip(parent.components()).take_while(|(a, b)| a == b);
        shared.map(|(component, _)| component).collect()
    })
}

/// Reads a file as merged reports: one of `run`, `bench` or `merge`.
///
/// # Errors
/// If it cannot be read or is no report.
pub(crate) fn read(path: &Path) -> Verdict<Merged> {
    let mut merged = Merged::empty();
    add(&mut merged, path, String::new())
        .map_err(|reason| Stop::failed(one_line(&format!("{}: {reason}", path.display())).into_owned()))?;
    Ok(merged)
}

/// Parses the contents of a file, or of a file in an archive, as merged reports.
pub(crate) fn parse_bytes(bytes: &[u8]) -> Result<Merged, String> {
    let mut merged = Merged::empty();
    add_bytes(&mut merged, bytes, String::new())?;
    Ok(merged)
}

/// Reads a report of `run`, `bench` or `merge`.
fn add(merged: &mut Merged, path: &Path, source: String) -> Result<(), String> {
    add_bytes(merged, &files::read(path, files::MOST).map_err(|error| error.to_string())?, source)
}

fn add_bytes(merged: &mut Merged, bytes: &[u8], source: String) -> Result<(), String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| format!("this is not JSON: {error}"))?;
    if value.get("results").is_some() {
        let report: Report = parse(value, SCHEMA)?;
        report.check()?;
        merged.reports.push(Sourced { source, report });
    } else if value.get("measurements").is_some() {
        merged.benches.push(Sourced { source, report: parse(value, BENCH_SCHEMA)? });
    } else if value.get("reports").is_some() {
        let mut inner: Merged = parse(value, MERGED_SCHEMA)?;
        let checked = inner.reports.iter().map(|Sourced { source, report }| (source, report.check()));
        for (named, checked) in checked {
            checked.map_err(|reason| within(named, reason))?;
        }
        merged.reports.append(&mut inner.reports);
        merged.benches.append(&mut inner.benches);
        let named = |missing: NotRead| NotRead { source: within(&source, missing.source), ..missing };
        merged.not_read.extend(inner.not_read.into_iter().map(named));
    } else {
        return Err("this is not a report; pass a file that `run`, `bench` or `merge` wrote with --json".into());
    }
    Ok(())
}

/// The name of a report in a file. Either may be empty.
pub(crate) fn within(file: &str, source: String) -> String {
    match (file, source.as_str()) {
        ("", _) => source,
        (_, "") => file.to_owned(),
        _ => format!("{file}: {source}"),
    }
}

/// Parses a report of this version.
fn parse<T: DeserializeOwned>(value: Value, version: u32) -> Result<T, String> {
    match value.get("schema").and_then(Value::as_u64) {
        Some(found) if found == u64::from(version) => {
            serde_json::from_value(value).map_err(|error| format!("this is not a report of version {found}: {error}"))
        }
        Some(found) => Err(format!("a report of version {found}; this command reads version {version}")),
        None => Err("this is not a report: it has no `schema`".into()),
    }
}

/// The schema version of merged reports. Incremented with each incompatible change.
pub const MERGED_SCHEMA: u32 = 2;

/// Reports of several runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Merged {
    /// The schema version.
    #[schemars(range(min = MERGED_SCHEMA, max = MERGED_SCHEMA))]
    pub schema: u32,
    /// The program that merged them.
    pub tool: Tool,
    /// The reports of `conformance run`, in command-line order.
    pub reports: Vec<Sourced<Report>>,
    /// The reports of `conformance bench`.
    pub benches: Vec<Sourced<BenchReport>>,
    /// Files that could not be read, shards that could not be joined, and devices without a run.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub not_read: Vec<NotRead>,
}

/// A file that is missing or not a report, shards that could not be joined, or a device of `--device all` on which the run
/// was impossible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotRead {
    /// The file or files, as in [`Sourced::source`], or the device.
    pub source: String,
    /// The reason.
    pub reason: String,
}

/// A report and its origin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sourced<T> {
    /// The file, relative to the folder that contains all of them. Empty for a report that was not read from a file.
    pub source: String,
    /// The report.
    pub report: T,
}

impl Merged {
    /// No reports.
    pub(crate) fn empty() -> Self {
        Self {
            schema: MERGED_SCHEMA,
            tool: Tool::this(),
            reports: Vec::new(),
            benches: Vec::new(),
            not_read: Vec::new(),
        }
    }

    /// The measurements of this process.
    #[cfg(unix)]
    pub(crate) fn single_bench(report: BenchReport) -> Self {
        Self { benches: vec![Sourced { source: String::new(), report }], ..Self::empty() }
    }

    /// The names of what is missing or incomplete. `None` if nothing is.
    pub(crate) fn missing(&self) -> Option<String> {
        let names: Vec<&str> = self.not_read.iter().map(|missing| missing.source.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The reports of this process's run, with the numbers of their devices, and the devices without a run.
    pub(crate) fn of_devices(reports: Vec<(usize, Report)>, not_read: Vec<NotRead>) -> Self {
        let only = reports.len() + not_read.len() == 1;
        let source = |number| if only { String::new() } else { format!("device {number}") };
        let sourced = |(number, report)| Sourced { source: source(number), report };
        Self { reports: reports.into_iter().map(sourced).collect(), not_read, ..Self::empty() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_told_apart_and_no_longer_than_needed() {
        let common = |paths: &[&str]| common_folder(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(common(&["/a/b/x.json", "/a/b/y.json"]), Path::new("/a/b"));
        assert_eq!(common(&["/a/bc/x.json", "/a/bd/x.json"]), Path::new("/a"));
        assert_eq!(common(&["x.json", "b/x.json"]), Path::new(""));
        assert_eq!(common(&["/a/x.json"]), Path::new("/a"));
        assert_eq!(common(&["x.json", "/a/x.json"]), Path::new(""));
    }
}
