//! Imported and exportable memory.

use std::sync::{Arc, Mutex, MutexGuard};

use gpu_interop::sync::{lock, unpoisoned};
use gpu_interop::{Error, MemoryHandleKind};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::array::PyArray;
use crate::backing::Backing;
use crate::convert::{detached_drop, natural};
use crate::device::{PyDevice, Shared};
use crate::error::{Raise, closed, exception};
use crate::export::PyExport;
use crate::tensor;

/// Memory of a device that another API shares: imported, or allocated for export.
///
/// Tensors keep the memory, not this object: it may be closed or deleted before them.
#[pyclass(frozen, module = "gpu_interop", name = "Memory")]
#[derive(Debug)]
pub(crate) struct PyMemory {
    backing: Mutex<Option<Arc<Backing>>>,
}

impl PyMemory {
    pub(crate) fn new(backing: Backing) -> Self {
        Self { backing: Mutex::new(Some(Arc::new(backing))) }
    }

    /// Memory that others can import.
    pub(crate) fn allocate(py: Python<'_>, device: Arc<Shared>, size: u64) -> PyResult<Self> {
        let memory = py.detach(|| device.device.allocate_exportable(size)).raised()?;
        Ok(Self::new(Backing::allocated(device, memory)))
    }

    pub(crate) fn of(backing: Arc<Backing>) -> Self {
        Self { backing: Mutex::new(Some(backing)) }
    }

    pub(crate) fn backing(&self, operation: &'static str) -> PyResult<Arc<Backing>> {
        // Unlocked before the exception is made, which may let other threads take the GIL.
        let backing = self.lock().clone();
        backing.ok_or_else(|| exception(&closed(operation, "memory")))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Backing>>> {
        lock(&self.backing)
    }
}

#[pymethods]
impl PyMemory {
    /// Size in bytes.
    #[getter]
    fn size(&self) -> PyResult<u64> {
        Ok(self.backing("Memory.size")?.size())
    }

    /// Kind of the imported handle; ``None`` for memory that was allocated here.
    #[getter]
    fn kind(&self) -> PyResult<Option<&'static str>> {
        Ok(self.backing("Memory.kind")?.kind().map(MemoryHandleKind::name))
    }

    /// Address of the first byte in the device's address space. Maps an import at the first use.
    #[getter]
    fn ptr(&self, py: Python<'_>) -> PyResult<u64> {
        let backing = self.backing("Memory.ptr")?;
        py.detach(|| backing.address()).raised()
    }

    /// The device of the memory.
    #[getter]
    fn device(&self) -> PyResult<PyDevice> {
        Ok(PyDevice::of(&self.backing("Memory.device")?.device))
    }

    /// A view of the memory as elements. ``strides`` count elements, as in torch, not bytes, as in numpy: byte strides that
    /// stay inside the memory are another valid view, and give wrong elements. ``offset`` counts bytes. Consumers wait
    /// for the work on ``stream``, a :class:`Stream`; by default the device's default stream.
    ///
    /// ``dtype`` is a name such as ``"float32"`` or ``"<f4"``, or a type of numpy, torch, CuPy or JAX, in the byte order of
    /// this machine. Python's ``float``, ``int``, ``bool`` and ``complex`` are ``"float64"``, ``"int64"``, ``"bool"`` and
    /// ``"complex128"``, as in numpy.
    #[pyo3(signature = (shape, dtype, strides=None, offset=0, *, readonly=false, stream=None))]
    #[allow(clippy::too_many_arguments)] // Keyword arguments.
    fn tensor<'py>(
        this: &Bound<'py, Self>,
        shape: &Bound<'py, PyAny>,
        dtype: &Bound<'py, PyAny>,
        strides: Option<&Bound<'py, PyAny>>,
        #[pyo3(from_py_with = natural::<u64>)] offset: u64,
        readonly: bool,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        tensor::class(this.py())?.call1((this, shape, dtype, strides, offset, readonly, stream))
    }

    /// Maps the image of optimal tiling that the memory contains. ``surface=True`` lets kernels access it as a surface, too.
    ///
    /// The :class:`Export` of an image declares it. The device must map arrays: ``capabilities()["mapped mipmapped array"]``.
    #[pyo3(signature = (*, surface=false))]
    fn array(&self, py: Python<'_>, surface: bool) -> PyResult<PyArray> {
        const OPERATION: &str = "Memory.array";
        let backing = self.backing(OPERATION)?;
        let Some(memory) = backing.imported_memory() else {
            let message = "memory of this device contains no image; import an image of Vulkan";
            return Err(exception(&Error::invalid(OPERATION, message)));
        };
        py.detach(|| PyArray::map(backing.device.clone(), memory, surface)).raised()
    }

    /// Exports the memory, which :meth:`Device.allocate` allocated, as a new handle.
    fn export(&self, py: Python<'_>) -> PyResult<PyExport> {
        const OPERATION: &str = "Memory.export";
        let backing = self.backing(OPERATION)?;
        let Some(memory) = backing.exportable() else {
            let message = "imported memory is not exported again; export it where it was allocated, or allocate it with \
                           Device.allocate";
            return Err(exception(&Error::unsupported(OPERATION, message)));
        };
        py.detach(|| memory.import_request()).map(PyExport::new).raised()
    }

    /// Drops this reference to the memory. It is freed with its last tensor.
    fn close(&self) {
        let backing = self.lock().take();
        detached_drop(backing);
    }

    /// True if ``close`` was called.
    #[getter]
    fn closed(&self) -> bool {
        self.lock().is_none()
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, _arguments: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        let Ok(backing) = self.backing("") else { return "<gpu_interop.Memory closed>".into() };
        let origin = backing.kind().map_or("allocated", MemoryHandleKind::name);
        let device = &backing.device.device;
        format!(
            "<gpu_interop.Memory {} bytes, {origin}, on {} {}>",
            backing.size(),
            device.backend().name,
            device.identity()
        )
    }
}

impl Drop for PyMemory {
    fn drop(&mut self) {
        let backing = unpoisoned(self.backing.get_mut()).take();
        detached_drop(backing);
    }
}
