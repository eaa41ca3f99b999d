//! Capabilities of a device in addition to the runtime's symbols, mostly functions that HIP declares but does not
//! implement.

use gpu_interop_core::{Feature, MemoryHandleKind, SemaphoreHandleKind, Support};
use gpu_interop_driver::{ApiVersion, DeviceNumber, Driver, both};

use crate::Hip;
use crate::sys::attribute;

const NO_SEMAPHORES: &str = "HIP has external semaphores on Windows only: elsewhere its functions abort the process, or \
                             succeed and do nothing";
/// Reason on Linux. The symbol decides: rocm-systems#8516 maps images there too.
const NO_IMAGES: &str = "this HIP maps no images: on Linux no version up to 7.2 does; share a linear buffer";
/// `hipSignalExternalSemaphoresAsync` and `hipWaitExternalSemaphoresAsync` of CLR ignore stream capture in every
/// version. Replacing the parameters of such a node would overwrite a node of other work, because the node's type is
/// not checked.
const NO_GRAPH_SEMAPHORES: &str = "HIP records no signals and waits of semaphores: it runs them at once, on the stream that \
                                   records; enqueue them before and after the graph";
const NO_EXPORT: &str = "on Windows HIP creates no exportable memory: hipMemCreate rejects Win32 handles; \
                         allocate with Direct3D 12 or Vulkan, export that, and import it";
/// Measured with 5.2.3: the first launch of a graph runs its kernels, every further one succeeds without running any.
/// 5.7.1 runs them each time; versions in between were not measured.
const LAUNCHED_ONCE: &str =
    "HIP before 5.7 runs the kernels of a graph at its first launch only; launch them without a graph";
/// rocm-systems#8911. Measured with 5.2.3, 5.7.1, 6.4.3 and 7.2.4: a write in a capture runs before the capture ends.
const NOT_RECORDED: &str = "HIP before 7.16 does not record waits for words and writes of words: it runs them at once, on \
                            the stream that records; enqueue them before and after the graph";
/// Names are dropped (`hipImportExternalSemaphore` of CLR, every version).
const NO_SEMAPHORE_NAMES: &str = "HIP ignores the names of semaphores; pass a handle";
/// CLR supports names since 2023-12-14.
const NO_MEMORY_NAMES: &str = "HIP before 6.1 ignores the names of memory; pass a handle";
const NO_MEMORY_NAMES_OF_ROCR: &str = "HIP on ROCr (GPU_ENABLE_PAL=0) ignores the names of memory; pass a handle";
/// rocm-systems#6101 (2026-05), released in 7.14.
const NO_KMT_OF_ROCR: &str = "HIP before 7.14 on ROCr (GPU_ENABLE_PAL=0) imports no KMT handles; share an NT handle";
const NO_NV_SCI: &str = "NvSci objects exist on NVIDIA's embedded systems only";

/// Environment variable that the runtime reads on Windows: 0 selects ROCr, the default is PAL (rocm-systems#5119,
/// #8050).
const PAL: &str = "GPU_ENABLE_PAL";

fn is_on_rocr() -> bool {
    cfg!(windows) && std::env::var(PAL).is_ok_and(|value| value.trim() == "0")
}

pub(crate) fn memory(version: ApiVersion, kind: MemoryHandleKind, symbols: Support) -> Support {
    use MemoryHandleKind as Kind;
    match kind {
        Kind::NvSciBuf => Support::no(NO_NV_SCI),
        Kind::OpaqueWin32Kmt | Kind::D3d11ResourceKmt if !version.is_at_least((7, 14)) && is_on_rocr() => {
            Support::no(NO_KMT_OF_ROCR)
        }
        _ => symbols,
    }
}

pub(crate) fn semaphore(kind: SemaphoreHandleKind, symbols: Support) -> Support {
    use SemaphoreHandleKind as Kind;
    if cfg!(not(windows)) {
        return Support::no(NO_SEMAPHORES);
    }
    match kind {
        Kind::OpaqueWin32 | Kind::OpaqueWin32Kmt | Kind::D3d12Fence | Kind::TimelineWin32 => symbols,
        Kind::NvSciSync => Support::no(NO_NV_SCI),
        _ => Support::no("HIP's header declares this semaphore kind, but every runtime rejects it"),
    }
}

/// Reason why no runtime of this operating system has a feature, regardless of its symbols.
fn unsupported_reason(feature: Feature) -> Option<&'static str> {
    match feature {
        Feature::GraphSemaphores => Some(if cfg!(windows) { NO_GRAPH_SEMAPHORES } else { NO_SEMAPHORES }),
        Feature::NamedSemaphores if cfg!(windows) => Some(NO_SEMAPHORE_NAMES),
        Feature::ExportableMemory if cfg!(windows) => Some(NO_EXPORT),
        Feature::NvSciSyncAttributes => Some(NO_NV_SCI),
        _ => None,
    }
}

pub(crate) fn feature(driver: &Driver<Hip>, device: DeviceNumber, feature: Feature, symbols: Support) -> Support {
    if let Some(reason) = unsupported_reason(feature) {
        return Support::no(reason);
    }
    let (own, version) = (&driver.own, driver.version);
    let words = || driver.flag(device, attribute::CAN_USE_STREAM_WAIT_VALUE, "stream waits for values in memory");
    match feature {
        // Surfaces and textures are created from mapped images.
        Feature::MappedMipmappedArray | Feature::Surfaces | Feature::Textures => {
            let support = both(symbols, own.array_destroy.support(version));
            if cfg!(windows) || support.is_supported() { support } else { Support::no(NO_IMAGES) }
        }
        Feature::ExportableMemory => {
            let number = attribute::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
            both(symbols, driver.flag(device, number, "virtual memory management"))
        }
        Feature::StreamMemoryOperations32 => both(both(own.stream_wait_value_32.support(version), symbols), words()),
        Feature::GraphKernels if version.major > 0 && !version.is_at_least((5, 7)) => {
            both(symbols, Support::DriverTooOld(LAUNCHED_ONCE.into()))
        }
        Feature::NamedMemory if is_on_rocr() => both(symbols, Support::no(NO_MEMORY_NAMES_OF_ROCR)),
        Feature::NamedMemory if !version.is_at_least((6, 1)) => {
            both(symbols, Support::DriverTooOld(NO_MEMORY_NAMES.into()))
        }
        Feature::GraphMemoryOperations => {
            let recorded = match version.is_at_least((7, 16)) {
                true => Support::Native,
                false => Support::DriverTooOld(NOT_RECORDED.into()),
            };
            both(recorded, both(own.stream_wait_value_32.support(version), both(symbols, words())))
        }
        Feature::StreamMemoryOperations64 => both(both(own.stream_wait_value_64.support(version), symbols), words()),
        _ => symbols,
    }
}

/// Defects of a version, measured with AMD's runtimes.
pub(crate) fn known_defects(version: ApiVersion) -> Vec<&'static str> {
    const NEVER_RELEASED: &str = "HIP 7.2 never frees the memory of an import that was mapped, although every call \
                                  succeeds (rocm-systems#3528 mends it): import an allocation once, and keep the import";
    const COPIES_BLOCK: &str = "HIP 5.2 blocks the calling thread in the 31st copy from or to pinned memory, or the 32nd \
                                fill with four different bytes, that is enqueued behind a wait, until the wait is met: \
                                signal before, or from another thread";
    const QUEUES_STAY: &str = "HIP 5.7 keeps the memory of streams beyond the third when their device is closed: open a \
                               device once, and keep it";
    /// Applies to words of the application: the host writes the words of bridged timelines there.
    const WRITES_UNSEEN: &str = "on Windows a word that a stream writes does not release another stream that waits for it \
                                 (rocm-systems#11605): let the host write it, or signal a semaphore";
    let of_version = match (version.major, version.minor) {
        (7, 2) => Some(NEVER_RELEASED),
        (5, 7) => Some(QUEUES_STAY),
        (5, 2) => Some(COPIES_BLOCK),
        _ => None,
    };
    of_version.into_iter().chain(cfg!(windows).then_some(WRITES_UNSEEN)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIP: ApiVersion = ApiVersion { api: "HIP", major: 7, minor: 2 };

    #[test]
    fn versions_have_the_measured_defects() {
        const OF_WINDOWS: usize = if cfg!(windows) { 1 } else { 0 };
        let version = |major, minor| ApiVersion { api: "HIP", major, minor };
        for (major, minor, expected) in [(5, 2, "31st copy"), (5, 7, "closed"), (7, 2, "never frees")] {
            let defects = known_defects(version(major, minor));
            assert!(defects.len() == 1 + OF_WINDOWS && defects[0].contains(expected), "{defects:?}");
        }
        for (major, minor) in [(5, 6), (6, 4), (7, 1), (7, 3)] {
            assert_eq!(known_defects(version(major, minor)).len(), OF_WINDOWS);
        }
    }

    #[test]
    #[cfg(not(windows))]
    fn semaphores_are_unsupported_whatever_the_runtime_exports() {
        for kind in SemaphoreHandleKind::ALL {
            let support = semaphore(*kind, Support::Native);
            assert!(support.reason().is_some_and(|reason| reason.contains("Windows only")), "{kind}: {support}");
        }
    }

    #[test]
    fn declared_but_unimplemented_features_are_unsupported() {
        let unsupported: Vec<Feature> =
            Feature::ALL.iter().copied().filter(|feature| unsupported_reason(*feature).is_some()).collect();
        let expected: &[Feature] = if cfg!(windows) {
            &[
                Feature::ExportableMemory,
                Feature::GraphSemaphores,
                Feature::NamedSemaphores,
                Feature::NvSciSyncAttributes,
            ]
        } else {
            &[Feature::GraphSemaphores, Feature::NvSciSyncAttributes]
        };
        assert!(expected.iter().all(|feature| unsupported.contains(feature)), "{unsupported:?}");
        assert_eq!(unsupported.len(), expected.len(), "{unsupported:?}");
    }

    #[test]
    #[cfg(windows)]
    fn the_reason_against_exportable_memory_names_an_alternative() {
        let reason = unsupported_reason(Feature::ExportableMemory).expect("unsupported");
        assert!(reason.contains("hipMemCreate rejects Win32 handles") && reason.contains("Direct3D 12"), "{reason}");
    }

    #[test]
    fn memory_support_follows_the_symbols() {
        let old = Support::DriverTooOld("no function".into());
        for kind in MemoryHandleKind::ALL {
            let supported = memory(HIP, *kind, Support::Native).is_supported();
            assert_eq!(supported, *kind != MemoryHandleKind::NvSciBuf, "{kind}");
            assert_eq!(memory(HIP, *kind, old.clone()) == old, supported, "{kind}");
        }
    }
}
