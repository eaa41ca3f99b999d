//! Imports of memory from numbers and names.

use gpu_interop::handle::{FdHandle, HandleObject, HandleType, KmtHandle, NtHandle, ObjectName, Win32Object};
use gpu_interop::{
    DeviceIdentity, Error, ExternalMemory, MemoryHandle, MemoryHandleKind, MemoryImport, MipmappedArrayDesc, Result,
};
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
    pub(crate) image: Option<MipmappedArrayDesc>,
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

/// A request with the handle, which it owns. A failure leaves the handle with the caller.
pub(crate) fn request(described: Described) -> Result<MemoryImport> {
    if described.fd.is_none() && described.handle.is_none() && described.name.is_none() {
        return Err(Error::invalid(OPERATION, "pass an Export, or one of fd, handle and name with its size and kind"));
    }
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
    request = unsafe { request.trusted_peer(described.trusted_peer).of_image(described.image) };
    if let Some(exporter) = described.exporter {
        request = request.exported_by(exporter);
    }
    Ok(request)
}

fn handle(described: &Described) -> Result<MemoryHandle> {
    let default = if cfg!(windows) { MemoryHandleKind::OpaqueWin32 } else { MemoryHandleKind::OpaqueFd };
    let kind = described.kind.unwrap_or(default);
    let handle_type = kind.handle_type();
    let object: HandleObject = match (described.fd, described.handle, &described.name) {
        (Some(fd), None, None) if cfg!(not(unix)) || handle_type == HandleType::Fd => from_fd(fd)?.into(),
        (Some(_), None, None) => return Err(wrong_kind(kind, "file descriptor")),
        (None, Some(number), None) if handle_type == HandleType::Kmt => kmt(number)?.into(),
        (None, Some(number), None) if handle_type == HandleType::Win32 => nt(number)?.into(),
        (None, None, Some(name)) if handle_type == HandleType::Win32 => {
            Win32Object::from(ObjectName::new(name)?).into()
        }
        (None, Some(_), None) | (None, None, Some(_)) => {
            return Err(wrong_kind(kind, "Windows handle or name of this form"));
        }
        _ => return Err(Error::invalid(OPERATION, "pass exactly one of an Export, fd, handle and name")),
    };
    MemoryHandle::new(kind, object).map_err(|_| wrong_kind(kind, "handle of this type"))
}

fn wrong_kind(kind: MemoryHandleKind, what: &str) -> Error {
    let message = format!("memory of this kind has no {what}; pass fd=, handle= or another kind");
    Error::invalid(OPERATION, message).with_context("kind", kind)
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
fn from_fd(fd: i64) -> Result<FdHandle> {
    let number = i32::try_from(fd).unwrap_or(-1);
    // SAFETY: the descriptor is the caller's, who gives it to the import; a failed import leaves it open (`give_back`). A
    // number that is not open is rejected.
    let opaque = unsafe { MemoryHandle::opaque_from_raw_fd(number) }?;
    opaque.into_fd().map_err(|_| Error::invalid(OPERATION, "the handle has no descriptor"))
}

#[cfg(not(unix))]
fn from_fd(_fd: i64) -> Result<FdHandle> {
    Err(Error::unsupported(OPERATION, "memory has no file descriptors on this system; pass handle= or name="))
}
