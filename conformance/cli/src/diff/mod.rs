//! `conformance diff`: the differences of two runs, or of several before and after a change; or of measurements.

mod bench;
mod compare;
mod html;
mod machine;
mod noise;
mod reason;
mod report;
mod text;

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use gpu_interop_conformance::{Stop, Verdict};
use serde::Serialize;

use crate::exit_status::FAILED;
use crate::files::{check_writable, to_json, write_file};
use crate::output::one_line;
use crate::report::{Merged, merge};

pub(crate) use bench::{BENCH_DIFF_SCHEMA, BenchDifference, FigureKind};
pub(crate) use compare::{Timing, compare};
pub(crate) use reason::steady;
pub(crate) use report::{Change, DIFF_SCHEMA, Difference, Kind};
pub(crate) use text::line;

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
        write(args, &text::render(&difference), &difference, || html::render(&difference))?;
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
