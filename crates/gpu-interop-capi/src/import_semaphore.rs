//! Descriptions of semaphores to import.

use std::ffi::c_void;

use gpu_interop::handle::HandleType;
use gpu_interop::{Device, Error, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport};

use crate::call::call;
use crate::description::{self, Description};
use crate::handle::{gpi_device, gpi_semaphore};
use crate::identity::gpi_identity;
use crate::import_memory::GPI_IMPORT_HAS_EXPORTER;
use crate::os_handle::{OsHandle, give_back};
use crate::status::gpi_status;

/// Kind of semaphore `opaque_fd`: a binary semaphore's file descriptor from `vkGetSemaphoreFdKHR` with OPAQUE_FD.
pub const GPI_SEMAPHORE_OPAQUE_FD: i32 = 1;
/// Kind of semaphore `opaque_win32`: a binary semaphore's NT handle or name.
pub const GPI_SEMAPHORE_OPAQUE_WIN32: i32 = 2;
/// Kind of semaphore `opaque_win32_kmt`: a binary semaphore's KMT handle.
pub const GPI_SEMAPHORE_OPAQUE_WIN32_KMT: i32 = 3;
/// Kind of semaphore `d3d12_fence`: a shared `ID3D12Fence`, by NT handle or name.
pub const GPI_SEMAPHORE_D3D12_FENCE: i32 = 4;
/// Kind of semaphore `d3d11_fence`: a shared `ID3D11Fence`, by NT handle or name.
pub const GPI_SEMAPHORE_D3D11_FENCE: i32 = 5;
/// Kind of semaphore `nv_sci_sync`: an `NvSciSyncObj`.
pub const GPI_SEMAPHORE_NVSCISYNC: i32 = 6;
/// Kind of semaphore `d3d11_keyed_mutex`: the `IDXGIKeyedMutex` of a shared resource, by the resource's NT handle or name.
pub const GPI_SEMAPHORE_D3D11_KEYED_MUTEX: i32 = 7;
/// Kind of semaphore `d3d11_keyed_mutex_kmt`: the same, by the resource's KMT handle.
pub const GPI_SEMAPHORE_D3D11_KEYED_MUTEX_KMT: i32 = 8;
/// Kind of semaphore `timeline_fd`: a timeline semaphore's file descriptor.
pub const GPI_SEMAPHORE_TIMELINE_FD: i32 = 9;
/// Kind of semaphore `timeline_win32`: a timeline semaphore's NT handle or name.
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

/// The kind of a number.
pub(crate) fn semaphore_kind(operation: &'static str, kind: i32) -> Result<SemaphoreHandleKind> {
    u32::try_from(kind).ok().and_then(SemaphoreHandleKind::from_number).ok_or_else(|| {
        Error::invalid(operation, "unknown kind of semaphore; pass a GPI_SEMAPHORE_*").with_context("kind", kind)
    })
}

/// The number of a kind.
pub(crate) fn semaphore_kind_number(kind: SemaphoreHandleKind) -> i32 {
    kind.number().cast_signed()
}

impl Description for gpi_semaphore_import {
    fn handle_type(&self) -> Option<HandleType> {
        semaphore_kind("", self.kind).ok().map(SemaphoreHandleKind::handle_type)
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
        let exporter = description::exporter(operation, self.flags, &self.exporter)?;
        // SAFETY: the caller's promises: the handle is what its kind says, and nothing else closes it during the call.
        let object = unsafe { self.os_handle(operation).object_of(kind.handle_type()) }?;
        let handle = SemaphoreHandle::new(kind, object)
            .map_err(|_| Error::invalid(operation, "the kind has another type of handle").with_context("kind", kind))?;
        // SAFETY: the caller's promise that the description is true.
        let request = unsafe { SemaphoreImport::new(handle) };
        Ok(exporter.into_iter().fold(request, SemaphoreImport::exported_by))
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
        (import.fd, import.object) = give_back(request.into_handle().into_object());
        import
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
                give_back(request.into_handle().into_object());
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

    /// Each kind has a constant with its number, whose documentation begins with its name.
    #[test]
    fn every_kind_has_a_constant() {
        let source = include_str!("import_semaphore.rs");
        for kind in SemaphoreHandleKind::ALL {
            let start = format!("/// Kind of semaphore `{}`: ", kind.name());
            let constant = source.split_once(&start).and_then(|(_, rest)| rest.split_once("pub const GPI_SEMAPHORE_"));
            let (_, constant) = constant.unwrap_or_else(|| panic!("{kind} has no constant"));
            assert_eq!(
                constant.split_once(" = ").map(|(_, value)| value.split_once(';').map(|(value, _)| value)),
                Some(Some(kind.number().to_string().as_str())),
                "{kind}"
            );
        }
        assert!(semaphore_kind("test", 0).is_err() && semaphore_kind("test", -1).is_err());
    }
}
