//! Buffers of Vulkan.

use gpu_interop::Error;
use gpu_interop::vulkan::ash::vk::{BufferUsageFlags, Handle};
use gpu_interop::vulkan::{
    BufferImportOptions, BufferOptions, ExportableBuffer, ImportedBuffer, MemoryPlacement, OwnedBuffer,
};
use pyo3::prelude::*;

use super::Vulkan;
use crate::error::{Raise, exception};
use crate::export::{self, PyExport};

/// A buffer of Vulkan and its memory. The memory can be exported if the buffer was created with ``exportable=True``.
///
/// Vulkan owns a new buffer: release it before another API uses it, and acquire it before Vulkan uses it again.
#[pyclass(frozen, module = "gpu_interop.vulkan", name = "Buffer")]
#[derive(Debug)]
pub(crate) struct PyBuffer {
    pub(crate) buffer: OwnedBuffer,
    exportable: Option<ExportableBuffer>,
}

const USAGE: BufferUsageFlags = BufferUsageFlags::from_raw(
    BufferUsageFlags::TRANSFER_SRC.as_raw()
        | BufferUsageFlags::TRANSFER_DST.as_raw()
        | BufferUsageFlags::STORAGE_BUFFER.as_raw()
        | BufferUsageFlags::UNIFORM_BUFFER.as_raw()
        | BufferUsageFlags::VERTEX_BUFFER.as_raw()
        | BufferUsageFlags::INDEX_BUFFER.as_raw(),
);

impl PyBuffer {
    /// The arguments are those of `Context.buffer`.
    pub(crate) fn create(
        py: Python<'_>,
        vulkan: &Vulkan,
        size: u64,
        exportable: bool,
        host_visible: bool,
        dedicated: bool,
        kind: Option<&str>,
    ) -> PyResult<Self> {
        let placement = if host_visible { MemoryPlacement::HostVisible } else { MemoryPlacement::DeviceLocal };
        if !exportable {
            let buffer = py.detach(|| OwnedBuffer::new(&vulkan.interop, size, USAGE, placement)).raised()?;
            return Ok(Self { buffer, exportable: None });
        }
        let mut options = BufferOptions::new(size, USAGE).memory(placement).dedicated(dedicated);
        if let Some(kind) = kind {
            options = options.handle(export::kind("Context.buffer", kind)?);
        }
        let exportable = py.detach(|| ExportableBuffer::new(&vulkan.interop, &options)).raised()?;
        Ok(Self { buffer: exportable.buffer().clone(), exportable: Some(exportable) })
    }

    /// Creates a buffer on exported memory. If this fails, `export` keeps its handle.
    pub(crate) fn import(py: Python<'_>, vulkan: &Vulkan, export: &PyExport, size: Option<u64>) -> PyResult<Self> {
        let options = BufferImportOptions::new(size.unwrap_or_else(|| export.bytes()), USAGE);
        let request = export.take("Context.import_buffer")?;
        let imported = py.detach(|| ImportedBuffer::new(&vulkan.interop, request, &options)).map_err(|failure| {
            let (error, request) = failure.into_parts();
            export.put(request);
            exception(&error)
        })?;
        Ok(Self { buffer: imported.buffer().clone(), exportable: None })
    }
}

#[pymethods]
impl PyBuffer {
    /// Size in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.buffer.size()
    }

    /// Size of the memory allocation in bytes, at least the buffer's size.
    #[getter]
    fn allocation_size(&self) -> u64 {
        self.buffer.allocation_size()
    }

    /// True if the memory is a dedicated allocation.
    #[getter]
    fn dedicated(&self) -> bool {
        self.buffer.is_dedicated()
    }

    /// The ``VkBuffer`` as an integer.
    #[getter]
    fn handle(&self) -> u64 {
        self.buffer.as_raw().as_raw()
    }

    /// The ``VkDeviceMemory`` as an integer.
    #[getter]
    fn memory(&self) -> u64 {
        self.buffer.memory().as_raw()
    }

    /// Exports the memory as a new handle. The handle may outlive the buffer.
    fn export(&self, py: Python<'_>) -> PyResult<PyExport> {
        let Some(buffer) = &self.exportable else {
            let message = "the buffer was imported, or created with exportable=False; export it where it was allocated";
            return Err(exception(&Error::invalid("Buffer.export", message)));
        };
        py.detach(|| buffer.import_request()).map(PyExport::new).raised()
    }

    fn __repr__(&self) -> String {
        let kind = if self.exportable.is_some() { "exportable" } else { "not exportable" };
        format!("<gpu_interop.vulkan.Buffer {} bytes, {kind}, on {}>", self.size(), self.buffer.interop().identity())
    }
}
