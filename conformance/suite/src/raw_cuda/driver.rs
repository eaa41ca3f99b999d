//! The driver's functions, without validation.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::ptr;

use cudarc::driver::sys as cuda;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// `CUresult` as a number: a driver may return codes that the bindings' enum does not have.
pub(super) type Code = c_uint;
pub(super) const SUCCESS: Code = 0;

macro_rules! functions {
    ($( $field:ident = $symbol:literal ( $($argument:ty),* ); )+) => {
        /// The loaded driver.
        #[derive(Debug)]
        pub(super) struct Driver {
            library: &'static Library,
            $( pub(super) $field: unsafe extern "C" fn($($argument),*) -> Code, )+
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
    pub(super) fn open(file: &Path, ordinal: c_int) -> Result<Self, String> {
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
    pub(super) fn text(&self, code: Code) -> String {
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
    pub(super) fn get_mapped_mipmapped_array(&self) -> Option<GetMappedMipmappedArray> {
        // SAFETY: the type is that of the driver's header.
        unsafe { self.library.get(c"cuExternalMemoryGetMappedMipmappedArray") }.ok().map(|symbol| *symbol)
    }

    /// `cuMemGetHandleForAddressRange`, which drivers before CUDA 11.7 lack.
    pub(super) fn get_handle_for_address_range(&self) -> Option<GetHandleForAddressRange> {
        // SAFETY: the type is that of the driver's header, except for numbers instead of enums.
        unsafe { self.library.get(c"cuMemGetHandleForAddressRange") }.ok().map(|symbol| *symbol)
    }
}
