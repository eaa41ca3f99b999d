//! Native part of the Python module `gpu_interop`.
//!
//! # Contracts of unsafe calls
//! Python has no `unsafe`. What cannot be checked is required by the documentation of the method. The test `contracts` of
//! gpu-interop-capi compares the first column with the sources.
//!
//! | call | checked | required by the documentation |
//! |---|---|---|
//! | `Device::check_raw_stream`, `Device::stream_from_raw_with_owner` | `stream::resolve`, at each use: no backend without streams of others, the GPU that the object names, not the per-thread default stream, no capture; the object is kept | `Timeline.wait`: a stream of the device's context; no capture before its work has completed; README: an object that does not own its stream, such as `ExternalStream`, outlives its work |
//! | `Device::stream_from_raw` | `stream::resolve`: the same, without the GPU | `Timeline.wait`: an address lives until its work has completed and `Device.collect` was called |
//! | `BackendDevice::wait_event` | `Flow::hand_over`: the event is live and of the device | `__dlpack__` of DLPack: the consumer's stream is of the device, and live; 2 with CUDA is that of the calling thread |
//! | `MemoryHandle::opaque_from_raw_fd`, `NtHandle::from_raw` | the descriptor is open, the handle is not null; a failed import leaves it with the caller (`export::give_back`) | `Device.import_memory`: the caller's own |
//! | `MemoryImport::new`, `MemoryImport::dedicated`, `MemoryImport::native`, `MemoryImport::trusted_peer`, `MemoryImport::of_image` | the library: kind, size, the exporter's identity with `exporter=` or from its `Export` | `Device.import_memory`, `Export.receive`: a true description |
//! | `VulkanInterop::with_owner` | `Handles::interop`: handles are not null; `from_handles`: the queue family exists; the library: version and extensions | `vulkan.Device.from_handles`: handles belong together; `owner` keeps them |
//! | `ImportedPicture::new` | `_pictures.describe`: numbers; the library: the descriptors are dma-bufs, planes are inside and apart, the device imports the modifier | `Context.import_picture`: a true description, of dma-bufs whose size does not change; a device of the application has `VK_EXT_queue_family_foreign`, or `same_driver` |
//! | `VulkanInterop::export_memory` | a known kind; the library: not null, the device exports it | `vulkan.Device.export_memory`: allocated for export, as described |
//! | `OwnedSemaphore::timeline_from_raw`, `ExportableSemaphore::timeline_from_raw` | the library: not null, the device has timelines | `vulkan.Device.timeline_from_handle`: a live timeline of this device; `owner` keeps it |
//! | `HeadlessContext::on_queue` | `vulkan.Device.context`: not null, a family with transfers | `vulkan.Device.context`: a queue of that family, which the application does not use meanwhile |

mod array;
mod backing;
mod convert;
mod device;
mod dlpack;
mod dtype;
mod error;
mod exchange;
mod export;
mod gl;
mod identity;
mod import;
mod layout;
mod log;
mod memory;
mod selection;
mod stream;
mod tensor;
mod timeline;
mod vulkan;
mod watcher;

use std::path::PathBuf;

use gpu_interop_driver::search_also;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Adds the folder of ROCm's wheels that belong to this interpreter, whose environment need not be activated.
fn search_packages(py: Python<'_>) -> PyResult<()> {
    let sysconfig = py.import("sysconfig")?;
    for folder in ["platlib", "purelib"] {
        // An embedded interpreter may have none.
        if let Some(folder) = sysconfig.call_method1("get_path", (folder,))?.extract::<Option<PathBuf>>()? {
            search_also(folder.join("_rocm_sdk_core/lib"));
        }
    }
    Ok(())
}

/// Native part of gpu_interop.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    if !convert::in_main_interpreter(module.py()) {
        return Err(PyImportError::new_err(
            "gpu_interop has threads and objects of one interpreter, and works in the main interpreter only; import it there, or \
             start another process",
        ));
    }
    search_packages(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    // Measurements of a build without optimisation are refused.
    module.add("_optimised", !cfg!(debug_assertions))?;
    module.add_function(wrap_pyfunction!(selection::devices, module)?)?;
    module.add_function(wrap_pyfunction!(selection::open, module)?)?;
    module.add_function(wrap_pyfunction!(selection::backends, module)?)?;
    module.add_function(wrap_pyfunction!(vulkan::context::vulkan_devices, module)?)?;
    module.add_function(wrap_pyfunction!(log::_set_log, module)?)?;
    module.add_function(wrap_pyfunction!(log::_flush_log, module)?)?;
    let end_notices = wrap_pyfunction!(timeline::_end_notices, module)?;
    module.py().import("atexit")?.call_method1("register", (end_notices,))?;
    module.add_class::<array::PyArray>()?;
    module.add_class::<array::PyArrayRegion>()?;
    module.add_class::<device::PyDevice>()?;
    module.add_class::<selection::PyDeviceInfo>()?;
    module.add_class::<export::PyExport>()?;
    module.add_class::<gl::PyGlBuffer>()?;
    module.add_class::<gl::PyGlContext>()?;
    module.add_class::<gl::PyGlTexture>()?;
    module.add_class::<identity::PyIdentity>()?;
    module.add_class::<memory::PyMemory>()?;
    module.add_class::<stream::PyStream>()?;
    module.add_class::<tensor::PyTensor>()?;
    module.add_class::<timeline::PyTimeline>()?;
    module.add_class::<vulkan::buffer::PyBuffer>()?;
    module.add_class::<vulkan::context::PyContext>()?;
    module.add_class::<vulkan::device::PyVulkanDevice>()?;
    module.add_class::<vulkan::image::PyImage>()?;
    module.add_class::<vulkan::picture::PyPicture>()?;
    module.add_class::<vulkan::recording::PyRecording>()?;
    module.add_class::<vulkan::recording::PySubmission>()?;
    Ok(())
}
