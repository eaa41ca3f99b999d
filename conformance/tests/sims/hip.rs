//! The HIP backend on the library that plays AMD's runtime: on Linux without external semaphores, on Windows with them.

use cubecl_hip_sys as hip;
#[cfg(windows)]
use gpu_interop_conformance::{CaseReport, Outcome};
use libtest_mimic::{Failed, Trial};

use crate::cuda::two_devices;
#[cfg(not(windows))]
use crate::cuda::{NO_GL_OF_NATIVE, NO_NATIVE_FORMS, NO_NATIVE_IMAGES, NO_NVSCI, NO_SECOND_DEVICE};
// What the exporter lacks, which is Direct3D 12 there.
#[cfg(windows)]
use crate::d3d::{NO_BINARY as NO_SEMAPHORES, NO_HOST_MEMORY as NO_FORMS};
use crate::run::{Ran, Run, check};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        #[cfg(not(windows))]
        Trial::test("hip_native", native),
        #[cfg(windows)]
        Trial::test("hip_exports_nothing_on_windows", exports_nothing),
        Trial::test("hip_two_devices", || two_devices(Run::hip_with_exporter(), NO_FORMS)),
        Trial::test("hip_timelines_without_words", without_words),
        #[cfg(target_os = "linux")]
        Trial::test("hip_semaphores_that_abort_are_never_called", || aborting(Run::hip())),
        Trial::test("hip_with_the_structs_of_hip_5", || generation_5(Run::hip_with_exporter())),
        Trial::test("hip_5_with_mappings_that_are_freed", late_generation_5),
    ]
}

#[cfg(not(windows))]
pub(crate) const NO_SEMAPHORES: &str = "HIP has external semaphores on Windows only";
#[cfg(not(windows))]
pub(crate) const NO_IMAGES: &str = "HIP maps images on Windows only";
#[cfg(not(windows))]
pub(crate) const NO_RAW_CALLS: &str = "raw calls are those of CUDA's driver";
#[cfg(not(windows))]
const NO_SEMAPHORES_OF_HIP: &str = "this backend has no exportable semaphores of its own";
/// Of memory.
#[cfg(windows)]
pub(crate) const NO_EXPORT: &str =
    "on Windows HIP makes no memory that can be exported: hipMemCreate refuses Win32 handles";
#[cfg(not(windows))]
const NO_FORMS: &str = NO_NATIVE_FORMS;
/// What HIP cannot do, or the exporter.
#[cfg(not(windows))]
pub(crate) const UNSUPPORTED_NATIVE: &[&str] = &[
    NO_SEMAPHORES,
    NO_IMAGES,
    NO_RAW_CALLS,
    NO_SEMAPHORES_OF_HIP,
    NO_NATIVE_FORMS,
    NO_NATIVE_IMAGES,
    NO_SECOND_DEVICE,
    NO_NVSCI,
    NO_GL_OF_NATIVE,
];

/// Whatever takes memory of HIP's own says why there is none. The rest runs.
#[cfg(windows)]
fn exports_nothing() -> Result<(), Failed> {
    let run = Run::hip().arg("--exporter").arg("native").filter("{identity,memory,semaphore,timeline}.*");
    let report = run.run()?;
    report.only_unsupported(&[NO_EXPORT])?;
    let told = |case: &&CaseReport| case.outcome == Outcome::Unsupported;
    let all = report.results.iter().filter(|case| case.exporter.is_some());
    let (told, all) = (all.clone().filter(told).count(), all.count());
    check(told == all && all >= 70, format!("{told} of {all}\n{}", report.text()))?;
    report.passed("identity.", 3)?;
    report.nothing_alive()
}

#[cfg(not(windows))]
fn native() -> Result<(), Failed> {
    let report = Run::hip_with_exporter().whole().run()?;
    report.only_unsupported(UNSUPPORTED_NATIVE)?;
    report.passed("memory.", 4)?;
    report.passed("stream.", 9)?;
    report.passed("property.", 3)?;
    report.passed("environment.", 2)?;
    bridged(&report, 16)?;
    report.nothing_alive()
}

/// Timelines work, on Linux although no function of external semaphores was called.
pub(crate) fn bridged(report: &Ran, least: usize) -> Result<(), Failed> {
    report.passed("timeline.", least)?;
    if cfg!(windows) { Ok(()) } else { report.no_calls_for_semaphores() }
}

/// A driver whose streams cannot wait for words in memory: they signal all the same, by functions of the host.
fn without_words() -> Result<(), Failed> {
    let attribute = format!("{}:0", hip::hipDeviceAttribute_t_hipDeviceAttributeCanUseStreamWaitValue);
    let report = Run::hip_with_exporter().filter("timeline.*").env("SIM_ATTRIBUTES", &attribute).run()?;
    report.only_unsupported(&[NO_SEMAPHORES, "streams that wait for a word"])?;
    bridged(&report, if cfg!(windows) { 16 } else { 2 })?;
    report.nothing_alive()
}

/// A runtime with assertions ends the process that touches a semaphore: nothing crashes if nobody does.
#[cfg(target_os = "linux")]
pub(crate) fn aborting(run: Run) -> Result<(), Failed> {
    let report = run.exporter("native").filter("{semaphore,import,timeline}.*").env("SIM_SEMAPHORES", "abort").run()?;
    report.only_unsupported(&[NO_SEMAPHORES, NO_SEMAPHORES_OF_HIP, NO_NATIVE_FORMS])?;
    let semaphores = report.results.iter().filter(|case| case.id.starts_with("semaphore.")).count();
    check(semaphores >= 20, format!("only {semaphores} scenarios of semaphores"))
}

/// The oldest that is played: it ignores the range that is mapped, and its mappings cannot be freed.
pub(crate) fn generation_5(run: Run) -> Result<(), Failed> {
    mapped_by_hip_5(run, "HIP 5.2")
}

fn late_generation_5() -> Result<(), Failed> {
    mapped_by_hip_5(Run::hip_with_exporter().env("SIM_VERSION", "50731921"), "HIP 5.7")
}

fn mapped_by_hip_5(run: Run, version: &str) -> Result<(), Failed> {
    // On Linux the exporter is virtual memory management, whose attribute is younger than HIP 5.2.
    let managed = format!("{}:1", hip::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported);
    let run = run.env("SIM_HIP_LAYOUT", "5").env("SIM_ATTRIBUTES", &managed);
    let report = run.filter("{memory,lifetime,map}.*").run()?;
    check(report.backend.driver.contains(version), report.backend.driver.clone())?;
    report.only_unsupported(&[NO_FORMS])?;
    report.passed("memory.", 4)?;
    report.passed("map.", 8)?;
    // A mapping that could not be freed would be logged by the scenario that it failed in.
    let logged: Vec<_> = report.results.iter().filter_map(|case| case.log.as_deref()).collect();
    check(logged.iter().all(|log| !log.contains("it is leaked")), logged.join("\n"))?;
    report.nothing_alive()
}
