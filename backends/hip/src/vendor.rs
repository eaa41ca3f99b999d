//! [`Vendor`] for AMD's runtime.

use std::ffi::{c_char, c_int, c_uint, c_void};

use gpu_interop_core::backend::SignalMemory;
use gpu_interop_core::{
    ErrorKind, Feature, Luid, MemoryHandleKind, MemoryImport, MipmappedArrayDesc, ModuleImage, PciAddress, Result,
    SemaphoreHandle, SemaphoreHandleKind, Support, Uuid,
};
use gpu_interop_driver::abi::{MemoryHandleDesc, SemaphoreHandleDesc};
use gpu_interop_driver::{
    ApiVersion, CallPurpose, DEVICE_LOST, DeviceAddress, DeviceNumber, Driver, DriverFunction, DriverLibrary, Handle,
    IMPORT_REJECTED, LibrarySearch, MissingSymbol, Naming, Status, Vendor, WordWait, text_at, text_in,
};

use crate::Hip;
use crate::memory::Sentinel;
use crate::sys::{self, Functions, WHOLE_WORD_32, WHOLE_WORD_64, status};
use crate::{capabilities, code_object, image, import, memory, properties, queues};

impl Vendor for Hip {
    const CONSUMES_DESCRIPTORS: bool = false;
    const MAPS_WHOLE_IMPORTS: bool = true;
    const KEEPS_MAPPINGS: bool = true;
    /// Before 2026-07-06 (rocm-systems#8153) only `hipArrayDestroy` frees levels. Since then destroying the image frees
    /// the remaining ones.
    const LEVELS_OWNED_SEPARATELY: bool = true;
    /// No version of AMD's runtime records `hipDrvMemcpy3DAsync` in a graph.
    const RECORDS_ARRAY_COPIES: bool = false;
    /// On Windows a stream may wait forever for a word that another stream has written (rocm-systems#11605, open). A
    /// write by the host ends the wait.
    const WRITES_ARE_SEEN: bool = cfg!(not(windows));
    /// Each major version may change the structs, as HIP 6 did.
    const UNKNOWN_SINCE: Option<u32> = Some(8);
    /// Measured with 6.4.3: two launches on two streams run concurrently.
    const ORDERS_LAUNCHES: bool = false;
    const FREES_WAIT_FOR_STREAMS: bool = true;
    const REQUIRED_SINCE: (u32, u32) = (4, 2);
    const MODULES: &'static str = "HIP loads code objects, each for one architecture or family; it translates no PTX";
    const SEARCH: LibrarySearch = LibrarySearch {
        driver: "HIP runtime",
        variable: "GPU_INTEROP_HIP_LIBRARY",
        // Packages that bundle a runtime may use the unversioned name. HIP 8, not yet released, is searched last.
        // Without its name, the search would load a second runtime into a process that uses HIP 8.
        names: if cfg!(windows) {
            &["amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll", "amdhip64_8.dll"]
        } else {
            &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", "libamdhip64.so.8"]
        },
        // ROCm 7.14 and later install into a folder per version.
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
                // ROCm's wheels for Python, whose library only has a versioned name.
                (Some("VIRTUAL_ENV"), "lib/python*/site-packages/_rocm_sdk_core/lib"),
                (Some("CONDA_PREFIX"), "lib/python*/site-packages/_rocm_sdk_core/lib"),
                (Some("CONDA_PREFIX"), "lib"),
                (Some("GUIX_ENVIRONMENT"), "lib"),
                (None, "/run/current-system/sw/lib"),
                (None, "/opt/rocm/lib"),
                (None, "/opt/rocm/core-*/lib"),
            ]
        },
        install: "install AMD's ROCm runtime (Linux) or Adrenalin driver (Windows), or name its folder with ROCM_PATH",
    };
    const NAMING: Naming = Naming::Hip;

    type CopyReserved = [usize; 0];
    const MEMORY_TYPE_ARRAY: c_uint = sys::MEMORY_TYPE_ARRAY;
    type ImageDesc = image::Descriptor;
    /// Not a context: making a device current requires only the device number.
    type Context = Option<Sentinel>;
    type Previous = c_int;
    type Functions = Functions;

    unsafe fn functions(library: &DriverLibrary) -> std::result::Result<Functions, MissingSymbol> {
        // SAFETY: the caller's promise for the library.
        unsafe { Functions::load(library) }
    }

    fn layout_is_known(driver: &Driver<Self>) -> bool {
        properties::layout_is_known(driver)
    }

    /// Decodes 60443484 as HIP 6.4, patch 43484.
    fn version(number: u32) -> ApiVersion {
        ApiVersion { api: Naming::Hip.api(), major: number / 10_000_000, minor: number / 100_000 % 100 }
    }

    /// Returns no text for an undefined code. The runtime describes it as `hipErrorUnknown`, but the number is more
    /// specific.
    fn describe(functions: &Functions, code: Status) -> [Option<String>; 2] {
        // SAFETY: the function returns null, or a NUL-terminated string that the runtime never frees.
        let text = |function: unsafe extern "system" fn(Status) -> *const c_char| unsafe { text_at(function(code)) };
        let name = text(functions.get_error_name);
        if code != status::UNKNOWN && name.as_deref() == Some("hipErrorUnknown") {
            return [None, None];
        }
        [name, text(functions.get_error_string)]
    }

    fn meaning(purpose: CallPurpose, code: Status) -> (ErrorKind, &'static str) {
        let no_device = (
            ErrorKind::NoDevice,
            if cfg!(windows) {
                "the runtime loaded but reports no device; check HIP_VISIBLE_DEVICES, and that the GPU's driver is installed"
            } else {
                "the runtime loaded but reports no device; check HIP_VISIBLE_DEVICES, that this user may open /dev/kfd and \
                 /dev/dri/render*, and, if the process uses Vulkan, that the kernel is not Linux 6.6.1 to 6.6.13, 6.7.0 or 6.7.1"
            },
        );
        match (purpose, code) {
            (CallPurpose::Initialising, Status::NO_DEVICE | status::INVALID_DEVICE) | (_, Status::NO_DEVICE) => {
                no_device
            }
            (CallPurpose::Initialising, status::NOT_INITIALIZED) => (
                ErrorKind::System,
                "the runtime cannot be used in this process, usually because the process was forked after this or another \
                 library had used it; start the process without a fork (Python: the start method `spawn`), or fork before the \
                 first use",
            ),
            (CallPurpose::Initialising, status::UNKNOWN) => (
                ErrorKind::Driver,
                "the runtime does not say why it failed; check the kernel's log for amdgpu and kfd, and that this user may open \
                 /dev/kfd and /dev/dri/render*",
            ),
            (_, code) if code.says_lost() => DEVICE_LOST,
            // Includes "out of memory", the code of every failed memory import.
            (CallPurpose::ImportingMemory, code) if code != Status::NOT_SUPPORTED => IMPORT_REJECTED,
            // Includes "not supported", the code of every failed semaphore import.
            (CallPurpose::ImportingSemaphore, _) => IMPORT_REJECTED,
            (_, Status::NOT_SUPPORTED) => {
                (ErrorKind::Unsupported, "this device or system does not support the operation")
            }
            (_, Status::OUT_OF_MEMORY) => (ErrorKind::OutOfMemory, "the device ran out of memory"),
            (_, status::INSUFFICIENT_DRIVER) => {
                (ErrorKind::DriverTooOld, "the kernel driver is older than this runtime requires; install a newer one")
            }
            (_, status::NO_BINARY_FOR_GPU) => {
                (ErrorKind::InvalidArgument, "the code object is for another architecture than that of the device")
            }
            _ => (ErrorKind::Driver, "the runtime reported a failure"),
        }
    }

    const RESET: (&'static str, &'static str) = (
        "hipDeviceReset",
        "another library of this process has reset the device (hipDeviceReset), which destroyed all objects of this \
         device; drop them and open the device again",
    );

    fn open(driver: &Driver<Self>, device: DeviceNumber) -> Result<Option<Sentinel>> {
        let previous = Self::enter(driver, device, &None)?;
        let sentinel = queues::opened(driver, device);
        if let Some(previous) = previous {
            Self::leave(driver, previous);
        }
        Ok(sentinel)
    }

    #[inline]
    fn is_alive(driver: &Driver<Self>, _device: DeviceNumber, sentinel: &Option<Sentinel>) -> Result<bool> {
        sentinel.map_or(Ok(true), |sentinel| sentinel.is_alive(driver))
    }

    const CLOSES_CURRENT_DEVICE: bool = true;

    fn close(driver: &Driver<Self>, device: DeviceNumber, _sentinel: &Option<Sentinel>, may_wait: bool) {
        queues::closed(driver, device, may_wait);
    }

    #[inline]
    fn enter(driver: &Driver<Self>, device: DeviceNumber, _context: &Option<Sentinel>) -> Result<Option<c_int>> {
        let mut current = 0;
        // SAFETY: the pointer is valid for the call.
        driver.check("hipGetDevice", unsafe { (driver.own.get_device)(&raw mut current) })?;
        if current == device {
            return Ok(None);
        }
        // SAFETY: the function takes a number and no pointer.
        driver.check("hipSetDevice", unsafe { driver.own.set_device.traced("hipSetDevice", (device,)) })?;
        Ok(Some(current))
    }

    #[cold]
    fn leave(driver: &Driver<Self>, previous: c_int) {
        // SAFETY: the function takes a number and no pointer.
        let result = unsafe { driver.own.set_device.traced("hipSetDevice", (previous,)) };
        if let Err(error) = driver.check("hipSetDevice", result) {
            tracing::error!(%error, "the thread's current device could not be restored");
        }
    }

    /// Returns `None`: HIP's UUID is a serial number in ASCII, Vulkan's is derived from the PCI address, so they never
    /// match.
    fn uuid(_driver: &Driver<Self>, _device: DeviceNumber) -> Option<Uuid> {
        None
    }

    fn luid(driver: &Driver<Self>, device: DeviceNumber) -> Option<Luid> {
        properties::luid(driver, device)
    }

    fn pci(driver: &Driver<Self>, device: DeviceNumber) -> Option<PciAddress> {
        let mut text: [c_char; 64] = [0; 64];
        let arguments = (text.as_mut_ptr(), 64, device);
        // SAFETY: the buffer has the stated length.
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
        status: Status,
    ) -> Option<SemaphoreHandleDesc> {
        import::other_semaphore(handle, fd, status)
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

    fn mark_capture_failed(driver: &Driver<Self>, device: DeviceNumber, stream: Handle) {
        queues::mark_capture_failed(driver, device, stream);
    }

    unsafe fn end_stream(driver: &Driver<Self>, device: DeviceNumber, stream: Handle) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { queues::end_stream(driver, device, stream) }
    }

    /// `false` before HIP 5.5: `hipFree` of a mapping aborts the process (measured with 5.2.3).
    fn frees_mappings(driver: &Driver<Self>) -> bool {
        // A runtime that reports no version is at least HIP 6 if it has a function that HIP 6 introduced.
        driver.version.is_at_least((5, 5)) || (driver.version.major == 0 && driver.own.get_properties.get().is_some())
    }

    /// HIP 6 releases the resources of a copy on another thread, possibly after the stream is reported idle. They
    /// include a reference to the copied mapping. If this is the last reference to a mapping of reserved addresses, and
    /// its release follows `hipMemUnmap`, the runtime also drops the reservation. `hipMemAddressFree` then dereferences
    /// a null pointer.
    ///
    /// Measured with 6.4.3, without this library: a copy of 4096 bytes, `hipStreamSynchronize`, `hipMemUnmap` and
    /// `hipMemAddressFree` crash within 2,000 cycles. A `hipDeviceSynchronize` in between does not prevent the crash; a
    /// host function does. 7.2.4 does not crash. Versions between 6.4.3 and 7.2.4 were not measured.
    fn releases_late(driver: &Driver<Self>) -> bool {
        driver.version.is_at_least((6, 0)) && !driver.version.is_at_least((7, 2))
    }

    /// HIP 5.2.3 has two defects:
    /// * A fill of a range within one 8-byte word fills nearly the whole address space.
    /// * Every 32nd fill of a stream blocks the calling thread until the stream's earlier work has completed. Copies
    ///   within device memory block only in the 4,088th.
    ///
    /// 5.7.1 has neither defect. Versions between 5.2.3 and 5.7.1 were not measured.
    fn fills_by_copies(driver: &Driver<Self>) -> bool {
        !driver.version.is_at_least((5, 7)) && driver.version.major > 0
    }

    fn allocate(driver: &Driver<Self>, size: usize) -> Result<DeviceAddress> {
        memory::allocate_ordinary(driver, size)
    }

    /// Limits HIP 5 to one semaphore per call. Its array elements have another size, so only the first element of an
    /// array of HIP 6 has the right offset.
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

    /// Code objects contain their length.
    fn module_data(image: ModuleImage<'_>) -> Option<*const c_void> {
        match image {
            ModuleImage::Binary(image) => Some(image.bytes().as_ptr().cast()),
            _ => None,
        }
    }

    fn check_image(operation: &'static str, image: &[u8]) -> Result<()> {
        code_object::check(operation, image)
    }

    fn image_desc(operation: &'static str, desc: &MipmappedArrayDesc) -> Result<image::Descriptor> {
        image::encode(operation, desc)
    }

    unsafe fn wait_value_u32(driver: &Driver<Self>, wait: WordWait<u32>) -> Result<()> {
        const NAME: &str = "hipStreamWaitValue32";
        let function = driver.own.stream_wait_value_32.require(&driver.version)?;
        // SAFETY: the caller's promise for stream and word.
        let result = unsafe { function.traced(NAME, (wait.stream, wait.word, wait.value, wait.flags, WHOLE_WORD_32)) };
        check_wait(driver, NAME, result)
    }

    unsafe fn wait_value_u64(driver: &Driver<Self>, wait: WordWait<u64>) -> Result<()> {
        const NAME: &str = "hipStreamWaitValue64";
        let function = driver.own.stream_wait_value_64.require(&driver.version)?;
        // SAFETY: the caller's promise for stream and word.
        let result = unsafe { function.traced(NAME, (wait.stream, wait.word, wait.value, wait.flags, WHOLE_WORD_64)) };
        check_wait(driver, NAME, result)
    }

    fn allocate_signal_memory(driver: &Driver<Self>) -> Result<Option<SignalMemory>> {
        memory::allocate(driver)
    }

    unsafe fn free_signal_memory(driver: &Driver<Self>, memory: SignalMemory) -> Option<Result<()>> {
        // SAFETY: the caller's promise.
        unsafe { memory::free(driver, memory) }
    }
}

/// Checks the status of a stream's wait for a word. The word is aligned and the condition is valid, so only the word's
/// memory can be an invalid argument.
#[inline]
fn check_wait(driver: &Driver<Hip>, operation: &'static str, result: Status) -> Result<()> {
    driver.check(operation, result).map_err(|error| match result {
        Status::INVALID_VALUE => error.with_context(
            "the word",
            "this runtime may support waits only for words of signal memory (hipMallocSignalMemory), which timelines use; \
             newer runtimes support any word",
        ),
        _ => error,
    })
}
