//! Imported memory, and its mappings.

use std::ops::Bound;
use std::sync::Arc;

use gpu_interop::ExternalMemory;

use crate::array_desc::gpi_array_desc;
use crate::buffer::LinearMemory;
use crate::call::call;
use crate::constants::GPI_WHOLE_SIZE;
use crate::handle::{gpi_array, gpi_buffer, gpi_memory};
use crate::import_memory::memory_kind_number;
use crate::object;
use crate::pointer::{self, Out};
use crate::status::gpi_status;

/// Properties of imported memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_memory_info {
    /// Size of the import in bytes.
    pub size: u64,
    /// The driver's object (`CUexternalMemory`), valid while the memory or a mapping of it lives.
    pub raw: u64,
    /// The `GPI_MEMORY_*` of the imported handle.
    pub kind: i32,
    /// 1 if the exporter declared the image in the memory, else 0.
    pub has_image: i32,
    /// The image in the memory, if it is declared: pass it to `gpi_memory_map_array`.
    pub image: gpi_array_desc,
}

/// Describes imported memory.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_memory_get_info(memory: gpi_memory, info: *mut gpi_memory_info) -> gpi_status {
    call("gpi_memory_get_info", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "info", info) }?;
        let memory = object::get(operation, memory)?;
        out.set(gpi_memory_info {
            size: memory.size(),
            raw: memory.as_raw().get() as u64,
            kind: memory_kind_number(memory.handle_kind()),
            has_image: i32::from(memory.image().is_some()),
            image: memory.image().map_or(gpi_array_desc::EMPTY, gpi_array_desc::from),
        });
        Ok(())
    })
}

/// Maps `size` bytes at `offset` as linear device memory, and writes the mapping to `*buffer`, owned by the caller. A size of
/// `GPI_WHOLE_SIZE` is everything from `offset` on. The buffer keeps the import alive.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` if the range is empty or past the end, or contains an image of optimal tiling that the
/// exporter declared, whose bytes are not rows of texels; `GPI_ERROR_UNSUPPORTED`; otherwise the driver's error.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_memory_map_buffer(
    memory: gpi_memory,
    offset: u64,
    size: u64,
    buffer: *mut gpi_buffer,
) -> gpi_status {
    let mapped = |memory: &gpu_interop::ExternalMemory, range| memory.map_buffer(range);
    // SAFETY: the caller's promise.
    unsafe { map("gpi_memory_map_buffer", memory, (offset, size), buffer, mapped) }
}

/// Maps `size` bytes at `offset` of memory that contains an image of optimal tiling, as the driver stores them: neither rows of
/// texels nor the same on every device. Otherwise as `gpi_memory_map_buffer`.
///
/// Errors: those of `gpi_memory_map_buffer`, but for the image.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_memory_map_image_bytes(
    memory: gpi_memory,
    offset: u64,
    size: u64,
    buffer: *mut gpi_buffer,
) -> gpi_status {
    let mapped = |memory: &gpu_interop::ExternalMemory, range| memory.map_image_bytes(range);
    // SAFETY: the caller's promise.
    unsafe { map("gpi_memory_map_image_bytes", memory, (offset, size), buffer, mapped) }
}

/// Maps a range by a method of the import.
///
/// # Safety
/// The requirement on pointers.
unsafe fn map(
    operation: &'static str,
    memory: gpi_memory,
    (offset, size): (u64, u64),
    buffer: *mut gpi_buffer,
    map: impl FnOnce(
        &gpu_interop::ExternalMemory,
        (Bound<u64>, Bound<u64>),
    ) -> gpu_interop::Result<gpu_interop::MappedBuffer>,
) -> gpi_status {
    call(operation, |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "buffer", buffer) }?;
        let memory = object::get(operation, memory)?;
        let end = match (size, offset.checked_add(size)) {
            (GPI_WHOLE_SIZE, _) => Bound::Unbounded,
            (_, Some(end)) => Bound::Excluded(end),
            // The range past the largest offset: rejected with both values.
            (_, None) => Bound::Included(u64::MAX),
        };
        out.set(object::add(LinearMemory::Mapped(map(&memory, (Bound::Included(offset), end))?)));
        Ok(())
    })
}

/// Maps an image as a mipmapped array, and writes it to `*array`, owned by the caller. The array keeps the import alive.
///
/// `desc` must be the exporter's image: drivers cannot check it. It is checked against the image that the exporter declared,
/// if it did; a null `desc` is that image.
///
/// Errors: `GPI_ERROR_UNSUPPORTED` where the device maps no images; `GPI_ERROR_INVALID_ARGUMENT` for another image than the
/// declared one, or a null `desc` without one; otherwise the driver's error.
///
/// # Safety
/// The description is the exporter's image.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_memory_map_array(
    memory: gpi_memory,
    desc: *const gpi_array_desc,
    array: *mut gpi_array,
) -> gpi_status {
    call("gpi_memory_map_array", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "array", array) }?;
        let memory = object::get(operation, memory)?;
        let desc = if desc.is_null() {
            *memory.image().ok_or_else(|| {
                let message = "the exporter declared no image; pass the description of its image";
                gpu_interop::Error::invalid(operation, message)
            })?
        } else {
            // SAFETY: the caller's promise; the structure has no invalid bytes.
            unsafe { pointer::read(operation, "desc", desc) }?.desc(operation)?
        };
        out.set(object::add(memory.map_mipmapped_array(&desc)?));
        Ok(())
    })
}

/// Destroys the handle. The import is destroyed with its last buffer or array, and after pending work that uses it.
///
/// Errors: the driver's error of destroying the import; the handle is destroyed in either case.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_memory_destroy(memory: gpi_memory) -> gpi_status {
    call("gpi_memory_destroy", |operation| {
        let memory = object::remove(operation, memory)?;
        Arc::into_inner(memory).map_or(Ok(()), ExternalMemory::close)
    })
}
