//! Native part of the Python module `gpu_interop`.

mod backing;
mod convert;
mod device;
mod dlpack;
mod dtype;
mod error;
mod export;
mod identity;
mod import;
mod layout;
mod memory;
mod names;
mod operand;
mod selection;
mod stream;
mod tensor;
mod timeline;
mod vulkan;
mod wait;
mod watcher;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Native part of gpu_interop.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    if !convert::in_main_interpreter(module.py()) {
        return Err(PyImportError::new_err(
            "gpu_interop has threads and objects of one interpreter, and works in the main interpreter only; import it there, or \
             start another process",
        ));
    }
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(selection::devices, module)?)?;
    module.add_function(wrap_pyfunction!(selection::open, module)?)?;
    module.add_function(wrap_pyfunction!(selection::backends, module)?)?;
    module.add_function(wrap_pyfunction!(vulkan::context::vulkan_devices, module)?)?;
    let end_notices = wrap_pyfunction!(timeline::_end_notices, module)?;
    module.py().import("atexit")?.call_method1("register", (end_notices,))?;
    module.add_class::<device::PyDevice>()?;
    module.add_class::<selection::PyDeviceInfo>()?;
    module.add_class::<export::PyExport>()?;
    module.add_class::<identity::PyIdentity>()?;
    module.add_class::<memory::PyMemory>()?;
    module.add_class::<stream::PyStream>()?;
    module.add_class::<tensor::PyTensor>()?;
    module.add_class::<timeline::PyTimeline>()?;
    module.add_class::<vulkan::buffer::PyBuffer>()?;
    module.add_class::<vulkan::context::PyContext>()?;
    module.add_class::<vulkan::device::PyVulkanDevice>()?;
    module.add_class::<vulkan::image::PyImage>()?;
    module.add_class::<vulkan::recording::PyRecording>()?;
    module.add_class::<vulkan::recording::PySubmission>()?;
    Ok(())
}
