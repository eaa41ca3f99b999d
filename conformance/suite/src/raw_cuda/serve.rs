//! Main function of the process that makes the calls.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr;
use std::time::Duration;

use cudarc::driver::sys as cuda;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::process::{Resource, Rlimit};

use super::{Batch, OPAQUE_FD, RawCall};
use crate::outcome::{Stop, Verdict};
use crate::peer::{Channel, Incoming};

/// Time that this process waits for the next call.
const IDLE: Duration = Duration::from_secs(60);
/// The lowest number of a descriptor that is passed to the driver. Nothing else in this process uses numbers this high.
const FIRST_LENT: RawFd = 600;
/// `CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD`.
const RANGE_AS_DMA_BUF: u32 = 1;
const DMA_BUF_SIZE: usize = 2 << 20;

/// Serves calls until the other side has ended, or no call arrives for [`IDLE`].
pub(crate) fn serve(library: &Path, device: c_int) -> Verdict {
    // This process is expected to crash; a core dump would be useless.
    rustix::process::setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    let channel = Channel::of_this_process()?;
    let mut caller = Caller {
        driver: Driver::open(library, device).map_err(Stop::failed)?,
        memory: ptr::null_mut(),
        semaphore: ptr::null_mut(),
    };
    channel.send("ready", 0, &[])?;
    loop {
        let (message, fds) = match channel.next(IDLE)? {
            Incoming::Message(message, fds) => (message, fds),
            Incoming::Gone | Incoming::Nothing => return Ok(()),
        };
        let call = serde_json::from_str(&message.what)?;
        let (text, fd) = caller.perform(&call, fds.into_iter().next())?;
        let fds: Vec<BorrowedFd<'_>> = fd.iter().map(AsFd::as_fd).collect();
        channel.send(&text, 0, &fds)?;
    }
}

/// Makes the calls. Kept objects may be null or destroyed on purpose.
struct Caller {
    driver: Driver,
    memory: cuda::CUexternalMemory,
    semaphore: cuda::CUexternalSemaphore,
}

// SAFETY (of the unsafe blocks below): pointers to descriptors and results are valid for the calls, and descriptors are
// complete. Their values are wrong on purpose, and so are some handles: the driver's behaviour is undefined then, and
// this process exists to observe it. Nothing else depends on the process, and its parent expects a crash.
impl Caller {
    fn perform(&mut self, call: &RawCall, fd: Option<OwnedFd>) -> Verdict<(String, Option<OwnedFd>)> {
        let fd = || fd.ok_or_else(|| Stop::failed("the call has no descriptor".into()));
        let text = match *call {
            RawCall::ImportMemory { kind, size, flags } => {
                let lent = Lent::new(fd()?)?;
                let (code, memory) = self.import_memory(kind, lent.number, size, flags);
                let text = format!("{}; {}", self.driver.text(code), lent.settle());
                if code == SUCCESS {
                    // SAFETY: see above.
                    unsafe { (self.driver.destroy_memory)(memory) };
                }
                text
            }
            RawCall::ImportNumber { number } => {
                let (code, _) = self.import_memory(OPAQUE_FD, number, 4096, 0);
                self.driver.text(code)
            }
            RawCall::ImportSemaphore { kind } => {
                let lent = Lent::new(fd()?)?;
                let (code, semaphore) = self.import_semaphore(kind, lent.number);
                let text = format!("{}; {}", self.driver.text(code), lent.settle());
                if code == SUCCESS {
                    // SAFETY: see above.
                    unsafe { (self.driver.destroy_semaphore)(semaphore) };
                }
                text
            }
            RawCall::KeepMemory { size } => {
                let lent = Lent::new(fd()?)?;
                let (code, memory) = self.import_memory(OPAQUE_FD, lent.number, size, 0);
                self.memory = memory;
                lent.settle();
                self.driver.text(code)
            }
            RawCall::KeepSemaphore { kind } => {
                let lent = Lent::new(fd()?)?;
                let (code, semaphore) = self.import_semaphore(kind, lent.number);
                self.semaphore = semaphore;
                lent.settle();
                self.driver.text(code)
            }
            // These calls need a kept object.
            RawCall::MapBuffer { .. }
            | RawCall::MapMipmappedArray { .. }
            | RawCall::DestroyWhileMapped
            | RawCall::DestroyTwice
                if self.memory.is_null() =>
            {
                "the memory was not imported".into()
            }
            RawCall::Signal { .. } | RawCall::Wait { .. } if self.semaphore.is_null() => {
                "the semaphore was not imported".into()
            }
            RawCall::MapBuffer { offset, size, flags } => self.map_and_free(offset, size, flags),
            RawCall::MapMipmappedArray { levels } => self.map_mipmapped_array(levels),
            RawCall::DestroyWhileMapped => self.destroy_while_mapped(),
            RawCall::DestroyTwice => {
                // SAFETY: see above.
                let codes = unsafe { [(); 2].map(|()| (self.driver.destroy_memory)(self.memory)) };
                codes.map(|code| self.driver.text(code)).join(", then ")
            }
            RawCall::Signal { value, batch } => self.signal(value, batch),
            RawCall::Wait { value, batch } => self.wait(value, batch),
            RawCall::ExportDmaBuf => {
                return Ok(match self.export_dma_buf() {
                    Ok(fd) => (self.driver.text(SUCCESS), Some(fd)),
                    Err(text) => (text, None),
                });
            }
            RawCall::CloseAfterFailure => self.close_after_failure(&fd()?)?,
        };
        Ok((text, None))
    }

    fn import_memory(&self, kind: u32, fd: c_int, size: u64, flags: u32) -> (Code, cuda::CUexternalMemory) {
        let mut desc = MaybeUninit::<cuda::CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st>::zeroed();
        let at = desc.as_mut_ptr();
        let mut memory = ptr::null_mut();
        // SAFETY: see above. The kind is written as a number, because the bindings' enum lacks some.
        unsafe {
            (&raw mut (*at).type_).cast::<u32>().write(kind);
            (&raw mut (*at).handle.fd).write(fd);
            (&raw mut (*at).size).write(size);
            (&raw mut (*at).flags).write(flags);
            let code = (self.driver.import_memory)(&raw mut memory, at);
            (code, memory)
        }
    }

    fn import_semaphore(&self, kind: u32, fd: c_int) -> (Code, cuda::CUexternalSemaphore) {
        let mut desc = MaybeUninit::<cuda::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st>::zeroed();
        let at = desc.as_mut_ptr();
        let mut semaphore = ptr::null_mut();
        // SAFETY: as in `import_memory`.
        unsafe {
            (&raw mut (*at).type_).cast::<u32>().write(kind);
            (&raw mut (*at).handle.fd).write(fd);
            let code = (self.driver.import_semaphore)(&raw mut semaphore, at);
            (code, semaphore)
        }
    }

    fn map_buffer(&self, offset: u64, size: u64, flags: u32) -> (Code, cuda::CUdeviceptr) {
        let desc = cuda::CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st { offset, size, flags, reserved: [0; 16] };
        let mut address = 0;
        // SAFETY: see above.
        let code = unsafe { (self.driver.map_buffer)(&raw mut address, self.memory, &raw const desc) };
        (code, address)
    }

    fn map_and_free(&self, offset: u64, size: u64, flags: u32) -> String {
        let (code, address) = self.map_buffer(offset, size, flags);
        let text = self.driver.text(code);
        if code != SUCCESS {
            return text;
        }
        // SAFETY: see above.
        let freed = unsafe { (self.driver.mem_free)(address) };
        format!("{text}, at an address that is {} modulo 256; freeing it: {}", address % 256, self.driver.text(freed))
    }

    fn map_mipmapped_array(&self, levels: u32) -> String {
        let Some(map) = self.driver.get_mapped_mipmapped_array() else {
            return "the driver maps no arrays".into();
        };
        let desc = cuda::CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st {
            offset: 0,
            arrayDesc: cuda::CUDA_ARRAY3D_DESCRIPTOR_st {
                Width: 256,
                Height: 128,
                Depth: 0,
                Format: cuda::CUarray_format_enum::CU_AD_FORMAT_UNSIGNED_INT8,
                NumChannels: 4,
                Flags: 0,
            },
            numLevels: levels,
            reserved: [0; 16],
        };
        let mut array = ptr::null_mut();
        // SAFETY: see above. A resulting array lives as long as this process.
        let code = unsafe { map(&raw mut array, self.memory, &raw const desc) };
        self.driver.text(code)
    }

    fn destroy_while_mapped(&mut self) -> String {
        const SIZE: usize = 4096;
        let (mapped, address) = self.map_buffer(0, SIZE as u64, 0);
        if mapped != SUCCESS {
            return format!("the mapping: {}", self.driver.text(mapped));
        }
        let memory = std::mem::replace(&mut self.memory, ptr::null_mut());
        // SAFETY: see above.
        let codes = unsafe {
            [
                (self.driver.destroy_memory)(memory),
                (self.driver.memset_d8)(address, 7, SIZE),
                (self.driver.ctx_synchronize)(),
                (self.driver.mem_free)(address),
            ]
        };
        let [destroyed, filled, synchronized, freed] = codes.map(|code| self.driver.text(code));
        let used = if filled == "accepted" { synchronized } else { filled };
        format!("destruction: {destroyed}; a fill of the mapping: {used}; freeing it: {freed}")
    }

    fn signal(&self, value: u64, batch: Batch) -> String {
        let mut params = MaybeUninit::<cuda::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st>::zeroed();
        // SAFETY: see above.
        let code = unsafe {
            (&raw mut (*params.as_mut_ptr()).params.fence.value).write(value);
            let (semaphore, params, count) = self.batch(batch, params.as_ptr());
            (self.driver.signal)(&raw const semaphore, params, count, ptr::null_mut())
        };
        self.done(code)
    }

    fn wait(&self, value: u64, batch: Batch) -> String {
        let mut params = MaybeUninit::<cuda::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st>::zeroed();
        // SAFETY: see above.
        let code = unsafe {
            (&raw mut (*params.as_mut_ptr()).params.fence.value).write(value);
            let (semaphore, params, count) = self.batch(batch, params.as_ptr());
            (self.driver.wait)(&raw const semaphore, params, count, ptr::null_mut())
        };
        self.done(code)
    }

    fn batch<P>(&self, batch: Batch, params: *const P) -> (cuda::CUexternalSemaphore, *const P, u32) {
        match batch {
            Batch::One => (self.semaphore, params, 1),
            Batch::Empty => (self.semaphore, params, 0),
            Batch::NullParams => (self.semaphore, ptr::null(), 1),
            Batch::NullSemaphore => (ptr::null_mut(), params, 1),
        }
    }

    /// The code of the enqueuing call, and whether the work completed.
    fn done(&self, code: Code) -> String {
        // SAFETY: the call has no preconditions.
        let synchronized = if code == SUCCESS { unsafe { (self.driver.ctx_synchronize)() } } else { SUCCESS };
        match synchronized {
            SUCCESS => self.driver.text(code),
            failed => format!("accepted, and then: {}", self.driver.text(failed)),
        }
    }

    fn export_dma_buf(&self) -> Result<OwnedFd, String> {
        let export = self.driver.get_handle_for_address_range().ok_or("the driver cannot export dma-bufs")?;
        let mut address = 0;
        let mut fd: c_int = -1;
        // SAFETY: see above. The memory lives as long as this process.
        let code = unsafe {
            let allocated = (self.driver.mem_alloc)(&raw mut address, DMA_BUF_SIZE);
            if allocated != SUCCESS {
                return Err(format!("cuMemAlloc: {}", self.driver.text(allocated)));
            }
            export((&raw mut fd).cast(), address, DMA_BUF_SIZE, RANGE_AS_DMA_BUF, 0)
        };
        if code != SUCCESS || fd < 0 {
            return Err(format!("the export: {}", self.driver.text(code)));
        }
        // SAFETY: a new descriptor, made for the caller.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn close_after_failure(&self, fd: &OwnedFd) -> Verdict<String> {
        let lent = Lent::new(fd.try_clone()?)?;
        let (code, _) = self.import_memory(OPAQUE_FD, lent.number, 4096, 0);
        let text = self.driver.text(code);
        if is_open(lent.number) {
            return Ok(format!("{text}; {}, so closing it is right here", lent.settle()));
        }
        // Takes the freed number, as another thread may by chance.
        let recycled = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), lent.number)?;
        if recycled.as_raw_fd() != lent.number {
            return Ok(format!("{text}; the driver closed the descriptor and reused its number"));
        }
        let number = recycled.into_raw_fd();
        // SAFETY: open; `into_raw_fd` has given up ownership, so nothing else closes this number.
        unsafe { rustix::io::close(number) };
        // Open only if a thread of the driver has taken the number once more.
        let harm = if is_open(number) { "did no harm" } else { "closed another file's descriptor" };
        Ok(format!("{text}; the driver closed the descriptor, and closing it as documented {harm}"))
    }
}

/// A descriptor for one call of the driver, which may close it.
struct Lent {
    number: RawFd,
}

impl Lent {
    fn new(fd: OwnedFd) -> Verdict<Self> {
        Ok(Self { number: rustix::io::fcntl_dupfd_cloexec(&fd, FIRST_LENT)?.into_raw_fd() })
    }

    /// Reports whether the driver closed it, and closes it otherwise.
    fn settle(self) -> &'static str {
        if !is_open(self.number) {
            return "the driver closed the descriptor";
        }
        // SAFETY: still the descriptor of `new`: numbers this high are not used otherwise in this process.
        drop(unsafe { OwnedFd::from_raw_fd(self.number) });
        "the descriptor was left open"
    }
}

fn is_open(number: RawFd) -> bool {
    Path::new("/proc/self/fd").join(number.to_string()).symlink_metadata().is_ok()
}

/// `CUresult` as a number: a driver may return codes that the bindings' enum does not have.
type Code = c_uint;
const SUCCESS: Code = 0;

macro_rules! functions {
    ($( $field:ident = $symbol:literal ( $($argument:ty),* ); )+) => {
        /// The loaded driver.
        #[derive(Debug)]
        struct Driver {
            library: &'static Library,
            $( $field: unsafe extern "C" fn($($argument),*) -> Code, )+
        }

        impl Driver {
            /// Loads the driver's file. It is never unloaded.
            ///
            /// # Safety
            /// The file must be CUDA's driver, or a simulator of it.
            unsafe fn load(file: &Path) -> Result<Self, libloading::Error> {
                // SAFETY: a driver's initialisers support loading at run time.
                let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }?;
                let library: &'static Library = Box::leak(Box::new(library));
                // SAFETY: the types are those of the driver's headers, except for the number instead of the enum.
                Ok(unsafe { Self { library, $( $field: *library.get($symbol)?, )+ } })
            }
        }
    };
}

functions! {
    init = c"cuInit"(c_uint);
    get_error_name = c"cuGetErrorName"(Code, *mut *const c_char);
    device_get = c"cuDeviceGet"(*mut cuda::CUdevice, c_int);
    primary_ctx_retain = c"cuDevicePrimaryCtxRetain"(*mut cuda::CUcontext, cuda::CUdevice);
    ctx_set_current = c"cuCtxSetCurrent"(cuda::CUcontext);
    ctx_synchronize = c"cuCtxSynchronize"();
    mem_alloc = c"cuMemAlloc_v2"(*mut cuda::CUdeviceptr, usize);
    mem_free = c"cuMemFree_v2"(cuda::CUdeviceptr);
    memset_d8 = c"cuMemsetD8_v2"(cuda::CUdeviceptr, u8, usize);
    import_memory = c"cuImportExternalMemory"(
        *mut cuda::CUexternalMemory, *const cuda::CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st);
    destroy_memory = c"cuDestroyExternalMemory"(cuda::CUexternalMemory);
    map_buffer = c"cuExternalMemoryGetMappedBuffer"(
        *mut cuda::CUdeviceptr, cuda::CUexternalMemory, *const cuda::CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st);
    import_semaphore = c"cuImportExternalSemaphore"(
        *mut cuda::CUexternalSemaphore, *const cuda::CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st);
    destroy_semaphore = c"cuDestroyExternalSemaphore"(cuda::CUexternalSemaphore);
    signal = c"cuSignalExternalSemaphoresAsync"(
        *const cuda::CUexternalSemaphore, *const cuda::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st, c_uint,
        cuda::CUstream);
    wait = c"cuWaitExternalSemaphoresAsync"(
        *const cuda::CUexternalSemaphore, *const cuda::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st, c_uint,
        cuda::CUstream);
}

/// `cuExternalMemoryGetMappedMipmappedArray`.
type GetMappedMipmappedArray = unsafe extern "C" fn(
    *mut cuda::CUmipmappedArray,
    cuda::CUexternalMemory,
    *const cuda::CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st,
) -> Code;

/// `cuMemGetHandleForAddressRange`.
type GetHandleForAddressRange = unsafe extern "C" fn(*mut c_void, cuda::CUdeviceptr, usize, c_uint, u64) -> Code;

impl Driver {
    /// Loads the driver and makes a device's primary context current until the process ends.
    fn open(file: &Path, ordinal: c_int) -> Result<Self, String> {
        // SAFETY: the backend under test has loaded the same file as its driver.
        let driver = unsafe { Self::load(file) }.map_err(|error| format!("{}: {error}", file.display()))?;
        let (mut device, mut context) = (0, ptr::null_mut());
        // SAFETY: the pointers are valid for the calls; the context is retained until this process ends.
        unsafe {
            driver.must("cuInit", (driver.init)(0))?;
            driver.must("cuDeviceGet", (driver.device_get)(&raw mut device, ordinal))?;
            driver.must("cuDevicePrimaryCtxRetain", (driver.primary_ctx_retain)(&raw mut context, device))?;
            driver.must("cuCtxSetCurrent", (driver.ctx_set_current)(context))?;
        }
        Ok(driver)
    }

    fn must(&self, function: &str, code: Code) -> Result<(), String> {
        if code == SUCCESS { Ok(()) } else { Err(format!("{function}: {}", self.text(code))) }
    }

    /// "accepted", or the code and its name.
    fn text(&self, code: Code) -> String {
        if code == SUCCESS {
            return "accepted".into();
        }
        let mut name = ptr::null();
        // SAFETY: the pointer is valid for the call.
        let known = unsafe { (self.get_error_name)(code, &raw mut name) };
        if known != SUCCESS || name.is_null() {
            return format!("code {code}");
        }
        // SAFETY: on success a NUL-terminated string that the driver never frees.
        format!("{} ({code})", unsafe { CStr::from_ptr(name) }.to_string_lossy())
    }

    /// `cuExternalMemoryGetMappedMipmappedArray`, which simulators may lack.
    fn get_mapped_mipmapped_array(&self) -> Option<GetMappedMipmappedArray> {
        // SAFETY: the type is that of the driver's header.
        unsafe { self.library.get(c"cuExternalMemoryGetMappedMipmappedArray") }.ok().map(|symbol| *symbol)
    }

    /// `cuMemGetHandleForAddressRange`, which drivers before CUDA 11.7 lack.
    fn get_handle_for_address_range(&self) -> Option<GetHandleForAddressRange> {
        // SAFETY: the type is that of the driver's header, except for numbers instead of enums.
        unsafe { self.library.get(c"cuMemGetHandleForAddressRange") }.ok().map(|symbol| *symbol)
    }
}
