//! AMD's runtime, as far as it differs from NVIDIA's driver.

use std::ffi::{c_char, c_int, c_uint, c_void};

use gpu_interop_core::backend::{ArrayCopy, SignalMemory};
use gpu_interop_core::{
    ErrorKind, Feature, Luid, MemoryHandleKind, MemoryImport, MipmappedArrayDesc, ModuleImage, PciAddress, Result,
    SemaphoreHandle, SemaphoreHandleKind, Support, Uuid,
};
use gpu_interop_driver::abi::{MemoryHandleDesc, SemaphoreHandleDesc};
use gpu_interop_driver::{
    ApiVersion, DeviceAddress, DeviceNumber, Doing, Driver, DriverFunction, DriverLibrary, Handle, LOST, LibrarySearch,
    MissingSymbol, Naming, REFUSED, Status, Vendor, WordWait, array as copies, text_at, text_in,
};

use crate::sys::{self, Functions, WHOLE_WORD_32, WHOLE_WORD_64, status};
use crate::{array, capabilities, code_object, image, import, memory, properties, queues};

/// AMD.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hip {}

impl Vendor for Hip {
    const CONSUMES_DESCRIPTORS: bool = false;
    const MAPS_WHOLE_IMPORTS: bool = true;
    const KEEPS_MAPPINGS: bool = true;
    /// Before 2026-07-06 (rocm-systems#8153) nothing but `hipArrayDestroy` ends them. Since then their image does, unless
    /// they have ended before.
    const LEVELS_END_APART: bool = true;
    /// `hipDrvMemcpy3DAsync` of CLR, every version.
    const RECORDS_ARRAY_COPIES: bool = false;
    /// rocm-systems#11605: open. A write of the host releases the wait.
    const WRITES_ARE_SEEN: bool = cfg!(not(windows));
    /// Those of HIP 6 were not those of HIP 5 either.
    const UNKNOWN_SINCE: Option<u32> = Some(8);
    /// Seen with 6.4.3: two launches on two streams run at once.
    const ORDERS_LAUNCHES: bool = false;
    const FREES_WAIT_FOR_STREAMS: bool = true;
    const REQUIRED_SINCE: (u32, u32) = (4, 2);
    const MODULES: &'static str = "HIP loads code objects, each for one architecture or family; it translates no PTX";
    const SEARCH: LibrarySearch = LibrarySearch {
        driver: "HIP runtime",
        variable: "GPU_INTEROP_HIP_LIBRARY",
        // A package that brings a runtime of its own may have it under the name without a version.
        // HIP 8 is found last, and then refused by its version: a process that has it must not get a second runtime.
        names: if cfg!(windows) {
            &["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll", "amdhip64_8.dll"]
        } else {
            &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", "libamdhip64.so.8"]
        },
        // ROCm 7.14 and later have a folder for each version.
        folders: if cfg!(windows) {
            &[
                (Some("ROCM_PATH"), "bin"),
                (Some("HIP_PATH"), "bin"),
                (Some("ProgramFiles"), r"AMD\ROCm\Core*\bin"),
                (Some("LOCALAPPDATA"), r"AMD\ROCm\Core*\bin"),
            ]
        } else {
            &[
                (Some("ROCM_PATH"), "lib"),
                (Some("HIP_PATH"), "lib"),
                (None, "/opt/rocm/lib"),
                (None, "/opt/rocm/core-*/lib"),
            ]
        },
        install: "install AMD's ROCm runtime (Linux) or Adrenalin driver (Windows), or name its folder with ROCM_PATH",
    };
    const NAMING: Naming = Naming::Hip;
    /// `hipHostMallocCoherent`: else a write is seen when a kernel ends.
    const PINNED_FLAGS: c_uint = 0x4000_0000;

    type CopyDesc = sys::array::Memcpy3d;
    type ImageDesc = sys::array::MipmappedArrayDesc;
    /// A device is current by its number.
    type Context = ();
    type Previous = c_int;
    type Functions = Functions;

    unsafe fn functions(library: &DriverLibrary) -> std::result::Result<Functions, MissingSymbol> {
        // SAFETY: the caller vouches for the library.
        unsafe { Functions::load(library) }
    }

    /// 60443484 is HIP 6.4, patch 43484.
    fn version(number: u32) -> ApiVersion {
        ApiVersion { api: Naming::Hip.api(), major: number / 10_000_000, minor: number / 100_000 % 100 }
    }

    /// Codes that the runtime does not know have the name and text of the one for unknown errors, which says less than
    /// the number.
    fn describe(functions: &Functions, code: Status) -> [Option<String>; 2] {
        // SAFETY: null, or a NUL-terminated string that the runtime never frees.
        let text = |function: unsafe extern "system" fn(Status) -> *const c_char| unsafe { text_at(function(code)) };
        let name = text(functions.get_error_name);
        if code != status::UNKNOWN && name.as_deref() == Some("hipErrorUnknown") {
            return [None, None];
        }
        [name, text(functions.get_error_string)]
    }

    fn meaning(doing: Doing, code: Status) -> (ErrorKind, &'static str) {
        let no_device = (
            ErrorKind::NoDevice,
            "the runtime works but sees no device; check HIP_VISIBLE_DEVICES, and that this user may open /dev/kfd and \
             /dev/dri/render*",
        );
        match (doing, code) {
            (Doing::Initialising, Status::NO_DEVICE | status::INVALID_DEVICE) | (_, Status::NO_DEVICE) => no_device,
            (_, code) if code.says_lost() => LOST,
            // Among them "out of memory", which every failed import of memory ends with.
            (Doing::ImportingMemory, code) if code != Status::NOT_SUPPORTED => REFUSED,
            // Also "not supported", which every failed import of a semaphore ends with.
            (Doing::ImportingSemaphore, _) => REFUSED,
            (_, Status::NOT_SUPPORTED) => {
                (ErrorKind::Unsupported, "this device or system does not support the operation")
            }
            (_, Status::OUT_OF_MEMORY) => (ErrorKind::OutOfMemory, "the device ran out of memory"),
            (_, status::INSUFFICIENT_DRIVER) => {
                (ErrorKind::DriverTooOld, "the kernel's driver is older than this runtime needs; install a newer one")
            }
            (_, status::NO_BINARY_FOR_GPU) => {
                (ErrorKind::InvalidArgument, "the code object is for another architecture than the device's")
            }
            _ => (ErrorKind::Driver, "the runtime reported a failure"),
        }
    }

    fn open(driver: &Driver<Self>, device: DeviceNumber) -> Result<()> {
        queues::opened(driver, device);
        Ok(())
    }

    fn close(driver: &Driver<Self>, device: DeviceNumber, (): &()) {
        queues::closed(driver, device);
    }

    #[inline]
    fn enter(driver: &Driver<Self>, device: DeviceNumber, (): &()) -> Result<Option<c_int>> {
        let mut current = 0;
        // SAFETY: the pointer is valid for the call.
        driver.check("hipGetDevice", unsafe { (driver.own.get_device)(&raw mut current) })?;
        if current == device {
            return Ok(None);
        }
        // SAFETY: takes a number.
        driver.check("hipSetDevice", unsafe { driver.own.set_device.traced("hipSetDevice", (device,)) })?;
        Ok(Some(current))
    }

    #[cold]
    fn leave(driver: &Driver<Self>, previous: c_int) {
        // SAFETY: takes a number.
        let result = unsafe { driver.own.set_device.traced("hipSetDevice", (previous,)) };
        if let Err(error) = driver.check("hipSetDevice", result) {
            tracing::error!(%error, "the thread's current device could not be restored");
        }
    }

    /// HIP's is a serial number in ASCII, and Vulkan's is made of the PCI address: they never match.
    fn uuid(_driver: &Driver<Self>, _device: DeviceNumber) -> Option<Uuid> {
        None
    }

    fn luid(driver: &Driver<Self>, device: DeviceNumber) -> Option<Luid> {
        properties::luid(driver, device)
    }

    fn pci(driver: &Driver<Self>, device: DeviceNumber) -> Option<PciAddress> {
        let mut text: [c_char; 64] = [0; 64];
        let arguments = (text.as_mut_ptr(), 64, device);
        // SAFETY: the buffer is as long as the call is told.
        let result = unsafe { driver.own.get_pci_bus_id.traced("hipDeviceGetPCIBusId", arguments) };
        (result == Status::SUCCESS).then(|| text_in(&mut text).parse().ok()).flatten()
    }

    fn architecture(driver: &Driver<Self>, device: DeviceNumber) -> Option<String> {
        properties::architecture(driver, device)
    }

    fn memory(driver: &Driver<Self>, _device: DeviceNumber, kind: MemoryHandleKind, symbols: Support) -> Support {
        capabilities::memory(driver.version, kind, symbols)
    }

    fn memory_desc(driver: &Driver<Self>, request: &MemoryImport, fd: c_int) -> Option<MemoryHandleDesc> {
        import::memory(driver.version, request, fd)
    }

    fn check_memory(_driver: &Driver<Self>, operation: &'static str, request: &MemoryImport) -> Result<()> {
        import::check(operation, request)
    }

    fn semaphore(
        _driver: &Driver<Self>,
        _device: DeviceNumber,
        kind: SemaphoreHandleKind,
        symbols: Support,
    ) -> Support {
        capabilities::semaphore(kind, symbols)
    }

    fn semaphore_desc(_driver: &Driver<Self>, handle: &SemaphoreHandle, fd: c_int) -> Option<SemaphoreHandleDesc> {
        import::semaphore(handle, fd)
    }

    fn other_semaphore_desc(
        _driver: &Driver<Self>,
        handle: &SemaphoreHandle,
        fd: c_int,
        answer: Status,
    ) -> Option<SemaphoreHandleDesc> {
        import::other_semaphore(handle, fd, answer)
    }

    unsafe fn destroy_level(driver: &Driver<Self>, level: Handle) -> Result<()> {
        let destroy = driver.own.array_destroy.require(&driver.version)?;
        // SAFETY: the caller's promise.
        driver.check("hipArrayDestroy", unsafe { destroy.traced("hipArrayDestroy", (level,)) })
    }

    fn create_stream(
        driver: &Driver<Self>,
        device: DeviceNumber,
        ordinary: impl FnOnce() -> Result<Handle>,
    ) -> Result<Handle> {
        queues::create_stream(driver, device, ordinary)
    }

    fn spoilt(driver: &Driver<Self>, device: DeviceNumber, stream: Handle) {
        queues::spoilt(driver, device, stream);
    }

    unsafe fn end_stream(driver: &Driver<Self>, device: DeviceNumber, stream: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { queues::end_stream(driver, device, stream) }
    }

    /// Runtimes before HIP 5.5 have no entry for them that `hipFree` could find: it aborts the process (5.2.3).
    fn frees_mappings(driver: &Driver<Self>) -> bool {
        // One that does not say its version is known by what came with HIP 6.
        driver.version.is_at_least((5, 5)) || (driver.version.major == 0 && driver.own.get_properties.get().is_some())
    }

    /// HIP 6 releases what a copy used on a thread of its own, which may come to it after the stream was found idle. If that
    /// is the last that holds a mapping of reserved addresses, after `hipMemUnmap`, the runtime forgets the reservation too,
    /// and `hipMemAddressFree` follows a null pointer. Seen with 6.4.3, without this library: a copy of 4096 bytes,
    /// `hipStreamSynchronize`, `hipMemUnmap` and `hipMemAddressFree` crash within 2,000 cycles, with
    /// `hipDeviceSynchronize` between them too; behind a function of the host they do not. 7.2.4 does not crash. Those
    /// between were not seen.
    fn releases_late(driver: &Driver<Self>) -> bool {
        driver.version.is_at_least((6, 0)) && !driver.version.is_at_least((7, 2))
    }

    /// 5.2.3 fills nearly all of the address space for a range that begins and ends within the same 8 bytes, and blocks the
    /// calling thread in every 32nd fill of a stream until the stream's earlier work is done, in copies between memory of
    /// the device only in the 4,088th. 5.7.1 does neither. Those between were not seen.
    fn fills_by_copies(driver: &Driver<Self>) -> bool {
        !driver.version.is_at_least((5, 7)) && driver.version.major > 0
    }

    fn allocate(driver: &Driver<Self>, size: usize) -> Result<DeviceAddress> {
        memory::allocate_ordinary(driver, size)
    }

    /// The elements of HIP 5's arrays have another size, so that only the first is where it should be.
    #[inline]
    fn semaphores_per_call(driver: &Driver<Self>) -> usize {
        if driver.version.is_at_least((6, 0)) { usize::MAX } else { 1 }
    }

    fn feature(driver: &Driver<Self>, device: DeviceNumber, feature: Feature, symbols: Support) -> Support {
        capabilities::feature(driver, device, feature, symbols)
    }

    fn known_defects(driver: &Driver<Self>) -> Vec<&'static str> {
        capabilities::known_defects(driver.version)
    }

    /// A code object says itself how long it is.
    fn module_data(image: ModuleImage<'_>) -> Option<*const c_void> {
        match image {
            ModuleImage::Binary(image) => Some(image.bytes().as_ptr().cast()),
            _ => None,
        }
    }

    fn check_image(operation: &'static str, image: &[u8]) -> Result<()> {
        code_object::check(operation, image)
    }

    fn copy_desc(operation: &'static str, copy: &ArrayCopy) -> Result<sys::array::Memcpy3d> {
        copies::copy(operation, copy).map(array::encode)
    }

    fn image_desc(operation: &'static str, desc: &MipmappedArrayDesc) -> Result<sys::array::MipmappedArrayDesc> {
        image::encode(operation, desc)
    }

    unsafe fn wait_value_u32(driver: &Driver<Self>, wait: WordWait<u32>) -> Result<()> {
        const NAME: &str = "hipStreamWaitValue32";
        let function = driver.own.stream_wait_value_32.require(&driver.version)?;
        // SAFETY: the caller vouches for stream and word.
        let result = unsafe { function.traced(NAME, (wait.stream, wait.word, wait.value, wait.flags, WHOLE_WORD_32)) };
        waited(driver, NAME, result)
    }

    unsafe fn wait_value_u64(driver: &Driver<Self>, wait: WordWait<u64>) -> Result<()> {
        const NAME: &str = "hipStreamWaitValue64";
        let function = driver.own.stream_wait_value_64.require(&driver.version)?;
        // SAFETY: the caller vouches for stream and word.
        let result = unsafe { function.traced(NAME, (wait.stream, wait.word, wait.value, wait.flags, WHOLE_WORD_64)) };
        waited(driver, NAME, result)
    }

    fn allocate_signal_memory(driver: &Driver<Self>) -> Result<Option<SignalMemory>> {
        memory::allocate(driver)
    }

    unsafe fn free_signal_memory(driver: &Driver<Self>, memory: SignalMemory) -> Option<Result<()>> {
        // SAFETY: the caller's promise.
        unsafe { memory::free(driver, memory) }
    }
}

/// What a stream's wait for a word answered. The word is aligned and the condition one of the four: what is left of the
/// arguments is where the word is.
#[inline]
fn waited(driver: &Driver<Hip>, operation: &'static str, result: Status) -> Result<()> {
    driver.check(operation, result).map_err(|error| match result {
        Status::INVALID_VALUE => error.with_context(
            "the word",
            "this runtime may wait only for words of signal memory (hipMallocSignalMemory), as timelines have; newer \
             ones wait for any",
        ),
        _ => error,
    })
}
