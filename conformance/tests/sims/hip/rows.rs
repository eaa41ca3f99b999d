//! The suite on each version of sim-hip. The list of versions is the simulator's own, so none is omitted.

use gpu_interop_conformance::{Outcome, Suite};
use gpu_interop_conformance_cli::CaseReport;
use gpu_interop_sim_abi::hip::behaviour::Below;
use gpu_interop_sim_abi::hip::rows::{self, Row};
use libtest_mimic::{Failed, Trial};

use super::{ALL, FAILING, LACKS, NEVER, managed};
use crate::run::{Ran, Run, check};

/// One test per version. Those between the oldest and the newest take long and rarely fail, so only runs with
/// `--include-ignored` include them.
pub(super) fn tests() -> impl Iterator<Item = Trial> {
    let ends = [rows::all().next(), rows::all().last()];
    rows::all().map(move |row| {
        let test = Trial::test(format!("hip_row_{}", row.name()), move || run(row));
        test.with_ignored_flag(!ends.contains(&Some(row)))
    })
}

/// Prefixes of the ids of slow scenarios, which are omitted unless they are expected to fail on the row. They run on
/// the default version, in `hip_native` and `d3d_hip`.
const SLOW: &[&str] = &[
    "leak.",
    "capture.leaks",
    "d3d.10000_cycles",
    "d3d.fence",
    "environment.",
    "graph.cycles",
    "graph.in_order",
    "import.failures_leak_nothing",
    "import.fd_stress",
    "import.win32_10000_cycles",
    "import.win32_kept_semaphores",
    "import.win32_many_imports",
    "import.win32_stress",
    "import.win32_success_closes_once",
    "lifetime.drop_",
    "lifetime.every_drop_order",
    "lifetime.free_while_a_stream_waits",
    "memory.many_imports",
    "memory.round_trip",
    "process.",
    "property.objects",
    "property.semaphores",
    "reverse.cycles",
    "reverse.round_trip",
    "semaphore.1000_frames",
    "semaphore.cross_process_timeline",
    "semaphore.device_to_exporter",
    "semaphore.import_cycles",
    "semaphore.peer_killed",
    "semaphore.timeout",
    "semaphore.wait_before_signal",
    "size.",
    "stream.in_order",
    "stream.many",
    "stream.waits_apart",
    "stream.write_value",
    "threads.",
    "timeline.chain",
    "timeline.create_and_destroy",
    "timeline.dependencies",
    "timeline.dropped",
    "timeline.environment",
    "timeline.exporter_killed",
    "timeline.frames_in_flight",
    "timeline.ping_pong",
    "timeline.reached",
    "timeline.timeout",
    "timeline.two_processes",
    "timeline.wait_before_signal",
];

fn is_slow(id: &str) -> bool {
    SLOW.iter().any(|start| id.starts_with(start))
}

/// Features that some versions lack: the reason, the number of scenarios, and the versions.
pub(super) struct Lack {
    pub(super) reason: &'static str,
    pub(super) scenarios: usize,
    pub(super) of: fn(Row) -> bool,
}

/// Scenarios that are expected to fail on some versions, as in `expectations/hip.toml`.
pub(super) struct Failing {
    pub(super) scenarios: &'static [&'static str],
    pub(super) of: fn(Row) -> bool,
}

fn run(row: Row) -> Result<(), Failed> {
    let failing: Vec<&str> =
        FAILING.iter().filter(|failing| (failing.of)(row)).flat_map(|failing| failing.scenarios).copied().collect();
    let suite = Suite::standard();
    let ids = suite.scenarios().iter().map(|scenario| scenario.id);
    let wanted: Vec<&str> = ids.filter(|id| !is_slow(id) || failing.contains(id)).collect();
    let mut run = Run::hip_with_exporter().filter(&format!("{{{}}}", wanted.join(",")));
    run = run.env("GPU_INTEROP_SIM_VERSION", &row.version.to_string()).env(Below::VARIABLE, row.below.setting());
    if cfg!(unix) && row.minor() < (6, 0) {
        run = run.env("GPU_INTEROP_SIM_ATTRIBUTES", &managed());
    }
    let report = run.run()?;
    let lacks: Vec<&Lack> = LACKS.iter().filter(|lack| (lack.of)(row)).collect();
    let reasons: Vec<&str> = lacks.iter().map(|lack| lack.reason).chain(NEVER.iter().copied()).collect();
    report.only_unsupported(&reasons)?;

    let mut failed: Vec<&str> = of(&report, Outcome::ExpectedFailure).map(|case| &*case.id).collect();
    failed.sort_unstable();
    let mut expected = failing;
    expected.sort_unstable();
    check(failed == expected, format!("failed: {failed:?}, expected: {expected:?}\n{}", report.text()))?;
    let count = |lack: &Lack| {
        let said = |case: &&CaseReport| case.reason.as_deref().is_some_and(|reason| reason.contains(lack.reason));
        of(&report, Outcome::Unsupported).filter(said).count()
    };
    let found: Vec<_> = lacks.iter().map(|lack| (lack.reason, count(lack))).collect();
    let known: Vec<_> = lacks.iter().map(|lack| (lack.reason, lack.scenarios)).collect();
    check(found == known, format!("lacking: {found:#?}, expected: {known:#?}\n{}", report.text()))?;
    // Slow scenarios that are expected to fail run nowhere else.
    let passed = of(&report, Outcome::Passed).count();
    let here = passed + failed.iter().filter(|id| !is_slow(id)).count();
    let lacking: usize = known.iter().map(|(_, count)| count).sum();
    check(here + lacking == ALL, format!("{here} of {ALL} run, and {lacking} are known not to\n{}", report.text()))
}

fn of(report: &Ran, outcome: Outcome) -> impl Iterator<Item = &CaseReport> {
    report.results.iter().filter(move |case| case.outcome == outcome)
}
