//! `conformance diff`: the differences of two runs, or of several runs before and after a change.

mod compare;
mod html;
mod machine;
mod noise;
mod reason;
mod report;
mod text;

use std::path::PathBuf;

use clap::Args;
use gpu_interop_conformance::{Stop, Suite, Verdict};

use crate::exit_status::FAILED;
use crate::files::{check_writable, to_json, write_file};
use crate::report::{Merged, merge};

pub(crate) use compare::{Timing, compare};
pub(crate) use reason::steady;
pub(crate) use report::{Change, DIFF_SCHEMA, Difference, Kind};
pub(crate) use text::line;

/// The options of `conformance diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Two JSON reports, before and after a change; or, with `--`, all those before it.
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// After `--`: the reports after the change.
    #[arg(last = true, value_name = "AFTER")]
    after: Vec<PathBuf>,
    /// Exit with 1 if there is a difference of these kinds; a comma separates several. Default: none.
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    gate: Vec<Kind>,
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
            (_, []) => Err(Stop::Failed(
                "pass two reports, or separate those before from those after the change: `diff A1 A2 A3 -- B1 B2`"
                    .into(),
            )),
            (before, after) => Ok((before, after)),
        }
    }
}

/// Compares reports, prints the differences, and returns the exit status.
pub(crate) fn run(suite: &Suite, args: &DiffArgs) -> Verdict<u8> {
    let (before, after) = args.sides()?;
    for path in args.json.iter().chain(&args.html) {
        check_writable(path)?;
    }
    let read = |paths: &[PathBuf]| paths.iter().map(|path| merge::read(path)).collect::<Verdict<Vec<Merged>>>();
    let (old, new) = (read(before)?, read(after)?);
    let names = |paths: &[PathBuf]| paths.iter().map(|path| path.display().to_string()).collect();
    let difference = Difference {
        before: names(before),
        after: names(after),
        ..compare(suite, &old.iter().collect::<Vec<_>>(), &new.iter().collect::<Vec<_>>(), Timing::Compared)?
    };
    crate::output::print(format_args!("{}", text::render(&difference)));
    if let Some(path) = &args.json {
        write_file(path, &to_json(&difference)?)?;
    }
    if let Some(path) = &args.html {
        write_file(path, &html::render(&difference))?;
    }
    let gated = difference.changes.iter().any(|change| args.gate.contains(&change.kind));
    Ok(if gated { FAILED } else { 0 })
}
