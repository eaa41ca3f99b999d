//! The form of the reports as JSON Schema: `conformance schema`.

use clap::{Args, ValueEnum};
use gpu_interop_conformance::Verdict;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use super::{MERGED_SCHEMA, Merged, Report, SCHEMA};
use crate::bench::{BENCH_SCHEMA, BenchReport};
use crate::files::to_json;
use crate::output::say;

/// The options of `conformance schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Of what: the JSON of `run`, of `bench` or of `merge`.
    #[arg(default_value = "run")]
    of: Form,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Form {
    Run,
    Bench,
    Merge,
}

/// Prints a schema.
pub(crate) fn run(args: &SchemaArgs) -> Verdict {
    let schema = match args.of {
        Form::Run => of::<Report>("run", SCHEMA),
        Form::Bench => of::<BenchReport>("bench", BENCH_SCHEMA),
        Form::Merge => of::<Merged>("merge", MERGED_SCHEMA),
    };
    say!("{}", to_json(&schema)?);
    Ok(())
}

/// What this version reads, and so what it writes: a field that older reports lack is not required.
fn of<T: JsonSchema>(command: &str, version: u32) -> Schema {
    let mut schema = SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".into(), format!("urn:gpu-interop:conformance:{command}:{version}").into());
    schema.insert("title".into(), format!("The JSON of `conformance {command}`, version {version}").into());
    schema
}
