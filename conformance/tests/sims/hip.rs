//! The HIP backend on the simulator of AMD's runtime: on Linux without external semaphores, on Windows with them.

#[cfg(not(windows))]
mod linux;
mod rows;
#[cfg(windows)]
mod windows;

use cubecl_hip_sys as hip;
use libtest_mimic::{Failed, Trial};

#[cfg(not(windows))]
pub(crate) use self::linux::*;
use self::rows::{NATIVE, managed};
#[cfg(windows)]
use self::windows::*;
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
    own_tests().into_iter().chain(everywhere).chain(rows::tests()).collect()
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
