//! NvSciSync attributes.

use std::ffi::c_void;
use std::ptr::NonNull;

use gpu_interop::handle::NvSciSyncAttrList;
use gpu_interop::{Error, NvSciSyncUse};

use crate::call::call;
use crate::handle::gpi_device;
use crate::object;
use crate::status::gpi_status;

/// Use of an NvSciSync object by a device: it signals.
pub const GPI_NVSCISYNC_SIGNAL: u32 = 1;
/// Use of an NvSciSync object by a device: it waits.
pub const GPI_NVSCISYNC_WAIT: u32 = 2;

/// Fills an unreconciled `NvSciSyncAttrList` with the requirements of the device (`cuDeviceGetNvSciSyncAttributes`). `uses` are
/// `GPI_NVSCISYNC_*`: every later use of the object. The caller keeps the list, also after a failure.
///
/// Errors: `GPI_ERROR_UNSUPPORTED` where the device lacks NvSciSync; `GPI_ERROR_INVALID_ARGUMENT` for a null list or no uses;
/// otherwise the driver's error.
///
/// # Safety
/// The list is valid, and nothing else uses it during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_device_fill_nvscisync_attributes(
    device: gpi_device,
    list: *mut c_void,
    uses: u32,
) -> gpi_status {
    call("gpi_device_fill_nvscisync_attributes", |operation| {
        let device = object::get(operation, device)?;
        let list = NonNull::new(list).ok_or_else(|| Error::invalid(operation, "the list is null"))?;
        // SAFETY: the caller's promise.
        let list = unsafe { NvSciSyncAttrList::from_raw(list) };
        device.fill_nv_sci_sync_attributes(list, NvSciSyncUse::from_bits_retain(uses))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_those_of_the_library() {
        assert_eq!(NvSciSyncUse::SIGNAL.bits(), GPI_NVSCISYNC_SIGNAL);
        assert_eq!(NvSciSyncUse::WAIT.bits(), GPI_NVSCISYNC_WAIT);
    }
}
