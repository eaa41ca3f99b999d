//! Devices of compute backends.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use gpu_interop::sync::lock;
use gpu_interop::{BackendName, Device, Error, Feature, LoadAttempt, MemoryHandleKind, Result, Support};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::backing::Backing;
use crate::convert::{detached_drop, natural, natural_or_none, type_name};
use crate::dlpack::DlDevice;
use crate::error;
use crate::error::{Raise, closed, exception};
use crate::exchange;
use crate::export::{self, PyExport};
use crate::identity::PyIdentity;
use crate::import::{self, Described};
use crate::memory::PyMemory;
use crate::stream::{Flow, Lent, PyStream};
use crate::timeline::PyTimeline;

/// An open device, shared by everything made from it.
#[derive(Debug)]
pub(crate) struct Shared {
    // Field order is drop order: streams before their device.
    pub(crate) lent: Mutex<Vec<Lent>>,
    default_stream: OnceLock<Arc<Flow>>,
    pub(crate) device: Device,
    pub(crate) dl: DlDevice,
    /// Backends that were tried first.
    passed_over: Vec<LoadAttempt>,
}

impl Shared {
    fn new(device: Device, passed_over: Vec<LoadAttempt>) -> Self {
        let number = device.ordinal().and_then(|ordinal| i32::try_from(ordinal).ok()).unwrap_or_default();
        let dl = match BackendName::of(&device) {
            Some(BackendName::Cuda) => DlDevice::cuda(number),
            Some(BackendName::Hip) => DlDevice::rocm(number),
            _ => DlDevice::CPU,
        };
        Self { lent: Mutex::default(), default_stream: OnceLock::new(), device, dl, passed_over }
    }

    /// True if the device computes on the CPU, so that the host may access its memory.
    pub(crate) fn is_host(&self) -> bool {
        self.dl == DlDevice::CPU
    }

    /// The stream of operations that name none, created at the first call.
    pub(crate) fn default_stream(&self) -> Result<&Arc<Flow>> {
        if let Some(stream) = self.default_stream.get() {
            return Ok(stream);
        }
        let stream = Arc::new(Flow::new(self.device.create_stream()?));
        Ok(self.default_stream.get_or_init(|| stream))
    }

    /// The same, if it was created.
    pub(crate) fn existing_default_stream(&self) -> Option<&Arc<Flow>> {
        self.default_stream.get()
    }
}

/// A device of a compute backend: an NVIDIA or AMD GPU, or the CPU. Open one with :func:`gpu_interop.open`.
#[pyclass(frozen, module = "gpu_interop", name = "Device")]
#[derive(Debug)]
pub(crate) struct PyDevice {
    shared: Mutex<Option<Arc<Shared>>>,
    text: String,
}

impl PyDevice {
    pub(crate) fn new(device: Device, passed_over: Vec<LoadAttempt>) -> Self {
        let text = format!("{} {}", device.backend().name, device.identity());
        let shared = Arc::new(Shared::new(device, passed_over));
        exchange::register(&shared);
        Self { shared: Mutex::new(Some(shared)), text }
    }

    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        let text = format!("{} {}", shared.device.backend().name, shared.device.identity());
        Self { shared: Mutex::new(Some(shared.clone())), text }
    }

    pub(crate) fn shared(&self, operation: &'static str) -> PyResult<Arc<Shared>> {
        // Unlocked before the exception is made, which may let other threads take the GIL.
        let shared = self.lock().clone();
        shared.ok_or_else(|| exception(&closed(operation, "device")))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Shared>>> {
        lock(&self.shared)
    }
}

fn support(support: &Support) -> String {
    support.to_string()
}

#[pymethods]
impl PyDevice {
    /// Identity of the device, to compare with an exporter's.
    #[getter]
    fn identity(&self) -> PyResult<PyIdentity> {
        Ok(self.shared("Device.identity")?.device.identity().into())
    }

    /// Name of the backend: ``"cuda"``, ``"hip"`` or ``"host"``.
    #[getter]
    fn backend(&self) -> PyResult<String> {
        Ok(self.shared("Device.backend")?.device.backend().name.clone())
    }

    /// Position of the device in the backend's order: CUDA's and HIP's device ordinal.
    #[getter]
    fn ordinal(&self) -> PyResult<Option<usize>> {
        Ok(self.shared("Device.ordinal")?.device.ordinal())
    }

    /// Address of the driver's context (``CUcontext``); ``None`` for backends without contexts.
    #[getter]
    fn context(&self) -> PyResult<Option<usize>> {
        Ok(self.shared("Device.context")?.device.context().map(|context| context.get()))
    }

    /// The backends that were tried before this one, each with the reason why it was not used: why the CPU does the work.
    /// Empty if the backend was named, or if the device was found by the identity of an exporter.
    #[getter]
    fn passed_over(&self) -> PyResult<Vec<(String, String)>> {
        let shared = self.shared("Device.passed_over")?;
        let tried = shared.passed_over.iter();
        Ok(tried.map(|attempt| (attempt.target.clone(), error::in_python(&attempt.reason))).collect())
    }

    /// Support of each kind of memory handle and each feature, as text: ``native``, ``emulated: ...`` or
    /// ``unsupported: reason``.
    fn capabilities<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let shared = self.shared("Device.capabilities")?;
        let capabilities = shared.device.capabilities();
        let table = PyDict::new(py);
        for kind in export::kinds() {
            let name = kind.name();
            table.set_item(name, support(&capabilities.memory(kind)))?;
        }
        for feature in Feature::ALL {
            table.set_item(feature.to_string(), support(&capabilities.feature(*feature)))?;
        }
        Ok(table)
    }

    /// Imports memory that another API exported.
    ///
    /// Pass an :class:`Export` of this process alone, or a handle with its description. On success the import owns the
    /// handle; after an exception it is still the caller's, open. The description must be true: drivers do not check
    /// it. ``trusted_peer`` promises that no process truncates the file behind the descriptor, ``native`` declares
    /// memory that a compute backend of the same kind exported, and ``exporter`` adds a check of the device.
    #[pyo3(signature = (export=None, *, fd=None, handle=None, name=None, size=None, kind=None, dedicated=false,
                        native=false, trusted_peer=false, exporter=None))]
    #[allow(clippy::too_many_arguments)] // Keyword arguments.
    fn import_memory(
        &self,
        py: Python<'_>,
        export: Option<&Bound<'_, PyExport>>,
        fd: Option<i64>,
        #[pyo3(from_py_with = natural_or_none)] handle: Option<u64>,
        name: Option<String>,
        #[pyo3(from_py_with = natural_or_none)] size: Option<u64>,
        kind: Option<&str>,
        dedicated: bool,
        native: bool,
        trusted_peer: bool,
        exporter: Option<&Bound<'_, PyIdentity>>,
    ) -> PyResult<PyMemory> {
        const OPERATION: &str = "Device.import_memory";
        let shared = self.shared(OPERATION)?;
        let kind: Option<MemoryHandleKind> = kind.map(|name| export::kind(OPERATION, name)).transpose()?;
        let exporter = exporter.map(|exporter| exporter.get().inner.clone());
        let image = None;
        let described = Described { fd, handle, name, size, kind, dedicated, native, trusted_peer, exporter, image };
        let memory = import::memory(py, &shared, export.map(Bound::get), described)?;
        Ok(PyMemory::new(Backing::imported(shared, memory)))
    }

    /// Allocates memory that other APIs and processes can import: ``memory.export()``. The size may be rounded up.
    fn allocate(&self, py: Python<'_>, #[pyo3(from_py_with = natural::<u64>)] size: u64) -> PyResult<PyMemory> {
        let shared = self.shared("Device.allocate")?;
        PyMemory::allocate(py, shared, size)
    }

    /// Exports the memory of a foreign tensor. Always raises :class:`Unsupported` with the way that works.
    fn export_tensor(&self, tensor: &Bound<'_, PyAny>) -> PyResult<PyExport> {
        self.shared("Device.export_tensor")?;
        let given = type_name(tensor);
        let message = "memory of other allocators cannot be exported; allocate it with Device.allocate, view it with \
                       torch.from_dlpack(memory.tensor(shape, dtype)), and export it with memory.export()";
        let error = Error::unsupported("Device.export_tensor", message).with_context("given", given);
        Err(exception(&error))
    }

    /// Creates a stream.
    fn stream(&self, py: Python<'_>) -> PyResult<PyStream> {
        let shared = self.shared("Device.stream")?;
        let stream = py.detach(|| shared.device.create_stream()).raised()?;
        Ok(PyStream::new(Arc::new(Flow::new(stream)), shared))
    }

    /// The stream of operations that name none.
    #[getter]
    fn default_stream(&self, py: Python<'_>) -> PyResult<PyStream> {
        let shared = self.shared("Device.default_stream")?;
        let flow = py.detach(|| shared.default_stream().cloned()).raised()?;
        Ok(PyStream::new(flow, shared))
    }

    /// Creates a timeline that the host and streams of this device share, without Vulkan.
    #[pyo3(signature = (initial=0))]
    fn timeline(&self, py: Python<'_>, #[pyo3(from_py_with = natural::<u64>)] initial: u64) -> PyResult<PyTimeline> {
        let shared = self.shared("Device.timeline")?;
        py.detach(|| PyTimeline::host(shared, initial)).raised()
    }

    /// Frees objects that were dropped while work used them and whose work has completed, and forgets streams of other
    /// libraries.
    fn collect(&self, py: Python<'_>) -> PyResult<()> {
        let shared = self.shared("Device.collect")?;
        py.detach(|| {
            let lent = std::mem::take(&mut *lock(&shared.lent));
            drop(lent);
            shared.device.collect();
        });
        Ok(())
    }

    /// Closes the device once everything made from it is gone.
    fn close(&self) {
        let shared = self.lock().take();
        detached_drop(shared);
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_arguments))]
    fn __exit__(&self, _arguments: &Bound<'_, PyTuple>) {
        self.close();
    }

    fn __repr__(&self) -> String {
        let state = if self.lock().is_some() { "" } else { ", closed" };
        format!("<gpu_interop.Device {}{state}>", self.text)
    }
}
