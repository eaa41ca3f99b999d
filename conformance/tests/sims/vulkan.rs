//! Both backends on the simulators, with Vulkan's CPU drivers as exporters.

use libtest_mimic::{Completion, Failed, Trial};

use crate::cuda::{NO_NVSCI, NO_SECOND_DEVICE, NO_SURFACES, NO_TEXTURES};
use crate::hip::lacks::NO_RECORDED_WORDS;
use crate::hip::{NO_IMAGES, NO_RAW_CALLS, NO_SEMAPHORES};
use crate::peer::{self, Peer};
use crate::run::Run;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::ignorable_test("cuda_vulkan", || peer::with_vulkan(cuda)),
        Trial::ignorable_test("cuda_swiftshader", swiftshader),
        Trial::ignorable_test("hip_vulkan", || peer::with_vulkan(hip)),
    ]
}

/// Features that the real driver also lacks, or that only a GPU has.
const NO_SEMAPHORES_OF_VULKAN: &str = "the device does not export this kind of semaphore";
const NO_TIMELINES_OF_VULKAN: &str = "the exporter has no timelines that can be exported";
const NO_TIMELINES_SENT: &str = "timelines of this exporter cannot be sent to another process";
/// Mesa's CPU OpenGL driver ignores offsets, and has no semaphores.
const NO_GL_OFFSETS: &str = "Mesa's llvmpipe ignores the offset";
const NO_GL_SEMAPHORES: &str = "the OpenGL context lacks GL_EXT_semaphore";
/// Limits of lavapipe, whose buffers have less than 4 GiB.
const NO_GREAT_BUFFERS: &str = "vkCreateBuffer: out of memory";
/// Multi-planar formats: lavapipe 22 has none.
const NO_PLANAR_IMAGES: &str = "the first: vkGetPhysicalDeviceImageFormatProperties2";
pub(crate) const UNSUPPORTED_VULKAN: &[&str] = &[
    NO_SEMAPHORES,
    NO_IMAGES,
    NO_RECORDED_WORDS,
    NO_RAW_CALLS,
    NO_SEMAPHORES_OF_VULKAN,
    NO_TIMELINES_OF_VULKAN,
    NO_TIMELINES_SENT,
    NO_SECOND_DEVICE,
    NO_NVSCI,
    NO_GREAT_BUFFERS,
    NO_PLANAR_IMAGES,
    NO_GL_OFFSETS,
    NO_GL_SEMAPHORES,
];

fn cuda(vulkan: &Peer) -> Result<(), Failed> {
    let report = Run::cuda().exporter("vulkan").matching(vulkan).nearly_whole().run()?;
    report.sound(
        &[
            NO_SEMAPHORES_OF_VULKAN,
            NO_TIMELINES_OF_VULKAN,
            NO_TIMELINES_SENT,
            NO_SURFACES,
            NO_TEXTURES,
            NO_SECOND_DEVICE,
            NO_NVSCI,
            NO_GREAT_BUFFERS,
            NO_PLANAR_IMAGES,
            NO_GL_OFFSETS,
            NO_GL_SEMAPHORES,
        ],
        &[
            ("timeline.", 14),
            ("memory.", 5),
            ("reverse.", 5),
            ("image_", 40),
            ("video.", 13),
            ("image_shape.at_offset", 1),
            ("property.", 4),
        ],
    )
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
    let unsupported = [NO_SEMAPHORES_OF_VULKAN, NO_TIMELINES_OF_VULKAN, NO_TIMELINES_SENT, NO_SECOND_DEVICE];
    report.sound(&unsupported, &[("timeline.", 14), ("memory.", 5), ("reverse.", 5), ("semaphore.", 2)])?;
    Ok(Completion::Completed)
}

fn hip(vulkan: &Peer) -> Result<(), Failed> {
    // HIP identifies a device by its PCI address, which a CPU lacks: the two match because both report that they are
    // the CPU.
    let report = Run::hip().exporter("vulkan").matching(vulkan).nearly_whole().run()?;
    report.only_unsupported(UNSUPPORTED_VULKAN)?;
    report.passed("memory.", 5)?;
    report.passed("reverse.", 5)?;
    report.passed("property.", 4)?;
    report.passed("video.", 12)?;
    report.bridged(13)?;
    report.nothing_alive()
}
