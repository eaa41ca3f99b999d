//! The command line.

use std::io::IsTerminal;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use globset::GlobMatcher;
use gpu_interop_conformance::{
    BackendUnderTest, Expectations, ExporterName, Exporters, Scenario, Seeds, Stop, Suite, Verdict, system,
};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::baseline::Baseline;
#[cfg(unix)]
use crate::bench::{self, BenchArgs};
use crate::call_trace;
use crate::diff::{self, DiffArgs};
use crate::doctor::{self, DoctorArgs};
use crate::drivers::DriverArgs;
use crate::emulate::Session;
use crate::evidence::{self, Evidence, Hash, Host, KernelLog, Monitor};
use crate::examined::System;
use crate::exit_status::{FAILED, NOT_RUN};
use crate::expectations_from::{self, ExpectationsArgs};
use crate::files::{check_writable, to_json, write_file};
use crate::filter::glob;
use crate::help::{self, CompletionsArgs, ManArgs};
use crate::interrupt;
use crate::output::{error_has_colours, say};
use crate::package::{self, PackageArgs, VerifyArgs};
use crate::report::merge::{self, MergeArgs};
use crate::report::schema::{self, SchemaArgs};
use crate::report::{Environment, Merged, Report, case_name, html, junit, text};
use crate::requirement;
use crate::runner::{self, Case, Isolation, Plan, Progress};
use crate::site::{self, SiteArgs};
use crate::subprocess::Subprocess;

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
        let runs_here = |run: &RunArgs| run.verbose && run.no_isolate;
        match &self.command {
            None => runs_here(&self.run),
            Some(Command::Run(run)) => runs_here(run),
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
    /// Measure the library's cost beside raw driver calls, another binding, and no interop at all.
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
    /// Compare two runs, or several before and after a change: new failures, fixed, changed, slower, missing, added.
    ///
    /// `diff A B`, or `diff A1 A2 A3 -- B1 B2`. Several runs on each side find smaller changes of durations. Exit
    /// status: 0; with --gate 1 if there is a difference of that kind; 2 if a file is no report.
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

#[derive(Debug, Args)]
struct RunArgs {
    /// The backend under test. Default: GPU_INTEROP_BACKEND, or the first with a device.
    #[arg(long)]
    backend: Option<String>,
    #[command(flatten)]
    drivers: DriverArgs,
    /// The device under test, by its number in `conformance doctor`, or `all` for each in turn.
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    device: Devices,
    /// Only this exporter; may be repeated. Default: all.
    #[arg(long)]
    exporter: Vec<ExporterName>,
    /// Only scenarios with a matching id or id@exporter.
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// Fail unless this backend is used, or a scenario ran with this exporter: cuda, hip, host, vulkan, native. A
    /// comma separates several.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    require: Vec<String>,
    /// Write a JSON report; with `--device all` a merged one of all devices.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a JUnit XML report.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the report as one HTML page without network resources.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// A JSON report of an earlier run, whose failures do not fail this one. New failures do; fixed ones are printed.
    #[arg(long, value_name = "REPORT")]
    baseline: Option<PathBuf>,
    /// A TOML file of expectations, in addition to the built-in ones; may be repeated. The first matching
    /// entry counts, files before the built-in ones.
    #[arg(long, value_name = "FILE")]
    expectations: Vec<PathBuf>,
    /// Ignore the built-in expectations.
    #[arg(long)]
    no_default_expectations: bool,
    /// Run everything in this process, for debuggers. A crash ends the run, and time limits do not apply.
    #[arg(long, conflicts_with = "timeout")]
    no_isolate: bool,
    /// Run every scenario in a process of its own. Slower on GPUs, whose drivers take half a second to start. Default:
    /// scenarios share a few processes until one fails, those of a group such as memory.* the same one.
    #[arg(long, conflicts_with = "no_isolate")]
    isolate_each: bool,
    /// The number of processes that run scenarios in parallel. Default: half the number of cores, at most 2.
    /// More slow a GPU down.
    #[arg(long, short, value_name = "COUNT", conflicts_with = "no_isolate")]
    jobs: Option<NonZeroUsize>,
    /// Time limit of each scenario, seconds, instead of its own; with --repeat, of each repetition.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Seed of the data.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Run every scenario this many times, with successive seeds. It passes if every run passes.
    #[arg(long, value_name = "COUNT", default_value_t = NonZeroU32::MIN)]
    repeat: NonZeroU32,
    /// The name of the build under test, such as the driver's commit, for `conformance site`.
    #[arg(long, value_name = "NAME")]
    build: Option<String>,
    /// The file of the kernel's messages, which are reported with the case that ran at the time: lines that a program
    /// such as `dmesg -w` appends. Default: /dev/kmsg, if it can be read.
    #[arg(long, value_name = "FILE")]
    kernel_log: Option<PathBuf>,
    /// Print only failures, reasons of cases that did not run, and counts.
    #[arg(long, short)]
    quiet: bool,
    /// Also print observations (raw driver results beside the library's), omissions,
    /// and, for each failure, the newest 200 driver calls, here and in the reports.
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
}

/// `true` if the first argument of this process is a subcommand, hidden ones among them.
pub(crate) fn is_called() -> bool {
    std::env::args().nth(1).is_some_and(|first| Cli::command().find_subcommand(first).is_some())
}

/// Parses and runs the command line, and returns the exit status.
pub(crate) fn main(suite: &Suite) -> ExitCode {
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
        Command::Run(args) => run(suite, &args),
        #[cfg(unix)]
        Command::Bench(args) => bench::run(suite, &args),
        Command::Merge(args) => merge::run(&args),
        Command::Diff(args) => diff::run(suite, &args),
        Command::Expectations(args) => expectations_from::run(&args).map(|()| 0),
        Command::Package(args) => package::pack(&args).map(|()| 0),
        Command::Verify(args) => package::verify(&args),
        Command::Site(args) => site::run(&args).map(|()| 0),
        Command::Schema(args) => schema::run(&args).map(|()| 0),
        Command::Completions(args) => {
            help::completions(&Cli::command(), &args);
            Ok(0)
        }
        Command::Man(args) => help::page(&Cli::command(), &args).map(|()| 0),
        Command::Subprocess(subprocess) => subprocess.run(suite).map(|()| 0),
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

/// Sends log messages to standard error, filtered by `RUST_LOG`.
fn start_log(records_calls: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn".into());
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
            let cases = |id| ExporterName::ALL.iter().any(|name| filter.is_match(case_name(id, Some(*name))));
            scenario.names().any(|id| filter.is_match(id) || cases(id))
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
        if let Some(alias) = scenario.alias {
            say!("{:<36} formerly: {alias}", "");
        }
    }
    if count == 0 {
        return Err(no_match(args.filter.as_deref(), &[]));
    }
    Ok(())
}

fn no_match(filter: Option<&str>, exporters: &[ExporterName]) -> Stop {
    let filter = filter.map(|filter| format!(" matches `{filter}`")).unwrap_or_default();
    let names: Vec<&str> = exporters.iter().map(|exporter| exporter.name()).collect();
    let with = if names.is_empty() { String::new() } else { format!(" with the exporter {}", names.join(" or ")) };
    Stop::Failed(format!(
        "no scenario{filter}{with}; `conformance list`, without a filter, shows their ids and exporters"
    ))
}

/// The devices of a run.
#[derive(Debug, Clone, Copy)]
enum Devices {
    One(usize),
    All,
}

impl FromStr for Devices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            number => number.parse().map(Self::One).map_err(|error| format!("neither a number nor `all`: {error}")),
        }
    }
}

fn run(suite: &Suite, args: &RunArgs) -> Verdict<u8> {
    let required = requirement::parse(suite, &args.require)?;
    let (backend, passed_over) = match args.drivers.backend(args.backend.as_deref())? {
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
    let mut plan = Plan {
        device: if let Devices::One(number) = args.device { number } else { 0 },
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
    // Checked before the run rather than after it.
    for path in args.json.iter().chain(&args.junit).chain(&args.html) {
        check_writable(path)?;
    }
    let baseline = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let under_test = suite.backend(&backend)?;
    interrupt::listen()?;
    let hash = Hash::start();
    let mut reports = Vec::new();
    loop {
        let passed_over = passed_over.clone();
        let environment = if plan.isolation != Isolation::None {
            Environment { passed_over, ..runner::discover(&backend, plan.device, &plan.exporters)? }
        } else {
            let found = gpu_interop_conformance::discover(under_test, plan.device, &plan.exporters)?;
            Environment { passed_over, ..Environment::found(found) }
        };
        requirement::check(&required, &environment)?;
        reports.push(run_on(suite.scenarios(), under_test, args, &plan, &environment, &cases)?);
        plan.device += 1;
        let is_last = matches!(args.device, Devices::One(_)) || plan.device >= environment.devices.len();
        if is_last || interrupt::is_interrupted() {
            break;
        }
    }
    let hash = hash.finish();
    for host in reports.iter_mut().filter_map(|report: &mut Report| report.host.as_mut()) {
        host.command_sha256.clone_from(&hash);
    }
    let merged = Merged::of_devices(reports);
    if let Some(path) = &args.json {
        let text = match (args.device, merged.reports.as_slice()) {
            (Devices::One(_), [only]) => to_json(&only.report),
            _ => to_json(&merged),
        };
        write_file(path, &text?)?;
    }
    if let Some(path) = &args.html {
        write_file(path, &html::render(&merged))?;
    }
    // CI systems and the exit status do not count failures of the baseline.
    let judged = match &baseline {
        Some(baseline) => baseline.apply(suite, &merged)?,
        None => merged,
    };
    if let Some(path) = &args.junit {
        write_file(path, &junit::render(&judged.reports)?)?;
    }
    let status = merge::judge(&judged, &required);
    if interrupt::is_interrupted() && !matches!(status, Ok(FAILED)) {
        return Err(Stop::Failed("interrupted: remaining scenarios count as skipped".into()));
    }
    status
}

/// Runs the cases on one device and prints the summary.
fn run_on(
    scenarios: &[Scenario],
    under_test: &Arc<BackendUnderTest>,
    args: &RunArgs,
    plan: &Plan,
    environment: &Environment,
    cases: &[Case<'_>],
) -> Verdict<Report> {
    if !args.quiet {
        say!("{}", text::heading(environment));
    }
    let progress = Progress::new(cases.len(), args.quiet, args.verbose);
    let is_real = !environment.backend.simulated && environment.emulated.is_none();
    let kernel_log = KernelLog::follow(args.kernel_log.as_deref())?;
    let evidence = Evidence { kernel_log, gpu: Monitor::new(&environment.device, is_real) };
    let gpu = evidence.gpu.read();
    let mut report = plan.run(under_test, environment, cases, &progress, &evidence);
    report.build.clone_from(&args.build);
    report.host = Some(Host { gpu, ..evidence::host(&System::new(None)) });
    progress.done();
    for stale in plan.stale_expectations(environment, scenarios) {
        eprintln!("conformance: an expectation for this machine matches no scenario; correct or remove it: {stale}");
    }
    if args.quiet && text::mark(&environment.backend, environment.emulated.as_ref()).is_some() {
        say!("{}", text::heading(environment));
    }
    crate::output::print(format_args!("{}", text::summary(&report, std::io::stdout().is_terminal() && !args.quiet)));
    Ok(report)
}

/// Half the cores: most scenarios have a second process or a busy driver thread.
fn default_jobs() -> NonZeroUsize {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new((cores / 2).min(2)).unwrap_or(NonZeroUsize::MIN)
}
