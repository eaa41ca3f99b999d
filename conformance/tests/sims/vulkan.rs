//! Both backends on the simulators, with Vulkan's CPU drivers as exporters.

use libtest_mimic::{Completion, Failed, Trial};

use crate::peer::{self, Peer};
use crate::run::Run;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::ignorable_test("cuda_vulkan", || peer::with_vulkan(cuda)),
        Trial::ignorable_test("cuda_swiftshader", swiftshader),
        Trial::ignorable_test("hip_vulkan", || peer::with_vulkan(hip)),
    ]
}

fn cuda(vulkan: &Peer) -> Result<(), Failed> {
    let report = Run::cuda().exporter("vulkan").matching(vulkan).nearly_whole().run()?;
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
    let Some(library) = peer::swiftshader_library() else {
        return Ok(Completion::ignored_with(peer::NO_SWIFTSHADER));
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
