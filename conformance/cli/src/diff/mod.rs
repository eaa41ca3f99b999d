//! `conformance diff`: the differences of two runs, or of several before and after a change; or of measurements.

mod bench;
mod compare;
mod noise;
mod reason;
mod show;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use gpu_interop_conformance::{Outcome, Stop, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cli::FAILED;
use crate::files::{check_writable, to_json, write_file};
use crate::output::one_line;
use crate::report::{Merged, Tool, merge};

pub(crate) use self::bench::{BENCH_DIFF_SCHEMA, BenchDifference, FigureKind};
pub(crate) use self::compare::{Timing, compare};
pub(crate) use self::reason::steady;
pub(crate) use self::show::line;

/// The options of `conformance diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Two JSON reports of `run` or of `bench`, before and after a change; or, with `--`, all those before it.
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// After `--`: the reports after the change.
    #[arg(last = true, value_name = "AFTER")]
    after: Vec<PathBuf>,
    /// Exit with 1 if there is a difference of these kinds; a comma separates several. Default: none.
    #[arg(long, value_delimiter = ',', value_name = "KIND", value_parser = PossibleValuesParser::new(kinds()))]
    gate: Vec<String>,
    /// Write the differences as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the differences as one HTML page without network resources.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl DiffArgs {
    /// The files of both sides.
    fn sides(&self) -> Verdict<(&[PathBuf], &[PathBuf])> {
        match (self.reports.as_slice(), self.after.as_slice()) {
            ([before, after], []) => Ok((std::slice::from_ref(before), std::slice::from_ref(after))),
            (_, []) => Err(Stop::failed(
                "pass two reports, or separate those before from those after the change: `diff A1 A2 A3 -- B1 B2`"
                    .into(),
            )),
            (before, after) => Ok((before, after)),
        }
    }
}

/// The kinds of differences of runs, then those only of measurements.
fn kinds() -> Vec<PossibleValue> {
    let mut all: Vec<PossibleValue> = Kind::value_variants().iter().filter_map(Kind::to_possible_value).collect();
    let figures = FigureKind::value_variants().iter().filter_map(FigureKind::to_possible_value);
    let mut others: Vec<_> =
        figures.filter(|kind| all.iter().all(|known| known.get_name() != kind.get_name())).collect();
    all.append(&mut others);
    all
}

/// The kinds of `--gate`.
///
/// # Errors
/// If these reports cannot have one of them.
fn gates<K: ValueEnum>(args: &DiffArgs, of: &str) -> Verdict<Vec<K>> {
    let parse = |name: &String| {
        K::from_str(name, false).map_err(|_| {
            let all: Vec<String> = K::value_variants()
                .iter()
                .filter_map(K::to_possible_value)
                .map(|kind| kind.get_name().into())
                .collect();
            Stop::failed(format!("--gate {name}: differences of {of} are {}", all.join(", ")))
        })
    };
    args.gate.iter().map(parse).collect()
}

/// Compares reports, prints the differences, and returns the exit status.
pub(crate) fn run(args: &DiffArgs) -> Verdict<u8> {
    let (before, after) = args.sides()?;
    for path in args.json.iter().chain(&args.html) {
        check_writable(path)?;
    }
    let read = |paths: &[PathBuf]| paths.iter().map(|path| merge::read(path)).collect::<Verdict<Vec<Merged>>>();
    let (old, new) = (read(before)?, read(after)?);
    let (old, new): (Vec<&Merged>, Vec<&Merged>) = (old.iter().collect(), new.iter().collect());
    let names = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let (before, after) = (names(before), names(after));
    let files = one_line(&[before.as_slice(), after.as_slice()].concat().join(", ")).into_owned();
    let of_files = |stop: Stop| Stop::failed(format!("{files}: {}", one_line(stop.reason())));
    let gated = if old.iter().chain(&new).all(|merged| merged.reports.is_empty()) {
        let gates = gates::<FigureKind>(args, "measurements")?;
        let found = bench::compare(&old, &new).map_err(of_files)?;
        let difference = BenchDifference { before, after, ..found };
        write(args, &bench::text(&difference), &difference, || bench::page(&difference))?;
        difference.figures.iter().filter_map(|figure| figure.kind).any(|kind| gates.contains(&kind))
    } else {
        let gates = gates::<Kind>(args, "runs")?;
        let found = compare(&old, &new, Timing::Compared).map_err(of_files)?;
        let difference = Difference { before, after, ..found };
        write(args, &show::text(&difference), &difference, || show::page(&difference))?;
        difference.changes.iter().any(|change| gates.contains(&change.kind))
    };
    Ok(if gated { FAILED } else { 0 })
}

/// Prints the text, and writes the requested files.
fn write(args: &DiffArgs, text: &str, json: &impl Serialize, page: impl Fn() -> String) -> Verdict {
    crate::output::print(format_args!("{text}"));
    if let Some(path) = &args.json {
        write_file(path, &to_json(json)?)?;
    }
    if let Some(path) = &args.html {
        write_file(path, &page())?;
    }
    Ok(())
}

/// The schema version of differences. Incremented with each incompatible change.
pub(crate) const DIFF_SCHEMA: u32 = 1;

/// The differences of two runs, or of several runs before and after a change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Difference {
    /// The schema version.
    #[schemars(extend("const" = DIFF_SCHEMA))]
    pub(crate) schema: u32,
    /// The program that compared them.
    pub(crate) tool: Tool,
    /// The files before the change.
    pub(crate) before: Vec<String>,
    /// The files after the change.
    pub(crate) after: Vec<String>,
    /// Differences of drivers, devices, capabilities and options.
    pub(crate) machine: Vec<Setting>,
    /// Differences of cases, the most severe kinds first.
    pub(crate) changes: Vec<Change>,
    /// The count of each kind, 0 included, and of cases without a difference.
    pub(crate) summary: BTreeMap<String, usize>,
    /// How durations were compared, or why not.
    pub(crate) durations: String,
}

/// The beginning of [`Difference::durations`] if no durations were compared.
const NOT_COMPARED: &str = "not compared";

impl Difference {
    /// The rule for durations, if a case is slower; or the reason for not comparing them.
    fn durations_note(&self) -> Option<&str> {
        let is_needed = self.durations.starts_with(NOT_COMPARED) || self.of(Kind::Slower).next().is_some();
        is_needed.then_some(self.durations.as_str())
    }

    /// The differences of one kind.
    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(move |change| change.kind == kind)
    }
}

/// A property of the machine or of the run that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Setting {
    /// The property: `driver`, `capability features.kernels`.
    pub(crate) what: String,
    /// Its value before; empty if it was absent.
    pub(crate) before: String,
    /// Its value after; empty if it is absent.
    pub(crate) after: String,
}

/// The kinds of differences of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Fails, and did not fail before.
    New,
    /// Flaky, and passed in every run before, or failed in every run before.
    Flaky,
    /// Does not run any more: unsupported or skipped.
    Stopped,
    /// Not in the reports any more.
    Missing,
    /// The same kind of outcome for another reason, or with other omissions.
    Changed,
    /// Takes longer, by more than the noise.
    Slower,
    /// Failed before, and does not fail.
    Fixed,
    /// Runs, and was unsupported or skipped before.
    Started,
    /// Not in the reports before.
    Added,
    /// Takes less time, by more than the noise.
    Faster,
}

impl Kind {
    /// Every kind, the most severe first.
    pub(crate) const ALL: [Self; 10] = [
        Self::New,
        Self::Flaky,
        Self::Stopped,
        Self::Missing,
        Self::Changed,
        Self::Slower,
        Self::Fixed,
        Self::Started,
        Self::Added,
        Self::Faster,
    ];

    /// The name in reports and options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Flaky => "flaky",
            Self::Stopped => "stopped",
            Self::Missing => "missing",
            Self::Changed => "changed",
            Self::Slower => "slower",
            Self::Fixed => "fixed",
            Self::Started => "started",
            Self::Added => "added",
            Self::Faster => "faster",
        }
    }

    /// The meaning, for headings.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Self::New => "New failures",
            Self::Flaky => "Flaky: fail in some runs, and did not before",
            Self::Stopped => "Ran before, and are unsupported or skipped now",
            Self::Missing => "Missing: not in the reports any more",
            Self::Changed => "Same kind of outcome for another reason",
            Self::Slower => "Slower, by more than the noise",
            Self::Fixed => "Fixed",
            Self::Started => "Were unsupported or skipped before, and run now",
            Self::Added => "Added: not in the reports before",
            Self::Faster => "Faster, by more than the noise",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A difference of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Change {
    /// The kind.
    pub(crate) kind: Kind,
    /// The source of the report within merged reports: `device 1`. Empty for a single report.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(crate) source: String,
    /// The case: `memory.fill@vulkan`.
    pub(crate) case: String,
    /// The distinct results before; empty if it was absent.
    pub(crate) before: Vec<State>,
    /// The distinct results after; empty if it is absent.
    pub(crate) after: Vec<State>,
}

impl Change {
    /// `source: case`, or the case alone.
    pub(crate) fn name(&self) -> String {
        if self.source.is_empty() { self.case.clone() } else { format!("{}: {}", self.source, self.case) }
    }
}

/// A result, and the number of runs with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct State {
    /// The outcome.
    pub(crate) outcome: Outcome,
    /// The reason, without the history of its process.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) reason: Option<String>,
    /// Omitted parts, with reasons.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub(crate) left_out: Vec<String>,
    /// The number of runs.
    pub(crate) runs: usize,
    /// The durations, microseconds.
    durations_us: Vec<u64>,
}
