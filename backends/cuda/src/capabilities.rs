//! Capabilities of a device that depend on its attributes and the operating system, in addition to the driver's
//! symbols.

use gpu_interop_core::{Feature, MemoryHandleKind, SemaphoreHandleKind, Support};
use gpu_interop_driver::{DeviceNumber, Driver, both};

use crate::Cuda;
use crate::sys::attribute as number;

/// Support for features of embedded systems only; `absent` is the reason on other devices.
fn embedded(driver: &Driver<Cuda>, device: DeviceNumber, absent: &str) -> Support {
    driver.flag_or(device, number::INTEGRATED, "the memory of an embedded system", || absent.into())
}

fn nv_sci(driver: &Driver<Cuda>, device: DeviceNumber) -> Support {
    embedded(driver, device, "NvSci objects exist on NVIDIA's embedded systems only")
}

fn dma_buf(driver: &Driver<Cuda>, device: DeviceNumber) -> Support {
    let embedded = embedded(driver, device, "drivers import dma-bufs on some embedded systems only, since CUDA 13.0");
    if !embedded.is_supported() {
        embedded
    } else if !driver.version.is_at_least((13, 0)) {
        let version = driver.version;
        Support::DriverTooOld(format!("the driver ({version}) imports no dma-bufs; drivers do since CUDA 13.0"))
    } else {
        driver.flag(device, number::DMA_BUF_SUPPORTED, "dma-buf support")
    }
}

// Permanent limits are checked before those that a newer driver lifts.

pub(crate) fn memory(driver: &Driver<Cuda>, device: DeviceNumber, kind: MemoryHandleKind, symbols: Support) -> Support {
    match kind {
        MemoryHandleKind::DmaBufFd => both(dma_buf(driver, device), symbols),
        MemoryHandleKind::NvSciBuf => both(nv_sci(driver, device), symbols),
        _ => symbols,
    }
}

pub(crate) fn semaphore(
    driver: &Driver<Cuda>,
    device: DeviceNumber,
    kind: SemaphoreHandleKind,
    symbols: Support,
) -> Support {
    match kind {
        SemaphoreHandleKind::TimelineFd | SemaphoreHandleKind::TimelineWin32 => {
            let interop = number::TIMELINE_SEMAPHORE_INTEROP_SUPPORTED;
            both(symbols, driver.flag(device, interop, "timeline semaphore interop"))
        }
        SemaphoreHandleKind::NvSciSync => both(nv_sci(driver, device), symbols),
        _ => symbols,
    }
}

pub(crate) fn feature(driver: &Driver<Cuda>, device: DeviceNumber, feature: Feature, symbols: Support) -> Support {
    let flag = |number, what| driver.flag(device, number, what);
    match feature {
        Feature::ExportableMemory => {
            let export = if cfg!(windows) {
                flag(number::HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, "export as a Win32 handle")
            } else {
                flag(number::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, "export as a file descriptor")
            };
            let managed = flag(number::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "virtual memory management");
            both(symbols, both(managed, export))
        }
        Feature::NvSciSyncAttributes => both(
            nv_sci(driver, device),
            both(symbols, driver.own.device_get_nv_sci_sync_attributes.support(driver.version)),
        ),
        Feature::StreamMemoryOperations32 => both(driver.own.stream_wait_value_32.support(driver.version), symbols),
        Feature::StreamMemoryOperations64 => {
            let words = both(driver.own.stream_wait_value_64.support(driver.version), symbols);
            both(words, flag(number::CAN_USE_64_BIT_STREAM_MEM_OPS, "64-bit stream memory operations"))
        }
        _ => symbols,
    }
}
