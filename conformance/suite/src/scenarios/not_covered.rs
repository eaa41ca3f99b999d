//! Requirements of public suites and users that no scenario covers, with the reasons.

/// A requirement without a scenario.
pub(crate) struct NotCovered {
    /// The requirement.
    pub(crate) what: &'static str,
    /// The reason, and the nearest check if there is one.
    pub(crate) why: &'static str,
    /// Its source.
    pub(crate) asked_by: &'static str,
}

const DIRECT3D: &str = "It is part of Windows, where the suite has the group d3d and the exporter d3d12: `conformance list \
                        --markdown` lists them there. No available machine has a GPU on Windows: both sides were simulated. \
                        The exporter d3d12 has no images yet. `import.kinds_of_other_systems` checks that Linux rejects \
                        these handles.";
const BY_TYPE: &str = "The library has no type for it. `misbehaviour.*` records the driver's behaviour.";

/// Requirements: `SOURCE: WHAT, WHY;`.
macro_rules! not_covered {
    ($($asked_by:literal: $what:expr, $why:expr;)*) => {
        &[$(NotCovered { what: $what, why: $why, asked_by: $asked_by }),*]
    };
}

/// Every such requirement, in the order of the catalogue.
pub(crate) const NOT_COVERED: &[NotCovered] = not_covered! {
    "IREE":
        "A missing driver library, a missing symbol and each version of a library's name are typed errors that list \
         what was tried.",
        "It needs machines with broken drivers. The repository's tests simulate them: `cargo test -p \
         gpu-interop-conformance-cli --test faults --test negative_controls`.";
    "users of HIP on Windows":
        "A device with a UUID of zeros is distinguished by its other identifiers.",
        "No available driver reports one. It is tested without a device (`cargo test -p gpu-interop-core identity`), \
         and with a simulator that reports zeros.";
    "users of libraries between a program and the driver":
        "Dropping an object that the driver fails to free does not end the process.",
        "No available driver fails so. The repository's tests inject a failure into each function in turn (`--test \
         faults`).";
    "hip-tests: hipImportExternalMemory_Vulkan_Negative_Parameters":
        "Unknown flags and handle types in a request.",
        BY_TYPE;
    "hip-tests: hipSignalExternalSemaphoresAsync_Vulkan_Negative_Parameters":
        "NULL handles, arrays and descriptions, and unequal numbers of semaphores and parameters.",
        BY_TYPE;
    "hip-tests: hipDestroyExternalMemory_Vulkan_Negative_Parameters":
        "Signalling on a destroyed stream, and destroying an object twice.",
        "The type system prevents it: dropping an object consumes it.";
    "cuda-samples: dmabufInterop":
        "A dma-buf of another GPU is imported or rejected.",
        "It needs two GPUs whose drivers share dma-bufs, and an exporter on the second. `identity.second_device` \
         checks that memory of another device is rejected by its identity.";
    "cuda-samples: dmabufInterop":
        "A dma-buf goes from process to process.",
        "No measured driver imports dma-bufs under that handle kind. AMD exports dma-bufs as opaque descriptors, for \
         which `process.import_sent_fd` is the check.";
    "OpenCL-CTS: external_memory_dma_buf":
        "dma-bufs of udmabuf, of a dma-heap and of vfio are rejected with a typed error.",
        "It needs access to those device nodes, which CI machines rarely grant. `import.fd_not_dma_buf` and \
         `misbehaviour.dma_buf` check the rejections that need none.";
    "users of uPCIe":
        "A dma-buf that AMD's runtime exports for a range of an allocation describes the whole allocation.",
        "The library exports whole allocations only.";
    "intel/llvm: vulkan_interop/drm_format_modifiers":
        "Images whose layout a DRM format modifier describes.",
        "Neither CUDA nor HIP accepts a modifier. `image_linear.*` covers linear images, which need none.";
    "intel/llvm: vulkan_interop/depth_format":
        "Images of depth and stencil formats.",
        "Neither CUDA nor HIP maps them. `image_format.not_arrays` checks the typed error.";
    "users of HIP":
        "Semaphores of HIP on Linux.",
        "AMD's runtime has them on Windows only; some versions end the process on a query. The scenarios are \
         unsupported there, without a driver call, and `timeline.*.bridge` orders the two sides instead.";
    "hip-tests: hipVulkanImageDataVerification":
        "Arrays and images of HIP on Linux.",
        "AMD's runtime exports the function on Windows only. The scenarios are unsupported there; linear images work.";
    "hip-tests: hipVulkanImageDataVerification_Positive_Linear_RoundTrip":
        "Linear images mapped as arrays.",
        "A mapped array has the layout of optimal tiling, and its description no row pitch. `image_linear.*` maps linear images \
         as buffers, and copies them to and from arrays.";
    "OpenCL-CTS: external_semaphores_import_export":
        "Semaphores of the device that another API imports.",
        "Neither CUDA nor HIP exports one.";
    "OpenCL-CTS: external_semaphores_queries":
        "Linux sync files as semaphores.",
        "Neither CUDA nor HIP imports one, and the measured drivers export none.";
    "hip-tests: hipGraphExternalSemaphoresSignalNodeGetParams":
        "The semaphores and values of a recorded graph are read back.",
        "The library sets a graph's semaphores and values (`graph_semaphore.*`), and has no call that reads them.";
    "cuda-samples: cudaNvSci":
        "NvSciBuf and NvSciSync objects go to another process over NvSciIpc.",
        "The library does not use NvSciIpc; `nvsci.*` covers objects imported in a process. No available machine has \
         NvSci: those scenarios run on a simulator.";
    "intel/llvm: dx12_interop; cuda-samples: simpleD3D11, simpleD3D12; slang-rhi":
        "Direct3D 11 and 12: heaps, resources, fences, keyed mutexes, and the adapter's LUID.",
        DIRECT3D;
    "intel/llvm: vulkan_interop/win32_named_timeline_semaphore":
        "KMT handles and names of Vulkan's objects.",
        "On Windows every scenario uses NT handles of Vulkan; the library's exporter creates neither of these. The \
         scenarios of NT handles check the rejections there.";
    "users of WSL2":
        "WSL2.",
        "NVIDIA has no Vulkan driver there. The device itself is the exporter (`--exporter native`) if its driver \
         exports memory.";
    "users of MIG":
        "Instances of a partitioned GPU (MIG).",
        "It needs a partitioned GPU, and Vulkan does not list the instances. An instance is identified by its own \
         UUID, before the PCI address that it shares.";
    "users of containers":
        "A container without the device nodes gets an error that names them.",
        "It needs such a container. `environment.no_visible_device` checks the error of a driver without a device, and \
         `conformance doctor` reports what is missing.";
};
