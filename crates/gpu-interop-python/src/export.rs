//! Exported handles of memory.

use std::sync::Mutex;

use gpu_interop::handle::HandleType;
use gpu_interop::sync::lock;
use gpu_interop::{Error, MemoryHandle, MemoryHandleKind, MemoryImport};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::error::{closed, exception};

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

/// An exported handle of memory, with what an importer must know. Owns the handle, until an import or ``detach``.
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
