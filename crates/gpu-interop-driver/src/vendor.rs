//! What differs between the vendors.

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use gpu_interop_core::backend::{ArrayCopy, DevicePtr, RawStream, SignalMemory};
use gpu_interop_core::handle::NvSciSyncAttrList;
use gpu_interop_core::{
    Error, ErrorKind, Feature, Luid, MemoryHandleKind, MemoryImport, MipmappedArrayDesc, ModuleImage, NvSciSyncUse,
    PciAddress, Result, SemaphoreHandle, SemaphoreHandleKind, Support, Uuid, WaitCondition,
};

use crate::abi::{MemoryHandleDesc, SemaphoreHandleDesc};
use crate::capture_mode;
use crate::driver::Driver;
use crate::functions::{DeviceAddress, DeviceNumber, Handle, Naming};
use crate::late_release::Late;
use crate::library::{DriverLibrary, LibrarySearch};
use crate::status::Status;
use crate::symbol::{ApiVersion, MissingSymbol};

/// What a failed call was doing, as far as the meaning of its status code depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Starting the driver, or counting its devices.
    Initialising,
    /// Looking a kernel up by the name that the application gave.
    FindingKernel,
    /// Importing memory: drivers refuse a handle with whatever code their internals ran into.
    ImportingMemory,
    /// Importing a semaphore, as with memory.
    ImportingSemaphore,
    /// Anything else.
    Other,
}

/// A status code's meaning when a driver refused a handle.
pub const REFUSED: (ErrorKind, &str) = (
    ErrorKind::ImportRejected,
    "the driver refused the handle; is it of the stated kind and size, and exported by this GPU?",
);

/// A stream's wait for a word in memory.
#[derive(Debug, Clone, Copy)]
pub struct WordWait<T> {
    /// The stream that waits.
    pub stream: Handle,
    /// The word's address.
    pub word: DeviceAddress,
    /// What the word is compared with.
    pub value: T,
    /// `CUstreamWaitValue_flags`; HIP's `hipStreamWaitValueGte` and its kin have the same numbers.
    pub flags: c_uint,
}

impl<T> WordWait<T> {
    pub(crate) fn new(stream: RawStream, word: DevicePtr, value: T, condition: WaitCondition) -> Self {
        let flags = match condition {
            WaitCondition::GreaterOrEqual => 0,
            WaitCondition::Equal => 1,
            WaitCondition::And => 2,
            WaitCondition::Nor => 3,
        };
        Self { stream: stream.get(), word: word.get(), value, flags }
    }
}

/// A vendor: what [`VendorBackend`](crate::VendorBackend) and its devices need to know beyond what both share.
///
/// The methods get a driver that is loaded and initialised, and keep the contract of `gpu_interop_core::backend`.
pub trait Vendor: Sized + fmt::Debug + Send + Sync + 'static {
    /// Where its library may be.
    const SEARCH: LibrarySearch;
    /// Under which names its functions are found.
    const NAMING: Naming;
    /// The version of the API since which every driver has all the required functions.
    const REQUIRED_SINCE: (u32, u32);
    /// Whether the driver closes a descriptor that it imported.
    const CONSUMES_DESCRIPTORS: bool;
    /// Whether the driver maps an import as a whole, and cannot tell mappings with the same first address apart: then
    /// it is asked for all of an import, once.
    const MAPS_WHOLE_IMPORTS: bool = false;
    /// Whether the driver maps dedicated allocations from their first byte on only. Then it is asked for all of them, too.
    const MAPS_WHOLE_DEDICATED: bool = false;
    /// Whether memory that is said to be the driver's own is imported by the driver's own function.
    const IMPORTS_NATIVE_MEMORY: bool = false;

    /// Whether an import that is mapped as a whole stays mapped until it ends, because some drivers never give a mapping
    /// back.
    const KEEPS_MAPPINGS: bool = false;

    /// Whether each level of an image is an object of its own, which [`Vendor::destroy_level`] ends before the image.
    const LEVELS_END_APART: bool = false;

    /// Whether copies of images on a stream that records become part of the graph. Otherwise they are refused there.
    const RECORDS_ARRAY_COPIES: bool = true;

    /// Whether a word that a stream writes releases another stream that waits for it. Otherwise the host writes words of
    /// [signal memory](gpu_interop_core::BackendDevice::allocate_signal_memory), in the stream's order.
    const WRITES_ARE_SEEN: bool = true;

    /// The first major version of the API whose structs are not known here. Such a driver is not used.
    const UNKNOWN_SINCE: Option<u32> = None;

    /// Whether the driver runs the launches of one graph one after another, also on different streams.
    const ORDERS_LAUNCHES: bool = true;

    /// Whether freeing memory or unloading a module waits for every stream of the device.
    const FREES_WAIT_FOR_STREAMS: bool = false;

    /// The functions that only this vendor has, or that take other arguments than the other's.
    type Functions: fmt::Debug + Send + Sync;
    /// What a device's calls need to be current on the calling thread.
    type Context: fmt::Debug + Send + Sync;
    /// What was current before.
    type Previous: Copy + fmt::Debug;
    /// An image in memory, as `get_mapped_mipmapped_array` takes it.
    type ImageDesc;
    /// A copy of an array, as `memcpy_3d_async` takes it.
    type CopyDesc;

    /// Looks the vendor's own functions up.
    ///
    /// # Errors
    /// The first required function that is missing.
    ///
    /// # Safety
    /// The library must be this vendor's driver.
    unsafe fn functions(library: &DriverLibrary) -> std::result::Result<Self::Functions, MissingSymbol>;

    /// A version as the driver numbers them.
    fn version(number: u32) -> ApiVersion;

    /// The version of the driver's release, as the name of its library's file has it; `None` where it does not. `file` is
    /// the file that was loaded, with no links in its path.
    fn release(_file: &Path) -> Option<String> {
        None
    }

    /// The name of a status code and the driver's text for it.
    fn describe(functions: &Self::Functions, code: Status) -> [Option<String>; 2];

    /// What a status code other than success means to the user.
    fn meaning(doing: Doing, code: Status) -> (ErrorKind, &'static str);

    /// Makes a device ready for [`Vendor::enter`].
    ///
    /// # Errors
    /// What the driver answers.
    fn open(driver: &Driver<Self>, device: DeviceNumber) -> Result<Self::Context>;

    /// Undoes [`Vendor::open`]; called once. Failures are reported through `tracing`.
    fn close(driver: &Driver<Self>, device: DeviceNumber, context: &Self::Context);

    /// Makes a device current on this thread. `None` if it was.
    ///
    /// # Errors
    /// What the driver answers; then nothing changed.
    fn enter(driver: &Driver<Self>, device: DeviceNumber, context: &Self::Context) -> Result<Option<Self::Previous>>;

    /// Undoes an [`Vendor::enter`] that changed something, on the same thread. Failures are reported through `tracing`.
    fn leave(driver: &Driver<Self>, previous: Self::Previous);

    /// The UUID, if it is one that Vulkan knows too.
    fn uuid(driver: &Driver<Self>, device: DeviceNumber) -> Option<Uuid>;

    /// The LUID, on Windows.
    fn luid(driver: &Driver<Self>, device: DeviceNumber) -> Option<Luid>;

    /// The PCI address.
    fn pci(driver: &Driver<Self>, device: DeviceNumber) -> Option<PciAddress>;

    /// The architecture that compiled images must be built for, if they are chosen by it.
    fn architecture(_driver: &Driver<Self>, _device: DeviceNumber) -> Option<String> {
        None
    }

    /// Whether memory handles of a kind can be imported. `symbols` is what the driver's symbols say.
    fn memory(driver: &Driver<Self>, device: DeviceNumber, kind: MemoryHandleKind, symbols: Support) -> Support;

    /// Whether semaphore handles of a kind can be imported. `symbols` is what the driver's symbols say.
    fn semaphore(driver: &Driver<Self>, device: DeviceNumber, kind: SemaphoreHandleKind, symbols: Support) -> Support;

    /// Whether a feature is there. `symbols` is what the driver's symbols say; `Native` if it needs none that both have.
    fn feature(driver: &Driver<Self>, device: DeviceNumber, feature: Feature, symbols: Support) -> Support;

    /// Defects of this version of the driver that nothing here works around, each as a sentence.
    fn known_defects(_driver: &Driver<Self>) -> Vec<&'static str> {
        Vec::new()
    }

    /// Encodes a memory import, with `fd` for fd-based kinds; `None` for kinds that the driver has no number for.
    fn memory_desc(_driver: &Driver<Self>, request: &MemoryImport, fd: c_int) -> Option<MemoryHandleDesc> {
        MemoryHandleDesc::new(request, fd)
    }

    /// Refuses an import that the driver would accept or refuse without a reason.
    ///
    /// # Errors
    /// Why it is refused.
    fn check_memory(_driver: &Driver<Self>, _operation: &'static str, _request: &MemoryImport) -> Result<()> {
        Ok(())
    }

    /// Encodes a semaphore import, with `fd` for fd-based kinds; `None` for kinds that the driver has no number for.
    fn semaphore_desc(_driver: &Driver<Self>, handle: &SemaphoreHandle, fd: c_int) -> Option<SemaphoreHandleDesc> {
        SemaphoreHandleDesc::new(handle, fd)
    }

    /// Another encoding of a semaphore import, if the driver answered the first one with a code that calls for it.
    fn other_semaphore_desc(
        _driver: &Driver<Self>,
        _handle: &SemaphoreHandle,
        _fd: c_int,
        _answer: Status,
    ) -> Option<SemaphoreHandleDesc> {
        None
    }

    /// Ends an array that `mipmapped_array_get_level` gave. Only for vendors with [`Vendor::LEVELS_END_APART`].
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// The array is live, nothing uses it any more, and its device is current.
    unsafe fn destroy_level(_driver: &Driver<Self>, _level: Handle) -> Result<()> {
        Ok(())
    }

    /// Makes a stream, of which a wait on the device must hold back no other stream made here. `ordinary` makes one as both
    /// vendors do (`cuStreamCreate`, `hipStreamCreateWithFlags`). The device is current.
    ///
    /// # Errors
    /// What the driver answers.
    fn create_stream(
        _driver: &Driver<Self>,
        _device: DeviceNumber,
        ordinary: impl FnOnce() -> Result<Handle>,
    ) -> Result<Handle> {
        ordinary()
    }

    /// Notes that a recording of a stream that [`Vendor::create_stream`] made did not end as it should.
    fn spoilt(_driver: &Driver<Self>, _device: DeviceNumber, _stream: Handle) {}

    /// Ends a stream that [`Vendor::create_stream`] made: destroys it, or keeps it for the next one.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// The stream is live, not used afterwards, and its device is current.
    unsafe fn end_stream(driver: &Driver<Self>, _device: DeviceNumber, stream: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { driver.destroy_stream(stream) }
    }

    /// Whether mapped imports are freed like memory, where [`Vendor::MAPS_WHOLE_IMPORTS`]. Otherwise they end with
    /// their import.
    fn frees_mappings(_driver: &Driver<Self>) -> bool {
        true
    }

    /// Whether memory that a copy used may be released after the copy is reported as done, by the thread that runs
    /// functions of the host. Reserved addresses are then given back only behind such a function.
    fn releases_late(_driver: &Driver<Self>) -> bool {
        false
    }

    /// How many semaphores one call takes. A greater batch is refused.
    #[inline]
    fn semaphores_per_call(_driver: &Driver<Self>) -> usize {
        usize::MAX
    }

    /// Encodes a description of an image that was validated.
    ///
    /// # Errors
    /// `Unsupported` for what the API has no encoding for.
    fn image_desc(operation: &'static str, desc: &MipmappedArrayDesc) -> Result<Self::ImageDesc>;

    /// Encodes a copy.
    ///
    /// # Errors
    /// `InvalidArgument` for extents that exceed the address space.
    fn copy_desc(operation: &'static str, copy: &ArrayCopy) -> Result<Self::CopyDesc>;

    /// Where the code of a module begins; `None` for sorts that the driver does not load.
    fn module_data(image: ModuleImage<'_>) -> Option<*const c_void>;

    /// Refuses a compiled image that the driver would not survive.
    ///
    /// # Errors
    /// Why it is refused.
    fn check_image(_operation: &'static str, _image: &[u8]) -> Result<()> {
        Ok(())
    }

    /// What pinned memory needs beyond portable and mapped, so that host and streams see each other's writes at once.
    const PINNED_FLAGS: c_uint = 0;

    /// Memory that the vendor has for words that streams wait for, cleared. `None`: pinned memory does.
    ///
    /// # Errors
    /// What the driver answers.
    fn allocate_signal_memory(_driver: &Driver<Self>) -> Result<Option<SignalMemory>> {
        Ok(None)
    }

    /// Frees what [`Vendor::allocate_signal_memory`] gave; `None` if `memory` is not from there.
    ///
    /// # Safety
    /// The memory is live, nothing uses it any more, and the device is current.
    unsafe fn free_signal_memory(_driver: &Driver<Self>, _memory: SignalMemory) -> Option<Result<()>> {
        None
    }

    /// Fills an NvSciSync attribute list with what the device needs. Only for vendors with
    /// [`Feature::NvSciSyncAttributes`].
    ///
    /// # Errors
    /// What the driver answers, or that it lacks the function.
    ///
    /// # Safety
    /// The list is valid and used by nobody else, and the device is current.
    unsafe fn fill_nv_sci_sync_attributes(
        _driver: &Driver<Self>,
        _device: DeviceNumber,
        _list: NvSciSyncAttrList,
        _uses: NvSciSyncUse,
    ) -> Result<()> {
        Err(Error::unsupported("Vendor::fill_nv_sci_sync_attributes", "this vendor has no NvSciSync"))
    }

    /// Whether the driver's fills with a byte are not to be used. Copies of [`Vendor::allocate`]d memory take their place.
    fn fills_by_copies(_driver: &Driver<Self>) -> bool {
        false
    }

    /// Memory of the current device, freed with [`Driver::free`]. Only for vendors with [`Vendor::fills_by_copies`].
    ///
    /// # Errors
    /// What the driver answers.
    fn allocate(_driver: &Driver<Self>, _size: usize) -> Result<DeviceAddress> {
        Err(Error::unsupported("Vendor::allocate", "this vendor's fills are not copies"))
    }

    /// A signal of a semaphore may overtake a fill of fewer bytes than this that was enqueued before it.
    const OVERTAKEN_FILLS: u64 = 0;

    /// Enqueues something that signals of semaphores do not overtake, and that waits for the fills before it. Only for
    /// vendors with [`Vendor::OVERTAKEN_FILLS`].
    ///
    /// # Errors
    /// What the driver answers; then nothing is enqueued.
    ///
    /// # Safety
    /// The stream is live, and the device is current.
    unsafe fn fence(_driver: &Driver<Self>, _stream: Handle) -> Result<()> {
        Ok(())
    }

    /// What the driver loads, as a sentence.
    const MODULES: &'static str;

    /// Makes a stream wait for a 32-bit word.
    ///
    /// # Errors
    /// What the driver answers, or that it lacks the function.
    ///
    /// # Safety
    /// Stream and word are live, the word is aligned, and the device is current.
    unsafe fn wait_value_u32(driver: &Driver<Self>, wait: WordWait<u32>) -> Result<()>;

    /// The 64-bit twin of [`Vendor::wait_value_u32`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    unsafe fn wait_value_u64(driver: &Driver<Self>, wait: WordWait<u64>) -> Result<()>;
}

/// A device that is open, for as long as something uses it.
#[derive(Debug)]
pub(crate) struct Context<V: Vendor> {
    pub(crate) driver: Arc<Driver<V>>,
    pub(crate) device: DeviceNumber,
    vendor: V::Context,
    pub(crate) late: Late,
}

impl<V: Vendor> Context<V> {
    pub(crate) fn open(driver: Arc<Driver<V>>, device: DeviceNumber) -> Result<Self> {
        let vendor = V::open(&driver, device)?;
        Ok(Self { driver, device, vendor, late: Late::default() })
    }

    /// The driver, with the device current on this thread until the second value is dropped, and no recording of another
    /// thread in the way.
    #[inline]
    pub(crate) fn enter(&self) -> Result<(&Driver<V>, Undisturbed<'_, V>)> {
        let (driver, current) = self.enter_to_enqueue()?;
        let mode = capture_mode::relax(driver);
        Ok((driver, Undisturbed { mode, current }))
    }

    /// As [`Context::enter`], for functions that only enqueue work: recordings of other threads never mind those.
    #[inline]
    pub(crate) fn enter_to_enqueue(&self) -> Result<(&Driver<V>, Current<'_, V>)> {
        let driver = &*self.driver;
        let previous = V::enter(driver, self.device, &self.vendor)?;
        Ok((driver, Current { driver, previous }))
    }
}

impl<V: Vendor> Drop for Context<V> {
    fn drop(&mut self) {
        if !self.late.is_empty() {
            let settled = self.enter().and_then(|(driver, _current)| self.late.settle(driver, self.device));
            if let Err(error) = settled {
                self.late.leak(&error);
            }
        }
        V::close(&self.driver, self.device, &self.vendor);
    }
}

/// A device is current while this lives.
#[must_use]
#[derive(Debug)]
pub(crate) struct Current<'a, V: Vendor> {
    driver: &'a Driver<V>,
    previous: Option<V::Previous>,
}

/// A device is current, and the thread heeds no recording of another, while this lives.
#[must_use]
#[derive(Debug)]
pub(crate) struct Undisturbed<'a, V: Vendor> {
    /// The thread's capture mode, to be restored.
    mode: Option<c_uint>,
    current: Current<'a, V>,
}

impl<V: Vendor> Drop for Undisturbed<'_, V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            capture_mode::restore(self.current.driver, mode);
        }
    }
}

impl<V: Vendor> Drop for Current<'_, V> {
    #[inline]
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            // On the same thread as `enter`: a `Current` never leaves the call that made it. Pairs nest.
            V::leave(self.driver, previous);
        }
    }
}
