//! What a device can do, from its attributes, the driver's symbols and the operating system.

use gpu_interop_core::{Capabilities, Feature, MemoryHandleKind, SemaphoreHandleKind, Support};

use crate::backend::attribute;
use crate::driver::Driver;
use crate::sys::{self, attribute as number};

pub(crate) fn of(driver: &Driver, device: sys::Device) -> Capabilities {
    let functions = &driver.functions;
    let version = driver.version;
    let flag = |number, what: &str| match attribute(driver, device, number) {
        Some(value) if value != 0 => Support::Native,
        Some(_) => Support::no(format!("the device says that it has no {what}")),
        // Attributes only ever come, with newer drivers.
        None => Support::DriverTooOld(format!("the driver ({version}) does not know of {what}; install a newer one")),
    };
    // Both demands; the first that is not met says why. What no driver changes comes before what a newer one has.
    let and = |first: Support, second: Support| if first.is_supported() { second } else { first };
    let integrated = attribute(driver, device, number::INTEGRATED).is_some_and(|value| value != 0);
    let nv_sci =
        if integrated { Support::Native } else { Support::no("NvSci objects exist on NVIDIA's embedded systems only") };

    let memory = functions.import_external_memory.support(version);
    let dma_buf = if !integrated {
        Support::no("drivers import dma-bufs on some embedded systems only, since CUDA 13.0")
    } else if !version.is_at_least((13, 0)) {
        Support::DriverTooOld(format!("drivers import dma-bufs since CUDA 13.0, and this one is {version}"))
    } else {
        flag(number::DMA_BUF_SUPPORTED, "dma-buf support")
    };
    let semaphore = functions.import_external_semaphore.support(version);
    let timeline = flag(number::TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, "timeline semaphore interop");

    let mut all = Capabilities::none();
    for kind in MemoryHandleKind::ALL {
        let support = match kind {
            MemoryHandleKind::DmaBufFd => and(dma_buf.clone(), memory.clone()),
            MemoryHandleKind::NvSciBuf => and(nv_sci.clone(), memory.clone()),
            _ => memory.clone(),
        };
        all = all.with_memory(*kind, support);
    }
    for kind in SemaphoreHandleKind::ALL {
        let support = match kind {
            SemaphoreHandleKind::TimelineFd | SemaphoreHandleKind::TimelineWin32 => {
                and(semaphore.clone(), timeline.clone())
            }
            SemaphoreHandleKind::NvSciSync => and(nv_sci.clone(), semaphore.clone()),
            _ => semaphore.clone(),
        };
        all = all.with_semaphore(*kind, support);
    }

    let exportable = and(
        functions.mem_create.support(version),
        and(
            flag(number::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, "virtual memory management"),
            if cfg!(unix) {
                flag(number::HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, "export as a file descriptor")
            } else {
                Support::no("this version exports file descriptors only")
            },
        ),
    );
    let words_32 =
        and(functions.stream_wait_value_32.support(version), functions.stream_write_value_32.support(version));
    let words_64 =
        and(functions.stream_wait_value_64.support(version), functions.stream_write_value_64.support(version));
    all.with_feature(Feature::MappedBuffer, functions.get_mapped_buffer.support(version))
        .with_feature(Feature::MappedMipmappedArray, functions.get_mapped_mipmapped_array.support(version))
        .with_feature(Feature::Surfaces, functions.surface_create.support(version))
        .with_feature(Feature::Textures, functions.texture_create.support(version))
        .with_feature(Feature::ExportableMemory, exportable)
        .with_feature(Feature::StreamMemoryOperations32, words_32)
        .with_feature(
            Feature::StreamMemoryOperations64,
            and(words_64, flag(number::CAN_USE_64_BIT_STREAM_MEM_OPS, "64-bit stream memory operations")),
        )
        .with_feature(Feature::HostFunctions, functions.launch_host_func.support(version))
        .with_feature(Feature::Kernels, functions.launch_kernel.support(version))
}
