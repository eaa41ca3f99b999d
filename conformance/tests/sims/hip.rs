//! The HIP backend on the simulator of AMD's runtime, in each of its versions: on Linux without external semaphores, on
//! Windows with them. The list of versions is the simulator's own, so none is omitted.

use cubecl_hip_sys as hip;
use gpu_interop_conformance::{Outcome, Suite};
#[cfg(windows)]
use gpu_interop_conformance_cli::CaseReport;
use gpu_interop_sim_abi::hip::version::{LowerLayer, TestedVersion, tested_versions};
use libtest_mimic::{Failed, Trial};

use crate::cuda::two_devices;
use crate::run::{Run, check};

pub(crate) fn tests() -> Vec<Trial> {
    let everywhere = vec![
        Trial::test("hip_two_devices", || {
            two_devices(Run::hip_with_exporter(), &["hip_two_devices", NATIVE], cfg!(unix).into())
        }),
        Trial::test("hip_timelines_without_words", without_words),
        Trial::test("hip_with_the_structs_of_hip_5", || generation_5(Run::hip_with_exporter(), "hip_5")),
        Trial::test("hip_5_with_mappings_that_are_freed", late_generation_5),
    ];
    own_tests().into_iter().chain(everywhere).chain(version_tests()).collect()
}

/// A driver whose streams cannot wait for words in memory: they still signal, by host functions.
fn without_words() -> Result<(), Failed> {
    let attribute = format!("{}:0", hip::hipDeviceAttribute_t_hipDeviceAttributeCanUseStreamWaitValue);
    let report = Run::hip_with_exporter().filter("timeline.*").env("GPU_INTEROP_SIM_ATTRIBUTES", &attribute).run()?;
    report.bridged(if cfg!(windows) { 16 } else { 2 })?;
    report.sound(&["hip_timelines_without_words", NATIVE])
}

/// The oldest simulated version: it ignores the range of a mapping, and its mappings cannot be freed.
pub(crate) fn generation_5(run: Run, section: &str) -> Result<(), Failed> {
    mapped_by_hip_5(run, "HIP 5.2", section)
}

fn late_generation_5() -> Result<(), Failed> {
    mapped_by_hip_5(Run::hip_with_exporter().env("GPU_INTEROP_SIM_VERSION", "50731921"), "HIP 5.7", "hip_5_7")
}

fn mapped_by_hip_5(run: Run, version: &str, section: &str) -> Result<(), Failed> {
    let run = run.env("GPU_INTEROP_SIM_HIP_LAYOUT", "5").env("GPU_INTEROP_SIM_ATTRIBUTES", &managed());
    let report = run.filter("{memory,lifetime,map}.*").run()?;
    check(report.backend.driver.contains(version), report.backend.driver.clone())?;
    // A mapping that could not be freed would be logged by the scenario in which it failed.
    let logged: Vec<_> = report.results.iter().filter_map(|case| case.log.as_deref()).collect();
    check(logged.iter().all(|log| !log.contains("it is leaked")), logged.join("\n"))?;
    report.at_least(&[("memory.", 4), ("map.", 8)])?;
    report.sound(&[section, NATIVE])
}

/// The section of the run of the default version, with an exporter as in [`Run::hip_with_exporter`].
const NATIVE: &str = if cfg!(windows) { "d3d_hip" } else { "hip_native" };

/// On Linux the exporter is virtual memory management, which HIP 5 denies.
fn managed() -> String {
    format!("{}:1", hip::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported)
}

/// One test per version. Those between the oldest and the newest take long and rarely fail, so only runs with
/// `--include-ignored` include them.
fn version_tests() -> impl Iterator<Item = Trial> {
    let ends = [tested_versions().next(), tested_versions().last()];
    tested_versions().map(move |row| {
        let test = Trial::test(format!("hip_row_{}", row.name()), move || run_version(row));
        test.with_ignored_flag(!ends.contains(&Some(row)))
    })
}

/// Slow scenarios that are expected to fail on a version, as in `expectations/hip.toml`, and run there only.
fn fails_on(row: TestedVersion, id: &str) -> bool {
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

fn run_version(row: TestedVersion) -> Result<(), Failed> {
    let section = format!("hip_row_{}", row.name());
    let suite = Suite::standard();
    let wanted = suite.scenarios().iter().map(|scenario| scenario.id).filter(|id| !is_slow(id) || fails_on(row, id));
    let wanted: Vec<&str> = wanted.collect();
    let mut run = Run::hip_with_exporter().filter(&format!("{{{}}}", wanted.join(",")));
    run = run.env("GPU_INTEROP_SIM_VERSION", &row.version.to_string()).env(LowerLayer::VARIABLE, row.below.setting());
    if cfg!(unix) && row.minor() < (6, 0) {
        run = run.env("GPU_INTEROP_SIM_ATTRIBUTES", &managed());
    }
    run.run()?.as_recorded(&[section.as_str(), NATIVE])
}

#[cfg(not(windows))]
fn own_tests() -> Vec<Trial> {
    vec![
        Trial::test("hip_native", native),
        Trial::test("hip_semaphores_that_abort_are_never_called", || aborting(Run::hip(), &[NATIVE])),
        Trial::test("hip_that_leaks_imports_is_found_by_free_memory", leaking),
    ]
}

#[cfg(not(windows))]
fn native() -> Result<(), Failed> {
    let report = Run::hip_with_exporter().whole().run()?;
    report.at_least(&[("memory.", 4), ("stream.", 9), ("property.", 3), ("environment.", 2)])?;
    report.bridged(16)?;
    report.sound(&[NATIVE])
}

/// Free memory shows the leaks of a version that releases no mapped import, and none of other versions.
#[cfg(not(windows))]
fn leaking() -> Result<(), Failed> {
    let run = || Run::hip_with_exporter().filter("leak.device_memory").arg("--no-default-expectations");
    for (version, leaks) in [("60443484", false), ("70253211", true)] {
        let report = run().env("GPU_INTEROP_SIM_VERSION", version).run()?;
        let [case] = report.results.as_slice() else { return Err(format!("{:?}", report.results).into()) };
        let text = case.reason.as_deref().unwrap_or_default();
        let found = case.outcome == Outcome::Failed && text.contains("of the device's memory were not freed");
        check(found == leaks && (leaks || case.outcome == Outcome::Passed), format!("{version}: {case:?}"))?;
    }
    Ok(())
}

/// A runtime with assertions aborts the process at any use of a semaphore: nothing crashes without one.
#[cfg(not(windows))]
pub(crate) fn aborting(run: Run, sections: &[&str]) -> Result<(), Failed> {
    let report = run
        .exporter("native")
        .filter("{semaphore,import,timeline}.*")
        .env("GPU_INTEROP_SIM_SEMAPHORES", "abort")
        .run()?;
    report.as_recorded(sections)?;
    let semaphores = report.results.iter().filter(|case| case.id.starts_with("semaphore.")).count();
    check(semaphores >= 20, format!("only {semaphores} scenarios of semaphores"))
}

#[cfg(windows)]
fn own_tests() -> Vec<Trial> {
    vec![Trial::test("hip_exports_nothing_on_windows", exports_nothing), Trial::test("d3d_hip", with_direct3d)]
}

/// Scenarios that need HIP's own memory report why there is none. The others run.
#[cfg(windows)]
fn exports_nothing() -> Result<(), Failed> {
    let run = Run::hip().arg("--exporter").arg("native").filter("{identity,memory,semaphore,timeline}.*");
    let report = run.run()?;
    let unsupported = |case: &&CaseReport| case.outcome == Outcome::Unsupported;
    let all = report.results.iter().filter(|case| case.exporter.is_some());
    let (unsupported, all) = (all.clone().filter(unsupported).count(), all.count());
    check(unsupported == all && all >= 70, format!("{unsupported} of {all}\n{}", report.text()))?;
    report.at_least(&[("identity.", 3)])?;
    report.sound(&["hip_exports_nothing_on_windows"])
}

/// HIP supports memory and fences of Direct3D 12, and buffers and textures of 11, but no keyed mutexes and no fences of
/// 11. It has no other exporter here.
#[cfg(windows)]
fn with_direct3d() -> Result<(), Failed> {
    let report = Run::hip_d3d().exporter("d3d12").whole().run()?;
    report.at_least(&[
        ("d3d.", 15),
        ("d3d.texture_1", 2),
        ("d3d.buffer_11", 2),
        ("memory.", 11),
        ("map.", 10),
        ("lifetime.", 6),
        ("process.", 3),
        ("stream.", 10),
        ("graph.", 10),
        ("semaphore.", 17),
        ("timeline.", 26),
        ("property.", 3),
        ("environment.", 2),
        ("import.win32_", 24),
    ])?;
    report.sound(&[NATIVE])
}
