//! [`Vendor`] for NVIDIA's driver.

use std::ffi::{c_char, c_uint, c_void};
use std::path::Path;
use std::ptr;

use gpu_interop_core::handle::NvSciSyncAttrList;
use gpu_interop_core::{
    Error, ErrorKind, Feature, Luid, MemoryHandleKind, MipmappedArrayDesc, ModuleImage, NvSciSyncUse, PciAddress,
    Result, SemaphoreHandleKind, Support, Uuid,
};
use gpu_interop_driver::{
    ApiVersion, CallPurpose, DEVICE_LOST, DeviceNumber, Driver, DriverFunction, DriverLibrary, Handle, IMPORT_REJECTED,
    LibrarySearch, MissingSymbol, Naming, Status, Vendor, WordWait, text_at,
};

use crate::Cuda;
use crate::sys::{self, Functions, attribute, status};
use crate::{capabilities, image, start};

/// Primary context of a device, which the driver reference-counts.
#[derive(Debug)]
pub(crate) struct PrimaryContext {
    handle: Handle,
    /// Number of this context. After a reset the driver reuses the handle, not the number. `None` for drivers before
    /// CUDA 12.
    id: Option<u64>,
}

/// Number of a context; `None` for drivers before CUDA 12. Not traced: it precedes most calls.
#[inline]
fn context_id(driver: &Driver<Cuda>, context: Handle) -> Option<std::result::Result<u64, Status>> {
    let (mut id, function) = (0, driver.own.ctx_get_id.get()?);
    // SAFETY: the pointer is valid for the call; the handle is that of a primary context, which the driver keeps after
    // a reset.
    match unsafe { function(context, &raw mut id) } {
        Status::SUCCESS => Some(Ok(id)),
        code => Some(Err(code)),
    }
}

fn null_handle(operation: &'static str) -> Error {
    Error::new(ErrorKind::Driver, operation, "the driver reported success but returned a null handle")
}

/// Returns whether the primary context exists. It may be a later one than that of `open`.
#[cold]
fn is_active(driver: &Driver<Cuda>, device: DeviceNumber) -> Result<bool> {
    const OPERATION: &str = "cuDevicePrimaryCtxGetState";
    let Some(function) = driver.own.primary_ctx_get_state.get() else { return Ok(true) };
    let (mut flags, mut active) = (0, 0);
    // SAFETY: the pointers are valid for the call.
    let queried = unsafe { function.traced(OPERATION, (device, &raw mut flags, &raw mut active)) };
    driver.check(OPERATION, queried).map(|()| active != 0)
}

impl Vendor for Cuda {
    const NAMING: Naming = Naming::Cuda;
    // Unversioned `libcuda.so` may be the toolkit's stub, so it comes last.
    const SEARCH: LibrarySearch = LibrarySearch {
        driver: "CUDA driver",
        variable: "GPU_INTEROP_CUDA_LIBRARY",
        names: if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] },
        // Where the driver is not in the dynamic linker's path, which has that of a Flatpak: WSL, containers of Kubernetes,
        // NixOS, snaps.
        folders: if cfg!(windows) {
            &[]
        } else {
            &[
                (None, "/usr/lib/wsl/lib"),
                (None, "/usr/local/nvidia/lib64"),
                (None, "/run/opengl-driver/lib"),
                (None, "/var/lib/snapd/lib/gl"),
            ]
        },
        install: "install NVIDIA's driver, or make its library visible (in a container: the `compute` driver capability)",
    };
    // `cuDevicePrimaryCtxRetain` is the newest required function.
    const REQUIRED_SINCE: (u32, u32) = (7, 0);
    const CONSUMES_DESCRIPTORS: bool = true;
    // Driver 580 returns INVALID_VALUE for every offset other than 0 of an import with the dedicated flag.
    const MAPS_WHOLE_DEDICATED: bool = true;
    // `cuMemFree`, `cuMemFreeHost`, `cuMipmappedArrayDestroy` and `cuModuleUnload` of driver 580 wait for all pending
    // work of the context's streams. During that wait they block most calls of other threads.
    const FREES_WAIT_FOR_STREAMS: bool = true;
    // On a host with two H200, `cuImportExternalMemory` of memory that driver 580 exported crashes with SIGSEGV from
    // 512 MiB upwards. Not measured on Windows.
    const IMPORTS_NATIVE_MEMORY: bool = cfg!(unix);
    // Measured with driver 580 on an H200: of about 2,500 fills of 32 to 4,096 bytes, each followed by a signal, one
    // was incomplete after another stream had waited for the signal. Of 96,000 each, no fill of 16, 32 or 64 KiB, no
    // copy and no kernel was overtaken.
    const OVERTAKEN_FILLS: u64 = 32 << 10;
    // Measured with driver 580 on two H100: with another context of the device current, one of the other device, one
    // that was destroyed, or none, signals and waits on streams that `cuStreamCreate` returned succeed, also while they
    // are captured, and on the default streams return 1 or 201. A context that a kernel has broken fails all others as
    // well.
    const STREAM_IMPLIES_CONTEXT: bool = true;
    const MODULES: &'static str = "CUDA loads PTX, cubins and fat binaries";

    type Functions = Functions;
    type Context = PrimaryContext;
    type Previous = ();
    type ImageDesc = sys::MipmappedArrayDesc;
    type CopyReserved = usize;
    const MEMORY_TYPE_ARRAY: c_uint = sys::MEMORY_TYPE_ARRAY;

    unsafe fn functions(library: &DriverLibrary) -> std::result::Result<Functions, MissingSymbol> {
        // SAFETY: the caller's promise for the library.
        unsafe { Functions::load(library) }
    }

    /// Decodes 13000 as CUDA 13.0.
    fn version(number: u32) -> ApiVersion {
        ApiVersion { api: Naming::Cuda.api(), major: number / 1000, minor: number % 1000 / 10 }
    }

    /// Extracts 580.159.04 from `libcuda.so.580.159.04`. In WSL the number in the file name is not the driver's
    /// release: `libcuda.so.1.1`.
    fn release(file: &Path) -> Option<String> {
        let version = file.file_name()?.to_str()?.strip_prefix("libcuda.so.")?;
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let (branch, rest) = version.split_once('.')?;
        (branch.len() >= 3 && is_number(branch) && rest.split('.').all(is_number)).then(|| version.to_owned())
    }

    fn describe(functions: &Functions, code: Status) -> [Option<String>; 2] {
        [functions.get_error_name, functions.get_error_string].map(|function| {
            let mut text: *const c_char = ptr::null();
            // SAFETY: the pointer is valid for the call; an unknown code leaves it null and returns an error.
            let result = unsafe { function(code, &raw mut text) };
            // SAFETY: on success `text` is a NUL-terminated string that the driver never frees.
            if result == Status::SUCCESS { unsafe { text_at(text) } } else { None }
        })
    }

    fn meaning(purpose: CallPurpose, code: Status) -> (ErrorKind, &'static str) {
        if purpose == CallPurpose::Initialising
            && let Some(meaning) = start::meaning(code)
        {
            return meaning;
        }
        match code {
            Status::OUT_OF_MEMORY => (ErrorKind::OutOfMemory, "the device or its address space ran out of memory"),
            Status::NO_DEVICE => {
                (ErrorKind::NoDevice, "the driver loaded but reports no device; check CUDA_VISIBLE_DEVICES")
            }
            Status::NOT_SUPPORTED => (ErrorKind::Unsupported, "this device or system does not support the operation"),
            status::STUB_LIBRARY => (
                ErrorKind::DriverNotFound,
                "the library is the toolkit's stub, not a driver; remove its folder from LD_LIBRARY_PATH",
            ),
            status::SYSTEM_DRIVER_MISMATCH | status::COMPAT_NOT_SUPPORTED_ON_DEVICE => (
                ErrorKind::DriverTooOld,
                "the kernel module and this library have different versions; restart the machine if the driver was updated, or \
                 give the container the machine's library",
            ),
            status::CONTEXT_IS_DESTROYED => (ErrorKind::DeviceLost, Self::RESET.1),
            code if code.says_lost() || status::CONTEXT_LOST.contains(&code) => DEVICE_LOST,
            _ if matches!(purpose, CallPurpose::ImportingMemory | CallPurpose::ImportingSemaphore) => IMPORT_REJECTED,
            _ => (ErrorKind::Driver, "the driver reported a failure"),
        }
    }

    const RESET: (&'static str, &'static str) = (
        "cuDevicePrimaryCtxReset",
        "another library of this process has reset the device (cudaDeviceReset, cuDevicePrimaryCtxReset), which destroyed \
         all objects of this device; drop them and open the device again",
    );
    // Measured with driver 580 on an H100: after the reset, the memory is still mapped, and it can be unmapped and
    // released.
    const ALLOCATIONS_SURVIVE_RESET: bool = true;

    fn open(driver: &Driver<Self>, device: DeviceNumber) -> Result<PrimaryContext> {
        const OPERATION: &str = "cuDevicePrimaryCtxRetain";
        let mut context = 0;
        // SAFETY: the pointer is valid for the call.
        let retained = unsafe { driver.own.primary_ctx_retain.traced(OPERATION, (&raw mut context, device)) };
        driver.check_for(CallPurpose::Initialising, OPERATION, retained)?;
        if context == 0 {
            return Err(null_handle(OPERATION));
        }
        let mut opened = PrimaryContext { handle: context, id: None };
        match context_id(driver, context) {
            None => {}
            Some(Ok(id)) => opened.id = Some(id),
            Some(Err(code)) => {
                Self::close(driver, device, &opened, true);
                driver.check_for(CallPurpose::Initialising, "cuCtxGetId", code)?;
            }
        }
        Ok(opened)
    }

    #[inline]
    fn is_alive(driver: &Driver<Self>, device: DeviceNumber, context: &PrimaryContext) -> Result<bool> {
        match (context.id, context_id(driver, context.handle)) {
            (Some(opened), Some(Ok(now))) => Ok(opened == now),
            (_, Some(Err(status::CONTEXT_IS_DESTROYED))) => Ok(false),
            (_, Some(Err(code))) => driver.check("cuCtxGetId", code).map(|()| true),
            (None, _) | (_, None) => is_active(driver, device),
        }
    }

    fn close(driver: &Driver<Self>, device: DeviceNumber, _context: &PrimaryContext, _may_wait: bool) {
        // A reset does not change the number of references (measured with driver 580).
        // SAFETY: `open` retained the context once, and it is released once.
        let released = unsafe { driver.own.primary_ctx_release.traced("cuDevicePrimaryCtxRelease", (device,)) };
        if let Err(error) = driver.check("cuDevicePrimaryCtxRelease", released) {
            tracing::warn!(%error, "releasing the primary context failed");
        }
    }

    #[inline]
    fn enter(driver: &Driver<Self>, _device: DeviceNumber, context: &PrimaryContext) -> Result<Option<()>> {
        let mut current = 0;
        // SAFETY: the pointer is valid for the call.
        let queried = unsafe { (driver.own.ctx_get_current)(&raw mut current) };
        if queried == Status::SUCCESS && current == context.handle {
            return Ok(None);
        }
        // SAFETY: the context is live because `open` retained it.
        let pushed = unsafe { driver.own.ctx_push_current.traced("cuCtxPushCurrent", (context.handle,)) };
        driver.check("cuCtxPushCurrent", pushed)?;
        Ok(Some(()))
    }

    /// Pops the context. Runs only on threads where another context was current, hence cold.
    #[cold]
    fn leave(driver: &Driver<Self>, (): ()) {
        let mut popped = 0;
        // SAFETY: pops the context that `enter` pushed on this thread; pairs nest.
        let result = unsafe { driver.own.ctx_pop_current.traced("cuCtxPopCurrent", (&raw mut popped,)) };
        if let Err(error) = driver.check("cuCtxPopCurrent", result) {
            tracing::error!(%error, "the thread's current context could not be restored");
        }
    }

    fn context_handle(context: &PrimaryContext) -> Option<Handle> {
        Some(context.handle)
    }

    unsafe fn is_foreign(driver: &Driver<Self>, context: &PrimaryContext, stream: Handle) -> Result<bool> {
        const OPERATION: &str = "cuStreamGetCtx";
        let Some(function) = driver.own.stream_get_ctx.get() else { return Ok(false) };
        let mut of_stream = 0;
        // SAFETY: the caller's promise for the stream; the pointer is valid for the call.
        let queried = unsafe { function.traced(OPERATION, (stream, &raw mut of_stream)) };
        if queried == Status::NOT_SUPPORTED {
            // A stream of a part of the device (a green context), which has no context of this kind.
            return Ok(false);
        }
        driver.check(OPERATION, queried)?;
        if of_stream == 0 { Err(null_handle(OPERATION)) } else { Ok(of_stream != context.handle) }
    }

    fn uuid(driver: &Driver<Self>, device: DeviceNumber) -> Option<Uuid> {
        let mut bytes = [0; 16];
        // SAFETY: the pointer is valid for the call. Version 2 distinguishes MIG instances from their GPU.
        let result = unsafe { driver.own.device_get_uuid.get()?.traced("cuDeviceGetUuid", (&raw mut bytes, device)) };
        (result == Status::SUCCESS).then(|| Uuid::from_bytes(bytes)).flatten()
    }

    /// On other systems drivers return "not supported", or success and zeros.
    fn luid(driver: &Driver<Self>, device: DeviceNumber) -> Option<Luid> {
        if cfg!(not(windows)) {
            return None;
        }
        let function = driver.own.device_get_luid.get()?;
        let (mut bytes, mut node_mask) = ([0; 8], 0);
        // SAFETY: the pointers are valid for the call.
        let result = unsafe { function.traced("cuDeviceGetLuid", (&raw mut bytes, &raw mut node_mask, device)) };
        (result == Status::SUCCESS && bytes != [0; 8]).then_some(Luid { bytes, node_mask })
    }

    fn pci(driver: &Driver<Self>, device: DeviceNumber) -> Option<PciAddress> {
        let read = |number| driver.attribute(device, number);
        Some(PciAddress {
            domain: u32::try_from(read(attribute::PCI_DOMAIN_ID)?).ok()?,
            bus: u8::try_from(read(attribute::PCI_BUS_ID)?).ok()?,
            device: u8::try_from(read(attribute::PCI_DEVICE_ID)?).ok()?,
            function: 0,
        })
    }

    fn memory(driver: &Driver<Self>, device: DeviceNumber, kind: MemoryHandleKind, symbols: Support) -> Support {
        capabilities::memory(driver, device, kind, symbols)
    }

    fn semaphore(driver: &Driver<Self>, device: DeviceNumber, kind: SemaphoreHandleKind, symbols: Support) -> Support {
        capabilities::semaphore(driver, device, kind, symbols)
    }

    fn feature(driver: &Driver<Self>, device: DeviceNumber, feature: Feature, symbols: Support) -> Support {
        capabilities::feature(driver, device, feature, symbols)
    }

    fn known_defects(driver: &Driver<Self>) -> Vec<&'static str> {
        match driver.own.ctx_get_id.get() {
            Some(_) => Vec::new(),
            None => vec![
                "another library's reset of the device is noticed only until a library uses the device again; drivers from \
                 CUDA 12 on number their contexts",
            ],
        }
    }

    fn image_desc(operation: &'static str, desc: &MipmappedArrayDesc) -> Result<sys::MipmappedArrayDesc> {
        image::encode(operation, desc)
    }

    /// PTX ends with a NUL; compiled images contain their length.
    fn module_data(image: ModuleImage<'_>) -> Option<*const c_void> {
        match image {
            ModuleImage::Ptx(text) => Some(text.as_ptr().cast()),
            ModuleImage::Binary(image) => Some(image.bytes().as_ptr().cast()),
            _ => None,
        }
    }

    unsafe fn fill_nv_sci_sync_attributes(
        driver: &Driver<Self>,
        device: DeviceNumber,
        list: NvSciSyncAttrList,
        uses: NvSciSyncUse,
    ) -> Result<()> {
        const NAME: &str = "cuDeviceGetNvSciSyncAttributes";
        let function = driver.own.device_get_nv_sci_sync_attributes.require(&driver.version)?;
        let flag = |bit, flag| if uses.contains(bit) { flag } else { 0 };
        let flags =
            flag(NvSciSyncUse::SIGNAL, sys::nv_sci_sync::SIGNAL) | flag(NvSciSyncUse::WAIT, sys::nv_sci_sync::WAIT);
        // SAFETY: the caller's promise for the list.
        driver.check(NAME, unsafe { function.traced(NAME, (list.as_raw(), device, flags)) })
    }

    unsafe fn fence(driver: &Driver<Self>, stream: Handle) -> Result<()> {
        if let Some(batch) = driver.own.stream_batch_mem_op.get() {
            let mut barrier = sys::BatchMemOp::BARRIER;
            // SAFETY: the caller's promise for the stream; `barrier` is one operation, read during the call.
            match unsafe { batch.traced("cuStreamBatchMemOp", (stream, 1, &raw mut barrier, 0)) } {
                // Stream memory operations can be disabled by the administrator.
                Status::NOT_SUPPORTED => {}
                result => return driver.check("cuStreamBatchMemOp", result),
            }
        }
        // SAFETY: the caller's promise for the stream.
        unsafe { driver.launch_nothing(stream) }
    }

    unsafe fn wait_value_u32(driver: &Driver<Self>, wait: WordWait<u32>) -> Result<()> {
        const NAME: &str = "cuStreamWaitValue32";
        let function = driver.own.stream_wait_value_32.require(&driver.version)?;
        // SAFETY: the caller's promise for stream and word.
        let result = unsafe { function.traced(NAME, (wait.stream, wait.word, wait.value, wait.flags)) };
        driver.check(NAME, result)
    }

    unsafe fn wait_value_u64(driver: &Driver<Self>, wait: WordWait<u64>) -> Result<()> {
        const NAME: &str = "cuStreamWaitValue64";
        let function = driver.own.stream_wait_value_64.require(&driver.version)?;
        // SAFETY: the caller's promise for stream and word.
        let result = unsafe { function.traced(NAME, (wait.stream, wait.word, wait.value, wait.flags)) };
        driver.check(NAME, result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_the_file_name() {
        for (file, expected) in [
            ("/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04", Some("580.159.04")),
            ("/usr/lib64/libcuda.so.550.54", Some("550.54")),
            ("/usr/lib/wsl/lib/libcuda.so.1.1", None),
            ("/usr/lib/libcuda.so.1", None),
            ("/usr/lib/libcuda.so", None),
            ("/usr/lib/libcuda.so.580", None),
            ("/usr/lib/libcuda.so.580.x", None),
            ("/usr/lib/libcuda.so.580..4", None),
            ("/usr/lib/libcuda_of_a_build.so.580.1", None),
            ("/", None),
        ] {
            assert_eq!(Cuda::release(Path::new(file)).as_deref(), expected, "{file}");
        }
    }
}
