//! Calls of cudarc that are unsafe, or that panic without a driver.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ::cudarc::driver::sys::{self as cuda, CUuuid};
use ::cudarc::driver::{CudaSlice, CudaStream, DriverError};
use gpu_interop_core::backend::DevicePtr;
use gpu_interop_core::{BorrowedMemory, Device, Error, ErrorKind, Result, Uuid};

use super::slice::AnyBits;

/// The oldest version of CUDA that cudarc supports, as `cuDriverGetVersion` reports it.
const OLDEST: i32 = 11_040;

/// Checks that cudarc finds a driver, and that it has the functions that cudarc calls without a check.
pub(super) fn check_driver(operation: &'static str, device: &Device) -> Result<()> {
    let file = device.backend().library.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
    // SAFETY: it loads the driver's library, which is made for being loaded at run time, and is in the process already.
    if !unsafe { cuda::is_culib_present() } {
        let message = "cudarc finds no CUDA driver, although gpu-interop has loaded one; add its folder to the dynamic \
                       linker's search path (LD_LIBRARY_PATH)";
        return Err(Error::new(ErrorKind::DriverNotFound, operation, message).with_context("library", file));
    }
    let mut version = 0;
    // SAFETY: the pointer is valid for the call; every driver has the function, and it may be called at any time.
    let queried = unsafe { cuda::cuDriverGetVersion(&raw mut version) };
    queried.result().map_err(|failure| error(operation, failure))?;
    if version < OLDEST {
        let message = "cudarc requires a driver of CUDA 11.4 or later; install a newer one";
        return Err(Error::new(ErrorKind::DriverTooOld, operation, message)
            .with_context("driver", &device.backend().driver)
            .with_context("library", file));
    }
    Ok(())
}

/// Converts a UUID; `None` for zeros.
pub(super) fn uuid(uuid: CUuuid) -> Option<Uuid> {
    Uuid::from_bytes(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
}

/// Makes memory a slice for cudarc, which must never be dropped: that would free the memory.
///
/// # Safety
/// `len` elements at `address` are live, aligned device memory of the stream's context as long as the view and the work
/// that uses it.
pub(super) unsafe fn view<T: AnyBits>(
    operation: &'static str,
    stream: &Arc<CudaStream>,
    address: u64,
    len: usize,
) -> Result<ManuallyDrop<CudaSlice<T>>> {
    stream.context().bind_to_thread().map_err(|failure| error(operation, failure))?;
    // cudarc panics if it cannot create events.
    // SAFETY: the caller's promise.
    let made = catch_unwind(AssertUnwindSafe(|| ManuallyDrop::new(unsafe { stream.upgrade_device_ptr(address, len) })));
    made.map_err(|_| Error::new(ErrorKind::Driver, operation, "cudarc could not create events for the slice"))
}

/// Takes a view, to be leaked.
///
/// # Safety
/// The view is not used afterwards.
pub(super) unsafe fn take<T>(view: &mut ManuallyDrop<CudaSlice<T>>) -> CudaSlice<T> {
    // SAFETY: the caller's promise.
    unsafe { ManuallyDrop::take(view) }
}

/// [`Device::borrow_memory`] by address.
///
/// # Safety
/// As there.
pub(super) unsafe fn borrow(
    device: &Device,
    address: u64,
    size: u64,
    owner: Arc<dyn Any + Send + Sync>,
) -> Result<BorrowedMemory> {
    // SAFETY: the caller's promise.
    unsafe { device.borrow_memory(DevicePtr::new(address), size, owner) }
}

/// Converts an error of cudarc.
#[cold]
pub(super) fn error(operation: &'static str, error: DriverError) -> Error {
    let name = format!("{:?}", error.0);
    let kind = match &*name {
        "CUDA_ERROR_OUT_OF_MEMORY" => ErrorKind::OutOfMemory,
        "CUDA_ERROR_NO_DEVICE" => ErrorKind::NoDevice,
        _ => ErrorKind::Driver,
    };
    // The discriminants are the driver's numbers.
    Error::new(kind, operation, "the driver reported a failure to cudarc").with_code(error.0 as i64, Some(name))
}
