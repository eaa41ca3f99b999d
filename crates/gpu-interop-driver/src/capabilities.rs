//! Capabilities of a device, from its attributes, the driver's symbols and the operating system.

use gpu_interop_core::{Capabilities, Feature, MemoryHandleKind, SemaphoreHandleKind, Support};

use crate::driver::Driver;
use crate::driver::Vendor;
use crate::functions::DeviceNumber;

/// Combines two requirements. The first one that is not met supplies the reason.
#[must_use]
pub fn both(first: Support, second: Support) -> Support {
    if first.is_supported() { second } else { first }
}

/// Restricts support for object names to Windows.
fn on_windows(symbols: Support) -> Support {
    if cfg!(windows) { symbols } else { Support::no("only Windows names objects") }
}

pub(crate) fn of<V: Vendor>(driver: &Driver<V>, device: DeviceNumber) -> Capabilities {
    let functions = &driver.functions;
    // Each list includes the functions that destroy the objects.
    macro_rules! has {
        ($($function:ident),+) => {{
            let all = Support::Native;
            $( let all = both(all, functions.$function.function.support(driver.version)); )+
            all
        }};
    }
    let memory = has!(import_external_memory, destroy_external_memory);
    let semaphore = has!(
        import_external_semaphore,
        signal_external_semaphores,
        wait_external_semaphores,
        destroy_external_semaphore
    );
    let mut all = Capabilities::none();
    for kind in MemoryHandleKind::ALL {
        all = all.with_memory(*kind, V::memory(driver, device, *kind, memory.clone()));
    }
    for kind in SemaphoreHandleKind::ALL {
        all = all.with_semaphore(*kind, V::semaphore(driver, device, *kind, semaphore.clone()));
    }
    for feature in Feature::ALL {
        let symbols = match feature {
            Feature::MappedBuffer => has!(get_mapped_buffer),
            Feature::MappedMipmappedArray => {
                has!(get_mapped_mipmapped_array, mipmapped_array_get_level, mipmapped_array_destroy)
            }
            // Surfaces and textures are created from mapped images.
            Feature::Surfaces => has!(get_mapped_mipmapped_array, surface_create, surface_destroy),
            Feature::Textures => has!(get_mapped_mipmapped_array, texture_create, texture_destroy),
            Feature::ExportableMemory => has!(
                mem_create,
                mem_get_allocation_granularity,
                mem_address_reserve,
                mem_map,
                mem_set_access,
                mem_export_to_shareable_handle,
                mem_unmap,
                mem_address_free,
                mem_release
            ),
            Feature::StreamMemoryOperations32 => has!(stream_write_value_32),
            Feature::StreamMemoryOperations64 => has!(stream_write_value_64),
            Feature::SignalMemory => has!(mem_host_register, mem_host_get_device_pointer, mem_host_unregister),
            Feature::HostFunctions => has!(launch_host_func),
            Feature::Kernels => has!(launch_kernel, module_load_data, module_get_function, module_unload),
            Feature::Graphs => has!(
                stream_begin_capture,
                stream_end_capture,
                graph_instantiate,
                graph_launch,
                graph_exec_destroy,
                graph_destroy
            ),
            Feature::GraphSemaphores => both(
                both(semaphore.clone(), has!(stream_begin_capture, graph_instantiate, stream_get_capture_info)),
                has!(graph_exec_set_signals, graph_exec_set_waits),
            ),
            Feature::GraphKernels => has!(launch_kernel, module_load_data, stream_begin_capture, graph_instantiate),
            Feature::GraphMemoryOperations => {
                both(has!(stream_write_value_32), has!(stream_begin_capture, graph_instantiate))
            }
            Feature::NamedMemory => on_windows(memory.clone()),
            Feature::NamedSemaphores => on_windows(semaphore.clone()),
            // The function belongs to one vendor: `V::feature` checks it.
            Feature::NvSciSyncAttributes => Support::Native,
            // Features of a later version of the core are unsupported.
            _ => continue,
        };
        all = all.with_feature(*feature, V::feature(driver, device, *feature, symbols));
    }
    V::known_defects(driver).into_iter().fold(all, Capabilities::with_known_defect)
}
