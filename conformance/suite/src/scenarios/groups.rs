//! The groups that scenarios' ids begin with.

/// Each group and what it is about, in the order in which they are shown.
pub(crate) const GROUPS: &[(&str, &str)] = &[
    ("identity", "Which device is it: the same at every look, and the same one that the exporter runs on."),
    ("capability", "What the device says that it can do, which everything else here relies on."),
    ("environment", "What a process finds that was started with other devices visible, or with none."),
    ("import", "Descriptors and requests that are right, wrong, or of the wrong sort, and who owns them afterwards."),
    ("map", "Parts of imported memory: where they begin and end, and what lies around them."),
    ("memory", "Data from one side to the other, every byte checked."),
    ("reverse", "The other direction: memory of the device that the other API imports."),
    ("size", "Sizes at the edges."),
    ("lifetime", "Whatever order things end in, with and without work on the device."),
    ("leak", "Leak checks: descriptors, mappings and memory before and after many cycles."),
    ("threads", "Many threads at once, and objects that change threads."),
    ("process", "Several processes that share memory, some of which are killed."),
    (
        "stream",
        "What the host enqueues: order, events, words in memory that streams wait for and write, host functions.",
    ),
    ("semaphore", "The driver's own external semaphores: that they order the two sides, and what is refused."),
    ("graph", "Work that is recorded once and launched many times."),
    (
        "capture",
        "Another thread records a graph by the driver's own functions, as PyTorch does, in each of the three modes: nothing \
         of the library minds, nor does the recording.",
    ),
    ("graph_semaphore", "Signals of and waits for semaphores in what is recorded, with other values at each launch."),
    (
        "timeline",
        "One counter that streams and the exporter share: `native` where the driver imports the exporter's timeline, \
         `bridge` where a thread of the host carries its values.",
    ),
    (
        "misbehaviour",
        "Bad input that NVIDIA's driver was measured to accept, to answer wrongly, or to die of. The driver alone is \
         recorded; the library must refuse or survive it.",
    ),
    (
        "nvsci",
        "Buffers and synchronisation objects of NVIDIA's embedded systems: attribute lists, reconciliation, fences. Not run \
         on hardware yet.",
    ),
    (
        "d3d",
        "Direct3D 11 and 12 as the other side: heaps, resources, fences and keyed mutexes by NT handle, KMT handle and name. \
         Windows only; not run on hardware yet.",
    ),
    ("image_format", "Images of every format, every texel in both directions."),
    ("image_shape", "Images of every shape with all their mip levels."),
    ("image_usage", "Images that the exporter uses in every way."),
    ("image_copy", "Copies of parts of images, with the texels around them checked."),
    ("image_linear", "Images whose rows lie where the exporter says, in a mapped buffer."),
    ("image_kernel", "What kernels see of images through surfaces and textures, and what they write."),
    ("image_lifetime", "Whatever order the parts of an image end in."),
    ("image_misuse", "Requests for images that are wrong: refused before the driver sees them."),
    (
        "gl",
        "OpenGL as the third side: Vulkan allocates and exports, the device and OpenGL both import. Only with Vulkan as the \
         exporter, and an OpenGL driver of the same device with `GL_EXT_memory_object_fd` and, where semaphores order the \
         three, `GL_EXT_semaphore_fd`.",
    ),
    (
        "property",
        "Requests that nobody thought of: made from the run's seed, each compared with what must come of it. A failure \
         is made smaller and told with the seed that finds it again.",
    ),
];
