//! Signal memory, whose words streams and the host access: pinned host memory.

use std::ffi::c_void;
use std::ptr::NonNull;

use gpu_interop_core::backend::SignalMemory;
use gpu_interop_core::{DevicePtr, Error, ErrorKind, Result};

use crate::driver::Driver;
use crate::trace::DriverFunction;
use crate::vendor::Vendor;

/// Size in bytes. Drivers pin whole pages, so a smaller allocation costs the same.
const SIZE: usize = 4096;
/// `CU_MEMHOSTALLOC_PORTABLE`, `hipHostMallocPortable`.
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTALLOC_DEVICEMAP`, `hipHostMallocMapped`.
const DEVICE_MAPPED: u32 = 2;

/// Allocates a zeroed page of pinned memory (`cuMemHostAlloc`, `hipHostMalloc`).
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
            "the driver reported success but returned no memory",
        ));
    };
    // SAFETY: the driver allocated `SIZE` bytes, which have no other user yet.
    unsafe { memory.write_bytes(0, SIZE) };
    let mut ptr = 0;
    // SAFETY: the memory was just allocated, mapped into the device's address space; the pointer is valid for the call.
    let status = unsafe { get_address.traced(address.operation, (&raw mut ptr, host, 0)) };
    let found = driver.check(address.operation, status);
    let memory = SignalMemory { host: memory, ptr: DevicePtr::new(ptr), size: SIZE };
    let found = found.and_then(|()| match ptr {
        0 => {
            Err(Error::new(ErrorKind::Driver, address.operation, "the driver reported success but returned no address"))
        }
        _ => Ok(memory),
    });
    if found.is_err() {
        // SAFETY: the memory was just allocated and has no other user.
        if let Err(error) = unsafe { free(driver, memory) } {
            tracing::warn!(%error, "freeing pinned memory failed");
        }
    }
    found
}

/// Frees memory of [`allocate`] (`cuMemFreeHost`, `hipHostFree`).
///
/// # Safety
/// `memory` is from [`allocate`] and is not used afterwards.
pub(crate) unsafe fn free<V: Vendor>(driver: &Driver<V>, memory: SignalMemory) -> Result<()> {
    let function = &driver.functions.mem_free_host;
    let (free, name) = (function.require(&driver.version)?, function.operation);
    // SAFETY: the caller's promise.
    driver.check(name, unsafe { free.traced(name, (memory.host.as_ptr().cast(),)) })
}
