//! What public suites and users ask of external resources and no scenario here shows, with the reason.

/// Something that is not covered.
pub(crate) struct NotCovered {
    /// What would have to hold.
    pub(crate) what: &'static str,
    /// Why no scenario shows it, and what stands in for one where something does.
    pub(crate) why: &'static str,
    /// Who asks for it.
    pub(crate) asked_by: &'static str,
}

const DIRECT3D: &str = "It is Windows's, where the suite has a group for it, d3d, and an exporter, d3d12: `conformance list \
                        --markdown` shows them there. No machine here has a GPU on Windows: both sides were simulated. Images of \
                        the exporter d3d12 are not there yet. `import.kinds_of_other_systems` shows that Linux refuses these \
                        handles.";
const BY_TYPE: &str =
    "It cannot be said: the library has no type for it. `misbehaviour.*` records what the driver does.";

pub(crate) const NOT_COVERED: &[NotCovered] = &[
    NotCovered {
        what: "A missing driver library, a missing symbol and each version of a library's name are typed errors that \
               list what was tried.",
        why: "It needs machines with broken drivers. The tests of this repository simulate them: `cargo test -p \
              gpu-interop-conformance-cli --test faults --test negative_controls`.",
        asked_by: "IREE",
    },
    NotCovered {
        what: "A device whose UUID is all zeros is told from others by its other identity.",
        why: "No driver here has one. It is tested without a device (`cargo test -p gpu-interop-core identity`), and \
              with a simulator that reports zeros.",
        asked_by: "users of HIP on Windows",
    },
    NotCovered {
        what: "Calls from a thread on which somebody else's context or device is current.",
        why: "The suite makes no context of its own. `identity.second_device` changes the current device with every \
              call; the tests of this repository begin with another one current (`cargo test -p \
              gpu-interop-conformance-cli --test faults`).",
        asked_by: "users of several GPUs",
    },
    NotCovered {
        what: "Dropping an object that the driver fails to free does not end the process.",
        why: "No driver here fails to. The tests of this repository let each function fail in turn (`--test faults`).",
        asked_by: "users of libraries that stand between a program and the driver",
    },
    NotCovered {
        what: "Unknown flags and handle types in a request.",
        why: BY_TYPE,
        asked_by: "hip-tests: hipImportExternalMemory_Vulkan_Negative_Parameters",
    },
    NotCovered {
        what: "NULL handles, arrays and descriptions, and signal or wait parameters of another number than semaphores.",
        why: BY_TYPE,
        asked_by: "hip-tests: hipSignalExternalSemaphoresAsync_Vulkan_Negative_Parameters",
    },
    NotCovered {
        what: "Signalling on a stream that was destroyed, and destroying an object twice.",
        why: "It cannot be said: dropping an object ends it, and nothing can name it afterwards.",
        asked_by: "hip-tests: hipDestroyExternalMemory_Vulkan_Negative_Parameters",
    },
    NotCovered {
        what: "A dma-buf of another GPU is imported, or refused.",
        why: "It needs two GPUs whose drivers share dma-bufs, and an exporter on the second. `identity.second_device` \
              shows that memory of another device is refused by its identity.",
        asked_by: "cuda-samples: dmabufInterop",
    },
    NotCovered {
        what: "A dma-buf goes from process to process.",
        why: "No driver that the suite was run on takes dma-bufs by that name. AMD's exported memory is dma-bufs under \
              the name of an opaque descriptor: there `process.import_sent_fd` is this.",
        asked_by: "cuda-samples: dmabufInterop",
    },
    NotCovered {
        what: "dma-bufs of udmabuf, of a dma-heap and of vfio are refused with a typed error.",
        why: "It needs access to those device nodes, which machines of a CI rarely give. `import.fd_not_dma_buf` and \
              `misbehaviour.dma_buf` show the refusals that need none.",
        asked_by: "OpenCL-CTS: external_memory_dma_buf",
    },
    NotCovered {
        what: "A dma-buf that AMD's runtime exports for a part of an allocation describes all of it.",
        why: "The library exports whole allocations only.",
        asked_by: "users of uPCIe",
    },
    NotCovered {
        what: "Images whose layout a DRM format modifier describes.",
        why: "Neither CUDA nor HIP takes a modifier. Linear images, which need none, are `image_linear.*`.",
        asked_by: "intel/llvm: vulkan_interop/drm_format_modifiers",
    },
    NotCovered {
        what: "Images of depth and stencil formats.",
        why: "Neither CUDA nor HIP maps them. `image_format.not_arrays` shows the typed error.",
        asked_by: "intel/llvm: vulkan_interop/depth_format",
    },
    NotCovered {
        what: "Semaphores of HIP on Linux.",
        why: "AMD's runtime has them on Windows only; some versions end the process that asks. The scenarios are \
              unsupported there, without a call of the driver, and `timeline.*.bridge` orders the two sides instead.",
        asked_by: "users of HIP",
    },
    NotCovered {
        what: "Arrays and images of HIP on Linux.",
        why: "AMD's runtime exports the function on Windows only. The scenarios are unsupported there; linear images \
              work.",
        asked_by: "hip-tests: hipVulkanImageDataVerification",
    },
    NotCovered {
        what: "Semaphores of the device that another API imports.",
        why: "Neither CUDA nor HIP exports one.",
        asked_by: "OpenCL-CTS: external_semaphores_import_export",
    },
    NotCovered {
        what: "Linux sync files as semaphores.",
        why: "Neither CUDA nor HIP imports one, and the drivers measured export none.",
        asked_by: "OpenCL-CTS: external_semaphores_queries",
    },
    NotCovered {
        what: "The semaphores and values of a recorded graph are read back.",
        why: "The library gives a graph new semaphores and values (`graph_semaphore.*`), and has no call that reads them.",
        asked_by: "hip-tests: hipGraphExternalSemaphoresSignalNodeGetParams",
    },
    NotCovered {
        what: "NvSciBuf and NvSciSync objects go to another process over NvSciIpc.",
        why: "The library has no part in that; what is imported there is used as `nvsci.*` shows. No machine here has \
              NvSci: those scenarios run on a simulator.",
        asked_by: "cuda-samples: cudaNvSci",
    },
    NotCovered {
        what: "Direct3D 11 and 12: heaps, resources, fences, keyed mutexes, and the adapter's LUID.",
        why: DIRECT3D,
        asked_by: "intel/llvm: dx12_interop; cuda-samples: simpleD3D11, simpleD3D12; slang-rhi",
    },
    NotCovered {
        what: "KMT handles and names of Vulkan's objects.",
        why: "On Windows Vulkan exports NT handles to every scenario; the library's exporter gives out neither of these. What they \
              are refused with, the scenarios of NT handles show there.",
        asked_by: "intel/llvm: vulkan_interop/win32_named_timeline_semaphore",
    },
    NotCovered {
        what: "WSL2.",
        why: "NVIDIA has no Vulkan driver there, so that nothing is the exporter but the device itself (`--exporter \
              native`), where its driver exports memory.",
        asked_by: "users of WSL2",
    },
    NotCovered {
        what: "Instances of a GPU that is split in several (MIG).",
        why: "It needs a GPU that is split, and Vulkan does not see the instances. The identity of an instance is its \
              own UUID, which decides before the PCI address that it shares.",
        asked_by: "users of MIG",
    },
    NotCovered {
        what: "A container that lacks the device nodes gets an error that says so.",
        why: "It needs such a container. `environment.no_visible_device` shows the error of a driver without a device, \
              and `conformance doctor` says what is missing.",
        asked_by: "users of containers",
    },
];
