//! Descriptions of memory to import.

use std::ffi::c_void;

use gpu_interop::handle::HandleType;
use gpu_interop::{Device, Error, MemoryHandle, MemoryHandleKind, MemoryImport, Result};

use crate::array_desc::gpi_array_desc;
use crate::call::call;
use crate::description::{self, Description};
use crate::handle::{gpi_device, gpi_memory};
use crate::identity::gpi_identity;
use crate::os_handle::{OsHandle, give_back};
use crate::status::gpi_status;

/// Kind of memory `opaque_fd`: a file descriptor from `vkGetMemoryFdKHR` with OPAQUE_FD, or of exportable memory of this
/// library.
pub const GPI_MEMORY_OPAQUE_FD: i32 = 1;
/// Kind of memory `opaque_win32`: an NT handle or name from `vkGetMemoryWin32HandleKHR`.
pub const GPI_MEMORY_OPAQUE_WIN32: i32 = 2;
/// Kind of memory `opaque_win32_kmt`: a KMT handle from `vkGetMemoryWin32HandleKHR`.
pub const GPI_MEMORY_OPAQUE_WIN32_KMT: i32 = 3;
/// Kind of memory `d3d12_heap`: a shared `ID3D12Heap`, by NT handle or name.
pub const GPI_MEMORY_D3D12_HEAP: i32 = 4;
/// Kind of memory `d3d12_resource`: a shared committed `ID3D12Resource`, by NT handle or name. Always dedicated.
pub const GPI_MEMORY_D3D12_RESOURCE: i32 = 5;
/// Kind of memory `d3d11_resource`: a shared `ID3D11Resource`, by NT handle or name. Always dedicated.
pub const GPI_MEMORY_D3D11_RESOURCE: i32 = 6;
/// Kind of memory `d3d11_resource_kmt`: a shared `ID3D11Resource`, by KMT handle. Always dedicated.
pub const GPI_MEMORY_D3D11_RESOURCE_KMT: i32 = 7;
/// Kind of memory `nv_sci_buf`: an `NvSciBufObj`.
pub const GPI_MEMORY_NVSCIBUF: i32 = 8;
/// Kind of memory `dma_buf_fd`: a dma-buf's file descriptor.
pub const GPI_MEMORY_DMABUF_FD: i32 = 9;

/// Flag of `gpi_memory_import`: the allocation is dedicated (`VkMemoryDedicatedAllocateInfo`, a committed resource).
pub const GPI_IMPORT_DEDICATED: u32 = 1;
/// Flag of `gpi_memory_import`: the memory is exportable memory of the importing backend itself, in this process or another.
pub const GPI_IMPORT_NATIVE: u32 = 2;
/// Flag of `gpi_memory_import`: no process truncates the memory's file while it is imported. Used by the host backend.
pub const GPI_IMPORT_TRUSTED_PEER: u32 = 4;
/// Flag of both import structures: `exporter` is the device that exported the object; other devices are rejected.
pub const GPI_IMPORT_HAS_EXPORTER: u32 = 8;
/// Flag of `gpi_memory_import`: `image` is the only image in the memory; others are rejected when an array is mapped.
pub const GPI_IMPORT_HAS_IMAGE: u32 = 16;

/// Memory to import: a handle and the exporter's description of it. Set everything to 0 first. The functions that export
/// fill it completely, so that it can be imported as it is, or sent to another process with its handle.
///
/// The description must be true: drivers cannot check it, and crash or corrupt memory otherwise. The handle refers to
/// memory of the API that `kind` names; the size is that of the exporter's allocation; the flags are the exporter's.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_memory_import {
    /// A `GPI_MEMORY_*`.
    pub kind: i32,
    /// `GPI_IMPORT_*`.
    pub flags: u32,
    /// Size of the exporter's allocation in bytes (`VkMemoryAllocateInfo::allocationSize`), not of the payload.
    pub size: u64,
    /// The file descriptor, for kinds that are file descriptors. A successful import owns it and sets this to -1.
    pub fd: i32,
    /// Must be 0.
    pub reserved: u32,
    /// The NT handle, the KMT handle or the NvSciBufObj. A successful import owns an NT handle and sets this to null; the
    /// caller keeps KMT handles, which are not owned, and NvSciBufObjs, which must live as long as the import.
    pub object: *mut c_void,
    /// Instead of an NT handle: the object's name, UTF-16, ends with NUL. Borrowed for the call. The caller keeps the object
    /// alive until the import has returned.
    pub name: *const u16,
    /// The exporting device, with `GPI_IMPORT_HAS_EXPORTER`.
    pub exporter: gpi_identity,
    /// The image in the memory, with `GPI_IMPORT_HAS_IMAGE`.
    pub image: gpi_array_desc,
}

const FLAGS: u32 =
    GPI_IMPORT_DEDICATED | GPI_IMPORT_NATIVE | GPI_IMPORT_TRUSTED_PEER | GPI_IMPORT_HAS_EXPORTER | GPI_IMPORT_HAS_IMAGE;

/// The kind of a number.
pub(crate) fn memory_kind(operation: &'static str, kind: i32) -> Result<MemoryHandleKind> {
    u32::try_from(kind).ok().and_then(MemoryHandleKind::from_number).ok_or_else(|| {
        Error::invalid(operation, "unknown kind of memory; pass a GPI_MEMORY_*").with_context("kind", kind)
    })
}

/// The number of a kind.
pub(crate) fn memory_kind_number(kind: MemoryHandleKind) -> i32 {
    kind.number().cast_signed()
}

impl Description for gpi_memory_import {
    fn handle_type(&self) -> Option<HandleType> {
        memory_kind("", self.kind).ok().map(MemoryHandleKind::handle_type)
    }

    fn os_handle(&self, operation: &'static str) -> OsHandle {
        OsHandle { operation, fd: self.fd, object: self.object, name: self.name }
    }

    fn fields(&mut self) -> (&mut i32, &mut *mut c_void) {
        (&mut self.fd, &mut self.object)
    }
}

impl gpi_memory_import {
    /// Converts the structure. The result owns the handle: after a failure of the import, [`give_back`] returns it.
    ///
    /// # Safety
    /// The description is true, and `name` is null or ends with NUL.
    unsafe fn request(&self, operation: &'static str) -> Result<MemoryImport> {
        let kind = memory_kind(operation, self.kind)?;
        if self.flags & !FLAGS != 0 || self.reserved != 0 {
            return Err(Error::invalid(operation, "unknown flags, or a reserved field that is not 0")
                .with_context("flags", format_args!("{:#x}", self.flags)));
        }
        let has = |flag| self.flags & flag != 0;
        // Converted first: nothing fails once the handle has been taken.
        let image = if has(GPI_IMPORT_HAS_IMAGE) { Some(self.image.desc(operation)?) } else { None };
        let exporter = description::exporter(operation, self.flags, &self.exporter)?;
        // SAFETY: the caller's promises: the handle is what its kind says, and nothing else closes it during the call.
        let object = unsafe { self.os_handle(operation).object_of(kind.handle_type()) }?;
        let handle = MemoryHandle::new(kind, object)
            .map_err(|_| Error::invalid(operation, "the kind has another type of handle").with_context("kind", kind))?;
        // SAFETY: the caller's promise that the description is true.
        let request = unsafe {
            MemoryImport::new(handle, self.size)
                .dedicated(has(GPI_IMPORT_DEDICATED))
                .native(has(GPI_IMPORT_NATIVE))
                .trusted_peer(has(GPI_IMPORT_TRUSTED_PEER))
                .of_image(image)
        };
        Ok(exporter.into_iter().fold(request, MemoryImport::exported_by))
    }

    /// Describes a request in C's types. The structure owns the handle.
    pub(crate) fn of(request: MemoryImport) -> Self {
        let flag = |set, flag| if set { flag } else { 0 };
        let (exporter, image) = (request.exporter(), request.image());
        let mut import = Self {
            kind: memory_kind_number(request.handle().kind()),
            flags: flag(request.is_dedicated(), GPI_IMPORT_DEDICATED)
                | flag(request.is_native(), GPI_IMPORT_NATIVE)
                | flag(request.is_peer_trusted(), GPI_IMPORT_TRUSTED_PEER)
                | flag(exporter.is_some(), GPI_IMPORT_HAS_EXPORTER)
                | flag(image.is_some(), GPI_IMPORT_HAS_IMAGE),
            size: request.size(),
            fd: -1,
            reserved: 0,
            object: std::ptr::null_mut(),
            name: std::ptr::null(),
            exporter: exporter.map_or(gpi_identity::UNKNOWN, gpi_identity::from),
            image: image.map_or(gpi_array_desc::EMPTY, gpi_array_desc::from),
        };
        (import.fd, import.object) = give_back(request.into_handle().into_object());
        import
    }
}

/// Imports memory that another API exported, and writes it to `*memory`, owned by the caller.
///
/// On success the import owns the handle: `import->fd` is set to -1, or `import->object` of an NT handle to null. On failure
/// the structure is unchanged, and the handle is open and belongs to the caller.
///
/// Errors: `GPI_ERROR_UNSUPPORTED`, `GPI_ERROR_INVALID_ARGUMENT` (size 0, a closed descriptor, a file that is no memory) and
/// `GPI_ERROR_DEVICE_MISMATCH` are detected before the driver is called; `GPI_ERROR_IMPORT_REJECTED` comes from the driver.
///
/// # Safety
/// The description is true (`gpi_memory_import`). No other thread closes the handle meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_device_import_memory(
    device: gpi_device,
    import: *mut gpi_memory_import,
    memory: *mut gpi_memory,
) -> gpi_status {
    call("gpi_device_import_memory", |operation| {
        let run = |device: &Device, description: &gpi_memory_import| {
            // SAFETY: the caller's promise.
            let request = unsafe { description.request(operation) }?;
            device.import_memory(request).map_err(|failure| {
                let (error, request) = failure.into_parts();
                give_back(request.into_handle().into_object());
                error
            })
        };
        // SAFETY: the caller's promise.
        unsafe { description::import(operation, device, import, ("memory", memory), run) }
    })
}

/// Closes the handle of a description that was not imported: a file descriptor or an NT handle, which the caller owns. Sets
/// `fd` to -1 and `object` to null. A description without a handle is unchanged.
///
/// # Safety
/// The handle is open, or there is none, and nothing else closes it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_memory_import_close(import: *mut gpi_memory_import) -> gpi_status {
    call("gpi_memory_import_close", |operation| {
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
        let source = include_str!("import_memory.rs");
        for kind in MemoryHandleKind::ALL {
            let start = format!("/// Kind of memory `{}`: ", kind.name());
            let constant = source.split_once(&start).and_then(|(_, rest)| rest.split_once("pub const GPI_MEMORY_"));
            let (_, constant) = constant.unwrap_or_else(|| panic!("{kind} has no constant"));
            assert_eq!(
                constant.split_once(" = ").map(|(_, value)| value.split_once(';').map(|(value, _)| value)),
                Some(Some(kind.number().to_string().as_str())),
                "{kind}"
            );
        }
        assert!(memory_kind("test", 0).is_err() && memory_kind("test", -1).is_err());
    }

    /// After an import the description keeps objects that the caller still owns: all but descriptors and NT handles.
    #[test]
    fn an_import_takes_descriptors_and_nt_handles_only() {
        let object = std::ptr::without_provenance_mut(0x40);
        for kind in MemoryHandleKind::ALL {
            for name in [std::ptr::null(), [0_u16].as_ptr()] {
                // SAFETY: numbers and pointers, for which zero is a value.
                let zero: gpi_memory_import = unsafe { std::mem::zeroed() };
                let mut import = gpi_memory_import { kind: memory_kind_number(*kind), fd: 7, object, name, ..zero };
                import.clear();
                let taken = kind.handle_type() == HandleType::Win32 && name.is_null();
                assert_eq!((import.fd, import.object.is_null()), (-1, taken), "{kind}");
            }
        }
    }
}
