//! Imports of memory from numbers and names.

use gpu_interop::handle::{KmtHandle, NtHandle, ObjectName, Win32Object};
use gpu_interop::{DeviceIdentity, Error, ExternalMemory, MemoryHandle, MemoryHandleKind, MemoryImport, Result};
use pyo3::prelude::*;

use crate::device::Shared;
use crate::error::{Raise, exception};
use crate::export::{PyExport, give_back};

const OPERATION: &str = "Device.import_memory";

/// A handle of Python with its description.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) fd: Option<i64>,
    pub(crate) handle: Option<u64>,
    pub(crate) name: Option<String>,
    pub(crate) size: Option<u64>,
    pub(crate) kind: Option<MemoryHandleKind>,
    pub(crate) dedicated: bool,
    pub(crate) native: bool,
    pub(crate) trusted_peer: bool,
    pub(crate) exporter: Option<DeviceIdentity>,
}

/// Imports an export of this process, or a handle with its description. A failure leaves the handle with the caller.
pub(crate) fn memory(
    py: Python<'_>,
    shared: &Shared,
    export: Option<&PyExport>,
    described: Described,
) -> PyResult<ExternalMemory> {
    if let Some(export) = export {
        let alone = described.fd.is_none() && described.handle.is_none() && described.name.is_none();
        if !(alone && described.size.is_none() && described.kind.is_none()) {
            let message = "pass either an Export, which describes itself, or a handle with its description";
            return Err(exception(&Error::invalid(OPERATION, message)));
        }
        let request = export.take(OPERATION)?;
        return py.detach(|| shared.device.import_memory(request)).map_err(|failure| {
            let (error, request) = failure.into_parts();
            export.put(request);
            exception(&error)
        });
    }
    let request = request(described).raised()?;
    py.detach(|| shared.device.import_memory(request)).map_err(|failure| {
        let (error, request) = failure.into_parts();
        give_back(request);
        exception(&error)
    })
}

fn request(described: Described) -> Result<MemoryImport> {
    let Some(size) = described.size else {
        return Err(Error::invalid(OPERATION, "pass the size of the exporter's allocation in bytes"));
    };
    let handle = handle(&described)?;
    // SAFETY: Python cannot promise what `MemoryImport::new` requires; the documentation of `Device.import_memory` passes
    // the obligation on to its caller. The library checks the descriptor, the size and the device.
    let mut request = unsafe { MemoryImport::new(handle, size) };
    // SAFETY: as above.
    request = unsafe { request.dedicated(described.dedicated).native(described.native) };
    // SAFETY: as above.
    request = unsafe { request.trusted_peer(described.trusted_peer) };
    if let Some(exporter) = described.exporter {
        request = request.exported_by(exporter);
    }
    Ok(request)
}

fn handle(described: &Described) -> Result<MemoryHandle> {
    use MemoryHandleKind as Kind;
    let kind = described.kind.unwrap_or(if cfg!(windows) { Kind::OpaqueWin32 } else { Kind::OpaqueFd });
    match (described.fd, described.handle, &described.name) {
        (Some(fd), None, None) => from_fd(kind, fd),
        (None, Some(number), None) => match kind {
            Kind::OpaqueWin32Kmt => Ok(MemoryHandle::OpaqueWin32Kmt(kmt(number)?)),
            Kind::D3d11ResourceKmt => Ok(MemoryHandle::D3d11ResourceKmt(kmt(number)?)),
            _ => of_object(kind, || nt(number)),
        },
        (None, None, Some(name)) => of_object(kind, || ObjectName::new(name).map(Win32Object::from)),
        _ => Err(Error::invalid(OPERATION, "pass exactly one of an Export, fd, handle and name")),
    }
}

fn of_object(kind: MemoryHandleKind, object: impl FnOnce() -> Result<Win32Object>) -> Result<MemoryHandle> {
    use MemoryHandleKind as Kind;
    Ok(match kind {
        Kind::OpaqueWin32 => MemoryHandle::OpaqueWin32(object()?),
        Kind::D3d12Heap => MemoryHandle::D3d12Heap(object()?),
        Kind::D3d12Resource => MemoryHandle::D3d12Resource(object()?),
        Kind::D3d11Resource => MemoryHandle::D3d11Resource(object()?),
        _ => {
            let message =
                "memory of this kind has no Windows handle or name of this form; pass fd=, handle= or another kind";
            return Err(Error::invalid(OPERATION, message).with_context("kind", kind));
        }
    })
}

fn kmt(number: u64) -> Result<KmtHandle> {
    KmtHandle::new(usize::try_from(number).unwrap_or(0))
}

fn nt(number: u64) -> Result<Win32Object> {
    let value = std::ptr::without_provenance_mut(usize::try_from(number).unwrap_or(0));
    // SAFETY: a handle of the caller, who gives it to the import; a failed import leaves it open (`give_back`).
    unsafe { NtHandle::from_raw(value) }.map(Win32Object::from)
}

#[cfg(unix)]
fn from_fd(kind: MemoryHandleKind, fd: i64) -> Result<MemoryHandle> {
    let number = i32::try_from(fd).unwrap_or(-1);
    // SAFETY: the descriptor is the caller's, who gives it to the import; a failed import leaves it open (`give_back`). A
    // number that is not open is rejected.
    let opaque = unsafe { MemoryHandle::opaque_from_raw_fd(number) }?;
    match kind {
        MemoryHandleKind::OpaqueFd => Ok(opaque),
        MemoryHandleKind::DmaBufFd => opaque.into_fd().map(MemoryHandle::DmaBufFd).map_err(wrong_kind),
        _ => Err(wrong_kind(opaque)),
    }
}

/// Leaves the descriptor with the caller.
#[cfg(unix)]
fn wrong_kind(handle: MemoryHandle) -> Error {
    use std::os::fd::IntoRawFd;
    if let Ok(fd) = handle.into_fd() {
        let _: i32 = fd.into_raw_fd();
    }
    Error::invalid(OPERATION, "memory of this kind has no file descriptor; pass kind=\"opaque_fd\" or \"dma_buf_fd\"")
}

#[cfg(not(unix))]
fn from_fd(_kind: MemoryHandleKind, _fd: i64) -> Result<MemoryHandle> {
    Err(Error::unsupported(OPERATION, "memory has no file descriptors on this system; pass handle= or name="))
}
