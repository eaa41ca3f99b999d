//! [`Vendor`]: differences between the vendors, implemented by `gpu-interop-cuda` and `gpu-interop-hip`.

use std::ffi::{c_int, c_uint, c_void};
use std::fmt;
use std::path::Path;

use gpu_interop_core::backend::{DevicePtr, RawStream, SignalMemory};
use gpu_interop_core::handle::NvSciSyncAttrList;
use gpu_interop_core::{
    Error, ErrorKind, Feature, Luid, MemoryHandleKind, MemoryImport, MipmappedArrayDesc, ModuleImage, NvSciSyncUse,
    PciAddress, Result, SemaphoreHandle, SemaphoreHandleKind, Support, Uuid, WaitCondition,
};

use super::Driver;
use crate::abi::{MemoryHandleDesc, SemaphoreHandleDesc};
use crate::functions::{DeviceAddress, DeviceNumber, Handle, Naming};
use crate::library::{DriverLibrary, LibrarySearch};
use crate::status::Status;
use crate::symbol::{ApiVersion, MissingSymbol};

/// Purpose of a call, where the meaning of its status code depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPurpose {
    /// Initialising the driver, counting its devices, or opening one.
    Initialising,
    /// Looking up a kernel by name.
    FindingKernel,
    /// Importing memory: drivers reject a handle with various codes of their internals.
    ImportingMemory,
    /// Importing a semaphore: as for memory.
    ImportingSemaphore,
    /// Any other call.
    Other,
}

/// Meaning of a status code if a driver rejects a handle.
pub const IMPORT_REJECTED: (ErrorKind, &str) = (
    ErrorKind::ImportRejected,
    "the driver rejected the handle; check that it is of the stated kind and size, and exported by this GPU",
);

/// Stream wait for a word in memory.
#[derive(Debug, Clone, Copy)]
pub struct WordWait<T> {
    /// Stream that waits.
    pub stream: Handle,
    /// Address of the word.
    pub word: DeviceAddress,
    /// Value that the word is compared with.
    pub value: T,
    /// `CUstreamWaitValue_flags`; HIP's `hipStreamWaitValue*` have the same values.
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

/// Vendor-specific part of [`VendorBackend`](crate::VendorBackend) and its devices.
///
/// The methods receive a loaded and initialised driver, and keep the contract of `gpu_interop_core::backend`.
pub trait Vendor: Sized + fmt::Debug + Send + Sync + 'static {
    /// Search for the driver's library.
    const SEARCH: LibrarySearch;
    /// Names of the driver's functions.
    const NAMING: Naming;
    /// API version (major, minor) from which every driver has all required functions.
    const REQUIRED_SINCE: (u32, u32);
    /// True if the driver closes an imported file descriptor.
    const CONSUMES_DESCRIPTORS: bool;
    /// True if the driver maps an import as a whole and does not distinguish mappings with the same first address. Such
    /// imports are mapped once, as a whole.
    const MAPS_WHOLE_IMPORTS: bool = false;
    /// True if the driver maps dedicated allocations only from their first byte. These are mapped once, as a whole.
    const MAPS_WHOLE_DEDICATED: bool = false;
    /// True if memory that the request marks as native is imported with `cuMemImportFromShareableHandle` or
    /// `hipMemImportFromShareableHandle`.
    const IMPORTS_NATIVE_MEMORY: bool = false;

    /// True if an import that is mapped as a whole stays mapped until it is destroyed, because some drivers leak
    /// mappings.
    const KEEPS_MAPPINGS: bool = false;

    /// True if each mipmap level is an object that [`Vendor::destroy_level`] must destroy before the image.
    const LEVELS_OWNED_SEPARATELY: bool = false;

    /// True if image copies on a capturing stream become part of the graph. Otherwise such copies are rejected.
    const RECORDS_ARRAY_COPIES: bool = true;

    /// True if a word written by a stream releases another stream that waits for it. Otherwise host functions write
    /// words of [signal memory](gpu_interop_core::BackendDevice::allocate_signal_memory), in stream order.
    const WRITES_ARE_SEEN: bool = true;

    /// True if semaphores are signalled and waited for whichever context is current, because a stream's handle names its
    /// own. Otherwise, and on default streams, the device is made current first.
    const STREAM_IMPLIES_CONTEXT: bool = false;

    /// First major API version with unknown struct layouts. Such a driver is used if [`Vendor::layout_is_known`].
    const UNKNOWN_SINCE: Option<u32> = None;

    /// True if the driver serialises the launches of one graph, also on different streams.
    const ORDERS_LAUNCHES: bool = true;

    /// True if freeing memory or unloading a module waits for every stream of the device.
    const FREES_WAIT_FOR_STREAMS: bool = false;

    /// Functions that only this vendor has, or whose arguments differ between the vendors.
    type Functions: fmt::Debug + Send + Sync;
    /// State needed to make a device current on the calling thread.
    type Context: fmt::Debug + Send + Sync;
    /// Context or device that was current before.
    type Previous: Copy + fmt::Debug;
    /// Image descriptor that `get_mapped_mipmapped_array` takes.
    type ImageDesc;
    /// Reserved bytes of each side of the struct that `memcpy_3d_async` takes ([`Memcpy3d`](crate::array::Memcpy3d)).
    type CopyReserved: Copy + Default;
    /// `memory_type` of arrays in that struct.
    const MEMORY_TYPE_ARRAY: c_uint;

    /// Looks up the vendor's own functions.
    ///
    /// # Errors
    /// The first missing required function.
    ///
    /// # Safety
    /// The library is this vendor's driver.
    unsafe fn functions(library: &DriverLibrary) -> std::result::Result<Self::Functions, MissingSymbol>;

    /// `true` if the structs of a driver of an unknown version have the known layout. Called after initialisation.
    fn layout_is_known(_driver: &Driver<Self>) -> bool {
        true
    }

    /// Decodes the driver's version number.
    fn version(number: u32) -> ApiVersion;

    /// Release version of the driver according to the library's file name; `None` if the name contains none. `file` is
    /// the loaded file, with symbolic links resolved.
    fn release(_file: &Path) -> Option<String> {
        None
    }

    /// Name of a status code and the driver's text for it.
    fn describe(functions: &Self::Functions, code: Status) -> [Option<String>; 2];

    /// Meaning of a status code other than success.
    fn meaning(purpose: CallPurpose, code: Status) -> (ErrorKind, &'static str);

    /// Prepares a device for [`Vendor::enter`].
    ///
    /// # Errors
    /// The driver's error.
    fn open(driver: &Driver<Self>, device: DeviceNumber) -> Result<Self::Context>;

    /// Function that resets a device, and the message of the error after another library has called it.
    const RESET: (&'static str, &'static str);

    /// True if memory of `cuMemCreate` and its mapping survive a reset of the device. Otherwise the driver must not be
    /// called with them afterwards.
    const ALLOCATIONS_SURVIVE_RESET: bool = false;

    /// Returns `false` if the device was reset since [`Vendor::open`]. Called before every use of the device, also before
    /// signals of and waits for semaphores, of which it is 2 to 5 % (CUDA on an H200): with the handles of before a reset
    /// driver 580 returns an error or crashes.
    ///
    /// # Errors
    /// The driver's error: it is unknown whether the device was reset.
    fn is_alive(driver: &Driver<Self>, device: DeviceNumber, context: &Self::Context) -> Result<bool>;

    /// True if [`Vendor::close`] needs the device current.
    const CLOSES_CURRENT_DEVICE: bool = false;

    /// Reverts [`Vendor::open`]; called once, also after a reset of the device. `may_wait` is false if work is pending for
    /// which the driver may wait for ever when it frees memory. Failures are reported through `tracing`.
    fn close(driver: &Driver<Self>, device: DeviceNumber, context: &Self::Context, may_wait: bool);

    /// Makes a device current on this thread. Returns `None` if it already was.
    ///
    /// # Errors
    /// The driver's error; nothing changed.
    fn enter(driver: &Driver<Self>, device: DeviceNumber, context: &Self::Context) -> Result<Option<Self::Previous>>;

    /// Restores the previous context or device of [`Vendor::enter`] on the same thread. Failures are reported through
    /// `tracing`.
    fn leave(driver: &Driver<Self>, previous: Self::Previous);

    /// Context that the driver's objects belong to, if it has contexts apart from devices.
    fn context_handle(_context: &Self::Context) -> Option<Handle> {
        None
    }

    /// `true` if a stream, not the number of a default one, is known to be of another context.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// The stream is live.
    unsafe fn is_foreign(_driver: &Driver<Self>, _context: &Self::Context, _stream: Handle) -> Result<bool> {
        Ok(false)
    }

    /// UUID of the device, if Vulkan reports the same one.
    fn uuid(driver: &Driver<Self>, device: DeviceNumber) -> Option<Uuid>;

    /// LUID of the device, on Windows.
    fn luid(driver: &Driver<Self>, device: DeviceNumber) -> Option<Luid>;

    /// PCI address of the device.
    fn pci(driver: &Driver<Self>, device: DeviceNumber) -> Option<PciAddress>;

    /// Architecture that compiled images must be built for, if images are selected by architecture.
    fn architecture(_driver: &Driver<Self>, _device: DeviceNumber) -> Option<String> {
        None
    }

    /// Support for imports of a memory handle kind. `symbols` is the support according to the driver's symbols.
    fn memory(driver: &Driver<Self>, device: DeviceNumber, kind: MemoryHandleKind, symbols: Support) -> Support;

    /// Support for imports of a semaphore handle kind. `symbols` is the support according to the driver's symbols.
    fn semaphore(driver: &Driver<Self>, device: DeviceNumber, kind: SemaphoreHandleKind, symbols: Support) -> Support;

    /// Support for a feature. `symbols` is the support according to the driver's symbols; `Native` if the feature uses
    /// no function of both vendors.
    fn feature(driver: &Driver<Self>, device: DeviceNumber, feature: Feature, symbols: Support) -> Support;

    /// Defects of this driver version without a workaround, one sentence each.
    fn known_defects(_driver: &Driver<Self>) -> Vec<&'static str> {
        Vec::new()
    }

    /// Encodes a memory import, with `fd` for fd-based kinds. Returns `None` for kinds without a number.
    fn memory_desc(_driver: &Driver<Self>, request: &MemoryImport, fd: c_int) -> Option<MemoryHandleDesc> {
        MemoryHandleDesc::new(request, fd)
    }

    /// Rejects an import that the driver would accept wrongly or reject without a reason.
    ///
    /// # Errors
    /// The reason for the rejection.
    fn check_memory(_driver: &Driver<Self>, _operation: &'static str, _request: &MemoryImport) -> Result<()> {
        Ok(())
    }

    /// Encodes a semaphore import, with `fd` for fd-based kinds. Returns `None` for kinds without a number.
    fn semaphore_desc(_driver: &Driver<Self>, handle: &SemaphoreHandle, fd: c_int) -> Option<SemaphoreHandleDesc> {
        SemaphoreHandleDesc::new(handle, fd)
    }

    /// Alternative encoding of a semaphore import, if the status of the first attempt (`_answer`) calls for one.
    fn other_semaphore_desc(
        _driver: &Driver<Self>,
        _handle: &SemaphoreHandle,
        _fd: c_int,
        _answer: Status,
    ) -> Option<SemaphoreHandleDesc> {
        None
    }

    /// Destroys an array of `mipmapped_array_get_level`. Called for vendors with [`Vendor::LEVELS_OWNED_SEPARATELY`] only.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// The array is live and not used afterwards, and its device is current.
    unsafe fn destroy_level(_driver: &Driver<Self>, _level: Handle) -> Result<()> {
        Ok(())
    }

    /// Creates a stream. A wait on it must not block other streams created here. `ordinary` creates a stream by the
    /// function of both vendors (`cuStreamCreate`, `hipStreamCreateWithFlags`). The device is current.
    ///
    /// # Errors
    /// The driver's error.
    fn create_stream(
        _driver: &Driver<Self>,
        _device: DeviceNumber,
        ordinary: impl FnOnce() -> Result<Handle>,
    ) -> Result<Handle> {
        ordinary()
    }

    /// Notes that a capture on a stream of [`Vendor::create_stream`] ended with an error.
    fn mark_capture_failed(_driver: &Driver<Self>, _device: DeviceNumber, _stream: Handle) {}

    /// Destroys a stream of [`Vendor::create_stream`], or keeps it for reuse.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// The stream is live and not used afterwards, and its device is current.
    unsafe fn end_stream(driver: &Driver<Self>, _device: DeviceNumber, stream: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { driver.destroy_stream(stream) }
    }

    /// Returns whether mappings of whole imports ([`Vendor::MAPS_WHOLE_IMPORTS`]) are freed like memory. Otherwise
    /// destroying the import frees them.
    fn frees_mappings(_driver: &Driver<Self>) -> bool {
        true
    }

    /// Returns whether the driver may release memory used by a copy after it has reported the copy as complete, on the
    /// thread that runs host functions. Reserved addresses are then freed only after a host function has run.
    fn releases_late(_driver: &Driver<Self>) -> bool {
        false
    }

    /// Maximum number of semaphores per call. Larger batches are rejected.
    #[inline]
    fn semaphores_per_call(_driver: &Driver<Self>) -> usize {
        usize::MAX
    }

    /// Encodes a validated image descriptor.
    ///
    /// # Errors
    /// `Unsupported` for images without an encoding in the API.
    fn image_desc(operation: &'static str, desc: &MipmappedArrayDesc) -> Result<Self::ImageDesc>;

    /// Address of a module's code; `None` for kinds that the driver does not load.
    fn module_data(image: ModuleImage<'_>) -> Option<*const c_void>;

    /// Rejects a compiled image that would crash the driver.
    ///
    /// # Errors
    /// The reason for the rejection.
    fn check_image(_operation: &'static str, _image: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Allocates the vendor's special memory for words that streams wait for, zeroed. Returns `None` if pinned memory
    /// suffices.
    ///
    /// # Errors
    /// The driver's error.
    fn allocate_signal_memory(_driver: &Driver<Self>) -> Result<Option<SignalMemory>> {
        Ok(None)
    }

    /// Frees memory of [`Vendor::allocate_signal_memory`]. Returns `None` if `memory` is not from there.
    ///
    /// # Safety
    /// The memory is live and not used afterwards, and the device is current.
    unsafe fn free_signal_memory(_driver: &Driver<Self>, _memory: SignalMemory) -> Option<Result<()>> {
        None
    }

    /// Fills an NvSciSync attribute list with the device's requirements. Called for vendors with
    /// [`Feature::NvSciSyncAttributes`] only.
    ///
    /// # Errors
    /// The driver's error; `DriverTooOld` or `SymbolMissing` if it lacks the function.
    ///
    /// # Safety
    /// The list is valid and not used concurrently, and the device is current.
    unsafe fn fill_nv_sci_sync_attributes(
        _driver: &Driver<Self>,
        _device: DeviceNumber,
        _list: NvSciSyncAttrList,
        _uses: NvSciSyncUse,
    ) -> Result<()> {
        Err(Error::unsupported("Vendor::fill_nv_sci_sync_attributes", "this vendor has no NvSciSync"))
    }

    /// Returns whether the driver's byte fills are defective. Copies from memory of [`Vendor::allocate`] replace them.
    fn fills_by_copies(_driver: &Driver<Self>) -> bool {
        false
    }

    /// Allocates memory of the current device, freed with [`Driver::free`]. Called for vendors with
    /// [`Vendor::fills_by_copies`] only.
    ///
    /// # Errors
    /// The driver's error.
    fn allocate(_driver: &Driver<Self>, _size: usize) -> Result<DeviceAddress> {
        Err(Error::unsupported("Vendor::allocate", "this vendor's fills need no memory"))
    }

    /// Size in bytes below which a fill may be overtaken by a later semaphore signal on its stream.
    const OVERTAKEN_FILLS: u64 = 0;

    /// Enqueues an operation that waits for earlier fills and that semaphore signals do not overtake. Called for
    /// vendors with [`Vendor::OVERTAKEN_FILLS`] only.
    ///
    /// # Errors
    /// The driver's error; nothing was enqueued.
    ///
    /// # Safety
    /// The stream is live, and the device is current.
    unsafe fn fence(_driver: &Driver<Self>, _stream: Handle) -> Result<()> {
        Ok(())
    }

    /// Kinds of modules that the driver loads, as a sentence.
    const MODULES: &'static str;

    /// Makes a stream wait for a 32-bit word.
    ///
    /// # Errors
    /// The driver's error; `DriverTooOld` or `SymbolMissing` if it lacks the function.
    ///
    /// # Safety
    /// Stream and word are live, the word is aligned, and the device is current.
    unsafe fn wait_value_u32(driver: &Driver<Self>, wait: WordWait<u32>) -> Result<()>;

    /// 64-bit counterpart of [`Vendor::wait_value_u32`].
    ///
    /// # Errors
    /// As for [`Vendor::wait_value_u32`].
    ///
    /// # Safety
    /// As for [`Vendor::wait_value_u32`].
    unsafe fn wait_value_u64(driver: &Driver<Self>, wait: WordWait<u64>) -> Result<()>;
}
