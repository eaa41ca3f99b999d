//! The command line.

use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;
use globset::{Glob, GlobMatcher};
use gpu_interop_conformance::{ExporterName, Exporters, Stop, Suite, Verdict, system};
use gpu_interop_conformance_bench::{BENCH_SCHEMA, BenchReport};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

#[cfg(unix)]
use crate::bench::{self, BenchArgs};
use crate::call_trace;
use crate::diff::{self, BENCH_DIFF_SCHEMA, BenchDifference, DIFF_SCHEMA, DiffArgs, Difference};
use crate::doctor::{self, DoctorArgs};
use crate::drivers::emulate::Session;
use crate::expectations_from::{self, ExpectationsArgs};
use crate::files::to_json;
use crate::output::{complain, error_has_colours, print, say};
use crate::package::{self, PackageArgs, VerifyArgs};
use crate::report::merge::{self, MergeArgs};
use crate::report::{MERGED_SCHEMA, Merged, Report, SCHEMA, case_name};
use crate::run::{self, CommandHash, RunArgs};
use crate::site::{self, SiteArgs};
use crate::subprocess::Subprocess;

/// Exit status: a case has failed.
pub(crate) const FAILED: u8 = 1;
/// Exit status: the run was impossible as requested, was interrupted, or ran nothing.
pub(crate) const NOT_RUN: u8 = 2;
/// Exit status: the GPU was lost, and the run stopped.
pub(crate) const GPU_LOST: u8 = 3;

const EXIT_STATUS: &str = "\
Exit status: 0 if everything that ran passed; 1 if something that ran has failed; 2 if something could not be run as \
asked, was interrupted, or ran nothing; 3 if the GPU was lost: a new process cannot open it any more. The run then stops, \
and the remaining cases count as skipped. After a first SIGINT (Ctrl-C) or SIGTERM a run ends what runs, counts it and what \
was left as skipped, and writes its reports; after a second it ends at once.";

/// Runs the same data-verifying scenarios on whichever GPU is present.
#[derive(Debug, Parser)]
#[command(name = "conformance", version, args_conflicts_with_subcommands = true, after_long_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunArgs,
}

impl Cli {
    /// Starts the requested emulation or simulation.
    fn enter_drivers(&self) -> Verdict<Option<Session>> {
        match &self.command {
            None => self.run.drivers.enter(),
            Some(Command::Run(run)) => run.drivers.enter(),
            Some(Command::Doctor(doctor)) => doctor.drivers.enter(),
            #[cfg(unix)]
            Some(Command::Bench(bench)) => bench.drivers.enter(),
            Some(_) => Ok(None),
        }
    }

    /// `true` if this process records driver calls.
    fn records_calls(&self) -> bool {
        match &self.command {
            None => self.run.records_calls(),
            Some(Command::Run(run)) => run.records_calls(),
            Some(Command::Subprocess(subprocess)) => subprocess.records_calls(),
            Some(_) => false,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Diagnose drivers, devices, exporters, capabilities, missing packages, and faults of the machine.
    ///
    /// Exit status: 0; 1 if a fault keeps a GPU or a driver from use.
    Doctor(DoctorArgs),
    /// List the scenarios: one line with id and purpose each.
    List(ListArgs),
    /// Run the scenarios. The default without a subcommand.
    Run(Box<RunArgs>),
    /// Measure the library's cost relative to raw driver calls, another binding, and no interop at all.
    ///
    /// Prints ratios with their limits and the 95 % interval of the median, then all measurements. The variants
    /// alternate, so that a ratio compares events within milliseconds. A missed limit fails the run only with
    /// --strict; wrong data always does.
    #[cfg(unix)]
    Bench(BenchArgs),
    /// Merge the reports of several machines into one page or JSON file.
    ///
    /// Exit status: 0 if all were merged; 2 if one cannot be read: the page names it and has the
    /// rest. With --fail also 1 if a scenario failed, and 2 if nothing ran in one report.
    Merge(MergeArgs),
    /// Compare two runs, or several before and after a change: new failures, flaky, fixed, changed, slower, missing,
    /// added.
    ///
    /// `diff A B`, or `diff A1 A2 A3 -- B1 B2`. Several runs on each side find smaller changes of durations. Reports of
    /// `bench` are compared figure by figure: medians, ratios, limits. Exit status: 0; with --gate 1 if there is a
    /// difference of that kind; 2 if a file is no report.
    Diff(DiffArgs),
    /// Make a file of expectations.
    Expectations(ExpectationsArgs),
    /// Pack reports, logs and other files into one archive with checksums and the hash of this command.
    Package(PackageArgs),
    /// Verify an archive of `conformance package`: checksums, files, the counts of its reports, the command.
    ///
    /// Exit status: 0 if everything matches; 1 if something differs; 2 if the file is no package.
    Verify(VerifyArgs),
    /// Make a static site of a folder of reports: machines, scenarios over time, first failing builds, trends.
    ///
    /// It needs no server and loads nothing from the network: open its index.html.
    Site(SiteArgs),
    /// Print the JSON Schema of a report.
    Schema(SchemaArgs),
    /// Print completions for a shell.
    ///
    /// Bash: `conformance completions bash > ~/.local/share/bash-completion/completions/conformance`.
    Completions(CompletionsArgs),
    /// Print the manual page, or that of a subcommand: `conformance man run | man -l -`.
    Man(ManArgs),
    #[command(flatten)]
    Subprocess(Subprocess),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only scenarios with a matching id.
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// Print the catalogue: a Markdown page of all scenarios, and of known gaps.
    #[arg(long, conflicts_with = "filter")]
    markdown: bool,
}

/// `true` if the first argument of this process is a subcommand, hidden ones among them.
pub(crate) fn is_called() -> bool {
    std::env::args().nth(1).is_some_and(|first| Cli::command().find_subcommand(first).is_some())
}

/// Parses and runs the command line, and returns the exit status.
pub(crate) fn main(suite: &Suite, hash: CommandHash) -> ExitCode {
    let cli = Cli::parse();
    start_log(cli.records_calls());
    // Drivers and scenarios with many imports need more descriptors than the default limit.
    system::raise_handle_limit();
    // Kept until the end of the run.
    let _session = match cli.enter_drivers() {
        Ok(session) => session,
        Err(stop) => return not_run(&stop),
    };
    let done = match cli.command.unwrap_or(Command::Run(Box::new(cli.run))) {
        Command::Doctor(args) => doctor::run(suite, &args),
        Command::List(args) => list(suite, &args).map(|()| 0),
        Command::Run(args) => run::run(suite, &args, hash),
        #[cfg(unix)]
        Command::Bench(args) => bench::run(suite, &args),
        Command::Merge(args) => merge::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Expectations(args) => expectations_from::run(&args).map(|()| 0),
        Command::Package(args) => package::pack(&args).map(|()| 0),
        Command::Verify(args) => package::verify(&args),
        Command::Site(args) => site::run(&args).map(|()| 0),
        Command::Schema(args) => print_schema(&args).map(|()| 0),
        Command::Completions(args) => {
            completions(&Cli::command(), &args);
            Ok(0)
        }
        Command::Man(args) => print_page(&Cli::command(), &args).map(|()| 0),
        Command::Subprocess(subprocess) => subprocess.run(suite).map(|()| 0),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(stop) => not_run(&stop),
    }
}

fn not_run(stop: &Stop) -> ExitCode {
    complain(stop.reason());
    ExitCode::from(NOT_RUN)
}

/// Sends log messages to standard error, filtered by `RUST_LOG`.
fn start_log(records_calls: bool) {
    let set =
        system::set_variable(EnvFilter::DEFAULT_ENV).and_then(|set| EnvFilter::try_new(set.to_string_lossy()).ok());
    let filter = set.unwrap_or_else(|| "warn".into());
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(error_has_colours())
        .with_filter(filter);
    tracing_subscriber::registry().with(log).with(records_calls.then(call_trace::layer)).init();
}

fn list(suite: &Suite, args: &ListArgs) -> Verdict {
    if args.markdown {
        crate::output::print(format_args!("{}", gpu_interop_conformance::catalogue::markdown(suite.scenarios())));
        return Ok(());
    }
    let filter = args.filter.as_deref().map(glob).transpose()?;
    let mut count = 0;
    for scenario in suite.scenarios() {
        let wanted = |filter: &GlobMatcher| {
            let id = scenario.id;
            filter.is_match(id) || ExporterName::ALL.iter().any(|name| filter.is_match(case_name(id, Some(*name))))
        };
        if !filter.as_ref().is_none_or(wanted) {
            continue;
        }
        count += 1;
        let exporters = match scenario.exporters {
            Exporters::None => "",
            Exporters::Any => " [each exporter]",
        };
        say!("{:<36} {}{exporters}", scenario.id, scenario.purpose);
        let needs: Vec<String> = scenario.requirements().map(|need| need.to_string()).collect();
        if !needs.is_empty() {
            say!("{:<36} needs: {}", "", needs.join("; "));
        }
    }
    if count == 0 {
        return Err(run::no_match(args.filter.as_deref(), &[]));
    }
    Ok(())
}

/// Parses a pattern.
///
/// # Errors
/// If the pattern is invalid.
pub(crate) fn glob(text: &str) -> Verdict<GlobMatcher> {
    let glob = Glob::new(text).map_err(|error| Stop::failed(format!("--filter: {error}")))?;
    Ok(glob.compile_matcher())
}

/// The options of `conformance completions`.
#[derive(Debug, Args)]
struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

/// The options of `conformance man`.
#[derive(Debug, Args)]
struct ManArgs {
    /// The page of this subcommand; default: the page of the whole command, which lists the others.
    subcommand: Option<String>,
}

/// The command without its hidden subcommands, which completion scripts would show.
fn for_people(command: &clap::Command) -> clap::Command {
    clap::Command::new("conformance")
        .version(env!("CARGO_PKG_VERSION"))
        .about(command.get_about().cloned().unwrap_or_default())
        .after_long_help(command.get_after_long_help().cloned().unwrap_or_default())
        .args(command.get_arguments().cloned())
        .subcommands(command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned())
}

/// Prints a script that completes this command's subcommands and options.
fn completions(command: &clap::Command, args: &CompletionsArgs) {
    let mut command = for_people(command);
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    crate::output::print(format_args!("{}", String::from_utf8_lossy(&script)));
}

/// Prints a manual page in the format of `man`.
fn print_page(command: &clap::Command, args: &ManArgs) -> Verdict {
    let mut command = for_people(command).disable_help_subcommand(true);
    // Completes the names of the subcommands.
    command.build();
    let page = match &args.subcommand {
        None => command,
        Some(name) => command
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| Stop::failed(format!("unknown subcommand `{name}`; `conformance help` lists them")))?,
    };
    let mut text = Vec::new();
    Man::new(page).render(&mut text)?;
    crate::output::print(format_args!("{}", String::from_utf8_lossy(&text)));
    Ok(())
}

/// The options of `conformance schema`.
#[derive(Debug, Args)]
struct SchemaArgs {
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
fn print_schema(args: &SchemaArgs) -> Verdict {
    let schema = match args.of {
        Form::Run => schema_of::<Report>("run", SCHEMA),
        Form::Bench => schema_of::<BenchReport>("bench", BENCH_SCHEMA),
        Form::Merge => schema_of::<Merged>("merge", MERGED_SCHEMA),
        Form::Diff => schema_of::<Difference>("diff", DIFF_SCHEMA),
        Form::BenchDiff => schema_of::<BenchDifference>("bench-diff", BENCH_DIFF_SCHEMA),
    };
    print(format_args!("{}\n", to_json(&schema)?));
    Ok(())
}

/// The schema that this version reads. Fields with a default are not required.
fn schema_of<T: JsonSchema>(command: &str, version: u32) -> Schema {
    let mut schema = SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>();
    schema.insert("$id".into(), format!("urn:gpu-interop:conformance:{command}:{version}").into());
    schema.insert("title".into(), format!("The JSON of `conformance {command}`, version {version}").into());
    schema
}
