//! The suite on each version of sim-hip. The list of versions is the simulator's own, so none is omitted.

use cubecl_hip_sys as hip;
use gpu_interop_conformance::Suite;
use gpu_interop_sim_abi::hip::version::{LowerLayer, TestedVersion, tested_versions};
use libtest_mimic::{Failed, Trial};

use crate::run::Run;

/// The section of the run of the default version, with an exporter as in [`Run::hip_with_exporter`].
pub(super) const NATIVE: &str = if cfg!(windows) { "d3d_hip" } else { "hip_native" };

/// On Linux the exporter is virtual memory management, which HIP 5 denies.
pub(super) fn managed() -> String {
    format!("{}:1", hip::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported)
}

/// One test per version. Those between the oldest and the newest take long and rarely fail, so only runs with
/// `--include-ignored` include them.
pub(super) fn tests() -> impl Iterator<Item = Trial> {
    let ends = [tested_versions().next(), tested_versions().last()];
    tested_versions().map(move |row| {
        let test = Trial::test(format!("hip_row_{}", row.name()), move || run(row));
        test.with_ignored_flag(!ends.contains(&Some(row)))
    })
}

/// Slow scenarios that are expected to fail on a version, as in `expectations/hip.toml`, and run there only.
fn fails(row: TestedVersion, id: &str) -> bool {
    const LEAKS: [&str; 7] = [
        "leak.10000_cycles",
        "leak.device_memory",
        "capture.leaks",
        "lifetime.drop_with_work_pending",
        "lifetime.every_drop_order",
        "lifetime.free_while_a_stream_waits",
        "reverse.cycles",
    ];
    row.minor() == (7, 2) && if cfg!(windows) { id == "leak.device_memory" } else { LEAKS.contains(&id) }
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

fn run(row: TestedVersion) -> Result<(), Failed> {
    let section = format!("hip_row_{}", row.name());
    let suite = Suite::standard();
    let wanted = suite.scenarios().iter().map(|scenario| scenario.id).filter(|id| !is_slow(id) || fails(row, id));
    let wanted: Vec<&str> = wanted.collect();
    let mut run = Run::hip_with_exporter().filter(&format!("{{{}}}", wanted.join(",")));
    run = run.env("GPU_INTEROP_SIM_VERSION", &row.version.to_string()).env(LowerLayer::VARIABLE, row.below.setting());
    if cfg!(unix) && row.minor() < (6, 0) {
        run = run.env("GPU_INTEROP_SIM_ATTRIBUTES", &managed());
    }
    run.run()?.as_recorded(&[section.as_str(), NATIVE])
}
