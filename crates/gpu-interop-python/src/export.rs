//! Exported handles of memory.

use std::sync::Mutex;

use gpu_interop::handle::HandleType;
use gpu_interop::sync::lock;
use gpu_interop::{DeviceIdentity, Error, MemoryHandle, MemoryHandleKind, MemoryImport, MipmappedArrayDesc, Result};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde::{Deserialize, Serialize};

use crate::error::{Raise, closed, exception};
use crate::import::{self, Described};

/// The kinds of memory handles of `Device.import_memory(kind=...)`: Python has no NvSci objects.
pub(crate) fn kinds() -> impl Iterator<Item = MemoryHandleKind> {
    MemoryHandleKind::ALL.iter().copied().filter(|kind| kind.handle_type() != HandleType::NvSciBuf)
}

/// The kind with this name.
pub(crate) fn kind(operation: &'static str, name: &str) -> PyResult<MemoryHandleKind> {
    kinds().find(|kind| kind.name() == name).ok_or_else(|| {
        let names: Vec<_> = kinds().map(MemoryHandleKind::name).collect();
        let message = format!("unknown kind of handle; use one of {}", names.join(", "));
        exception(&Error::invalid(operation, message).with_context("given", name))
    })
}

/// An export without its handle, as another process gets it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Description {
    kind: String,
    size: u64,
    dedicated: bool,
    native: bool,
    trusted_peer: bool,
    exporter: Option<DeviceIdentity>,
    image: Option<MipmappedArrayDesc>,
}

impl Description {
    fn of(request: &MemoryImport) -> Self {
        Self {
            kind: request.handle().kind().name().into(),
            size: request.size(),
            dedicated: request.is_dedicated(),
            native: request.is_native(),
            trusted_peer: request.is_peer_trusted(),
            exporter: request.exporter().cloned(),
            image: request.image().copied(),
        }
    }

    /// A request with a descriptor. A failure leaves the descriptor with the caller.
    fn request(self, fd: i64) -> Result<MemoryImport> {
        let Self { kind, size, dedicated, native, trusted_peer, exporter, image } = self;
        let Some(kind) = kinds().find(|known| known.name() == kind) else {
            let message =
                "the sender's kind of handle is unknown here; use the same version of gpu_interop in both processes";
            return Err(Error::invalid("Export.receive", message).with_context("kind", kind));
        };
        import::request(Described {
            fd: Some(fd),
            handle: None,
            name: None,
            size: Some(size),
            kind: Some(kind),
            dedicated,
            native,
            trusted_peer,
            exporter,
            image,
        })
    }
}

/// An exported handle of memory, with what an importer must know. Owns the handle, until an import or ``detach``.
///
/// On Linux it goes to another process with its description: by :meth:`send` and :meth:`receive` through a Unix socket, or
/// through a ``Queue``, a ``Pipe`` or the arguments of a ``Process`` of :mod:`multiprocessing`, with ``spawn`` or
/// ``forkserver``. The other process gets a duplicate of the descriptor, once. ``queue.put(memory.export())`` is right: the
/// ``Queue`` keeps the object until it has duplicated the descriptor. Do not close the object before: a ``Queue`` does so
/// later, in a thread, a ``Pipe`` in ``send``, and a ``Process`` in ``start``. The sending process must live until the other
/// one has taken the object out.
#[pyclass(frozen, module = "gpu_interop", name = "Export")]
#[derive(Debug)]
pub(crate) struct PyExport {
    request: Mutex<Option<MemoryImport>>,
    kind: &'static str,
    size: u64,
    dedicated: bool,
    native: bool,
}

impl PyExport {
    pub(crate) fn new(request: MemoryImport) -> Self {
        let (kind, size) = (request.handle().kind().name(), request.size());
        let (dedicated, native) = (request.is_dedicated(), request.is_native());
        Self { request: Mutex::new(Some(request)), kind, size, dedicated, native }
    }

    /// Size of the allocation.
    pub(crate) fn bytes(&self) -> u64 {
        self.size
    }

    /// Takes the request for an import.
    pub(crate) fn take(&self, operation: &'static str) -> PyResult<MemoryImport> {
        // Unlocked before the exception is made, which may let other threads take the GIL.
        let request = self.lock().take();
        request.ok_or_else(|| exception(&closed(operation, "exported handle")))
    }

    /// Returns the request after a failed import.
    pub(crate) fn put(&self, request: MemoryImport) {
        *self.lock() = Some(request);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<MemoryImport>> {
        lock(&self.request)
    }
}

/// The number of a file descriptor, or an NT handle; `None` for other handles.
fn number(handle: &MemoryHandle) -> Option<i64> {
    #[cfg(unix)]
    {
        use std::os::fd::AsRawFd;
        handle.as_fd().map(|fd| i64::from(fd.as_raw_fd()))
    }
    #[cfg(not(unix))]
    {
        use gpu_interop::handle::Win32Object;
        match handle.as_win32() {
            Some(Win32Object::Handle(handle)) => i64::try_from(handle.as_raw().addr()).ok(),
            _ => None,
        }
    }
}

/// Gives up the ownership of a handle.
fn leak(handle: MemoryHandle) {
    #[cfg(unix)]
    if let Ok(fd) = handle.into_fd() {
        use std::os::fd::IntoRawFd;
        let _: i32 = fd.into_raw_fd();
    }
    #[cfg(not(unix))]
    std::mem::forget(handle);
}

/// Returns the descriptor of a failed import to its owner, the caller.
pub(crate) fn give_back(request: MemoryImport) {
    leak(request.into_handle());
}

#[pymethods]
impl PyExport {
    /// Kind of the handle, as in ``Device.import_memory(kind=...)``.
    #[getter]
    fn kind(&self) -> &'static str {
        self.kind
    }

    /// Size of the allocation in bytes. An importer must pass this size.
    #[getter]
    fn size(&self) -> u64 {
        self.size
    }

    /// True if the allocation is dedicated. An importer must pass this flag.
    #[getter]
    fn dedicated(&self) -> bool {
        self.dedicated
    }

    /// True if a compute backend exported the memory. An importer must pass this flag.
    #[getter]
    fn native(&self) -> bool {
        self.native
    }

    /// The file descriptor, still owned by this object; ``fileno`` lets ``os.dup`` and ``socket.send_fds`` use it.
    #[getter]
    fn fd(&self) -> PyResult<i64> {
        self.fileno()
    }

    /// As ``fd``. On Windows the NT handle.
    fn fileno(&self) -> PyResult<i64> {
        // Unlocked before the exception is made, which may let other threads take the GIL.
        let number = self.lock().as_ref().map(MemoryImport::handle).and_then(number);
        number.ok_or_else(|| exception(&closed("Export.fd", "exported handle")))
    }

    /// Returns the descriptor and gives its ownership to the caller, who closes it.
    fn detach(&self) -> PyResult<i64> {
        let fd = self.fileno()?;
        give_back(self.take("Export.detach")?);
        Ok(fd)
    }

    /// Sends a duplicate of the descriptor, and the description, through a connected Unix socket of the type
    /// ``SOCK_STREAM``. :meth:`receive` takes it out. After an exception of the socket, the stream may have a part of it.
    fn send(this: &Bound<'_, Self>, connection: &Bound<'_, PyAny>) -> PyResult<()> {
        this.py().import("gpu_interop._travel")?.call_method1("send", (this, connection))?;
        Ok(())
    }

    /// Receives an export that :meth:`send` sent, and waits for it. Raises :class:`EOFError` if the peer has closed the
    /// connection. The peer's description must be true: accept connections of trusted processes only.
    #[staticmethod]
    fn receive<'py>(connection: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        connection.py().import("gpu_interop._travel")?.call_method1("receive", (connection,))
    }

    /// For ``multiprocessing``, which passes a duplicate of the descriptor on.
    fn __reduce__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        this.py().import("gpu_interop._travel")?.call_method1("reduce", (this,))
    }

    fn _description(&self) -> PyResult<String> {
        // Unlocked before the exception is made, which may let other threads take the GIL.
        let description = self.lock().as_ref().map(Description::of);
        let description = description.ok_or_else(|| exception(&closed("Export.send", "exported handle")))?;
        serde_json::to_string(&description)
            .map_err(|error| exception(&Error::invalid("Export.send", error.to_string())))
    }

    /// Owns the descriptor after success only.
    #[staticmethod]
    fn _from_description(description: &str, fd: i64) -> PyResult<Self> {
        let description: Description = serde_json::from_str(description).map_err(|error| {
            let message = format!("this is not the description of an export: {error}; send it with Export.send");
            exception(&Error::invalid("Export.receive", message))
        })?;
        description.request(fd).map(Self::new).raised()
    }

    /// Closes the handle. Memory that was imported from it stays.
    fn close(&self) {
        drop(self.lock().take());
    }

    /// True if the handle was imported, detached or closed.
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
        let handle = self.fileno().map_or_else(|_| "closed".to_owned(), |fd| format!("fd {fd}"));
        let flags = [(self.dedicated, ", dedicated"), (self.native, ", native")];
        let flags: String = flags.iter().filter(|(set, _)| *set).map(|(_, text)| *text).collect();
        format!("<gpu_interop.Export {}, {} bytes, {handle}{flags}>", self.kind, self.size)
    }
}
