//! Exportable device memory, allocated with the virtual memory management API of both drivers.
//!
//! Drivers that [release late](crate::Vendor::releases_late) release resources after they have reported their work as
//! complete. Before reserved addresses are freed, a host function runs. These drivers run host functions on the thread that releases resources, in the same order, so a host function that has run
//! proves that earlier releases are done.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::num::NonZeroU64;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use abi::{
    GRANULARITY_MINIMUM, MEM_ACCESS_READ_WRITE, MEM_ALLOCATION_TYPE_PINNED, MEM_HANDLE_TYPE, MEM_LOCATION_TYPE_DEVICE,
    MemAccessDesc, MemAllocationProp, MemLocation, ObjectAttributes,
};
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ErrorKind, MemoryHandle, Result};

use crate::call::call;
use crate::context::Context;
use crate::driver::{CallPurpose, Driver, Vendor, null};
use crate::functions::{DeviceAddress, DeviceNumber, Handle};
use crate::progress;
use crate::trace::DriverFunction;

/// Structs and constants of virtual memory management, which are identical in both headers.
pub mod abi {
    use std::ffi::{c_int, c_uint, c_void};

    /// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`, `hipMemHandleTypePosixFileDescriptor`.
    pub const MEM_HANDLE_TYPE_POSIX_FD: c_uint = 1;
    /// `CU_MEM_HANDLE_TYPE_WIN32`, `hipMemHandleTypeWin32`.
    pub const MEM_HANDLE_TYPE_WIN32: c_uint = 2;
    /// Handle type of this operating system.
    pub const MEM_HANDLE_TYPE: c_uint = if cfg!(windows) { MEM_HANDLE_TYPE_WIN32 } else { MEM_HANDLE_TYPE_POSIX_FD };
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
        /// [`MEM_HANDLE_TYPE`].
        pub requested_handle_types: c_uint,
        /// Location of the memory.
        pub location: MemLocation,
        /// [`ObjectAttributes`] for Win32 handles, otherwise null.
        pub win32_handle_metadata: *mut c_void,
        /// 0. HIP's header names only half of these bytes.
        pub alloc_flags: [u8; 8],
    }

    /// `OBJECT_ATTRIBUTES` of Windows, which an allocation with Win32 handles requires.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct ObjectAttributes {
        /// Size of the struct in bytes.
        pub length: u32,
        /// Null.
        pub root_directory: *mut c_void,
        /// Null: the object has no name.
        pub object_name: *mut c_void,
        /// 0: handles are not inherited.
        pub attributes: u32,
        /// Null: the default descriptor, with access for this process's user and the system.
        pub security_descriptor: *mut c_void,
        /// Null.
        pub security_quality_of_service: *mut c_void,
    }

    #[cfg(target_pointer_width = "64")]
    const _: () = assert!(size_of::<ObjectAttributes>() == 48);

    impl ObjectAttributes {
        #[allow(clippy::cast_possible_truncation, reason = "a few bytes")]
        const LENGTH: u32 = size_of::<Self>() as u32;

        /// Attributes of an unnamed object with the default security descriptor.
        #[must_use]
        pub const fn nameless() -> Self {
            let null = std::ptr::null_mut();
            Self {
                length: Self::LENGTH,
                root_directory: null,
                object_name: null,
                attributes: 0,
                security_descriptor: null,
                security_quality_of_service: null,
            }
        }
    }

    /// `CUmemAccessDesc`, `hipMemAccessDesc`.
    #[repr(C)]
    #[derive(Debug, Clone, Copy)]
    pub struct MemAccessDesc {
        /// Device that gets access.
        pub location: MemLocation,
        /// [`MEM_ACCESS_READ_WRITE`].
        pub flags: c_uint,
    }
}

/// Attributes of the objects behind Win32 handles. Drivers may read them again at export and do not document that they
/// never write, so they are static and mutable.
struct Nameless(UnsafeCell<ObjectAttributes>);

// SAFETY: this crate never accesses the contents; only the driver does, whose functions may be called on any thread.
unsafe impl Sync for Nameless {}

static NAMELESS: Nameless = Nameless(UnsafeCell::new(ObjectAttributes::nameless()));

/// Physical memory and the address range it is mapped at. Dropping it undoes the steps completed so far.
#[derive(Debug)]
pub(crate) struct Allocation<V: Vendor> {
    context: Arc<Context<V>>,
    size: usize,
    physical: Option<NonZeroU64>,
    reserved: Option<NonZeroU64>,
    mapped: bool,
}

impl<V: Vendor> Allocation<V> {
    /// Allocates at least `size` bytes on the context's device, with read and write access for it. The device is
    /// current.
    pub(crate) fn new(context: &Arc<Context<V>>, size: u64) -> Result<Self> {
        let prop = properties(context.device);
        let size = round_up(&context.driver, &prop, size)?;
        Self::build(context, size, |allocation| allocation.create(&prop))
    }

    /// Imports all `size` bytes of an allocation that the driver exported. The caller keeps ownership of the handle.
    /// The device is current.
    pub(crate) fn imported(context: &Arc<Context<V>>, size: u64, handle: *mut c_void) -> Result<Self> {
        let rounded = round_up(&context.driver, &properties(context.device), size)?;
        if rounded as u64 != size {
            let operation = context.driver.functions.mem_import_from_shareable_handle.operation;
            return Err(Error::invalid(
                operation,
                "the size is not a multiple of the granularity; pass `ExportableMemory::size`",
            )
            .with_context("next valid size", rounded));
        }
        Self::build(context, rounded, |allocation| allocation.import(handle))
    }

    /// Maps the physical memory that `physical` creates or imports.
    fn build(context: &Arc<Context<V>>, size: usize, physical: impl FnOnce(&mut Self) -> Result<()>) -> Result<Self> {
        let mut allocation = Self { context: context.clone(), size, physical: None, reserved: None, mapped: false };
        physical(&mut allocation)?;
        allocation.reserve()?;
        allocation.map()?;
        allocation.allow(MemLocation { kind: MEM_LOCATION_TYPE_DEVICE, id: context.device })?;
        Ok(allocation)
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
        let driver = &*self.context.driver;
        // SAFETY: both pointers are valid for the call; the size is a multiple of the granularity.
        unsafe { call!(driver.mem_create(&raw mut handle, self.size, prop, 0)) }?;
        let operation = driver.functions.mem_create.operation;
        self.physical = Some(NonZeroU64::new(handle).ok_or_else(|| null(operation))?);
        Ok(())
    }

    fn import(&mut self, exported: *mut c_void) -> Result<()> {
        let (driver, mut handle) = (&*self.context.driver, 0);
        let entry = &driver.functions.mem_import_from_shareable_handle;
        let (import, operation) = (entry.require(&driver.version)?, entry.operation);
        // SAFETY: the pointer is valid for the call, and the handle is open; the driver validates its type.
        let result = unsafe { import.traced(operation, (&raw mut handle, exported, MEM_HANDLE_TYPE)) };
        driver.check_for(CallPurpose::ImportingMemory, operation, result)?;
        self.physical = Some(NonZeroU64::new(handle).ok_or_else(|| null(operation))?);
        Ok(())
    }

    fn reserve(&mut self) -> Result<()> {
        let mut address = 0;
        let driver = &*self.context.driver;
        // SAFETY: the pointer is valid for the call; the size is a multiple of the granularity.
        unsafe { call!(driver.mem_address_reserve(&raw mut address, self.size, 0, 0, 0)) }?;
        let operation = driver.functions.mem_address_reserve.operation;
        self.reserved = Some(NonZeroU64::new(address).ok_or_else(|| null(operation))?);
        Ok(())
    }

    fn map(&mut self) -> Result<()> {
        let (driver, address, handle) = (&*self.context.driver, self.address(), self.handle());
        // SAFETY: the whole range was reserved for this mapping, and the memory has the same size.
        unsafe { call!(driver.mem_map(address, self.size, 0, handle, 0)) }?;
        self.mapped = true;
        Ok(())
    }

    fn allow(&self, location: MemLocation) -> Result<()> {
        let driver = &*self.context.driver;
        let access = MemAccessDesc { location, flags: MEM_ACCESS_READ_WRITE };
        // SAFETY: the range was just mapped, and `access` is one descriptor.
        unsafe { call!(driver.mem_set_access(self.address(), self.size, &raw const access, 1)) }
    }

    /// Frees the allocation. The device is current, and no pending work uses the memory.
    ///
    /// Every step is attempted, but addresses of a mapping that could not be undone are leaked. Returns the first error;
    /// further errors are reported through `tracing`.
    pub(crate) fn free(mut self) -> Result<()> {
        self.undo()
    }

    fn undo(&mut self) -> Result<()> {
        if !V::ALLOCATIONS_SURVIVE_RESET
            && (self.reserved.is_some() || self.physical.is_some())
            && let Err(error) = self.context.check_alive()
            && self.context.is_reset()
        {
            // The runtime crashes, or takes the address for another allocation's.
            (self.reserved, self.physical) = (None, None);
            return Err(error);
        }
        let (driver, size) = (&*self.context.driver, self.size);
        let (reserved, physical) = (self.reserved.take(), self.physical.take());
        let mapped = std::mem::take(&mut self.mapped);
        let (late, device) = (&self.context.late, self.context.device);
        let settled = !(mapped && V::releases_late(driver)) || {
            let settled = late.settle(driver, device);
            settled
                .inspect_err(|error| match error.kind() {
                    // Reported as leaked when the device is closed, unless a later attempt succeeds.
                    ErrorKind::Timeout => tracing::debug!(%error, "reserved addresses are kept"),
                    _ => tracing::warn!(%error, "reserved addresses are kept: the driver may still use them"),
                })
                .is_ok()
        };
        let unmapped = match reserved {
            Some(address) if mapped => unmap(driver, address.get(), size),
            _ => Ok(()),
        };
        let unreserved = match reserved {
            // The addresses of a mapping that the driver keeps are leaked.
            Some(_) if unmapped.is_err() => Ok(()),
            Some(address) if settled => unreserve(driver, address.get(), size),
            Some(address) => {
                late.keep(address.get(), size);
                Ok(())
            }
            None => Ok(()),
        };
        let released = physical.map_or(Ok(()), |handle| release(driver, handle.get()));
        let mut failed = [unmapped, unreserved, released].into_iter().filter_map(Result::err);
        let first = failed.next();
        failed.for_each(|error| report(&error));
        first.map_or(Ok(()), Err)
    }

    /// Exports a new handle of the memory, owned by the caller.
    pub(crate) fn export(&self) -> Result<MemoryHandle> {
        let driver = &*self.context.driver;
        let mut exported = NO_HANDLE;
        let (target, handle) = ((&raw mut exported).cast::<c_void>(), self.handle());
        // SAFETY: the allocation is live and was created for export as this handle type; the pointer is to a value of
        // that type.
        unsafe { call!(driver.mem_export_to_shareable_handle(target, handle, MEM_HANDLE_TYPE, 0)) }?;
        // SAFETY: a successful export returns a new handle that the caller owns.
        unsafe { own(driver.functions.mem_export_to_shareable_handle.operation, exported) }
    }
}

#[cfg(unix)]
type Exported = std::ffi::c_int;
#[cfg(windows)]
type Exported = *mut c_void;

/// Value that is never a handle.
#[cfg(unix)]
const NO_HANDLE: Exported = -1;
#[cfg(windows)]
const NO_HANDLE: Exported = std::ptr::null_mut();

/// Takes ownership of an exported handle.
///
/// # Safety
/// `fd` is [`NO_HANDLE`], or open and owned by the caller.
#[cfg(unix)]
unsafe fn own(operation: &'static str, fd: Exported) -> Result<MemoryHandle> {
    use std::os::fd::{FromRawFd, OwnedFd};

    use gpu_interop_core::handle::cannot_duplicate;

    if fd < 0 {
        let message = "the driver reported success but returned no file descriptor";
        return Err(Error::new(ErrorKind::Driver, operation, message));
    }
    // SAFETY: the caller's promise.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // Drivers may omit close-on-exec; the duplicate has it set.
    let fd = fd.try_clone().map_err(|error| cannot_duplicate(operation, error))?;
    Ok(MemoryHandle::OpaqueFd(fd))
}

/// As for the Unix version.
///
/// # Safety
/// As for the Unix version.
#[cfg(windows)]
unsafe fn own(operation: &'static str, handle: Exported) -> Result<MemoryHandle> {
    use gpu_interop_core::handle::NtHandle;

    // SAFETY: the caller's promise.
    let handle = unsafe { NtHandle::from_raw(handle) }.map_err(|error| {
        Error::new(ErrorKind::Driver, operation, "the driver reported success but returned no handle")
            .with_source(error)
    })?;
    Ok(MemoryHandle::OpaqueWin32(handle.into()))
}

/// Properties of exportable, pinned device memory.
fn properties(device: DeviceNumber) -> MemAllocationProp {
    MemAllocationProp {
        kind: MEM_ALLOCATION_TYPE_PINNED,
        requested_handle_types: MEM_HANDLE_TYPE,
        location: MemLocation { kind: MEM_LOCATION_TYPE_DEVICE, id: device },
        win32_handle_metadata: if cfg!(windows) { NAMELESS.0.get().cast() } else { std::ptr::null_mut() },
        alloc_flags: [0; 8],
    }
}

fn round_up<V: Vendor>(driver: &Driver<V>, prop: &MemAllocationProp, size: u64) -> Result<usize> {
    let mut granularity = 0;
    // SAFETY: both pointers are valid for the call.
    unsafe { call!(driver.mem_get_allocation_granularity(&raw mut granularity, prop, GRANULARITY_MINIMUM)) }?;
    let operation = driver.functions.mem_get_allocation_granularity.operation;
    if granularity == 0 {
        return Err(Error::new(
            ErrorKind::Driver,
            operation,
            "the driver reported success but returned no granularity",
        ));
    }
    usize::try_from(size).ok().and_then(|size| size.checked_next_multiple_of(granularity)).ok_or_else(|| {
        Error::new(
            ErrorKind::OutOfMemory,
            operation,
            "the size rounded up to the granularity exceeds the address space",
        )
        .with_context("size", size)
    })
}

fn unmap<V: Vendor>(driver: &Driver<V>, address: DeviceAddress, size: usize) -> Result<()> {
    // SAFETY: the whole range was mapped by `Allocation::map`, and no work uses it by the owner's promise.
    unsafe { call!(driver.mem_unmap(address, size)) }
}

fn release<V: Vendor>(driver: &Driver<V>, handle: u64) -> Result<()> {
    // SAFETY: created by `Allocation::create` or imported by `Allocation::import`, and released once.
    unsafe { call!(driver.mem_release(handle)) }
}

impl<V: Vendor> Drop for Allocation<V> {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            report(&error);
        }
    }
}

/// Time limit for the host function. Its stream has no other work, but other streams may block the hardware queue.
const LIMIT: Duration = Duration::from_secs(1);

/// Host function that signals its execution through a channel.
///
/// # Safety
/// `data` is from [`Box::into_raw`] of a sender and passed once.
unsafe extern "C" fn send(data: *mut c_void) {
    // SAFETY: the caller's promise.
    let sender = unsafe { Box::from_raw(data.cast::<SyncSender<()>>()) };
    // The channel buffers one message; a dropped receiver is not an error.
    let _ = sender.try_send(());
}

/// Resources of a device that wait for the driver's late releases.
#[derive(Debug, Default)]
pub(crate) struct Late {
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    /// Reserved and unmapped address ranges, with sizes in bytes.
    ranges: Vec<(DeviceAddress, usize)>,
    /// Streams whose host function may not have run.
    streams: Vec<Handle>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.streams.is_empty()
    }
}

impl Late {
    /// Locks the state, which a panic cannot leave inconsistent.
    fn lock(&self) -> MutexGuard<'_, Pending> {
        lock(&self.pending)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Defers freeing reserved addresses until a later [`Late::settle`] succeeds.
    pub(crate) fn keep(&self, address: DeviceAddress, size: usize) {
        self.lock().ranges.push((address, size));
    }

    /// Waits until the driver has released the resources of all work completed before this call, then frees the ranges
    /// deferred before. The device is current.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if the driver has not run the host function within a second; otherwise the driver's
    /// error.
    pub(crate) fn settle<V: Vendor>(&self, driver: &Driver<V>, device: DeviceNumber) -> Result<()> {
        // This wait does not cover ranges deferred from here on.
        let Pending { ranges, streams } = std::mem::take(&mut *self.lock());
        let (idle, busy): (Vec<_>, Vec<_>) = streams.into_iter().partition(|stream| {
            // SAFETY: these streams are owned by `self` and have no work but the host function.
            unsafe { driver.is_idle(*stream) }.unwrap_or_else(|error| {
                tracing::warn!(%error, "querying a stream failed; it counts as busy");
                false
            })
        });
        idle.into_iter().for_each(|stream| end(driver, device, stream));
        // While an earlier host function is pending, another one would wait behind it.
        let outcome = if busy.is_empty() { wait(driver, device) } else { Ok(Outcome::Pending(None)) };
        self.lock().streams.extend(busy);
        let settled = outcome.and_then(|outcome| match outcome {
            Outcome::Completed => Ok(()),
            Outcome::Pending(stream) => {
                self.lock().streams.extend(stream);
                let operation = driver.functions.launch_host_func.operation;
                let message = "the driver has not run a host function within a second; check for streams whose waits are never satisfied";
                Err(Error::new(ErrorKind::Timeout, operation, message))
            }
        });
        if let Err(error) = settled {
            self.lock().ranges.extend(ranges);
            return Err(error);
        }
        for (address, size) in ranges {
            if let Err(error) = unreserve(driver, address, size) {
                report(&error);
            }
        }
        Ok(())
    }

    /// Reports the remaining resources as leaked because the device is closed.
    pub(crate) fn leak(&self, error: &Error) {
        let Pending { ranges, streams } = std::mem::take(&mut *self.lock());
        for _ in ranges {
            tracing::error!(%error, "reserved addresses of a closed device are leaked");
        }
        for _ in streams {
            tracing::warn!(%error, "destroying a stream failed; it is leaked");
        }
    }
}

/// Result of waiting for the host function.
enum Outcome {
    /// The host function has run.
    Completed,
    /// The host function has not run. Contains its stream if it was enqueued by this wait.
    Pending(Option<Handle>),
}

/// Enqueues a host function on a stream of its own and waits for it.
fn wait<V: Vendor>(driver: &Driver<V>, device: DeviceNumber) -> Result<Outcome> {
    // Drivers without host functions do not release late.
    let Ok(launch) = driver.functions.launch_host_func.require(&driver.version) else { return Ok(Outcome::Completed) };
    let stream = V::create_stream(driver, device, || driver.create_stream())?;
    let (sender, receiver) = sync_channel::<()>(1);
    let data = Box::into_raw(Box::new(sender));
    let operation = driver.functions.launch_host_func.operation;
    // SAFETY: the stream is live; `send` takes ownership of `data`, and is called once.
    let launched = driver.check(operation, unsafe { launch.traced(operation, (stream, send, data.cast::<c_void>())) });
    if launched.is_err() {
        // SAFETY: a host function that failed to enqueue is never called, so this function still owns the box.
        drop(unsafe { Box::from_raw(data) });
    } else if receiver.recv_timeout(LIMIT).is_err() {
        // Destroying the stream would wait for the function.
        return Ok(Outcome::Pending(Some(stream)));
    } else {
        // The message is sent before the function returns.
        // SAFETY: the stream is live, and its device current.
        if let Err(error) = unsafe { progress::synchronize(driver, stream) } {
            tracing::warn!(%error, "waiting for a driver's late releases failed");
        }
    }
    end(driver, device, stream);
    launched.map(|()| Outcome::Completed)
}

fn end<V: Vendor>(driver: &Driver<V>, device: DeviceNumber, stream: Handle) {
    // SAFETY: the stream is live and idle, and has no other user.
    if let Err(error) = unsafe { V::end_stream(driver, device, stream) } {
        tracing::warn!(%error, "destroying a stream failed; it is leaked");
    }
}

/// Frees reserved and unmapped addresses.
///
/// # Errors
/// The driver's error.
pub(crate) fn unreserve<V: Vendor>(driver: &Driver<V>, address: DeviceAddress, size: usize) -> Result<()> {
    // SAFETY: the whole range was reserved by `Allocation::reserve` and is unmapped.
    unsafe { call!(driver.mem_address_free(address, size)) }
}

/// Reports leaked device memory.
pub(crate) fn report(error: &Error) {
    tracing::error!(%error, "freeing device memory failed; it is leaked");
}
