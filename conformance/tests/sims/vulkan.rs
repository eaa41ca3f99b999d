//! Both backends on the simulators, with Vulkan's CPU drivers as exporters, and the settings that give a simulator's
//! device their identity.

use std::ffi::OsString;
use std::path::PathBuf;

use gpu_interop_conformance_cli::simulated_identity;
use libtest_mimic::{Completion, Failed, Trial};

use crate::run::Run;
use crate::work;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::ignorable_test("cuda_vulkan", || with_vulkan(cuda)),
        Trial::ignorable_test("cuda_swiftshader", swiftshader),
        Trial::ignorable_test("hip_vulkan", || with_vulkan(hip)),
    ]
}

fn cuda(vulkan: &Peer) -> Result<(), Failed> {
    let report = work::run("cuda_vulkan", || Run::cuda().exporter("vulkan").matching(vulkan), Run::usual_with_vulkan)?;
    report.at_least(&[
        ("timeline.", 14),
        ("memory.", 5),
        ("reverse.", 5),
        ("image_", 40),
        ("video.", 13),
        ("image_shape.at_offset", 1),
        ("property.", 4),
    ])?;
    report.sound(&["cuda_vulkan"])
}

/// Another renderer, which has exportable binary semaphores, and imports memory without a header.
fn swiftshader() -> Result<Completion, Failed> {
    let Some(library) = swiftshader_library() else {
        return Ok(Completion::ignored_with(NO_SWIFTSHADER));
    };
    let folder = tempfile::tempdir()?;
    let run = Run::cuda().exporter("vulkan").swiftshader(&library, folder.path())?;
    // Without images, whose layout the simulator does not know.
    let groups =
        "{identity,import,lifetime,map,memory,misbehaviour,process,reverse,semaphore,stream,threads,timeline}.*";
    let report = run.filter(groups).run()?;
    report.at_least(&[("timeline.", 14), ("memory.", 5), ("reverse.", 5), ("semaphore.", 2)])?;
    report.sound(&["cuda_vulkan"])?;
    Ok(Completion::Completed)
}

fn hip(vulkan: &Peer) -> Result<(), Failed> {
    // HIP identifies a device by its PCI address, which a CPU lacks: the two match because both report that they are
    // the CPU.
    let report = Run::hip().exporter("vulkan").matching(vulkan).nearly_whole().run()?;
    report.at_least(&[("memory.", 5), ("reverse.", 5), ("property.", 4), ("video.", 12)])?;
    report.bridged(13)?;
    report.sound(&["hip_vulkan"])
}

/// Settings that give a simulator's device the exporter's identity.
pub(crate) type Peer = [(&'static str, OsString)];

/// Runs a test with Vulkan's CPU device, which ignores it if there is none.
pub(crate) fn with_vulkan(test: fn(&Peer) -> Result<(), Failed>) -> Result<Completion, Failed> {
    let settings = simulated_identity();
    if settings.is_empty() {
        return Ok(Completion::ignored_with("Vulkan has no device that is a CPU; install mesa-vulkan-drivers"));
    }
    test(&settings).map(|()| Completion::Completed)
}

/// SwiftShader's device, the same in every version.
pub(crate) const SWIFTSHADER_UUID: &str = "53776966745368616465725555494400";

pub(crate) const NO_SWIFTSHADER: &str =
    "no SwiftShader: name its libvk_swiftshader.so with SWIFTSHADER_LIBRARY (Debian has it in chromium-common)";

/// SwiftShader's library.
pub(crate) fn swiftshader_library() -> Option<PathBuf> {
    let named = std::env::var_os("SWIFTSHADER_LIBRARY").map(PathBuf::from);
    let installed = PathBuf::from("/usr/lib/chromium/libvk_swiftshader.so");
    named.or_else(|| installed.is_file().then_some(installed))
}
