//! `conformance run`.

use std::io::IsTerminal;
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use clap::Args;
use gpu_interop_conformance::{BackendUnderTest, Expectations, ExporterName, Scenario, Seeds, Stop, Suite, Verdict};

use crate::baseline::Baseline;
use crate::cli::glob;
use crate::drivers::DriverArgs;
use crate::evidence::{self, Evidence, Hash, Host, KernelLog, Monitor};
use crate::examined::System;
use crate::files::{check_writable, to_merged_json, to_report_json, write_file};
use crate::interrupt;
use crate::output::{complain, print, say};
use crate::report::{Environment, Merged, NotRead, Report, Shard, Sourced, html, junit, merge, text};
use crate::requirement;
use crate::requirement::Flakes;
use crate::runner::{self, Case, Isolation, Journal, Plan, Progress};
use crate::selection::{self, CaseList, ShardNumber, Tier};

/// The options of `conformance run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The backend under test. Default: GPU_INTEROP_BACKEND, or the first with a device.
    #[arg(long)]
    backend: Option<String>,
    #[command(flatten)]
    pub(crate) drivers: DriverArgs,
    /// The device under test, by its number in `conformance doctor`, or `all` for all
    /// side by side.
    #[arg(long, value_name = "NUMBER", default_value = "0")]
    device: Devices,
    /// Only this exporter; may be repeated. Default: all.
    #[arg(long)]
    exporter: Vec<ExporterName>,
    /// Only scenarios with a matching id or id@exporter.
    #[arg(long, value_name = "GLOB")]
    filter: Option<String>,
    /// Only the cases in this file: `id` or `id@exporter`, one a line; `linux:` or `windows:` before it limits it to that
    /// system, and `#` begins a comment. The report has the file's SHA-256.
    #[arg(long, value_name = "FILE", conflicts_with = "tier")]
    cases: Option<PathBuf>,
    /// Only the cases of a frozen list, so that results of several vendors compare.
    #[arg(long, value_enum, value_name = "TIER", conflicts_with = "filter")]
    tier: Option<Tier>,
    /// Only this shard of the cases: 2/4 is every fourth case, beginning with the second. `conformance merge` joins the reports
    /// of all shards and proves that no case is lost or doubled.
    #[arg(long, value_name = "NUMBER/COUNT")]
    shard: Option<ShardNumber>,
    /// Fail unless this backend is used, or a scenario ran with this exporter: cuda, hip, host, vulkan, native. A
    /// comma separates several.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    require: Vec<String>,
    /// Write a JSON report; with `--device all` a merged one of all devices.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write each result to this file when it comes, one JSON object a line, synced to the disk. A killed run continues
    /// with --resume.
    #[arg(long, value_name = "FILE", conflicts_with = "resume")]
    journal: Option<PathBuf>,
    /// Continue a killed or stopped run from its journal, and continue the journal. The options must be those of that run.
    /// Without the file a run begins, as with --journal.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
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
    /// The number of processes that run scenarios at the same time. Default: twice the number of cores, at most 4. More
    /// processes slow a GPU down. Exclusive scenarios, such as those that measure free GPU memory, run one at a time.
    #[arg(long, short, value_name = "COUNT", conflicts_with = "no_isolate")]
    jobs: Option<NonZeroUsize>,
    /// Time limit of each scenario, seconds, instead of its own; with --repeat, of each repetition.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=YEAR))]
    timeout: Option<u64>,
    /// Seed of the data.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Run every scenario this many times, with successive seeds. It passes if every run passes.
    #[arg(long, value_name = "COUNT", default_value_t = NonZeroU32::MIN)]
    repeat: NonZeroU32,
    /// Run a case that fails unexpectedly again, alone, after all others, up to this many times. If it then passes, it is
    /// `flaky`, else failed. 0 switches this off. A case with a `[[flaky]]` expectation runs as often as its rate needs,
    /// at most 20 times. Not with --no-isolate.
    #[arg(long, value_name = "COUNT", default_value_t = 2)]
    retries: u32,
    /// The effect of flaky cases on the exit status.
    #[arg(long, value_enum, default_value_t, value_name = "EFFECT")]
    flaky: Flakes,
    /// Stop after this many cases have failed. These still run again; the rest counts as skipped.
    #[arg(long, value_name = "COUNT")]
    max_failures: Option<NonZeroUsize>,
    /// The name of the build under test, such as the driver's commit, for `conformance site`.
    #[arg(long, value_name = "NAME")]
    build: Option<String>,
    /// The file of the kernel's messages, which are reported with the case that ran at the time: lines that a program
    /// such as `dmesg -w` appends; or `journalctl`, the journal of systemd. Default: /dev/kmsg if it can be read, or else
    /// `journalctl` if it starts; on Windows, the event log.
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

impl RunArgs {
    /// `true` if this process records driver calls.
    pub(crate) fn records_calls(&self) -> bool {
        self.verbose && self.no_isolate
    }

    fn isolation(&self) -> Isolation {
        match (self.no_isolate, self.isolate_each) {
            (true, _) => Isolation::None,
            (false, true) => Isolation::Scenario,
            (false, false) => Isolation::Shared,
        }
    }

    fn journal(&self) -> Verdict<Option<Journal>> {
        match (&self.journal, &self.resume) {
            (Some(path), _) => Journal::create(path).map(Some),
            (None, Some(path)) => Journal::resume(path).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn case_list(&self, suite: &Suite) -> Verdict<Option<CaseList>> {
        match (&self.cases, self.tier) {
            (Some(path), _) => CaseList::read(path, suite.scenarios()).map(Some),
            (None, Some(tier)) => CaseList::tier(tier, suite.scenarios()).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The cases of one shard, if only that runs.
    fn shard<'a>(&self, cases: Vec<Case<'a>>) -> Verdict<(Vec<Case<'a>>, Option<Shard>)> {
        let Some(number) = self.shard else { return Ok((cases, None)) };
        let (cases, shard) = selection::select(&cases, number)?;
        Ok((cases, Some(shard)))
    }
}

/// The error of a run without cases.
pub(crate) fn no_match(filter: Option<&str>, exporters: &[ExporterName]) -> Stop {
    let filter = filter.map(|filter| format!(" matches `{filter}`")).unwrap_or_default();
    let names: Vec<&str> = exporters.iter().map(|exporter| exporter.name()).collect();
    let with = if names.is_empty() { String::new() } else { format!(" with the exporter {}", names.join(" or ")) };
    Stop::failed(format!(
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

/// The hash of the command's file in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandHash {
    Recorded,
    Omitted,
}

/// The greatest time limit, seconds.
const YEAR: u64 = 365 * 24 * 60 * 60;

/// Runs the suite and returns the exit status.
pub(crate) fn run(suite: &Suite, args: &RunArgs, hash: CommandHash) -> Verdict<u8> {
    let required = requirement::parse(suite, &args.require)?;
    let (backend, passed_over) = match args.drivers.backend(args.backend.as_deref())? {
        Some(name) => (suite.backend(&name)?.name().to_owned(), Vec::new()),
        None => suite.default_backend()?,
    };
    let exporters = match args.exporter.as_slice() {
        [] => ExporterName::of_this_system(),
        named => named.to_vec(),
    };
    let isolation = args.isolation();
    let mut plan = Plan {
        device: if let Devices::One(number) = args.device { number } else { 0 },
        seeds: Seeds { first: args.seed, count: args.repeat },
        filter: args.filter.as_deref().map(glob).transpose()?,
        list: args.case_list(suite)?,
        exporters,
        isolation,
        timeout: args.timeout.map(Duration::from_secs),
        jobs: args.jobs.unwrap_or_else(default_jobs),
        expectations: Expectations::read(&args.expectations, !args.no_default_expectations)?.into(),
        retries: if isolation == Isolation::None { 0 } else { args.retries },
        max_failures: args.max_failures,
        calls: args.verbose,
        shard: None,
    };
    let cases = plan.cases(suite.scenarios());
    if cases.is_empty() {
        return Err(no_match(args.filter.as_deref(), &args.exporter));
    }
    let (cases, shard) = args.shard(cases)?;
    plan.shard = shard;
    // Checked before the run rather than after it.
    for path in args.json.iter().chain(&args.junit).chain(&args.html) {
        check_writable(path)?;
    }
    let baseline = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let under_test = suite.backend(&backend)?;
    let journal = args.journal()?;
    interrupt::listen()?;
    let hash = (hash == CommandHash::Recorded).then(Hash::start);
    let look = |device| {
        let environment = if plan.isolation != Isolation::None {
            runner::discover(&backend, device, &plan.exporters)?
        } else {
            Environment::found(gpu_interop_conformance::discover(under_test, device, &plan.exporters)?)
        };
        requirement::check(&required, &environment)?;
        Ok(Environment { passed_over: passed_over.clone(), ..environment })
    };
    let first = look(plan.device)?;
    let devices = match args.device {
        Devices::One(number) => number..number + 1,
        Devices::All => 0..first.devices.len(),
    };
    let is_one_of_many = devices.len() > 1;
    let one = |device, environment: Verdict<Environment>| {
        let plan = Plan { device, ..plan.clone() };
        let on = On { environment: environment?, is_one_of_many };
        run_on(suite.scenarios(), under_test, args, &plan, &on, &cases, journal.as_ref())
    };
    let (mut reports, mut not_run) = (Vec::new(), Vec::new());
    for (device, ended) in on_each(devices, plan.isolation, first, look, one) {
        match ended {
            Ok(report) => reports.push((device, report)),
            // The reports of the other devices are written.
            Err(stop) => {
                let missing = NotRead { source: format!("device {device}"), reason: stop.reason().to_owned() };
                complain(&format!("{}: {}", missing.source, missing.reason));
                not_run.push((missing, stop));
            }
        }
    }
    if let (true, Some((_, stop))) = (reports.is_empty(), not_run.first()) {
        return Err(stop.clone());
    }
    let not_run = not_run.into_iter().map(|(missing, _)| missing).collect();
    let hash = hash.and_then(Hash::finish);
    for host in reports.iter_mut().filter_map(|(_, report): &mut (usize, Report)| report.host.as_mut()) {
        host.command_sha256.clone_from(&hash);
    }
    let merged = Merged::of_devices(reports, not_run);
    if let Some(path) = &args.json {
        let text = match (args.device, merged.reports.as_slice()) {
            (Devices::One(_), [only]) => to_report_json(&only.report),
            _ => to_merged_json(&merged),
        };
        write_file(path, &text?)?;
    }
    if let Some(path) = &args.html {
        write_file(path, &html::render(&merged))?;
    }
    if let Some(journal) = journal {
        journal.finish()?;
    }
    // CI systems and the exit status do not count failures of the baseline.
    let judged = match &baseline {
        Some(baseline) => baseline.apply(&merged, args.flaky)?,
        None => merged,
    };
    if let Some(path) = &args.junit {
        write_file(path, &junit::render(&judged.reports, args.flaky)?)?;
    }
    let status = merge::judge(&judged, &required, args.flaky);
    if let Some(missing) = judged.missing().filter(|_| matches!(status, Ok(0) | Err(_))) {
        return Err(Stop::failed(format!("the run was impossible on {missing}, for the reasons above")));
    }
    if interrupt::is_interrupted() && matches!(status, Ok(0) | Err(_)) {
        return Err(Stop::failed("interrupted: remaining scenarios count as skipped".into()));
    }
    if let (Ok(status), false) = (&status, args.quiet) {
        say!("next: {}", next_step(args, &backend, &judged, *status));
    }
    status
}

/// What to do after a run with this status.
fn next_step(args: &RunArgs, backend: &str, judged: &Merged, status: u8) -> String {
    let program = std::env::args().next().unwrap_or_else(|| "conformance".into());
    let mut failed = judged.reports.iter().flat_map(|Sourced { source, report }| {
        report.results.iter().filter(|case| args.flaky.fails(case)).map(move |case| (source, report, case))
    });
    if let Some((source, report, case)) = failed.next() {
        let device = match args.device {
            Devices::One(number) => number.to_string(),
            Devices::All => source.trim_start_matches("device ").to_owned(),
        };
        let timeout = args.timeout.map(|seconds| format!(" --timeout {seconds}")).unwrap_or_default();
        let repeat = if args.repeat.get() > 1 { format!(" --repeat {}", args.repeat) } else { String::new() };
        return format!(
            "repeat one case with its driver calls: {program} run {} --device {device} --filter '{}' --seed {}{repeat}{timeout} \
             --retries 0 --verbose",
            args.drivers.option(backend),
            case.name(),
            report.seed,
        );
    }
    if status != 0 {
        return format!("see the reasons above, and {program} doctor");
    }
    match &args.json {
        None => {
            "add --json FILE for a report to merge with others (`conformance merge`) or to send (`conformance package`)"
                .into()
        }
        Some(file) if args.shard.is_some() => {
            format!(
                "join {} with the reports of the other shards: {program} merge FILE... --json all.json --fail",
                file.display()
            )
        }
        Some(file) => {
            let file = file.display();
            format!(
                "{program} merge {file} --html results.html makes a page of it and of other reports; \
                 {program} package {file} --output results.tar makes an archive to send"
            )
        }
    }
}

/// Calls `one` for each device with its environment, and returns what it returns, in order of the devices. Devices run side
/// by side, unless their cases run in this process, whose resources they count.
fn on_each<R: Send>(
    devices: Range<usize>,
    isolation: Isolation,
    first: Environment,
    look: impl Fn(usize) -> Verdict<Environment> + Sync,
    one: impl Fn(usize, Verdict<Environment>) -> Verdict<R> + Sync,
) -> Vec<(usize, Verdict<R>)> {
    let rest = devices.start + 1..devices.end;
    if isolation == Isolation::None {
        let mut ended = vec![(devices.start, one(devices.start, Ok(first)))];
        for device in rest {
            if interrupt::is_interrupted() {
                break;
            }
            ended.push((device, one(device, look(device))));
        }
        return ended;
    }
    let (look, one) = (&look, &one);
    std::thread::scope(|scope| {
        let others: Vec<_> = rest.map(|device| (device, scope.spawn(move || one(device, look(device))))).collect();
        let first = (devices.start, one(devices.start, Ok(first)));
        let join = |(device, thread): (usize, ScopedJoinHandle<'_, Verdict<R>>)| {
            (device, thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
        };
        std::iter::once(first).chain(others.into_iter().map(join)).collect()
    })
}

/// Where a run takes place.
struct On {
    environment: Environment,
    /// `true` if other devices run at the same time.
    is_one_of_many: bool,
}

/// Runs the cases on one device and prints the summary.
fn run_on(
    scenarios: &[Scenario],
    under_test: &Arc<BackendUnderTest>,
    args: &RunArgs,
    plan: &Plan,
    on: &On,
    cases: &[Case<'_>],
    journal: Option<&Journal>,
) -> Verdict<Report> {
    let On { environment, is_one_of_many } = on;
    if !args.quiet {
        print(format_args!("{}\n", text::heading(environment)));
    }
    let device = is_one_of_many.then_some(plan.device);
    let progress = Progress::new(cases.len(), args.quiet, args.verbose, device);
    let is_real = !environment.backend.simulated && environment.emulated.is_none();
    let are_side_by_side = *is_one_of_many && plan.isolation != Isolation::None;
    let kernel_log = KernelLog::follow(args.kernel_log.as_deref(), are_side_by_side)?;
    let evidence = Evidence { kernel_log, gpu: Monitor::new(&environment.device, is_real) };
    let gpu = evidence.gpu.read();
    let mut report = plan.run(under_test, environment, cases, &progress, journal, &evidence)?;
    report.build.clone_from(&args.build);
    report.host = Some(Host { gpu, ..evidence::host(&System::new(None)) });
    progress.done();
    for stale in plan.stale_expectations(environment, scenarios) {
        complain(&format!("an expectation for this machine matches no scenario; correct or remove it: {stale}"));
    }
    if args.quiet && text::mark(&environment.backend, environment.emulated.as_ref()).is_some() {
        print(format_args!("{}\n", text::heading(environment)));
    }
    // One text: another device may end at the same time.
    let named = device.map(|number| format!("device {number}:\n")).unwrap_or_default();
    print(format_args!("{named}{}", text::summary(&report, std::io::stdout().is_terminal() && !args.quiet)));
    Ok(report)
}

/// The number of processes for each device: twice the number of cores, at most 4. Scenarios wait for about half of their time; with more processes, a machine's drivers spend longer on starts and
/// ends of contexts, one of which they make at a time.
fn default_jobs() -> NonZeroUsize {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new((2 * cores).min(4)).unwrap_or(NonZeroUsize::MIN)
}
