//! The groups of scenarios: the prefixes of their ids.

/// Each group and its subject, in the order of the catalogue.
pub(crate) const GROUPS: &[(&str, &str)] = &[
    ("identity", "Identity of the device: stable, and equal to the exporter's."),
    ("capability", "Capabilities that the device reports, on which all other scenarios rely."),
    ("environment", "Processes started with other visible devices, or with none."),
    ("import", "Valid and malformed descriptors and requests, and their ownership after the import."),
    ("map", "Mappings of ranges of imported memory, and the bytes around them."),
    ("memory", "Data in both directions, every byte checked."),
    ("reverse", "The reverse direction: the other API imports memory of the device."),
    ("size", "Boundary sizes."),
    ("lifetime", "Objects that end in any order, with and without pending work."),
    (
        "reset",
        "Another library of the process resets the device: no object is given back to a context that is not its own.",
    ),
    ("heap", "Many buffers in few shared allocations of Vulkan, on both sides at once: contents, reuse, growth."),
    ("leak", "Leak checks: descriptors, mappings and memory before and after many cycles."),
    ("threads", "Concurrent use, and objects that change threads."),
    ("process", "Processes that share memory, some of which are killed."),
    ("stream", "Enqueued work: order, events, words in memory that streams wait for and write, host functions."),
    ("semaphore", "External semaphores of the driver: order between the two sides, and malformed calls."),
    ("graph", "Recorded work with many launches."),
    (
        "capture",
        "Stream capture by another thread with the driver's own functions, as in PyTorch, in each of the three modes: the \
         library's calls and the capture do not disturb each other.",
    ),
    ("graph_semaphore", "Recorded signals of and waits for semaphores, with new values for each launch."),
    (
        "timeline",
        "A counter that streams and the exporter share: `native` if the driver imports the exporter's timeline, `bridge` if a \
         host thread carries its values.",
    ),
    (
        "frame_ring",
        "Several frames in flight between Vulkan's queue and a stream: data, order, back pressure, failures, drops.",
    ),
    (
        "misbehaviour",
        "Bad input that NVIDIA's driver was measured to accept, to mishandle, or to crash on. The driver alone is only \
         recorded; the library must reject or survive the same input.",
    ),
    (
        "nvsci",
        "Buffers and synchronisation objects of NVIDIA's embedded systems: attribute lists, reconciliation, fences. Not run \
         on hardware yet.",
    ),
    (
        "d3d",
        "Direct3D 11 and 12 as the exporter: heaps, resources, fences and keyed mutexes by NT handle, KMT handle and name. \
         Windows only; not run on hardware yet.",
    ),
    ("image_format", "Images of every format, every texel in both directions."),
    ("image_shape", "Images of every shape with all mip levels."),
    ("image_usage", "Images with every usage by the exporter."),
    ("image_copy", "Copies of boxes of texels, with the texels around them checked."),
    ("image_linear", "Images mapped as buffers, with the exporter's row layout."),
    ("image_kernel", "Kernels that read and write images through surfaces and textures."),
    ("image_lifetime", "Images whose objects end in any order."),
    ("image_misuse", "Malformed requests for images, rejected before the driver is called."),
    ("video", "Pictures with luma and chroma in separate planes: NV12, P010 and others, every byte of every plane."),
    (
        "gl",
        "OpenGL as a third side: Vulkan allocates and exports, the device and OpenGL both import. Needs Vulkan as the \
         exporter, and an OpenGL driver of the same device with `GL_EXT_memory_object_fd` and, where semaphores order the \
         three, `GL_EXT_semaphore_fd`.",
    ),
    (
        "property",
        "Property tests: random requests from the run's seed, compared with a model. Failures are shrunk and reported with \
         the seed.",
    ),
];
