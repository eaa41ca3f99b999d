//! Direct3D on its simulator, with the simulator of NVIDIA's driver.

use gpu_interop_conformance::{ExporterName, Outcome};
use libtest_mimic::{Failed, Trial};

use crate::cuda::{self, EVERY_KIND, NO_GL_OF_NATIVE, NO_NATIVE_IMAGES as NO_IMAGES, NO_NVSCI, NO_SECOND_DEVICE};
use crate::hip::{NO_EXPORT, NO_RECORDED_WORDS};
use crate::run::{GPU_INTEROP_SIM_CUDA, Ran, Run, check};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("d3d_suite", suite),
        Trial::test("d3d_hip", hip),
        Trial::test("d3d_says_that_it_is_played", says_so),
        Trial::test("d3d_of_the_system_does_not_know_the_device", of_the_system),
        Trial::test("d3d_libraries_that_play_nothing_are_refused", not_direct3d),
        Trial::test("d3d_faults_are_found", faults),
    ]
}

/// Number of scenarios in `conformance list`.
const SCENARIOS: usize = 22;

/// Features that Direct3D 12 lacks.
pub(crate) const NO_BINARY: &str = "Direct3D 12 has no binary semaphores, only fences";
pub(crate) const NO_HOST_MEMORY: &str = "Direct3D 12 shares no memory that the host can map";
const NO_IMPORT: &str = "Direct3D 12 imports nothing that compute drivers export";
/// Features of Direct3D 11 that HIP lacks.
const NO_SEMAPHORES_OF_11: &str = "HIP's header declares this semaphore kind, but every runtime rejects it";
const NO_NAMES: &str = "imports of semaphores by name: HIP ignores the names of semaphores; pass a handle";
/// HIP functions on Windows that the simulator lacks.
const NO_HIP_SURFACES: &str = "has no hipCreateSurfaceObject";
const NO_HIP_TEXTURES: &str = "has no hipTexObjectCreate";
const NO_GRAPH_SEMAPHORES: &str = "HIP records no signals and waits of semaphores";
/// Unsupported features with the simulators of AMD's runtime and of Direct3D, in every version.
pub(crate) const NOT_OF_HIP: &[&str] = &[
    NO_SEMAPHORES_OF_11,
    NO_NAMES,
    NO_GRAPH_SEMAPHORES,
    NO_BINARY,
    NO_HOST_MEMORY,
    NO_EXPORT,
    NO_IMAGES,
    NO_SECOND_DEVICE,
    NO_HIP_SURFACES,
    NO_HIP_TEXTURES,
];

fn suite() -> Result<(), Failed> {
    let report = Run::d3d().exporter("d3d12").whole().run()?;
    report.sound(
        &[
            NO_BINARY,
            NO_HOST_MEMORY,
            NO_IMPORT,
            NO_IMAGES,
            EVERY_KIND,
            NO_GL_OF_NATIVE,
            NO_NVSCI,
            NO_SECOND_DEVICE,
            cuda::NO_SURFACES,
            cuda::NO_TEXTURES,
        ],
        &[
            ("d3d.", SCENARIOS),
            ("memory.", 5),
            ("map.", 5),
            ("process.", 3),
            ("semaphore.", 12),
            ("timeline.", 24),
            ("property.", 3),
            ("import.win32_", 20),
        ],
    )
}

/// HIP supports memory and fences of Direct3D 12, and buffers and textures of 11, but no keyed mutexes and no fences of
/// 11. It has no other exporter here.
fn hip() -> Result<(), Failed> {
    let report = Run::hip_d3d().exporter("d3d12").whole().run()?;
    report.sound(
        &[NOT_OF_HIP, &[NO_RECORDED_WORDS]].concat(),
        &[
            ("d3d.", 13),
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
        ],
    )
}

/// Reports made with the simulator must be marked.
fn says_so() -> Result<(), Failed> {
    let report = Run::d3d().exporter("d3d12").filter("memory.fill").run()?;
    let exporter = report.exporters.iter().find(|exporter| exporter.name == ExporterName::D3d12);
    let detail = exporter.and_then(|exporter| exporter.available.clone());
    let told = detail.map(|detail| detail.driver).unwrap_or_default();
    check(told.contains("SIMULATED") && told.contains("gpu_interop_sim_d3d.dll"), told)
}

/// Every scenario of the group is skipped: no adapter has the LUID of the simulated device.
fn of_the_system() -> Result<(), Failed> {
    let report = Run::cuda().exporter("native").filter("{d3d.*,memory.fill}").run()?;
    let skipped = report.results.iter().filter(|case| case.id.starts_with("d3d.") && case.outcome == Outcome::Skipped);
    let hint = |reason: &str| reason.contains("is the graphics driver of this device installed?");
    let told = skipped.filter(|case| case.reason.as_deref().is_some_and(hint)).count();
    check(told == SCENARIOS, format!("{told}: {}", report.text()))
}

/// One scenario, which must fail for this reason.
fn fails(run: Run, scenario: &str, what: &str, reason: &str) -> Result<Ran, Failed> {
    let report = run.filter(scenario).run()?;
    let [case] = report.results.as_slice() else { return Err(format!("{what}: {}", report.text()).into()) };
    let told = case.reason.as_deref().unwrap_or_default();
    check(case.outcome == Outcome::Failed && told.contains(reason), format!("{scenario}, {what}: {case:?}"))?;
    Ok(report)
}

fn not_direct3d() -> Result<(), Failed> {
    let with = |library: &str| Run::cuda().env("GPU_INTEROP_D3D_LIBRARY", library);
    let scenario = "d3d.bad_requests";
    fails(with("gpu_interop_sim_d3d.dll"), scenario, "no folder", "is no full path")?;
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
        ("short_copy", "d3d.committed_resource", "what Direct3D wrote"),
        ("wrong_offset", "d3d.heap_of_two_buffers", "what Direct3D wrote"),
        ("no_signal", "d3d.fence", "waited in vain"),
        ("no_wait", "d3d.fence_timeline.native", "the queue does not find the stream's data"),
        ("no_wait", "d3d.fence_11", "the stream's data are not there"),
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
