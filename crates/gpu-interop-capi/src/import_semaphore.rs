//! Descriptions of semaphores to import.

use std::ffi::c_void;

use gpu_interop::handle::NvSciSyncObject;
use gpu_interop::{Device, DeviceIdentity, Error, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport};

use crate::call::call;
use crate::description::{self, Description, HandleType};
use crate::handle::{gpi_device, gpi_semaphore};
use crate::identity::gpi_identity;
use crate::import_memory::GPI_IMPORT_HAS_EXPORTER;
use crate::os_handle::{OsHandle, forget_fd, forget_win32};
use crate::status::gpi_status;

/// Kind of semaphore: a binary semaphore's file descriptor from `vkGetSemaphoreFdKHR` with OPAQUE_FD.
pub const GPI_SEMAPHORE_OPAQUE_FD: i32 = 1;
/// Kind of semaphore: a binary semaphore's NT handle or name.
pub const GPI_SEMAPHORE_OPAQUE_WIN32: i32 = 2;
/// Kind of semaphore: a binary semaphore's KMT handle.
pub const GPI_SEMAPHORE_OPAQUE_WIN32_KMT: i32 = 3;
/// Kind of semaphore: a shared `ID3D12Fence`, by NT handle or name.
pub const GPI_SEMAPHORE_D3D12_FENCE: i32 = 4;
/// Kind of semaphore: a shared `ID3D11Fence`, by NT handle or name.
pub const GPI_SEMAPHORE_D3D11_FENCE: i32 = 5;
/// Kind of semaphore: an `NvSciSyncObj`.
pub const GPI_SEMAPHORE_NVSCISYNC: i32 = 6;
/// Kind of semaphore: the `IDXGIKeyedMutex` of a shared resource, by the resource's NT handle or name.
pub const GPI_SEMAPHORE_D3D11_KEYED_MUTEX: i32 = 7;
/// Kind of semaphore: the same, by the resource's KMT handle.
pub const GPI_SEMAPHORE_D3D11_KEYED_MUTEX_KMT: i32 = 8;
/// Kind of semaphore: a timeline semaphore's file descriptor.
pub const GPI_SEMAPHORE_TIMELINE_FD: i32 = 9;
/// Kind of semaphore: a timeline semaphore's NT handle or name.
pub const GPI_SEMAPHORE_TIMELINE_WIN32: i32 = 10;

/// A semaphore to import: a handle and the exporter's description of it. Set everything to 0 first. The functions that export
/// fill it completely. The description must be true, as that of `gpi_memory_import`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_semaphore_import {
    /// A `GPI_SEMAPHORE_*`.
    pub kind: i32,
    /// 0 or `GPI_IMPORT_HAS_EXPORTER`.
    pub flags: u32,
    /// The file descriptor, for kinds that are file descriptors. A successful import owns it and sets this to -1.
    pub fd: i32,
    /// Must be 0.
    pub reserved: u32,
    /// The NT handle, the KMT handle or the NvSciSyncObj, owned as in `gpi_memory_import`.
    pub object: *mut c_void,
    /// Instead of an NT handle: the object's name, UTF-16, ends with NUL. Borrowed for the call.
    pub name: *const u16,
    /// The exporting device, with `GPI_IMPORT_HAS_EXPORTER`.
    pub exporter: gpi_identity,
}

const KINDS: [(i32, SemaphoreHandleKind); 10] = [
    (GPI_SEMAPHORE_OPAQUE_FD, SemaphoreHandleKind::OpaqueFd),
    (GPI_SEMAPHORE_OPAQUE_WIN32, SemaphoreHandleKind::OpaqueWin32),
    (GPI_SEMAPHORE_OPAQUE_WIN32_KMT, SemaphoreHandleKind::OpaqueWin32Kmt),
    (GPI_SEMAPHORE_D3D12_FENCE, SemaphoreHandleKind::D3d12Fence),
    (GPI_SEMAPHORE_D3D11_FENCE, SemaphoreHandleKind::D3d11Fence),
    (GPI_SEMAPHORE_NVSCISYNC, SemaphoreHandleKind::NvSciSync),
    (GPI_SEMAPHORE_D3D11_KEYED_MUTEX, SemaphoreHandleKind::D3d11KeyedMutex),
    (GPI_SEMAPHORE_D3D11_KEYED_MUTEX_KMT, SemaphoreHandleKind::D3d11KeyedMutexKmt),
    (GPI_SEMAPHORE_TIMELINE_FD, SemaphoreHandleKind::TimelineFd),
    (GPI_SEMAPHORE_TIMELINE_WIN32, SemaphoreHandleKind::TimelineWin32),
];

/// The kind of a number.
pub(crate) fn semaphore_kind(operation: &'static str, kind: i32) -> Result<SemaphoreHandleKind> {
    KINDS.iter().find(|(number, _)| *number == kind).map(|(_, kind)| *kind).ok_or_else(|| {
        Error::invalid(operation, "unknown kind of semaphore; pass a GPI_SEMAPHORE_*").with_context("kind", kind)
    })
}

/// The number of a kind; 0 for one that this version does not know.
pub(crate) fn semaphore_kind_number(kind: SemaphoreHandleKind) -> i32 {
    KINDS.iter().find(|(_, known)| *known == kind).map_or(0, |(number, _)| *number)
}

impl Description for gpi_semaphore_import {
    fn handle_type(&self) -> HandleType {
        match self.kind {
            GPI_SEMAPHORE_OPAQUE_FD | GPI_SEMAPHORE_TIMELINE_FD => HandleType::Fd,
            GPI_SEMAPHORE_OPAQUE_WIN32
            | GPI_SEMAPHORE_D3D12_FENCE
            | GPI_SEMAPHORE_D3D11_FENCE
            | GPI_SEMAPHORE_D3D11_KEYED_MUTEX
            | GPI_SEMAPHORE_TIMELINE_WIN32 => HandleType::Nt,
            _ => HandleType::NotOwned,
        }
    }

    fn os_handle(&self, operation: &'static str) -> OsHandle {
        OsHandle { operation, fd: self.fd, object: self.object, name: self.name }
    }

    fn fields(&mut self) -> (&mut i32, &mut *mut c_void) {
        (&mut self.fd, &mut self.object)
    }
}

impl gpi_semaphore_import {
    /// As `gpi_memory_import::request`.
    ///
    /// # Safety
    /// The description is true, and `name` is null or ends with NUL.
    unsafe fn request(&self, operation: &'static str) -> Result<SemaphoreImport> {
        let kind = semaphore_kind(operation, self.kind)?;
        if self.flags & !GPI_IMPORT_HAS_EXPORTER != 0 || self.reserved != 0 {
            return Err(Error::invalid(operation, "unknown flags, or a reserved field that is not 0")
                .with_context("flags", format_args!("{:#x}", self.flags)));
        }
        let source = self.os_handle(operation);
        // SAFETY: the caller's promises: the handle is what its kind says, and nothing else closes it during the call.
        let handle = unsafe {
            match kind {
                SemaphoreHandleKind::OpaqueFd => SemaphoreHandle::OpaqueFd(source.fd()?),
                SemaphoreHandleKind::TimelineFd => SemaphoreHandle::TimelineFd(source.fd()?),
                SemaphoreHandleKind::OpaqueWin32 => SemaphoreHandle::OpaqueWin32(source.win32()?),
                SemaphoreHandleKind::D3d12Fence => SemaphoreHandle::D3d12Fence(source.win32()?),
                SemaphoreHandleKind::D3d11Fence => SemaphoreHandle::D3d11Fence(source.win32()?),
                SemaphoreHandleKind::D3d11KeyedMutex => SemaphoreHandle::D3d11KeyedMutex(source.win32()?),
                SemaphoreHandleKind::TimelineWin32 => SemaphoreHandle::TimelineWin32(source.win32()?),
                SemaphoreHandleKind::OpaqueWin32Kmt => SemaphoreHandle::OpaqueWin32Kmt(source.kmt()?),
                SemaphoreHandleKind::D3d11KeyedMutexKmt => SemaphoreHandle::D3d11KeyedMutexKmt(source.kmt()?),
                SemaphoreHandleKind::NvSciSync => {
                    SemaphoreHandle::NvSciSync(NvSciSyncObject::from_raw(source.object()?))
                }
                _ => return Err(Error::unsupported(operation, "this version does not import this kind")),
            }
        };
        // SAFETY: the caller's promise that the description is true.
        let request = unsafe { SemaphoreImport::new(handle) };
        Ok(match self.flags & GPI_IMPORT_HAS_EXPORTER {
            0 => request,
            _ => request.exported_by(DeviceIdentity::from(&self.exporter)),
        })
    }

    /// Describes a request in C's types. The structure owns the handle.
    pub(crate) fn of(request: SemaphoreImport) -> Self {
        let exporter = request.exporter();
        let mut import = Self {
            kind: semaphore_kind_number(request.handle().kind()),
            flags: if exporter.is_some() { GPI_IMPORT_HAS_EXPORTER } else { 0 },
            fd: -1,
            reserved: 0,
            object: std::ptr::null_mut(),
            name: std::ptr::null(),
            exporter: exporter.map_or(gpi_identity::UNKNOWN, gpi_identity::from),
        };
        (import.fd, import.object) = give_back(request);
        import
    }
}

/// Takes the handle out of a request without closing it: a descriptor, an NT handle.
fn give_back(request: SemaphoreImport) -> (i32, *mut c_void) {
    match request.into_handle() {
        SemaphoreHandle::OpaqueFd(fd) | SemaphoreHandle::TimelineFd(fd) => (forget_fd(fd), std::ptr::null_mut()),
        other => (-1, other.into_win32().map_or(std::ptr::null_mut(), forget_win32)),
    }
}

/// Imports a semaphore that another API exported, and writes it to `*semaphore`, owned by the caller. The handle is owned as
/// by `gpi_device_import_memory`: by the import on success, by the caller on failure.
///
/// Errors: as `gpi_device_import_memory`.
///
/// # Safety
/// The description is true (`gpi_semaphore_import`). No other thread closes the handle meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_device_import_semaphore(
    device: gpi_device,
    import: *mut gpi_semaphore_import,
    semaphore: *mut gpi_semaphore,
) -> gpi_status {
    call("gpi_device_import_semaphore", |operation| {
        let run = |device: &Device, description: &gpi_semaphore_import| {
            // SAFETY: the caller's promise.
            let request = unsafe { description.request(operation) }?;
            device.import_semaphore(request).map_err(|failure| {
                let (error, request) = failure.into_parts();
                give_back(request);
                error
            })
        };
        // SAFETY: the caller's promise.
        unsafe { description::import(operation, device, import, ("semaphore", semaphore), run) }
    })
}

/// Closes the handle of a description that was not imported, as `gpi_memory_import_close`.
///
/// # Safety
/// The handle is open, or there is none, and nothing else closes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_semaphore_import_close(import: *mut gpi_semaphore_import) -> gpi_status {
    call("gpi_semaphore_import_close", |operation| {
        // SAFETY: the caller's promise.
        unsafe { description::close(operation, import) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_number() {
        for kind in SemaphoreHandleKind::ALL {
            assert_eq!(semaphore_kind("test", semaphore_kind_number(*kind)).expect("known"), *kind);
        }
        assert!(semaphore_kind("test", 0).is_err() && semaphore_kind("test", 11).is_err());
    }
}
