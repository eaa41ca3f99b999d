//! Memory of a device that can be exported: the virtual memory management of both drivers.

use std::num::NonZeroU64;
use std::sync::Arc;

use gpu_interop_core::{Error, ErrorKind, MemoryHandle, Result};

use crate::driver::{Driver, null};
use crate::functions::DeviceAddress;
use crate::trace::DriverFunction;
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
        let result = function.require(&driver.version)?.traced(function.operation, ($($argument,)*));
        driver.check(function.operation, result).map(|()| function.operation)
    }};
}

/// Physical memory, and the range of addresses at which it is mapped. When this is dropped, what is made of it by then
/// is undone.
#[derive(Debug)]
pub(crate) struct Allocation<V: Vendor> {
    context: Arc<Context<V>>,
    size: usize,
    physical: Option<NonZeroU64>,
    reserved: Option<NonZeroU64>,
    mapped: bool,
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
        let size = round_up(&context.driver, &prop, size)?;
        let mut made = Self { context: context.clone(), size, physical: None, reserved: None, mapped: false };
        made.create(&prop)?;
        made.reserve()?;
        made.map()?;
        made.allow(location)?;
        Ok(made)
    }

    pub(crate) fn address(&self) -> DeviceAddress {
        self.reserved.map_or(0, NonZeroU64::get)
    }

    pub(crate) fn size(&self) -> u64 {
        self.size as u64
    }

    fn handle(&self) -> u64 {
        self.physical.map_or(0, NonZeroU64::get)
    }

    fn create(&mut self, prop: &MemAllocationProp) -> Result<()> {
        let mut handle = 0;
        // SAFETY: both pointers are valid for the call; the size is a multiple of the granularity.
        let operation = unsafe { call!(&*self.context.driver, mem_create(&raw mut handle, self.size, prop, 0)) }?;
        self.physical = Some(NonZeroU64::new(handle).ok_or_else(|| null(operation))?);
        Ok(())
    }

    fn reserve(&mut self) -> Result<()> {
        let mut address = 0;
        // SAFETY: the pointer is valid for the call; the size is a multiple of the granularity.
        let reserved =
            unsafe { call!(&*self.context.driver, mem_address_reserve(&raw mut address, self.size, 0, 0, 0)) };
        let operation = reserved?;
        self.reserved = Some(NonZeroU64::new(address).ok_or_else(|| null(operation))?);
        Ok(())
    }

    fn map(&mut self) -> Result<()> {
        let (address, handle) = (self.address(), self.handle());
        // SAFETY: the range was reserved for this, whole, and the memory is as large.
        unsafe { call!(&*self.context.driver, mem_map(address, self.size, 0, handle, 0)) }?;
        self.mapped = true;
        Ok(())
    }

    fn allow(&self, location: MemLocation) -> Result<()> {
        let access = MemAccessDesc { location, flags: MEM_ACCESS_READ_WRITE };
        // SAFETY: the range was just mapped, and there is one description.
        unsafe { call!(&*self.context.driver, mem_set_access(self.address(), self.size, &raw const access, 1)) }
            .map(drop)
    }

    /// Frees it. The device is current, and no work uses it.
    ///
    /// All steps are tried. The error is that of the first that failed; what others answer is reported.
    pub(crate) fn free(mut self) -> Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> Result<()> {
        let (driver, size) = (&*self.context.driver, self.size);
        let (reserved, physical) = (self.reserved.take(), self.physical.take());
        let unmapped = match reserved {
            Some(address) if std::mem::take(&mut self.mapped) => unmap(driver, address.get(), size),
            _ => Ok(()),
        };
        let unreserved = reserved.map_or(Ok(()), |address| unreserve(driver, address.get(), size));
        let released = physical.map_or(Ok(()), |handle| release(driver, handle.get()));
        let mut failed = [unmapped, unreserved, released].into_iter().filter_map(Result::err);
        let first = failed.next();
        failed.for_each(|error| report(&error));
        first.map_or(Ok(()), Err)
    }

    /// A new descriptor of the memory.
    #[cfg(unix)]
    pub(crate) fn export(&self) -> Result<MemoryHandle> {
        use std::ffi::{c_int, c_void};
        use std::os::fd::{FromRawFd, OwnedFd};

        let driver = &*self.context.driver;
        let mut fd: c_int = -1;
        let (target, handle) = ((&raw mut fd).cast::<c_void>(), self.handle());
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
        let operation = self.context.driver.functions.mem_export_to_shareable_handle.operation;
        Err(Error::unsupported(operation, "this version exports file descriptors only"))
    }
}

fn round_up<V: Vendor>(driver: &Driver<V>, prop: &MemAllocationProp, size: u64) -> Result<usize> {
    let mut granularity = 0;
    // SAFETY: both pointers are valid for the call.
    let asked =
        unsafe { call!(driver, mem_get_allocation_granularity(&raw mut granularity, prop, GRANULARITY_MINIMUM)) };
    let operation = asked?;
    if granularity == 0 {
        return Err(Error::new(ErrorKind::Driver, operation, "the driver reported success but gave no granularity"));
    }
    usize::try_from(size).ok().and_then(|size| size.checked_next_multiple_of(granularity)).ok_or_else(|| {
        Error::new(ErrorKind::OutOfMemory, operation, "no device has this much memory").with_context("size", size)
    })
}

/// Reports what cannot be returned.
fn report(error: &Error) {
    tracing::error!(%error, "freeing device memory failed; it is leaked");
}

fn unmap<V: Vendor>(driver: &Driver<V>, address: DeviceAddress, size: usize) -> Result<()> {
    // SAFETY: mapped by `Allocation::map`, whole, and no work uses it: the owner's promise.
    unsafe { call!(driver, mem_unmap(address, size)) }.map(drop)
}

fn unreserve<V: Vendor>(driver: &Driver<V>, address: DeviceAddress, size: usize) -> Result<()> {
    // SAFETY: reserved by `Allocation::reserve`, whole, and unmapped by now.
    unsafe { call!(driver, mem_address_free(address, size)) }.map(drop)
}

fn release<V: Vendor>(driver: &Driver<V>, handle: u64) -> Result<()> {
    // SAFETY: created by `Allocation::create`, and released once.
    unsafe { call!(driver, mem_release(handle)) }.map(drop)
}

impl<V: Vendor> Drop for Allocation<V> {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            report(&error);
        }
    }
}
