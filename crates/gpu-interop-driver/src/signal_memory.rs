//! Signal memory, whose words streams and the host access: pages of this process that the driver pins.
//!
//! The driver does not own the pages. When another library resets the device (`cudaDeviceReset`, `hipDeviceReset`), the
//! driver unmaps the memory that it allocated itself (`cuMemHostAlloc`, measured with driver 580 on an H100), and the
//! bridge's thread would read unmapped memory.
//!
//! Host functions write the words in stream order for drivers whose stream writes are not visible to other streams
//! ([`Vendor::WRITES_ARE_SEEN`]).

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use gpu_interop_core::backend::{DevicePtr, RawStream, SignalMemory};
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ErrorKind, Result};

use crate::call::call;
use crate::driver::{Driver, Vendor};

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
                report(&error);
            }
        }
    }

    /// Leaks the pages, because the device cannot be made current.
    pub(crate) fn leak(&self, error: &Error) {
        for _ in std::mem::take(&mut *self.lock()) {
            report(error);
        }
    }
}

fn report(error: &Error) {
    tracing::warn!(%error, "unpinning memory failed; it is leaked");
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

/// Signal memory of a device, by first device address.
#[derive(Debug, Default)]
pub(crate) struct HostWords(Mutex<BTreeMap<u64, SignalMemory>>);

/// Value of 32 or 64 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value {
    Narrow(u32),
    Wide(u64),
}

impl Value {
    fn size(self) -> usize {
        match self {
            Self::Narrow(_) => 4,
            Self::Wide(_) => 8,
        }
    }
}

impl HostWords {
    /// Locks the map, which a panic cannot leave inconsistent.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, SignalMemory>> {
        lock(&self.0)
    }

    pub(crate) fn add(&self, memory: SignalMemory) -> SignalMemory {
        self.lock().insert(memory.ptr.get(), memory);
        memory
    }

    /// Removes memory. Called before the driver frees it and may reuse its addresses.
    pub(crate) fn remove(&self, memory: SignalMemory) {
        self.lock().remove(&memory.ptr.get());
    }

    /// Returns the host address of an aligned word; `None` if it is outside signal memory.
    fn find(&self, word: DevicePtr, size: usize) -> Option<NonNull<u8>> {
        let words = self.lock();
        let (first, memory) = words.range(..=word.get()).next_back()?;
        let offset = usize::try_from(word.get() - first).ok()?;
        let inside = offset.checked_add(size)? <= memory.size && offset.is_multiple_of(size);
        // SAFETY: the offset is within the memory.
        inside.then(|| unsafe { memory.host.add(offset) })
    }

    /// Enqueues a host function that writes a word after all earlier work on the stream. Returns `None` if the word is
    /// outside signal memory.
    ///
    /// # Safety
    /// The stream is live and its device current, and the word is live until it is written.
    pub(crate) unsafe fn write<V: Vendor>(
        &self,
        driver: &Driver<V>,
        stream: RawStream,
        word: DevicePtr,
        value: Value,
    ) -> Option<Result<()>> {
        let host = self.find(word, value.size())?;
        let data = Box::into_raw(Box::new(Write { host, value })).cast::<c_void>();
        // SAFETY: the stream is live by the caller's promise; `store` takes ownership of `data`, and is called once.
        let launched = unsafe { call!(driver.launch_host_func(stream.get(), store, data)) };
        if launched.is_err() {
            // SAFETY: a host function that failed to enqueue is never called, so this function still owns the box.
            drop(unsafe { Box::from_raw(data.cast::<Write>()) });
        }
        Some(launched)
    }
}

/// Argument of [`store`].
struct Write {
    host: NonNull<u8>,
    value: Value,
}

/// Writes a word.
///
/// # Safety
/// `data` is from [`Box::into_raw`] of a [`Write`] and passed once; its word is live.
unsafe extern "C" fn store(data: *mut c_void) {
    // SAFETY: the caller's promise.
    let Write { host, value } = *unsafe { Box::from_raw(data.cast::<Write>()) };
    // SAFETY: the word is live and aligned, and all accesses to it are atomic.
    unsafe {
        match value {
            Value::Narrow(value) => AtomicU32::from_ptr(host.as_ptr().cast()).store(value, Ordering::Release),
            Value::Wide(value) => AtomicU64::from_ptr(host.as_ptr().cast()).store(value, Ordering::Release),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{page, *};

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

    #[test]
    fn words_of_signal_memory_are_found_and_written() {
        let mut page = [0_u64; 4];
        let host = NonNull::from(&mut page).cast::<u8>();
        let memory = SignalMemory { host, ptr: DevicePtr::new(0x1000), size: 32 };
        let words = HostWords::default();
        assert_eq!(words.add(memory), memory);
        for (word, size) in [(0x0ff8, 8), (0x1020, 8), (0x1004, 8), (0x1002, 4), (0x2000, 4)] {
            assert!(words.find(DevicePtr::new(word), size).is_none(), "{word:x}, {size}");
        }
        for (word, value) in [(0x1008, Value::Wide(7)), (0x1018, Value::Narrow(9))] {
            let host = words.find(DevicePtr::new(word), value.size()).expect("a word");
            // SAFETY: the word is inside `page`.
            unsafe { store(Box::into_raw(Box::new(Write { host, value })).cast()) };
        }
        words.remove(memory);
        assert!(words.find(DevicePtr::new(0x1008), 8).is_none());
        let narrow = page[3].to_ne_bytes();
        assert_eq!((page[0], page[1], page[2], &narrow[..4]), (0, 7, 0, &9_u32.to_ne_bytes()[..]));
    }
}
