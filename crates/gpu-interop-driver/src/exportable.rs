//! Memory of a device that can be exported: the virtual memory management of both drivers.

use std::sync::Arc;

use gpu_interop_core::{Error, ErrorKind, MemoryHandle, Result};

use crate::driver::Driver;
use crate::functions::DeviceAddress;
use crate::status::Status;
use crate::vendor::{Context, Vendor};

/// The structs and numbers of virtual memory management, which are the same in both headers.
pub mod abi {
    use std::ffi::{c_int, c_uint, c_void};

    /// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`, `hipMemHandleTypePosixFileDescriptor`.
    pub const MEM_HANDLE_TYPE_POSIX_FD: c_uint = 1;
    /// `CU_MEM_ALLOCATION_TYPE_PINNED`, `hipMemAllocationTypePinned`.
    pub const MEM_ALLOCATION_TYPE_PINNED: c_uint = 1;
    /// `CU_MEM_LOCATION_TYPE_DEVICE`, `hipMemLocationTypeDevice`.
    pub const MEM_LOCATION_TYPE_DEVICE: c_uint = 1;
    /// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`, `hipMemAccessFlagsProtReadWrite`.
    pub const MEM_ACCESS_READ_WRITE: c_uint = 3;
    /// `CU_MEM_ALLOC_GRANULARITY_MINIMUM`, `hipMemAllocationGranularityMinimum`.
    pub const GRANULARITY_MINIMUM: c_uint = 0;

    /// `CUmemLocation`, `hipMemLocation`.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct MemLocation {
        /// [`MEM_LOCATION_TYPE_DEVICE`].
        pub kind: c_uint,
        /// The device.
        pub id: c_int,
    }

    /// `CUmemAllocationProp`, `hipMemAllocationProp`.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct MemAllocationProp {
        /// [`MEM_ALLOCATION_TYPE_PINNED`].
        pub kind: c_uint,
        /// [`MEM_HANDLE_TYPE_POSIX_FD`].
        pub requested_handle_types: c_uint,
        /// Where the memory is.
        pub location: MemLocation,
        /// Null.
        pub win32_handle_metadata: *mut c_void,
        /// 0. HIP's header names only half of them.
        pub alloc_flags: [u8; 8],
    }

    /// `CUmemAccessDesc`, `hipMemAccessDesc`.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct MemAccessDesc {
        /// Who accesses.
        pub location: MemLocation,
        /// [`MEM_ACCESS_READ_WRITE`].
        pub flags: c_uint,
    }
}

use abi::{
    GRANULARITY_MINIMUM, MEM_ACCESS_READ_WRITE, MEM_ALLOCATION_TYPE_PINNED, MEM_HANDLE_TYPE_POSIX_FD,
    MEM_LOCATION_TYPE_DEVICE, MemAccessDesc, MemAllocationProp, MemLocation,
};

/// Calls a function of the driver, looks at its status, and gives the function's name in errors. In an unsafe block.
macro_rules! call {
    ($driver:expr, $function:ident($($argument:expr),* $(,)?)) => {{
        let driver = $driver;
        let function = &driver.functions.$function;
        let result = function.require(&driver.version)?($($argument),*);
        driver.check(function.operation, result).map(|()| function.operation)
    }};
}

/// Physical memory, and the range of addresses at which it is mapped. Each step undoes itself.
#[derive(Debug)]
pub(crate) struct Allocation<V: Vendor> {
    mapped: Mapped<V>,
    physical: Physical<V>,
}

#[derive(Debug)]
struct Physical<V: Vendor> {
    context: Arc<Context<V>>,
    handle: u64,
}

#[derive(Debug)]
struct Reserved<V: Vendor> {
    context: Arc<Context<V>>,
    address: DeviceAddress,
    size: usize,
}

#[derive(Debug)]
struct Mapped<V: Vendor> {
    // Unmapped, by `Drop`, before the addresses are given back.
    reserved: Reserved<V>,
}

impl<V: Vendor> Allocation<V> {
    /// At least `size` bytes on the context's device, readable and writable by it. The device is current.
    pub(crate) fn new(context: &Arc<Context<V>>, size: u64) -> Result<Self> {
        let location = MemLocation { kind: MEM_LOCATION_TYPE_DEVICE, id: context.device };
        let prop = MemAllocationProp {
            kind: MEM_ALLOCATION_TYPE_PINNED,
            requested_handle_types: MEM_HANDLE_TYPE_POSIX_FD,
            location,
            win32_handle_metadata: std::ptr::null_mut(),
            alloc_flags: [0; 8],
        };
        let driver = &*context.driver;
        let size = round_up(driver, &prop, size)?;
        let physical = Physical::create(context, &prop, size)?;
        let mapped = Mapped::map(Reserved::reserve(context, size)?, &physical)?;
        let access = MemAccessDesc { location, flags: MEM_ACCESS_READ_WRITE };
        // SAFETY: the range was just mapped, and there is one description.
        unsafe { call!(driver, mem_set_access(mapped.reserved.address, size, &raw const access, 1)) }?;
        Ok(Self { mapped, physical })
    }

    pub(crate) fn address(&self) -> DeviceAddress {
        self.mapped.reserved.address
    }

    pub(crate) fn size(&self) -> u64 {
        self.mapped.reserved.size as u64
    }

    /// A new descriptor of the memory.
    #[cfg(unix)]
    pub(crate) fn export(&self) -> Result<MemoryHandle> {
        use std::ffi::{c_int, c_void};
        use std::os::fd::{FromRawFd, OwnedFd};

        let driver = &*self.physical.context.driver;
        let mut fd: c_int = -1;
        let (target, handle) = ((&raw mut fd).cast::<c_void>(), self.physical.handle);
        // SAFETY: the allocation is live and was made for export as a descriptor; the pointer is to what that kind takes.
        let exported =
            unsafe { call!(driver, mem_export_to_shareable_handle(target, handle, MEM_HANDLE_TYPE_POSIX_FD, 0)) };
        let operation = exported?;
        if fd < 0 {
            let message = "the driver reported success but gave no descriptor";
            return Err(Error::new(ErrorKind::Driver, operation, message));
        }
        // SAFETY: a successful export makes a new descriptor for the caller.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // The driver need not set close-on-exec, and a duplicate may.
        let fd = fd.try_clone().map_err(|error| {
            Error::new(ErrorKind::System, operation, "cannot duplicate the descriptor").with_source(error)
        })?;
        Ok(MemoryHandle::OpaqueFd(fd))
    }

    #[cfg(not(unix))]
    pub(crate) fn export(&self) -> Result<MemoryHandle> {
        let operation = self.physical.context.driver.functions.mem_export_to_shareable_handle.operation;
        Err(Error::unsupported(operation, "this version exports file descriptors only"))
    }
}

fn round_up<V: Vendor>(driver: &Driver<V>, prop: &MemAllocationProp, size: u64) -> Result<usize> {
    let mut granularity = 0;
    // SAFETY: both pointers are valid for the call.
    let asked =
        unsafe { call!(driver, mem_get_allocation_granularity(&raw mut granularity, prop, GRANULARITY_MINIMUM)) };
    let operation = asked?;
    usize::try_from(size).ok().and_then(|size| size.checked_next_multiple_of(granularity.max(1))).ok_or_else(|| {
        Error::new(ErrorKind::OutOfMemory, operation, "no device has this much memory").with_context("size", size)
    })
}

impl<V: Vendor> Physical<V> {
    fn create(context: &Arc<Context<V>>, prop: &MemAllocationProp, size: usize) -> Result<Self> {
        let mut handle = 0;
        // SAFETY: both pointers are valid for the call; the size is a multiple of the granularity.
        unsafe { call!(&*context.driver, mem_create(&raw mut handle, size, prop, 0)) }?;
        Ok(Self { context: context.clone(), handle })
    }
}

impl<V: Vendor> Reserved<V> {
    fn reserve(context: &Arc<Context<V>>, size: usize) -> Result<Self> {
        let mut address = 0;
        // SAFETY: the pointer is valid for the call; the size is a multiple of the granularity.
        unsafe { call!(&*context.driver, mem_address_reserve(&raw mut address, size, 0, 0, 0)) }?;
        Ok(Self { context: context.clone(), address, size })
    }
}

impl<V: Vendor> Mapped<V> {
    fn map(reserved: Reserved<V>, physical: &Physical<V>) -> Result<Self> {
        let (address, size) = (reserved.address, reserved.size);
        // SAFETY: the range was reserved for this, whole, and the memory is as large.
        unsafe { call!(&*reserved.context.driver, mem_map(address, size, 0, physical.handle, 0)) }?;
        Ok(Self { reserved })
    }
}

/// Reports what a drop cannot return.
fn report<V: Vendor>(driver: &Driver<V>, operation: &'static str, result: Status) {
    if let Err(error) = driver.check(operation, result) {
        tracing::error!(%error, "freeing device memory failed; it is leaked");
    }
}

impl<V: Vendor> Drop for Mapped<V> {
    fn drop(&mut self) {
        let driver = &*self.reserved.context.driver;
        let function = &driver.functions.mem_unmap;
        if let Some(unmap) = function.get() {
            // SAFETY: mapped by `Mapped::map`, whole, and no work uses it: the owner's promise.
            report(driver, function.operation, unsafe { unmap(self.reserved.address, self.reserved.size) });
        }
    }
}

impl<V: Vendor> Drop for Reserved<V> {
    fn drop(&mut self) {
        let driver = &*self.context.driver;
        let function = &driver.functions.mem_address_free;
        if let Some(free) = function.get() {
            // SAFETY: reserved by `Reserved::reserve`, whole, and unmapped by now.
            report(driver, function.operation, unsafe { free(self.address, self.size) });
        }
    }
}

impl<V: Vendor> Drop for Physical<V> {
    fn drop(&mut self) {
        let driver = &*self.context.driver;
        let function = &driver.functions.mem_release;
        if let Some(release) = function.get() {
            // SAFETY: created by `Physical::create`, and released once.
            report(driver, function.operation, unsafe { release(self.handle) });
        }
    }
}
