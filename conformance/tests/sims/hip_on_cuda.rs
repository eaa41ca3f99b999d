//! The HIP backend on hip-on-cuda, with `sim-cuda` instead of NVIDIA's driver: every call of the backend uses both
//! interfaces. On a machine with an NVIDIA GPU the same library moves data on the GPU.

use libtest_mimic::{Failed, Trial};

use crate::cuda::two_devices;
use crate::hip::{aborting, generation_5};
use crate::run::{Run, check, nightly, reports_faults};
use crate::vulkan;
use crate::vulkan::Peer;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        nightly("hip_on_cuda_native", native),
        Trial::ignorable_test("hip_on_cuda_vulkan", || vulkan::with_vulkan(|peer| vulkan(peer, Run::part))),
        Trial::ignorable_test("hip_on_cuda_vulkan_whole", || vulkan::with_vulkan(|peer| vulkan(peer, Run::whole)))
            .with_ignored_flag(true),
        Trial::test("hip_on_cuda_two_devices", || {
            two_devices(on_cuda(), &["hip_on_cuda_two_devices", "hip_native"], 1)
        }),
        Trial::test("hip_on_cuda_with_the_structs_of_hip_5", || generation_5(on_cuda(), "hip_on_cuda_5")),
        nightly("hip_on_cuda_semaphores_that_abort_are_never_called", || {
            aborting(Run::hip_on_cuda(), &["hip_on_cuda_native", "hip_native"])
        }),
        Trial::test("hip_on_cuda_faults_of_cuda_are_reported", faults),
    ]
}

/// The suite has verified every word.
const DATA_MOVED: [(&str, usize); 6] =
    [("memory.", 4), ("map.", 3), ("lifetime.", 5), ("threads.", 2), ("process.", 4), ("stream.", 10)];

fn on_cuda() -> Run {
    Run::hip_on_cuda().exporter("native")
}

fn native() -> Result<(), Failed> {
    let report = on_cuda().whole().run()?;
    check(report.backend.driver.contains("HIP 6.4"), report.backend.driver.clone())?;
    check(report.device.name == "simulated GPU (sim-cuda) (HIP on CUDA)", report.device.name.clone())?;
    report.at_least(&DATA_MOVED)?;
    report.bridged(16)?;
    report.sound(&["hip_on_cuda_native", "hip_native"])
}

fn vulkan(vulkan: &Peer, scenarios: fn(Run) -> Run) -> Result<(), Failed> {
    let report = scenarios(Run::hip_on_cuda().exporter("vulkan").matching(vulkan)).run()?;
    report.at_least(&DATA_MOVED)?;
    report.at_least(&[("reverse.", 5)])?;
    report.bridged(13)?;
    report.sound(&["hip_on_cuda_vulkan", "hip_vulkan"])
}

/// CUDA's codes are reported as HIP's, without leaks.
fn faults() -> Result<(), Failed> {
    let faults = [
        // Every failed import reports "out of memory", whether CUDA has closed its descriptor or not.
        ("cuImportExternalMemory:1:999", "hipErrorOutOfMemory (2)"),
        ("cuImportExternalMemory:1:1", "hipErrorOutOfMemory (2)"),
        ("cuImportExternalMemory:1:null", "hipErrorOutOfMemory (2)"),
        ("cuExternalMemoryGetMappedBuffer:1:700", "hipErrorIllegalAddress (700)"),
        ("cuMemcpyDtoHAsync_v2:1:719", "hipErrorLaunchFailure (719)"),
        ("cuStreamCreate:2:2", "hipErrorOutOfMemory (2)"),
        ("cuStreamCreate:2:54321", "hipErrorUnknown (999)"),
        ("cuMemCreate:1:304", "hipErrorOperatingSystem (304)"),
        // Faults of HIP's own functions are injected, too.
        ("hipMemcpyDtoHAsync:1:719", "hipErrorLaunchFailure (719)"),
    ];
    reports_faults(Run::hip_on_cuda, &faults)
}
