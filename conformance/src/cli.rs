//! The command line.

use std::io::IsTerminal;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use globset::{Glob, GlobMatcher};
use serde::Serialize;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

#[cfg(unix)]
use crate::bench::{self, BenchArgs};
use crate::calls;
use crate::catalogue;
use crate::context::Seeds;
use crate::doctor;
use crate::emulate::{EmulateArgs, Session};
use crate::expectations::Expectations;
use crate::exporter::ExporterName;
use crate::internal::Internal;
use crate::interrupt;
use crate::manual::{self, CompletionsArgs, ManArgs};
use crate::outcome::{Stop, Verdict};
use crate::output::{error_has_colours, say};
use crate::report::merge::{self, MergeArgs};
use crate::report::schema::{self, SchemaArgs};
use crate::report::{Environment, Merged, Report, case_name, html, junit, text};
use crate::runner::{self, Isolation, Plan, Progress, child};
use crate::scenario::Exporters;
use crate::suite::{BACKEND_NAMES, Suite};
use crate::system::{self, raise_handle_limit};

/// Exit status: something that ran has failed.
pub(crate) const FAILED: u8 = 1;
/// Exit status: the run could not be made as asked, was interrupted, or ran nothing.
const NOT_RUN: u8 = 2;

const EXIT_STATUS: &str = "\
Exit status: 0 if everything that ran passed; 1 if something that ran has failed; 2 if something could not be run as \
asked, was interrupted, or ran nothing. After a first SIGINT (Ctrl-C) or SIGTERM a run ends what runs, counts it and what \
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
    /// Starts the emulation that is asked for.
    fn emulate(&self) -> Verdict<Option<Session>> {
        match &self.command {
            None => self.run.emulation.enter(),
            Some(Command::Run(run)) => run.emulation.enter(),
            Some(Command::Doctor(doctor)) => doctor.emulation.enter(),
            #[cfg(unix)]
            Some(Command::Bench(bench)) => bench.emulation.enter(),
            Some(_) => Ok(None),
        }
    }

    /// Whether driver calls of this process are recorded.
    fn records_calls(&self) -> bool {
        let runs_here = |run: &RunArgs| run.verbose && run.no_isolate;
        match &self.command {
            None => runs_here(&self.run),
            Some(Command::Run(run)) => runs_here(run),
            Some(Command::Internal(internal)) => internal.records_calls(),
            Some(_) => false,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what loads, which devices and exporters there are, what they can do, and what is missing.
    Doctor(DoctorArgs),
    /// List the scenarios: id and purpose, one a line.
    List(ListArgs),
    /// Run the scenarios. Also what happens without a subcommand.
    Run(Box<RunArgs>),
    /// Measure what the library costs beside the driver called directly, another binding, and no interop at all.
    ///
    /// Prints ratios first, each with its limit and the 95 % interval of its median, then every measurement. The variants
    /// take turns, so that a ratio compares what happened within milliseconds. A missed limit fails the run only with
    /// --strict; data that does not arrive always does.
    #[cfg(unix)]
    Bench(BenchArgs),
    /// Lay the reports of several machines side by side, as one page or one JSON file.
    ///
    /// Exit status: 0 if they were merged, whatever is in them; 2 if one cannot be read: the page says which, and has the
    /// rest. With --fail also 1 if a scenario has failed, and 2 if nothing ran in one.
    Merge(MergeArgs),
    /// Print the JSON Schema of the JSON reports.
    Schema(SchemaArgs),
    /// Print completions for a shell.
    ///
    /// Bash: `conformance completions bash > ~/.local/share/bash-completion/completions/conformance`.
    Completions(CompletionsArgs),
    /// Print the manual page, or that of a subcommand: `conformance man run | man -l -`.
    Man(ManArgs),
    #[command(flatten)]
    Internal(Internal),
}

#[derive(Debug, Args)]
struct DoctorArgs {
    #[command(flatten)]
    emulation: EmulateArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only scenarios whose id matches.
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// Print the catalogue instead: one page in Markdown of what the suite shows, and of what it does not.
    #[arg(long, conflicts_with = "filter")]
    markdown: bool,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The backend under test; without it, what GPU_INTEROP_BACKEND says, or the first that has a device.
    #[arg(long)]
    backend: Option<String>,
    #[command(flatten)]
    emulation: EmulateArgs,
    /// The device under test, by its number in `conformance doctor`.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    device: usize,
    /// Only this exporter; may be repeated. Without it, every exporter.
    #[arg(long)]
    exporter: Vec<ExporterName>,
    /// Only scenarios whose id, or id@exporter, matches.
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// Fail unless this backend is used, or a scenario really ran with this exporter: cuda, hip, host, vulkan, native. A
    /// comma separates several.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    require: Vec<String>,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report as JUnit XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the report as one page for a browser, which needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// What is known not to work, as a TOML file, beside what the command itself knows; may be repeated. The first entry
    /// that matches counts, those of files before the command's own.
    #[arg(long, value_name = "FILE")]
    expectations: Vec<PathBuf>,
    /// Leave out what the command itself knows not to work.
    #[arg(long)]
    no_default_expectations: bool,
    /// Run everything in this process: for debuggers. A crash ends the run, and nothing is stopped after its time.
    #[arg(long, conflicts_with = "timeout")]
    no_isolate: bool,
    /// Run every scenario in a process of its own. Slower on GPUs, whose drivers take half a second to start; without it
    /// scenarios share a few processes for as long as nothing fails, those of a group, like memory.*, the same one.
    #[arg(long, conflicts_with = "no_isolate")]
    isolate_each: bool,
    /// How many processes run scenarios at the same time; without it, half as many as the machine has cores, at most 2.
    /// More make a GPU slower than they save.
    #[arg(long, short, value_name = "COUNT", conflicts_with = "no_isolate")]
    jobs: Option<NonZeroUsize>,
    /// Time limit of each scenario, seconds, instead of its own; with --repeat, of each run of it.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Seed of the data.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Run every scenario this many times, with this seed and those after it: it passes if it passes every time.
    #[arg(long, value_name = "COUNT", default_value_t = NonZeroU32::MIN)]
    repeat: NonZeroU32,
    /// Print no progress: only what failed, why the rest did not run, and the counts.
    #[arg(long, short)]
    quiet: bool,
    /// Also print what scenarios observed, what the driver alone did with a bad request beside what the library did, and
    /// what they left out; and of each that fails the newest 200 driver calls, here and in the reports.
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
}

/// Parses the command line, runs it, and turns the result into an exit status.
pub(crate) fn main(suite: &Suite) -> ExitCode {
    let cli = Cli::parse();
    start_log(cli.records_calls());
    // Some drivers keep descriptors open, and so do scenarios with many imports.
    raise_handle_limit();
    // To its end: what it holds is of the whole run.
    let _session = match cli.emulate() {
        Ok(session) => session,
        Err(stop) => return not_run(&stop),
    };
    let done = match cli.command.unwrap_or(Command::Run(Box::new(cli.run))) {
        Command::Doctor(args) => doctor::run(suite, args.json).map(|()| 0),
        Command::List(args) => list(suite, &args).map(|()| 0),
        Command::Run(args) => run(suite, &args),
        #[cfg(unix)]
        Command::Bench(args) => bench::run(suite, &args),
        Command::Merge(args) => merge::run(&args),
        Command::Schema(args) => schema::run(&args).map(|()| 0),
        Command::Completions(args) => {
            manual::completions(&Cli::command(), &args);
            Ok(0)
        }
        Command::Man(args) => manual::page(&Cli::command(), &args).map(|()| 0),
        Command::Internal(internal) => internal.run(suite).map(|()| 0),
    };
    match done {
        Ok(status) => ExitCode::from(status),
        Err(stop) => not_run(&stop),
    }
}

fn not_run(stop: &Stop) -> ExitCode {
    eprintln!("conformance: {}", stop.reason());
    ExitCode::from(NOT_RUN)
}

/// What the library tells goes to standard error, as far as RUST_LOG asks for it.
fn start_log(records_calls: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(error_has_colours())
        .with_filter(filter);
    tracing_subscriber::registry().with(log).with(records_calls.then(calls::layer)).init();
}

fn list(suite: &Suite, args: &ListArgs) -> Verdict {
    if args.markdown {
        crate::output::print(format_args!("{}", catalogue::markdown(suite.scenarios())));
        return Ok(());
    }
    let filter = args.filter.as_deref().map(glob).transpose()?;
    let mut count = 0;
    for scenario in suite.scenarios() {
        let wanted = |filter: &GlobMatcher| {
            filter.is_match(scenario.id)
                || ExporterName::value_variants()
                    .iter()
                    .any(|name| filter.is_match(case_name(scenario.id, Some(*name))))
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
    }
    if count == 0 {
        return Err(no_match(args.filter.as_deref(), &[]));
    }
    Ok(())
}

pub(crate) fn glob(text: &str) -> Verdict<GlobMatcher> {
    let glob = Glob::new(text).map_err(|error| Stop::Failed(format!("--filter: {error}")))?;
    Ok(glob.compile_matcher())
}

fn no_match(filter: Option<&str>, exporters: &[ExporterName]) -> Stop {
    let filter = filter.map(|filter| format!(" matches `{filter}`")).unwrap_or_default();
    let names: Vec<&str> = exporters.iter().map(|exporter| exporter.name()).collect();
    let with = if names.is_empty() { String::new() } else { format!(" with the exporter {}", names.join(" or ")) };
    Stop::Failed(format!(
        "no scenario{filter}{with}; `conformance list`, without a filter, shows their ids and exporters"
    ))
}

fn run(suite: &Suite, args: &RunArgs) -> Verdict<u8> {
    let required = check_required_names(suite, &args.require)?;
    let (backend, passed_over) = match args.emulation.backend(args.backend.as_deref())? {
        Some(name) => (suite.backend(&name)?.name().to_owned(), Vec::new()),
        None => suite.default_backend()?,
    };
    let exporters = match args.exporter.as_slice() {
        [] => ExporterName::of_this_system(),
        named => named.to_vec(),
    };
    let isolation = match (args.no_isolate, args.isolate_each) {
        (true, _) => Isolation::None,
        (false, true) => Isolation::Scenario,
        (false, false) => Isolation::Shared,
    };
    let plan = Plan {
        device: args.device,
        seeds: Seeds { first: args.seed, count: args.repeat },
        filter: args.filter.as_deref().map(glob).transpose()?,
        exporters,
        isolation,
        timeout: args.timeout.map(Duration::from_secs),
        jobs: args.jobs.unwrap_or_else(default_jobs),
        expectations: Expectations::read(&args.expectations, !args.no_default_expectations)?,
        calls: args.verbose,
    };
    let cases = plan.cases(suite.scenarios());
    if cases.is_empty() {
        return Err(no_match(args.filter.as_deref(), &args.exporter));
    }
    // Found out now rather than after the run.
    for path in args.json.iter().chain(&args.junit).chain(&args.html) {
        check_writable(path)?;
    }
    let under_test = suite.backend(&backend)?;
    let environment = if plan.isolation != Isolation::None {
        Environment { passed_over, ..runner::discover(&backend, plan.device, &plan.exporters)? }
    } else {
        child::discover(under_test, plan.device, &plan.exporters, passed_over)?
    };
    check_requirements(&required, &environment)?;
    if !args.quiet {
        say!("{}", text::heading(&environment));
    }
    let progress = Progress::new(cases.len(), args.quiet, args.verbose);
    interrupt::listen()?;
    let report = plan.run(under_test, &environment, &cases, &progress);
    progress.done();
    for stale in plan.stale_expectations(&environment, suite.scenarios()) {
        eprintln!("conformance: an expectation for this machine matches no scenario; correct or remove it: {stale}");
    }
    if args.quiet && text::mark(&environment.backend, environment.emulated.as_ref()).is_some() {
        say!("{}", text::heading(&environment));
    }
    crate::output::print(format_args!("{}", text::summary(&report, std::io::stdout().is_terminal() && !args.quiet)));
    if let Some(path) = &args.json {
        write_file(path, &to_json(&report)?)?;
    }
    if let Some(path) = &args.junit {
        write_file(path, &junit::render(&report)?)?;
    }
    let mut status = status_of(&report, &required);
    if interrupt::is_interrupted() && !matches!(status, Ok(FAILED)) {
        status = Err(Stop::Failed("interrupted: what was left is counted as skipped".into()));
    }
    if let Some(path) = &args.html {
        write_file(path, &html::render(&Merged::single(report)))?;
    }
    status
}

/// Half of the cores: most scenarios have a second process or a busy driver thread.
fn default_jobs() -> NonZeroUsize {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new((cores / 2).min(2)).unwrap_or(NonZeroUsize::MIN)
}

/// The exit status that a report deserves.
pub(crate) fn status_of(report: &Report, required: &[Requirement]) -> Verdict<u8> {
    if report.results.iter().any(|case| case.outcome.is_failure()) {
        return Ok(FAILED);
    }
    if !report.results.iter().any(|case| case.outcome.ran()) {
        return Err(Stop::Failed(
            "nothing ran: every scenario was skipped or is unsupported, for the reasons above".into(),
        ));
    }
    for requirement in required {
        let Requirement::Exporter(name) = requirement else { continue };
        if !report.results.iter().any(|case| case.exporter == Some(*name) && case.outcome.ran()) {
            return Err(Stop::Failed(format!("--require {name}: no scenario ran with this exporter")));
        }
    }
    Ok(0)
}

/// What `--require` asks for.
pub(crate) enum Requirement {
    Backend(String),
    Exporter(ExporterName),
}

fn check_required_names(suite: &Suite, names: &[String]) -> Verdict<Vec<Requirement>> {
    names
        .iter()
        .map(|name| {
            if let Ok(exporter) = ExporterName::from_str(name, true) {
                return if ExporterName::of_this_system().contains(&exporter) {
                    Ok(Requirement::Exporter(exporter))
                } else {
                    Err(Stop::Failed(format!(
                        "--require {name}: Direct3D is part of Windows, and this is another system"
                    )))
                };
            }
            let known = BACKEND_NAMES.iter().any(|backend| backend.to_string() == *name);
            if known || suite.backend(name).is_ok() {
                return Ok(Requirement::Backend(name.clone()));
            }
            Err(Stop::Failed(format!("--require {name}: there is no backend or exporter of this name")))
        })
        .collect()
}

fn check_requirements(required: &[Requirement], environment: &Environment) -> Verdict {
    for requirement in required {
        match requirement {
            Requirement::Backend(name) if *name != environment.backend.name => {
                let why = environment.passed_over.iter().find(|attempt| attempt.target == *name);
                let why = why.map_or_else(
                    || format!("choose it with --backend {name} or GPU_INTEROP_BACKEND={name}"),
                    |attempt| attempt.reason.clone(),
                );
                return Err(Stop::Failed(format!(
                    "--require {name}: this run would use the backend {}; {why}",
                    environment.backend.name
                )));
            }
            Requirement::Exporter(name) => match environment.exporter(*name) {
                Some(exporter) if exporter.available.is_some() => {}
                Some(exporter) => {
                    let why = exporter.stop.as_ref().map_or("no reason", Stop::reason);
                    return Err(Stop::Failed(format!("--require {name}: the exporter cannot be used: {why}")));
                }
                None => {
                    return Err(Stop::Failed(format!("--require {name}: --exporter excludes it from this run")));
                }
            },
            Requirement::Backend(_) => {}
        }
    }
    Ok(())
}

pub(crate) fn to_json(value: &impl Serialize) -> Verdict<String> {
    serde_json::to_string_pretty(value).map_err(|error| Stop::Failed(format!("cannot write JSON: {error}")))
}

/// Fails if there cannot be a file here. What is there stays.
pub(crate) fn check_writable(path: &Path) -> Verdict {
    let is_new = !path.exists();
    std::fs::OpenOptions::new().append(true).create(true).open(path).map_err(|error| cannot_write(path, &error))?;
    if is_new {
        std::fs::remove_file(path).map_err(|error| cannot_write(path, &error))?;
    }
    Ok(())
}

/// Writes a whole file at once: a run that is stopped leaves the one before, or none, and never half of one.
pub(crate) fn write_file(path: &Path, text: &str) -> Verdict {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        if !path.exists() || path.is_file() {
            let mut file = system::readable_file().tempfile_in(folder)?;
            std::io::Write::write_all(&mut file, text.as_bytes())?;
            file.persist(path)?;
            return Ok(());
        }
        // A pipe or a device.
        std::fs::write(path, text)
    };
    write().map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Stop {
    Stop::Failed(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
