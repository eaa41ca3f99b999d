//! Memory of the device that can be exported: CUDA's virtual memory management.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use gpu_interop_core::{Error, MemoryHandle, Result};

use crate::context::PrimaryContext;
use crate::driver::Driver;
use crate::sys::{
    self, DeviceAddress, GRANULARITY_MINIMUM, MEM_ACCESS_READ_WRITE, MEM_ALLOCATION_TYPE_PINNED,
    MEM_HANDLE_TYPE_POSIX_FD, MEM_LOCATION_TYPE_DEVICE, MemAccessDesc, MemAllocationProp, MemLocation,
};

/// A function of the driver that may be missing.
macro_rules! function {
    ($driver:expr, $field:ident) => {{
        let driver: &$crate::driver::Driver = &$driver;
        driver.functions.$field.require(&driver.version)
    }};
}
pub(crate) use function;

/// Physical memory, and the range of addresses at which it is mapped. Each step undoes itself.
#[derive(Debug)]
pub(crate) struct Allocation {
    mapped: Mapped,
    physical: Physical,
}

#[derive(Debug)]
struct Physical {
    context: Arc<PrimaryContext>,
    handle: u64,
}

#[derive(Debug)]
struct Reserved {
    context: Arc<PrimaryContext>,
    address: DeviceAddress,
    size: usize,
}

#[derive(Debug)]
struct Mapped {
    // Unmapped, by `Drop`, before the addresses are given back.
    reserved: Reserved,
}

impl Allocation {
    /// At least `size` bytes on `device`, readable and writable by it.
    pub(crate) fn new(context: &Arc<PrimaryContext>, device: sys::Device, size: u64) -> Result<Self> {
        let driver = &*context.driver;
        let location = MemLocation { kind: MEM_LOCATION_TYPE_DEVICE, id: device };
        let prop = MemAllocationProp {
            kind: MEM_ALLOCATION_TYPE_PINNED,
            requested_handle_types: MEM_HANDLE_TYPE_POSIX_FD,
            location,
            win32_handle_metadata: std::ptr::null_mut(),
            alloc_flags: [0; 8],
        };
        let size = round_up(driver, &prop, size)?;
        let physical = Physical::create(context, &prop, size)?;
        let mapped = Mapped::map(Reserved::reserve(context, size)?, &physical)?;
        let access = MemAccessDesc { location, flags: MEM_ACCESS_READ_WRITE };
        // SAFETY: the range was just mapped, and there is one description.
        let result = unsafe { function!(driver, mem_set_access)?(mapped.reserved.address, size, &raw const access, 1) };
        driver.check("cuMemSetAccess", result)?;
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
        use std::os::fd::{FromRawFd, OwnedFd};
        const OPERATION: &str = "cuMemExportToShareableHandle";
        let driver = &*self.physical.context.driver;
        let mut fd: c_int = -1;
        // SAFETY: the allocation is live and was made for export as a descriptor; the pointer is to what that kind takes.
        let result = unsafe {
            function!(driver, mem_export_to_shareable_handle)?(
                (&raw mut fd).cast::<c_void>(),
                self.physical.handle,
                MEM_HANDLE_TYPE_POSIX_FD,
                0,
            )
        };
        driver.check(OPERATION, result)?;
        if fd < 0 {
            return Err(Error::new(
                gpu_interop_core::ErrorKind::Driver,
                OPERATION,
                "the driver reported success but gave no descriptor",
            ));
        }
        // SAFETY: a successful export makes a new descriptor for the caller.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // The driver need not set close-on-exec, and a duplicate may.
        let fd = fd.try_clone().map_err(|error| {
            Error::new(gpu_interop_core::ErrorKind::System, OPERATION, "cannot duplicate the descriptor")
                .with_source(error)
        })?;
        Ok(MemoryHandle::OpaqueFd(fd))
    }

    #[cfg(not(unix))]
    pub(crate) fn export(&self) -> Result<MemoryHandle> {
        Err(Error::unsupported("cuMemExportToShareableHandle", "this version exports file descriptors only"))
    }
}

fn round_up(driver: &Driver, prop: &MemAllocationProp, size: u64) -> Result<usize> {
    const OPERATION: &str = "cuMemGetAllocationGranularity";
    let mut granularity = 0;
    // SAFETY: both pointers are valid for the call.
    let result =
        unsafe { function!(driver, mem_get_allocation_granularity)?(&raw mut granularity, prop, GRANULARITY_MINIMUM) };
    driver.check(OPERATION, result)?;
    usize::try_from(size).ok().and_then(|size| size.checked_next_multiple_of(granularity.max(1))).ok_or_else(|| {
        Error::new(gpu_interop_core::ErrorKind::OutOfMemory, OPERATION, "no device has this much memory")
            .with_context("size", size)
    })
}

impl Physical {
    fn create(context: &Arc<PrimaryContext>, prop: &MemAllocationProp, size: usize) -> Result<Self> {
        let driver = &*context.driver;
        let mut handle = 0;
        // SAFETY: both pointers are valid for the call; the size is a multiple of the granularity.
        let result = unsafe { function!(driver, mem_create)?(&raw mut handle, size, prop, 0) };
        driver.check("cuMemCreate", result)?;
        Ok(Self { context: context.clone(), handle })
    }
}

impl Reserved {
    fn reserve(context: &Arc<PrimaryContext>, size: usize) -> Result<Self> {
        let driver = &*context.driver;
        let mut address = 0;
        // SAFETY: the pointer is valid for the call; the size is a multiple of the granularity.
        let result = unsafe { function!(driver, mem_address_reserve)?(&raw mut address, size, 0, 0, 0) };
        driver.check("cuMemAddressReserve", result)?;
        Ok(Self { context: context.clone(), address, size })
    }
}

impl Mapped {
    fn map(reserved: Reserved, physical: &Physical) -> Result<Self> {
        let driver = &*reserved.context.driver;
        // SAFETY: the range was reserved for this, whole, and the memory is as large.
        let result = unsafe { function!(driver, mem_map)?(reserved.address, reserved.size, 0, physical.handle, 0) };
        driver.check("cuMemMap", result)?;
        Ok(Self { reserved })
    }
}

/// Reports what a drop cannot return.
fn report(driver: &Driver, operation: &'static str, result: sys::CuResult) {
    if let Err(error) = driver.check(operation, result) {
        tracing::error!(%error, "freeing device memory failed; it is leaked");
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let driver = &*self.reserved.context.driver;
        if let Some(unmap) = driver.functions.mem_unmap.get() {
            // SAFETY: mapped by `Mapped::map`, whole, and no work uses it: the owner's promise.
            report(driver, "cuMemUnmap", unsafe { unmap(self.reserved.address, self.reserved.size) });
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let driver = &*self.context.driver;
        if let Some(free) = driver.functions.mem_address_free.get() {
            // SAFETY: reserved by `Reserved::reserve`, whole, and unmapped by now.
            report(driver, "cuMemAddressFree", unsafe { free(self.address, self.size) });
        }
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        let driver = &*self.context.driver;
        if let Some(release) = driver.functions.mem_release.get() {
            // SAFETY: created by `Physical::create`, and released once.
            report(driver, "cuMemRelease", unsafe { release(self.handle) });
        }
    }
}
