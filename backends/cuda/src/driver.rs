//! The loaded driver: its functions, and what its status codes mean.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::ptr;

use gpu_interop_core::{Error, ErrorKind, Result};
use gpu_interop_driver::{ApiVersion, DriverLibrary, LibrarySearch};

use crate::sys::{CuResult, Functions, REQUIRED_SINCE};

/// Where NVIDIA's driver is. `libcuda.so` without a version is the toolkit's stub as often as the driver, so it comes
/// last.
const SEARCH: LibrarySearch = LibrarySearch {
    driver: "CUDA driver",
    variable: "GPU_INTEROP_CUDA_LIBRARY",
    names: if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] },
    folders: if cfg!(windows) { &[] } else { &[(None, "/usr/lib/wsl/lib"), (None, "/usr/local/nvidia/lib64")] },
    install: "install NVIDIA's driver, or make its library visible (in a container: the `compute` driver capability)",
};

/// The API's name in versions.
const API: &str = "CUDA";

/// A library that plays a driver says so with this symbol, so that no report made with one passes for a real one.
const STAND_IN: &CStr = c"gpu_interop_stand_in";

#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) functions: Functions,
    pub(crate) version: ApiVersion,
    pub(crate) file: PathBuf,
    /// Whether the library only plays a driver.
    pub(crate) stand_in: bool,
}

impl Driver {
    /// Loads and initialises the driver.
    pub(crate) fn load() -> Result<Self> {
        let library = DriverLibrary::find(&SEARCH)?;
        // SAFETY: the library is the CUDA driver, or what the user named as such.
        let functions = unsafe { Functions::load(&library) }
            .map_err(|missing| missing.error(&library, API, version_of(&library), REQUIRED_SINCE))?;
        // SAFETY: the address is never used.
        let stand_in = unsafe { library.symbol::<*const c_void>(STAND_IN) }.is_some();
        let mut driver = Self { functions, version: version(0), file: library.file(c"cuInit"), stand_in };
        let mut number: c_int = 0;
        // SAFETY: the pointer is valid for the call. Works before cuInit.
        driver.check("cuDriverGetVersion", unsafe { (functions.driver_get_version)(&raw mut number) })?;
        driver.version = version(number);
        // SAFETY: 0 is the only flag there is.
        driver.check("cuInit", unsafe { (functions.init)(0) }).map_err(|error| {
            error.with_context("driver", driver.version).with_context("library", driver.file.display())
        })?;
        Ok(driver)
    }

    /// A status code as a result.
    #[inline]
    pub(crate) fn check(&self, operation: &'static str, code: CuResult) -> Result<()> {
        if code == CuResult::SUCCESS { Ok(()) } else { Err(self.error(operation, code)) }
    }

    /// As [`Driver::check`], for imports: a driver refuses a handle with whatever code its internals ran into.
    pub(crate) fn check_import(&self, operation: &'static str, code: CuResult) -> Result<()> {
        if code == CuResult::SUCCESS {
            return Ok(());
        }
        let error = self.error(operation, code);
        if error.kind() != ErrorKind::Driver {
            return Err(error);
        }
        let message = "the driver refused the handle; is it of the stated kind and size, and exported by this GPU?";
        Err(Error::new(ErrorKind::ImportRejected, operation, message).with_code(i64::from(code.0), self.name(code)))
    }

    /// A result that must not be null although the driver said success.
    pub(crate) fn not_null(operation: &'static str, handle: usize) -> Result<usize> {
        if handle == 0 {
            return Err(Error::new(ErrorKind::Driver, operation, "the driver reported success but gave a null handle"));
        }
        Ok(handle)
    }

    #[cold]
    fn error(&self, operation: &'static str, code: CuResult) -> Error {
        let (kind, message) = match code {
            CuResult::OUT_OF_MEMORY => (ErrorKind::OutOfMemory, "the device or its address space ran out of memory"),
            CuResult::NO_DEVICE => {
                (ErrorKind::NoDevice, "the driver works but sees no device; check CUDA_VISIBLE_DEVICES")
            }
            CuResult::NOT_SUPPORTED => (ErrorKind::Unsupported, "this device or system does not support the operation"),
            CuResult::STUB_LIBRARY => (
                ErrorKind::DriverNotFound,
                "the library is the toolkit's stub, not a driver; remove its folder from LD_LIBRARY_PATH",
            ),
            CuResult::SYSTEM_DRIVER_MISMATCH | CuResult::COMPAT_NOT_SUPPORTED_ON_DEVICE => {
                (ErrorKind::DriverTooOld, "the kernel's driver and this library do not fit together")
            }
            _ => (ErrorKind::Driver, "the driver reported a failure"),
        };
        let text = self.text(self.functions.get_error_string, code);
        let error = Error::new(kind, operation, message).with_code(i64::from(code.0), self.name(code));
        match text {
            Some(text) => error.with_context("driver's text", text),
            None => error,
        }
    }

    fn name(&self, code: CuResult) -> Option<String> {
        self.text(self.functions.get_error_name, code)
    }

    fn text(
        &self,
        function: unsafe extern "system" fn(CuResult, *mut *const c_char) -> CuResult,
        code: CuResult,
    ) -> Option<String> {
        let mut text: *const c_char = ptr::null();
        // SAFETY: the pointer is valid for the call; an unknown code leaves it null and returns an error.
        let result = unsafe { function(code, &raw mut text) };
        if result != CuResult::SUCCESS || text.is_null() {
            return None;
        }
        // SAFETY: on success it is a NUL-terminated string that the driver never frees.
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

/// A version as the driver numbers them: 13000 is CUDA 13.0.
fn version(number: c_int) -> ApiVersion {
    let number = u32::try_from(number).unwrap_or(0);
    ApiVersion { api: API, major: number / 1000, minor: number % 1000 / 10 }
}

/// What a library that is no complete driver says of its version.
fn version_of(library: &DriverLibrary) -> Option<ApiVersion> {
    // SAFETY: the type that the function has in every driver.
    let get = unsafe { library.symbol::<unsafe extern "system" fn(*mut c_int) -> CuResult>(c"cuDriverGetVersion") }?;
    let mut number: c_int = 0;
    // SAFETY: the pointer is valid for the call. Works before cuInit.
    let result = unsafe { get(&raw mut number) };
    (result == CuResult::SUCCESS && number > 0).then(|| version(number))
}
