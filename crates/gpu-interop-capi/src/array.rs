//! Mapped mipmapped arrays.

use std::sync::Arc;

use gpu_interop::MappedMipmappedArray;

use crate::array_desc::gpi_array_desc;
use crate::call::call;
use crate::handle::gpi_array;
use crate::object;
use crate::pointer::Out;
use crate::status::gpi_status;

/// Properties of one mip level of an array.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_array_level_info {
    /// The driver's array of the level (`CUarray`), valid while the array lives; owned by it.
    pub raw: u64,
    /// Texels in each dimension; the third counts slices, layers, or the faces of cubes.
    pub extent: [u64; 3],
    /// Size of all texels without gaps, in bytes.
    pub size: u64,
}

/// Writes the description with which the array was mapped to `*desc` and the driver's object (`CUmipmappedArray`), valid
/// while the array lives, to `*raw`. Each may be null.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_array_get_desc(array: gpi_array, desc: *mut gpi_array_desc, raw: *mut u64) -> gpi_status {
    call("gpi_array_get_desc", |operation| {
        let array = object::get(operation, array)?;
        if !desc.is_null() {
            // SAFETY: the caller's promise.
            unsafe { Out::new(operation, "desc", desc) }?.set(array.desc().into());
        }
        if !raw.is_null() {
            // SAFETY: the caller's promise.
            unsafe { Out::new(operation, "raw", raw) }?.set(array.as_raw().get() as u64);
        }
        Ok(())
    })
}

/// Describes a mip level with all its layers.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` if the level does not exist; otherwise the driver's error.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_array_get_level(
    array: gpi_array,
    level: u32,
    info: *mut gpi_array_level_info,
) -> gpi_status {
    call("gpi_array_get_level", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "info", info) }?;
        let array = object::get(operation, array)?;
        let region = array.level(level)?;
        out.set(gpi_array_level_info {
            raw: region.as_raw().get() as u64,
            extent: region.extent(),
            size: region.size(),
        });
        Ok(())
    })
}

/// Destroys the array: unmaps it, after pending work that uses it has completed.
///
/// Errors: the driver's error of unmapping it; the handle is destroyed in either case.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_array_destroy(array: gpi_array) -> gpi_status {
    call("gpi_array_destroy", |operation| {
        let array = object::remove(operation, array)?;
        Arc::into_inner(array).map_or(Ok(()), MappedMipmappedArray::close)
    })
}
