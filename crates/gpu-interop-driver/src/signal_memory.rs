//! Signal memory, whose words streams and the host access: pages of this process that the driver pins.
//!
//! The driver does not own the pages. When another library resets the device (`cudaDeviceReset`, `hipDeviceReset`), the
//! driver unmaps the memory that it allocated itself (`cuMemHostAlloc`, measured with driver 580 on an H100), and the
//! bridge's thread would read unmapped memory.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard};

use gpu_interop_core::backend::SignalMemory;
use gpu_interop_core::sync::lock;
use gpu_interop_core::{DevicePtr, Error, ErrorKind, Result};

use crate::call::call;
use crate::driver::Driver;
use crate::driver::Vendor;

/// Size in bytes. Drivers pin whole pages, so a smaller one costs the same.
const SIZE: usize = 4096;
/// `CU_MEMHOSTREGISTER_PORTABLE`, `hipHostRegisterPortable`.
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTREGISTER_DEVICEMAP`, `hipHostRegisterMapped`.
const DEVICE_MAPPED: u32 = 2;

/// A pinned page.
#[derive(Debug)]
struct Page(NonNull<u8>);

// SAFETY: the page belongs to the value, as a box's memory does.
unsafe impl Send for Page {}

/// Pinned pages of a device without a device address, because its query failed. They are used by the next allocation:
/// unpinning may wait for a stream whose wait the calling thread must satisfy.
#[derive(Debug, Default)]
pub(crate) struct Spare(Mutex<Vec<Page>>);

impl Spare {
    /// Locks the list, which a panic cannot leave inconsistent.
    fn lock(&self) -> MutexGuard<'_, Vec<Page>> {
        lock(&self.0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Allocates a zeroed page and pins it (`cuMemHostRegister`, `hipHostRegister`). The device is current.
    pub(crate) fn allocate<V: Vendor>(&self, driver: &Driver<V>) -> Result<SignalMemory> {
        let spare = self.lock().pop();
        let page = spare.map_or_else(|| pin(driver), Ok)?;
        match address(driver, &page) {
            Ok(ptr) => Ok(SignalMemory { host: page.0, ptr, size: SIZE }),
            Err(error) => {
                self.lock().push(page);
                Err(error)
            }
        }
    }

    /// Unpins and frees the pages. The device is current, and its streams are idle.
    pub(crate) fn free<V: Vendor>(&self, driver: &Driver<V>) {
        let pages = std::mem::take(&mut *self.lock());
        for page in pages {
            if let Err(error) = unpin(driver, page) {
                tracing::warn!(%error, "unpinning memory failed; it is leaked");
            }
        }
    }
}

/// Unpins and frees memory of [`Spare::allocate`] (`cuMemHostUnregister`, `hipHostUnregister`). After a failure the page
/// is leaked: the device may still access it.
///
/// # Safety
/// `memory` is from [`Spare::allocate`] and is not used afterwards; the device is current.
pub(crate) unsafe fn free<V: Vendor>(driver: &Driver<V>, memory: SignalMemory) -> Result<()> {
    unpin(driver, Page(memory.host))
}

fn pin<V: Vendor>(driver: &Driver<V>) -> Result<Page> {
    let functions = &driver.functions;
    functions.mem_host_get_device_pointer.require(&driver.version)?;
    functions.mem_host_unregister.require(&driver.version)?;
    let operation = functions.mem_host_register.operation;
    let page = Page(page::map(SIZE).ok_or_else(|| {
        Error::new(ErrorKind::OutOfMemory, operation, "the system has no memory for a page")
            .with_source(std::io::Error::last_os_error())
    })?);
    // SAFETY: the page has this size and stays mapped until it has been unpinned.
    let pinned = unsafe { call!(driver.mem_host_register(page.0.as_ptr().cast(), SIZE, PORTABLE | DEVICE_MAPPED)) };
    if pinned.is_err() {
        // SAFETY: mapped above, not pinned, and without other users.
        unsafe { page::unmap(page.0, SIZE) };
    }
    pinned.map(|()| page)
}

fn address<V: Vendor>(driver: &Driver<V>, page: &Page) -> Result<DevicePtr> {
    let (mut ptr, entry) = (0, &driver.functions.mem_host_get_device_pointer);
    // SAFETY: the page is pinned and mapped into the device's address space; the pointer is valid for the call.
    unsafe { call!(driver.mem_host_get_device_pointer(&raw mut ptr, page.0.as_ptr().cast(), 0)) }?;
    if ptr == 0 {
        let message = "the driver reported success but returned no address";
        return Err(Error::new(ErrorKind::Driver, entry.operation, message));
    }
    Ok(DevicePtr::new(ptr))
}

fn unpin<V: Vendor>(driver: &Driver<V>, page: Page) -> Result<()> {
    // SAFETY: `pin` pinned the page, and it is unpinned once.
    unsafe { call!(driver.mem_host_unregister(page.0.as_ptr().cast())) }?;
    // SAFETY: mapped by `pin` with this size; its owner has no further use for it, and the device no access to it.
    unsafe { page::unmap(page.0, SIZE) };
    Ok(())
}

#[cfg(unix)]
mod page {
    use std::ptr::{NonNull, null_mut};

    /// Maps zeroed memory that a forked process does not get: a write in either process would otherwise replace the
    /// pinned page by a copy on kernels before 5.12.
    pub(super) fn map(size: usize) -> Option<NonNull<u8>> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: maps new memory at an address that the kernel chooses.
        let memory = unsafe { libc::mmap(null_mut(), size, access, kind, -1, 0) };
        let memory = NonNull::new(memory.cast::<u8>()).filter(|_| memory != libc::MAP_FAILED)?;
        #[cfg(target_os = "linux")]
        // SAFETY: the memory was mapped above; the advice concerns forked processes only.
        unsafe {
            libc::madvise(memory.as_ptr().cast(), size, libc::MADV_DONTFORK)
        };
        Some(memory)
    }

    /// # Safety
    /// The memory is from [`map`] with this size, and not used afterwards.
    pub(super) unsafe fn unmap(memory: NonNull<u8>, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(memory.as_ptr().cast(), size) };
    }
}

#[cfg(not(unix))]
mod page {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    fn layout(size: usize) -> Option<Layout> {
        Layout::from_size_align(size, size).ok().filter(|layout| layout.size() > 0)
    }

    /// Allocates zeroed pages; `size` is a power of 2.
    pub(super) fn map(size: usize) -> Option<NonNull<u8>> {
        // SAFETY: the layout is not empty.
        layout(size).and_then(|layout| NonNull::new(unsafe { alloc_zeroed(layout) }))
    }

    /// # Safety
    /// The memory is from [`map`] with this size, and not used afterwards.
    pub(super) unsafe fn unmap(memory: NonNull<u8>, size: usize) {
        if let Some(layout) = layout(size) {
            // SAFETY: allocated with this layout, by the caller's promise.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn pages_are_zeroed_and_aligned() {
        let memory = page::map(4096).expect("a page");
        assert!(memory.addr().get().is_multiple_of(4096));
        // SAFETY: mapped above, and unmapped below.
        unsafe {
            assert_eq!(std::slice::from_raw_parts(memory.as_ptr(), 4096), [0; 4096]);
            memory.write_bytes(7, 4096);
            page::unmap(memory, 4096);
        }
    }
}
