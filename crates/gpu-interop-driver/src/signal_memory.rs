//! Words that streams and the host both access: pinned host memory, as both vendors have it.

use std::ffi::c_void;
use std::ptr::NonNull;

use gpu_interop_core::backend::SignalMemory;
use gpu_interop_core::{DevicePtr, Error, ErrorKind, Result};

use crate::driver::Driver;
use crate::trace::DriverFunction;
use crate::vendor::Vendor;

/// Drivers pin whole pages: a smaller allocation costs the same.
const SIZE: usize = 4096;
/// `CU_MEMHOSTALLOC_PORTABLE`, `hipHostMallocPortable`.
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTALLOC_DEVICEMAP`, `hipHostMallocMapped`.
const DEVICE_MAPPED: u32 = 2;

/// A page of pinned memory, cleared (`cuMemHostAlloc`, `hipHostMalloc`).
pub(crate) fn allocate<V: Vendor>(driver: &Driver<V>) -> Result<SignalMemory> {
    let functions = &driver.functions;
    let (allocate, address) = (&functions.mem_host_alloc, &functions.mem_host_get_device_pointer);
    let (call, get_address) = (allocate.require(&driver.version)?, address.require(&driver.version)?);
    functions.mem_free_host.require(&driver.version)?;
    let mut host: *mut c_void = std::ptr::null_mut();
    let flags = PORTABLE | DEVICE_MAPPED | V::PINNED_FLAGS;
    // SAFETY: the pointer is valid for the call.
    driver.check(allocate.operation, unsafe { call.traced(allocate.operation, (&raw mut host, SIZE, flags)) })?;
    let Some(memory) = NonNull::new(host.cast::<u8>()) else {
        return Err(Error::new(
            ErrorKind::Driver,
            allocate.operation,
            "the driver reported success but gave no memory",
        ));
    };
    // SAFETY: the driver gave this many bytes, and nothing else knows them yet.
    unsafe { memory.write_bytes(0, SIZE) };
    let mut ptr = 0;
    // SAFETY: the memory was just allocated, mapped into the device's address space; the pointer is valid for the call.
    let answer = unsafe { get_address.traced(address.operation, (&raw mut ptr, host, 0)) };
    let found = driver.check(address.operation, answer);
    let memory = SignalMemory { host: memory, ptr: DevicePtr::new(ptr), size: SIZE };
    let found = found.and_then(|()| match ptr {
        0 => Err(Error::new(ErrorKind::Driver, address.operation, "the driver reported success but gave no address")),
        _ => Ok(memory),
    });
    if found.is_err() {
        // SAFETY: nothing knows the memory.
        if let Err(error) = unsafe { free(driver, memory) } {
            tracing::warn!(%error, "freeing pinned memory failed");
        }
    }
    found
}

/// Frees what [`allocate`] gave (`cuMemFreeHost`, `hipHostFree`).
///
/// # Safety
/// `memory` came from [`allocate`], and nothing uses it any more.
pub(crate) unsafe fn free<V: Vendor>(driver: &Driver<V>, memory: SignalMemory) -> Result<()> {
    let function = &driver.functions.mem_free_host;
    let (free, name) = (function.require(&driver.version)?, function.operation);
    // SAFETY: the caller's promise.
    driver.check(name, unsafe { free.traced(name, (memory.host.as_ptr().cast(),)) })
}
