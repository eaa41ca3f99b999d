//! `conformance schema`: the JSON Schema of the reports.

use clap::{Args, ValueEnum};
use gpu_interop_conformance::Verdict;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use super::{MERGED_SCHEMA, Merged, Report, SCHEMA};
use crate::bench::{BENCH_SCHEMA, BenchReport};
use crate::diff::{BENCH_DIFF_SCHEMA, BenchDifference, DIFF_SCHEMA, Difference};
use crate::files::to_json;
use crate::output::print;

/// The options of `conformance schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// The output of `run`, `bench`, `merge`, or `diff` of runs or of measurements (`bench-diff`).
    #[arg(default_value = "run")]
    of: Form,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    Run,
    Bench,
    Merge,
    Diff,
    BenchDiff,
}

/// Prints a schema.
pub(crate) fn run(args: &SchemaArgs) -> Verdict {
    let schema = match args.of {
        Form::Run => of::<Report>("run", SCHEMA),
        Form::Bench => of::<BenchReport>("bench", BENCH_SCHEMA),
        Form::Merge => of::<Merged>("merge", MERGED_SCHEMA),
        Form::Diff => of::<Difference>("diff", DIFF_SCHEMA),
        Form::BenchDiff => of::<BenchDifference>("bench-diff", BENCH_DIFF_SCHEMA),
    };
    print(format_args!("{}\n", to_json(&schema)?));
    Ok(())
}

/// The schema that this version reads. Optional fields are not required.
fn of<T: JsonSchema>(command: &str, version: u32) -> Schema {
    let mut schema = SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".into(), format!("urn:gpu-interop:conformance:{command}:{version}").into());
    schema.insert("title".into(), format!("The JSON of `conformance {command}`, version {version}").into());
    schema
}
