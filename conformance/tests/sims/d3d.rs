//! Direct3D on its simulator, with the simulator of NVIDIA's driver.

use gpu_interop_conformance::{ExporterName, Outcome};
use libtest_mimic::{Failed, Trial};

use crate::run::{GPU_INTEROP_SIM_CUDA, Ran, Run, check, scenarios_of};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("d3d_suite", suite),
        Trial::test("d3d_reports_that_it_is_simulated", says_so),
        Trial::test("d3d_of_the_system_does_not_know_the_device", of_the_system),
        Trial::test("d3d_libraries_without_the_marker_are_rejected", not_direct3d),
        Trial::test("d3d_faults_are_found", faults),
    ]
}

fn suite() -> Result<(), Failed> {
    let report = Run::d3d().exporter("d3d12").whole().run()?;
    report.at_least(&[
        ("d3d.", scenarios_of("d3d")),
        ("memory.", 5),
        ("map.", 5),
        ("process.", 3),
        ("semaphore.", 12),
        ("timeline.", 24),
        ("property.", 3),
        ("import.win32_", 20),
    ])?;
    report.sound(&["d3d_suite"])
}

/// Reports made with the simulator must be marked.
fn says_so() -> Result<(), Failed> {
    let report = Run::d3d().exporter("d3d12").filter("memory.fill").run()?;
    let exporter = report.exporters.iter().find(|exporter| exporter.name == ExporterName::D3d12);
    let detail = exporter.and_then(|exporter| exporter.available.clone());
    let driver = detail.map(|detail| detail.driver).unwrap_or_default();
    check(driver.contains("SIMULATED") && driver.contains("gpu_interop_sim_d3d.dll"), driver)
}

/// Every scenario of the group is skipped: no adapter has the LUID of the simulated device.
fn of_the_system() -> Result<(), Failed> {
    let report = Run::cuda().exporter("native").filter("{d3d.*,memory.fill}").run()?;
    let skipped = report.results.iter().filter(|case| case.id.starts_with("d3d.") && case.outcome == Outcome::Skipped);
    let hint = |reason: &str| reason.contains("is the graphics driver of this device installed?");
    let count = skipped.filter(|case| case.reason.as_deref().is_some_and(hint)).count();
    check(count == scenarios_of("d3d"), format!("{count}: {}", report.text()))
}

/// One scenario, which must fail for this reason.
fn fails(run: Run, scenario: &str, what: &str, reason: &str) -> Result<Ran, Failed> {
    let report = run.filter(scenario).run()?;
    let [case] = report.results.as_slice() else { return Err(format!("{what}: {}", report.text()).into()) };
    let text = case.reason.as_deref().unwrap_or_default();
    check(case.outcome == Outcome::Failed && text.contains(reason), format!("{scenario}, {what}: {case:?}"))?;
    Ok(report)
}

fn not_direct3d() -> Result<(), Failed> {
    let with = |library: &str| Run::cuda().env("GPU_INTEROP_D3D_LIBRARY", library);
    let scenario = "d3d.bad_requests";
    fails(with("gpu_interop_sim_d3d.dll"), scenario, "no folder", "is not an absolute path")?;
    fails(with(r"C:\nowhere\d3d.dll"), scenario, "no file", r"C:\nowhere\d3d.dll")?;
    let system = std::env::var("SystemRoot")?;
    fails(
        with(&format!(r"{system}\system32\kernel32.dll")),
        scenario,
        "another",
        "does not say that it simulates Direct3D",
    )?;
    let driver = gpu_interop_test_support::build(GPU_INTEROP_SIM_CUDA)?;
    fails(with(&driver.display().to_string()), scenario, "a driver", "CreateDXGIFactory2")?;
    Ok(())
}

/// The scenario of each feature detects the simulator's fault.
fn faults() -> Result<(), Failed> {
    for (fault, scenario, reason) in [
        ("short_copy", "d3d.committed_resource", "Direct3D's data"),
        ("wrong_offset", "d3d.heap_of_two_buffers", "Direct3D's data"),
        ("no_signal", "d3d.fence", "timed out waiting"),
        ("no_wait", "d3d.fence_timeline.native", "the queue does not find the stream's data"),
        ("no_wait", "d3d.fence_11", "the stream's data is missing"),
        ("no_flush", "d3d.fence_11", "work is still pending on the stream"),
        ("any_key", "d3d.keyed_mutex_timeout", "was accepted"),
        ("forget_abandoned", "d3d.keyed_mutex_abandoned", "timeout"),
        ("leak_handle", "d3d.10000_cycles", "open descriptors after 10000 cycles"),
        ("leak_handle", "d3d.10000_cycles_11", "open descriptors after 10000 cycles"),
    ] {
        fails(Run::d3d().env("GPU_INTEROP_SIM_D3D", fault), scenario, fault, reason)?;
    }
    Ok(())
}
