//! Functions of the loaded library, and its errors in Rust's types.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use gpu_interop::{Error, ErrorKind, Result};
use gpu_interop_capi as c;
use libloading::Library;

/// Variable that names the library.
pub(crate) const LIBRARY_VARIABLE: &str = "GPU_INTEROP_CAPI_LIBRARY";

/// Variable that names the backend below the C interface: `host`, the default, or `cuda`.
pub(crate) const BACKEND_VARIABLE: &str = "GPU_INTEROP_CAPI_BACKEND";

macro_rules! functions {
    ($($name:ident($($argument:ty),*) -> $result:ty;)+) => {
        /// Functions of the library, by name.
        pub(crate) struct Api {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> $result,)+
            _library: Library,
        }

        impl Api {
            fn load(path: &std::ffi::OsStr) -> Result<Self, libloading::Error> {
                // SAFETY: the library built from this workspace, whose initialisers have no requirements.
                let library = unsafe { Library::new(path) }?;
                $(
                    // SAFETY: the function has this type, which is that of the same crate.
                    let $name = unsafe {
                        *library.get::<unsafe extern "C" fn($($argument),*) -> $result>(stringify!($name))?
                    };
                )+
                Ok(Self { $($name,)+ _library: library })
            }
        }

        // The types are those of the crate.
        $(const _: unsafe extern "C" fn($($argument),*) -> $result = c::$name;)+
    };
}

functions! {
    gpi_abi_version() -> u32;
    gpi_last_error_operation() -> *const c_char;
    gpi_last_error_reason() -> *const c_char;
    gpi_last_error_driver_code(*mut i64) -> i32;
    gpi_last_error_driver_code_name() -> *const c_char;
    gpi_backend_load(*const c_char, *mut c::gpi_backend) -> i32;
    gpi_backend_get_info(c::gpi_backend, *mut c::gpi_backend_info) -> i32;
    gpi_backend_get_device(c::gpi_backend, u32, *mut c::gpi_identity) -> i32;
    gpi_device_open(c::gpi_backend, u32, *mut c::gpi_device) -> i32;
    gpi_device_get_info(c::gpi_device, *mut c::gpi_device_info) -> i32;
    gpi_device_get_support(c::gpi_device, *const c_char, *mut c::gpi_support) -> i32;
    gpi_device_collect(c::gpi_device) -> i32;
    gpi_device_destroy(c::gpi_device) -> i32;
    gpi_device_import_memory(c::gpi_device, *mut c::gpi_memory_import, *mut c::gpi_memory) -> i32;
    gpi_memory_import_close(*mut c::gpi_memory_import) -> i32;
    gpi_memory_map_buffer(c::gpi_memory, u64, u64, *mut c::gpi_buffer) -> i32;
    gpi_memory_map_image_bytes(c::gpi_memory, u64, u64, *mut c::gpi_buffer) -> i32;
    gpi_memory_destroy(c::gpi_memory) -> i32;
    gpi_device_allocate_exportable(c::gpi_device, u64, *mut c::gpi_buffer) -> i32;
    gpi_device_wrap_memory(c::gpi_device, u64, u64, c::gpi_release_function, *mut c_void, *mut c::gpi_buffer) -> i32;
    gpi_buffer_get_info(c::gpi_buffer, *mut c::gpi_buffer_info) -> i32;
    gpi_buffer_export(c::gpi_buffer, *mut c::gpi_memory_import) -> i32;
    gpi_buffer_destroy(c::gpi_buffer) -> i32;
    gpi_memory_map_array(c::gpi_memory, *const c::gpi_array_desc, *mut c::gpi_array) -> i32;
    gpi_array_get_level(c::gpi_array, u32, *mut c::gpi_array_level_info) -> i32;
    gpi_array_destroy(c::gpi_array) -> i32;
    gpi_stream_copy_from_array(c::gpi_stream, c::gpi_texels, c::gpi_array_region) -> i32;
    gpi_stream_copy_to_array(c::gpi_stream, c::gpi_array_region, c::gpi_texels) -> i32;
    gpi_stream_copy_array(c::gpi_stream, c::gpi_array_region, c::gpi_array_region) -> i32;
    gpi_stream_read_array(c::gpi_stream, c::gpi_array_region, *mut c_void, usize) -> i32;
    gpi_stream_write_array(c::gpi_stream, c::gpi_array_region, *const c_void, usize) -> i32;
    gpi_device_import_semaphore(c::gpi_device, *mut c::gpi_semaphore_import, *mut c::gpi_semaphore) -> i32;
    gpi_semaphore_import_close(*mut c::gpi_semaphore_import) -> i32;
    gpi_semaphore_destroy(c::gpi_semaphore) -> i32;
    gpi_stream_create(c::gpi_device, *mut c::gpi_stream) -> i32;
    gpi_stream_synchronize(c::gpi_stream, u64) -> i32;
    gpi_stream_query(c::gpi_stream, *mut i32) -> i32;
    gpi_stream_destroy(c::gpi_stream) -> i32;
    gpi_stream_copy(c::gpi_stream, c::gpi_range, c::gpi_range) -> i32;
    gpi_stream_read_async(c::gpi_stream, c::gpi_range, *mut c_void) -> i32;
    gpi_stream_write_async(c::gpi_stream, c::gpi_range, *const c_void) -> i32;
    gpi_stream_fill(c::gpi_stream, c::gpi_range, u8) -> i32;
    gpi_stream_fill_u32(c::gpi_stream, c::gpi_range, u32) -> i32;
    gpi_stream_wait_value_u32(c::gpi_stream, c::gpi_range, u32, i32) -> i32;
    gpi_stream_wait_value_u64(c::gpi_stream, c::gpi_range, u64, i32) -> i32;
    gpi_stream_write_value_u32(c::gpi_stream, c::gpi_range, u32) -> i32;
    gpi_stream_write_value_u64(c::gpi_stream, c::gpi_range, u64) -> i32;
    gpi_stream_signal(c::gpi_stream, *const c::gpi_semaphore_op, usize) -> i32;
    gpi_stream_wait(c::gpi_stream, *const c::gpi_semaphore_op, usize) -> i32;
    gpi_stream_launch_host_function(c::gpi_stream, c::gpi_host_function, *mut c_void) -> i32;
    gpi_stream_record_event(c::gpi_stream, c::gpi_event) -> i32;
    gpi_stream_wait_event(c::gpi_stream, c::gpi_event) -> i32;
    gpi_event_create(c::gpi_device, *mut c::gpi_event) -> i32;
    gpi_event_query(c::gpi_event, *mut i32) -> i32;
    gpi_event_destroy(c::gpi_event) -> i32;
    gpi_module_load(c::gpi_device, i32, *const c_void, usize, *mut c::gpi_module) -> i32;
    gpi_module_get_kernel(c::gpi_module, *const c_char, *mut c::gpi_kernel) -> i32;
    gpi_module_destroy(c::gpi_module) -> i32;
    gpi_kernel_destroy(c::gpi_kernel) -> i32;
    gpi_stream_launch(c::gpi_stream, c::gpi_kernel, *const c::gpi_launch_config, *const c::gpi_kernel_arg, usize) -> i32;
}

/// The library that the variable names, loaded once.
pub(crate) fn api() -> Result<&'static Api> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    let load = || {
        let path = std::env::var_os(LIBRARY_VARIABLE).ok_or_else(|| format!("{LIBRARY_VARIABLE} is not set"))?;
        let api = Api::load(&path).map_err(|error| error.to_string())?;
        // SAFETY: no requirements.
        let version = unsafe { (api.gpi_abi_version)() };
        if version == c::GPI_ABI_VERSION { Ok(api) } else { Err(format!("the library has interface {version}")) }
    };
    let loaded = API.get_or_init(load).as_ref();
    loaded.map_err(|message| Error::new(ErrorKind::DriverNotFound, "dlopen", message.clone()))
}

/// Keeps a text for the process; there are few different ones.
fn kept(text: &str) -> &'static str {
    static TEXTS: Mutex<BTreeMap<String, &'static str>> = Mutex::new(BTreeMap::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = texts.get(text) {
        return kept;
    }
    let kept: &'static str = Box::leak(text.to_owned().into_boxed_str());
    texts.insert(text.to_owned(), kept);
    kept
}

impl Api {
    /// Converts a status, with the last error of this thread.
    pub(crate) fn check(&self, status: i32) -> Result<()> {
        if status == c::GPI_SUCCESS {
            return Ok(());
        }
        // SAFETY: texts of this thread, valid until its next failure; they are copied.
        let text = |function: unsafe extern "C" fn() -> *const c_char| unsafe {
            CStr::from_ptr(function()).to_string_lossy().into_owned()
        };
        let (operation, reason) = (text(self.gpi_last_error_operation), text(self.gpi_last_error_reason));
        let error = Error::new(crate::convert::kind(status), kept(&operation), reason);
        let mut code = 0;
        // SAFETY: the address of a variable.
        if unsafe { (self.gpi_last_error_driver_code)(&raw mut code) } == 0 {
            return Err(error);
        }
        let name = text(self.gpi_last_error_driver_code_name);
        Err(error.with_code(code, Some(name).filter(|name| !name.is_empty())))
    }

    /// Calls a function that writes its result.
    ///
    /// # Safety
    /// The requirements of the called function. It writes the result if it succeeds.
    pub(crate) unsafe fn made<T>(&self, call: impl FnOnce(*mut T) -> i32) -> Result<T> {
        let mut result = std::mem::MaybeUninit::uninit();
        self.check(call(result.as_mut_ptr()))?;
        // SAFETY: the function succeeded, and so has written it.
        Ok(unsafe { result.assume_init() })
    }
}
