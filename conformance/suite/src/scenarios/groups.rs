//! The groups: the prefixes of ids, and the scenarios of each in the order in which they run.

#[cfg(target_os = "linux")]
use super::nvsci;
use super::{
    capture, convert, environment, frame_ring, graph, graph_semaphores, heap, identity, image_copies, image_formats,
    image_kernels, image_lifetime, image_linear, image_misuse, image_shapes, import_request, late_binding, leaks,
    lifetime, lifetime_orders, map, memory, other_context, peers, present, process, property, reset, reverse,
    semaphore_lives, semaphore_misuse, semaphore_order, semaphore_process, size, stream, threads, timeline, video,
};
#[cfg(windows)]
use super::{d3d, import_win32};
#[cfg(unix)]
use super::{gl, gl_order, import_fd, misbehaviour};
use crate::render;
use crate::scenario::{Role, Scenario};

/// The scenarios whose ids have one prefix.
pub(crate) struct Group {
    /// The prefix.
    pub(crate) name: &'static str,
    /// Its subject.
    pub(crate) about: &'static str,
    /// Its scenarios, in the order in which they run.
    tables: &'static [&'static [Scenario]],
}

/// The groups of this system, in the order of the catalogue and of a run.
pub(crate) const GROUPS: &[Group] = &[
    Group {
        name: "identity",
        about: "Identity of the device: stable, and equal to the exporter's.",
        tables: &[identity::SCENARIOS, peers::SCENARIOS],
    },
    Group {
        name: "capability",
        about: "Capabilities that the device reports, on which all other scenarios rely.",
        // In the file `identity`.
        tables: &[],
    },
    Group {
        name: "environment",
        about: "Processes started with other visible devices, or with none.",
        tables: &[environment::SCENARIOS],
    },
    Group {
        name: "import",
        about: "Valid and malformed descriptors and requests, and their ownership after the import.",
        tables: &[
            #[cfg(unix)]
            import_fd::SCENARIOS,
            #[cfg(windows)]
            import_win32::ownership::SCENARIOS,
            #[cfg(windows)]
            import_win32::other_objects::SCENARIOS,
            #[cfg(windows)]
            import_win32::names::SCENARIOS,
            #[cfg(windows)]
            import_win32::stress::SCENARIOS,
            import_request::SCENARIOS,
        ],
    },
    Group {
        name: "map",
        about: "Mappings of ranges of imported memory, and the bytes around them.",
        tables: &[map::SCENARIOS],
    },
    Group { name: "memory", about: "Data in both directions, every byte checked.", tables: &[memory::SCENARIOS] },
    Group {
        name: "reverse",
        about: "The reverse direction: the other API imports memory of the device.",
        tables: &[reverse::SCENARIOS],
    },
    Group { name: "size", about: "Boundary sizes.", tables: &[size::SCENARIOS] },
    Group {
        name: "lifetime",
        about: "Objects that end in any order, with and without pending work.",
        tables: &[lifetime::SCENARIOS, lifetime_orders::SCENARIOS, late_binding::SCENARIOS],
    },
    Group {
        name: "reset",
        about: "Another library of the process resets the device: no object is given back to a context that \
                is not its own.",
        tables: &[reset::SCENARIOS],
    },
    Group {
        name: "heap",
        about: "Many buffers in few shared allocations of Vulkan, on both sides at once: contents, reuse, \
                growth.",
        tables: &[heap::SCENARIOS],
    },
    Group {
        name: "leak",
        about: "Leak checks: descriptors, mappings and memory before and after many cycles.",
        tables: &[leaks::SCENARIOS],
    },
    Group {
        name: "threads",
        about: "Concurrent use, and objects that change threads.",
        tables: &[threads::SCENARIOS, other_context::SCENARIOS],
    },
    Group {
        name: "process",
        about: "Processes that share memory, some of which are killed.",
        tables: &[process::SCENARIOS],
    },
    Group {
        name: "stream",
        about: "Enqueued work: order, events, words in memory that streams wait for and write, host \
                functions.",
        tables: &[stream::SCENARIOS],
    },
    Group {
        name: "semaphore",
        about: "External semaphores of the driver: order between the two sides, and malformed calls.",
        tables: &[
            semaphore_misuse::SCENARIOS,
            semaphore_order::SCENARIOS,
            semaphore_lives::SCENARIOS,
            semaphore_process::SCENARIOS,
        ],
    },
    Group { name: "render", about: render::ABOUT, tables: &[render::ON_IMAGES, render::ON_BUFFERS, render::SCENARIOS] },
    Group { name: "graph", about: "Recorded work with many launches.", tables: &[graph::SCENARIOS] },
    Group {
        name: "capture",
        about: "Stream capture by another thread with the driver's own functions, as in PyTorch, in each of \
                the three modes: the library's calls and the capture do not disturb each other.",
        tables: &[capture::SCENARIOS],
    },
    Group {
        name: "graph_semaphore",
        about: "Recorded signals of and waits for semaphores, with new values for each launch.",
        tables: &[graph_semaphores::SCENARIOS],
    },
    Group {
        name: "timeline",
        about: "A counter that streams and the exporter share: `native` if the driver imports the exporter's \
                timeline, `bridge` if a host thread carries its values.",
        tables: &[
            timeline::order::SCENARIOS,
            timeline::order::REACHED,
            timeline::stress::SCENARIOS,
            timeline::dropped::SCENARIOS,
            timeline::process::SCENARIOS,
            timeline::reset::SCENARIOS,
            timeline::failure::SCENARIOS,
            timeline::misuse::SCENARIOS,
            timeline::misuse::WITHOUT_DEVICE,
            timeline::misuse::OTHERS,
        ],
    },
    Group {
        name: "frame_ring",
        about: "Several frames in flight between Vulkan's queue and a stream: data, order, back pressure, \
                failures, drops.",
        tables: &[frame_ring::flow::SCENARIOS, frame_ring::endings::SCENARIOS],
    },
    Group {
        name: "present",
        about: "Presentations to a headless surface, behind a timeline that a stream signals. Needs a Vulkan driver with \
                `VK_EXT_headless_surface` and `VK_KHR_swapchain`.",
        tables: &[present::SCENARIOS],
    },
    #[cfg(unix)]
    Group {
        name: "misbehaviour",
        about: "Bad input that NVIDIA's driver was measured to accept, to mishandle, or to crash on. The \
                driver alone is only recorded; the library must reject or survive the same input.",
        tables: &[misbehaviour::memory::SCENARIOS, misbehaviour::semaphores::SCENARIOS],
    },
    #[cfg(target_os = "linux")]
    Group {
        name: "nvsci",
        about: "Buffers and synchronisation objects of NVIDIA's embedded systems: attribute lists, \
                reconciliation, fences. Not run on hardware yet.",
        tables: &[nvsci::memory::SCENARIOS, nvsci::sync::SCENARIOS, nvsci::misuse::SCENARIOS],
    },
    #[cfg(windows)]
    Group {
        name: "d3d",
        about: "Direct3D 11 and 12 as the exporter: heaps, resources, fences and keyed mutexes by NT handle, \
                KMT handle and name. Windows only; not run on hardware yet.",
        tables: &[
            d3d::resources12::SCENARIOS,
            d3d::video::SCENARIOS,
            d3d::fence::SCENARIOS,
            d3d::resources11::SCENARIOS,
            d3d::misuse::SCENARIOS,
        ],
    },
    Group {
        name: "image_format",
        about: "Images of every format, every texel in both directions.",
        tables: &[image_formats::SCENARIOS],
    },
    Group {
        name: "image_shape",
        about: "Images of every shape with all mip levels.",
        tables: &[image_shapes::SCENARIOS],
    },
    Group {
        name: "image_usage",
        about: "Images with every usage by the exporter.",
        // In the file `image_shapes`.
        tables: &[],
    },
    Group {
        name: "image_copy",
        about: "Copies of boxes of texels, with the texels around them checked.",
        tables: &[image_copies::SCENARIOS],
    },
    Group {
        name: "image_linear",
        about: "Images mapped as buffers, with the exporter's row layout.",
        tables: &[image_linear::SCENARIOS],
    },
    Group {
        name: "image_kernel",
        about: "Kernels that read and write images through surfaces and textures.",
        tables: &[image_kernels::SCENARIOS],
    },
    Group {
        name: "image_lifetime",
        about: "Images whose objects end in any order.",
        tables: &[image_lifetime::SCENARIOS],
    },
    Group {
        name: "image_misuse",
        about: "Malformed requests for images, rejected before the driver is called.",
        tables: &[image_misuse::SCENARIOS],
    },
    Group {
        name: "video",
        about: "Pictures with luma and chroma in separate planes: NV12, P010 and others, every byte of every \
                plane.",
        tables: &[video::SCENARIOS],
    },
    Group {
        name: "convert",
        about: "Kernels that convert between RGBA and NV12 or P010, compared with the CPU versions byte for byte.",
        tables: &[convert::SCENARIOS],
    },
    #[cfg(unix)]
    Group {
        name: "gl",
        about: "OpenGL as a third side: Vulkan allocates and exports, the device and OpenGL both import. \
                Needs Vulkan as the exporter, and an OpenGL driver of the same device with `GL_EXT_memory_object_fd` \
                and, where semaphores order the three, `GL_EXT_semaphore_fd`.",
        tables: &[gl::SCENARIOS, gl_order::SCENARIOS],
    },
    Group {
        name: "property",
        about: "Property tests: random requests from the run's seed, compared with a model. Failures are \
                shrunk and reported with the seed.",
        tables: &[
            #[cfg(unix)]
            property::import::SCENARIOS,
            property::memory::SCENARIOS,
            property::objects::SCENARIOS,
        ],
    },
];

/// Every scenario of the standard suite, in the order in which they run.
pub(crate) fn standard() -> Vec<Scenario> {
    GROUPS.iter().flat_map(|group| group.tables.concat()).collect()
}

/// The roles of the other processes of the standard suite.
pub(crate) fn roles() -> Vec<(&'static str, Role)> {
    [peers::ROLES, process::ROLES, semaphore_process::ROLES, timeline::process::ROLES, timeline::misuse::ROLES].concat()
}
