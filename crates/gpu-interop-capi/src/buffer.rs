//! Linear device memory: buffers and ranges of them.

use std::ffi::c_void;
use std::sync::Arc;

use gpu_interop::{BorrowedMemory, BufferSlice, DevicePtr, Error, ExportableMemory, MappedBuffer, Result};

use crate::call::call;
use crate::constants::GPI_WHOLE_SIZE;
use crate::handle::{gpi_buffer, gpi_device};
use crate::import_memory::gpi_memory_import;
use crate::object;
use crate::pointer::Out;
use crate::release::{Release, gpi_release_function};
use crate::status::gpi_status;

/// A range of linear device memory, the operand of copies, fills and kernels.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct gpi_range {
    /// The memory.
    pub buffer: gpi_buffer,
    /// Offset of the first byte.
    pub offset: u64,
    /// Size in bytes, at least 1. `GPI_WHOLE_SIZE` is everything from `offset` on.
    pub size: u64,
}

/// Properties of a buffer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_buffer_info {
    /// Device address of the first byte (`CUdeviceptr`), valid while the buffer lives. On the host backend, a pointer.
    pub address: u64,
    /// Size in bytes. Of exportable memory: at least the requested size; its importer must pass this size.
    pub size: u64,
    /// Offset in the imported memory, in bytes; 0 for other buffers.
    pub offset: u64,
    /// 1 if the exporter allows reads only, else 0.
    pub read_only: i32,
    /// 1 if `gpi_buffer_export` works, else 0.
    pub exportable: i32,
}

impl gpi_range {
    /// The memory of the range, which the caller keeps while it uses [`gpi_range::slice`].
    pub(crate) fn memory(&self, operation: &'static str) -> Result<Arc<LinearMemory>> {
        object::get(operation, self.buffer)
    }

    /// The range of its memory.
    pub(crate) fn slice<'a>(&self, operation: &'static str, memory: &'a LinearMemory) -> Result<BufferSlice<'a>> {
        let whole = memory.whole();
        if self.size == GPI_WHOLE_SIZE {
            return whole.slice(self.offset..);
        }
        let end = self.offset.checked_add(self.size).ok_or_else(|| {
            Error::invalid(operation, "the end of the range overflows 64 bits")
                .with_context("offset", self.offset)
                .with_context("size", self.size)
        })?;
        whole.slice(self.offset..end)
    }
}

/// Allocates at least `size` bytes of device memory that another API can import, and writes it to `*buffer`, owned by the
/// caller.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a size of 0, `GPI_ERROR_UNSUPPORTED` where the device cannot export,
/// `GPI_ERROR_OUT_OF_MEMORY`.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_device_allocate_exportable(
    device: gpi_device,
    size: u64,
    buffer: *mut gpi_buffer,
) -> gpi_status {
    call("gpi_device_allocate_exportable", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "buffer", buffer) }?;
        let memory = object::get(operation, device)?.allocate_exportable(size)?;
        out.set(object::add(LinearMemory::Exportable(memory)));
        Ok(())
    })
}

/// Wraps `size` bytes of device memory at `address` that the application or another library allocated (`cuMemAlloc`, torch,
/// ...), and writes a buffer to `*buffer`, owned by the caller. Destroying it does not free the memory.
///
/// `release(data)` is called once, when the buffer has been destroyed and the work of this library's streams that uses it
/// has completed. If this function fails, it is not called.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for address 0, size 0, or a range past the end of the address space.
///
/// # Safety
/// Streams of the device may read and write the range, and it stays allocated until `release` is called; if `release` is
/// null, until the buffer has been destroyed, that work has completed, and `gpi_device_collect` has been called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_device_wrap_memory(
    device: gpi_device,
    address: u64,
    size: u64,
    release: gpi_release_function,
    data: *mut c_void,
    buffer: *mut gpi_buffer,
) -> gpi_status {
    call("gpi_device_wrap_memory", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "buffer", buffer) }?;
        let device = object::get(operation, device)?;
        // SAFETY: the caller's promise.
        let owner = Arc::new(unsafe { Release::new(release, data) });
        // SAFETY: the caller's promise.
        let memory = unsafe { device.borrow_memory(DevicePtr::new(address), size, owner.clone()) }?;
        owner.arm();
        out.set(object::add(LinearMemory::Borrowed(memory)));
        Ok(())
    })
}

/// Describes a buffer.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_buffer_get_info(buffer: gpi_buffer, info: *mut gpi_buffer_info) -> gpi_status {
    call("gpi_buffer_get_info", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "info", info) }?;
        let memory = object::get(operation, buffer)?;
        let (offset, read_only) = match &*memory {
            LinearMemory::Mapped(mapped) => (mapped.offset(), mapped.is_read_only()),
            LinearMemory::Exportable(_) | LinearMemory::Borrowed(_) => (0, false),
        };
        let whole = memory.whole();
        out.set(gpi_buffer_info {
            address: whole.as_raw().get(),
            size: whole.size(),
            offset,
            read_only: i32::from(read_only),
            exportable: i32::from(matches!(&*memory, LinearMemory::Exportable(_))),
        });
        Ok(())
    })
}

/// Exports exportable memory as a description that a device of this backend imports, in this process or another. Every call
/// writes a new handle, owned by the caller: import it, close it with `gpi_memory_import_close`, or send it to another
/// process. It keeps the memory alive. For an import by Vulkan, take its handle and `size`.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for a buffer that is not from `gpi_device_allocate_exportable`; otherwise the driver's
/// error.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_buffer_export(buffer: gpi_buffer, import: *mut gpi_memory_import) -> gpi_status {
    call("gpi_buffer_export", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "import", import) }?;
        match &*object::get(operation, buffer)? {
            LinearMemory::Exportable(memory) => {
                out.set(gpi_memory_import::of(memory.import_request()?));
                Ok(())
            }
            LinearMemory::Mapped(_) | LinearMemory::Borrowed(_) => {
                let message = "the buffer is not exportable; allocate it with gpi_device_allocate_exportable";
                Err(Error::invalid(operation, message))
            }
        }
    })
}

/// Destroys the buffer: unmaps or frees its memory, after pending work that uses it has completed. Memory of the application
/// is released.
///
/// Errors: the driver's error of unmapping or freeing it; the handle is destroyed in either case.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_buffer_destroy(buffer: gpi_buffer) -> gpi_status {
    call("gpi_buffer_destroy", |operation| {
        let memory = object::remove(operation, buffer)?;
        Arc::into_inner(memory).map_or(Ok(()), LinearMemory::close)
    })
}

/// Memory behind a `gpi_buffer`.
#[derive(Debug)]
pub(crate) enum LinearMemory {
    /// A mapped range of imported memory.
    Mapped(MappedBuffer),
    /// Exportable memory of the device.
    Exportable(ExportableMemory),
    /// Memory of the application.
    Borrowed(BorrowedMemory),
}

impl LinearMemory {
    /// All of it.
    pub(crate) fn whole(&self) -> BufferSlice<'_> {
        match self {
            Self::Mapped(memory) => memory.into(),
            Self::Exportable(memory) => memory.into(),
            Self::Borrowed(memory) => memory.into(),
        }
    }

    /// Releases it, and returns the driver's error.
    pub(crate) fn close(self) -> Result<()> {
        match self {
            Self::Mapped(memory) => memory.close(),
            Self::Exportable(memory) => memory.close(),
            Self::Borrowed(_) => Ok(()),
        }
    }
}
