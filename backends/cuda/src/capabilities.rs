//! What a device can do, from its attributes, the driver's symbols and the operating system.

use gpu_interop_core::{Capabilities, Feature, MemoryHandleKind, SemaphoreHandleKind, Support};

use crate::backend::attribute;
use crate::driver::Driver;
use crate::sys::{self, attribute as number};

pub(crate) fn of(driver: &Driver, device: sys::Device) -> Capabilities {
    let functions = &driver.functions;
    let version = driver.version_text();
    let lacks = |symbol: &str| Support::no(format!("the driver ({version}) has no {symbol}"));
    let when = |present: bool, symbol: &str| if present { Support::Native } else { lacks(symbol) };
    let flag = |number, what: &str| match attribute(driver, device, number) {
        Some(value) if value != 0 => Support::Native,
        Some(_) => Support::no(format!("the device says that it has no {what}")),
        None => Support::no(format!("the driver ({version}) does not know of {what}")),
    };
    // Both demands; the first that is not met says why.
    let and = |first: Support, second: Support| if first.is_supported() { second } else { first };
    let integrated = attribute(driver, device, number::INTEGRATED).is_some_and(|value| value != 0);
    let nv_sci =
        if integrated { Support::Native } else { Support::no("NvSci objects exist on NVIDIA's embedded systems only") };

    let memory = when(functions.import_external_memory.is_some(), "cuImportExternalMemory");
    let dma_buf = if integrated && driver.version >= 13_000 {
        flag(number::DMA_BUF_SUPPORTED, "dma-buf support")
    } else {
        Support::no("drivers import dma-bufs on some embedded systems only, since CUDA 13.0")
    };
    let semaphore = when(functions.import_external_semaphore.is_some(), "cuImportExternalSemaphore");
    let timeline = flag(number::TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, "timeline semaphore interop");

    let mut all = Capabilities::none();
    for kind in MemoryHandleKind::ALL {
        let support = match kind {
            MemoryHandleKind::DmaBufFd => and(memory.clone(), dma_buf.clone()),
            MemoryHandleKind::NvSciBuf => and(memory.clone(), nv_sci.clone()),
            _ => memory.clone(),
        };
        all = all.with_memory(*kind, support);
    }
    for kind in SemaphoreHandleKind::ALL {
        let support = match kind {
            SemaphoreHandleKind::TimelineFd | SemaphoreHandleKind::TimelineWin32 => {
                and(semaphore.clone(), timeline.clone())
            }
            SemaphoreHandleKind::NvSciSync => and(semaphore.clone(), nv_sci.clone()),
            _ => semaphore.clone(),
        };
        all = all.with_semaphore(*kind, support);
    }

    let words = |symbols: bool| when(symbols, "cuStreamWaitValue and cuStreamWriteValue of version 2");
    let exportable = and(
        when(functions.mem_create.is_some(), "cuMemCreate"),
        and(
            flag(number::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "virtual memory management"),
            if cfg!(unix) {
                flag(number::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, "export as a file descriptor")
            } else {
                Support::no("this version exports file descriptors only")
            },
        ),
    );
    all.with_feature(
        Feature::MappedBuffer,
        when(functions.get_mapped_buffer.is_some(), "cuExternalMemoryGetMappedBuffer"),
    )
    .with_feature(
        Feature::MappedMipmappedArray,
        when(functions.get_mapped_mipmapped_array.is_some(), "cuExternalMemoryGetMappedMipmappedArray"),
    )
    .with_feature(Feature::Surfaces, when(functions.surface_create.is_some(), "cuSurfObjectCreate"))
    .with_feature(Feature::Textures, when(functions.texture_create.is_some(), "cuTexObjectCreate"))
    .with_feature(Feature::ExportableMemory, exportable)
    .with_feature(
        Feature::StreamMemoryOperations32,
        words(functions.stream_wait_value_32.is_some() && functions.stream_write_value_32.is_some()),
    )
    .with_feature(
        Feature::StreamMemoryOperations64,
        and(
            words(functions.stream_wait_value_64.is_some() && functions.stream_write_value_64.is_some()),
            flag(number::CAN_USE_64_BIT_STREAM_MEM_OPS, "64-bit stream memory operations"),
        ),
    )
    .with_feature(Feature::HostFunctions, when(functions.launch_host_func.is_some(), "cuLaunchHostFunc"))
    .with_feature(Feature::Kernels, when(functions.launch_kernel.is_some(), "cuLaunchKernel"))
}
