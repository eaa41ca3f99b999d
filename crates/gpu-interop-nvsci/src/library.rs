//! Finding and loading the two libraries.

use std::ffi::{CStr, c_int};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpu_interop_core::{Error, ErrorKind, Result};
use gpu_interop_driver::{ApiVersion, DriverFunction, DriverLibrary, LibrarySearch, MissingSymbol, Status};

use crate::error::{BAD_PARAMETER, check, failure};
use crate::sys::{buf, sync};

/// The environment variable that names the file of NvSciBuf. If it is set, no other file is tried.
pub const NVSCIBUF_VARIABLE: &str = "GPU_INTEROP_NVSCIBUF_LIBRARY";
/// The environment variable that names the file of NvSciSync. If it is set, no other file is tried.
pub const NVSCISYNC_VARIABLE: &str = "GPU_INTEROP_NVSCISYNC_LIBRARY";

/// Library folders of Jetson's packages, for systems whose dynamic linker does not search them: since L4T 36, and
/// before.
const FOLDERS: &[(Option<&str>, &str)] =
    &[(None, "/usr/lib/aarch64-linux-gnu/nvidia"), (None, "/usr/lib/aarch64-linux-gnu/tegra")];
const INSTALL: &str = "it is part of NVIDIA's DRIVE OS and Jetson Linux; set the variable if it is in another folder";

const BUF: LibrarySearch = LibrarySearch {
    driver: "NvSciBuf library (libnvscibuf.so)",
    variable: NVSCIBUF_VARIABLE,
    names: &["libnvscibuf.so.1", "libnvscibuf.so"],
    folders: FOLDERS,
    install: INSTALL,
};
const SYNC: LibrarySearch = LibrarySearch {
    driver: "NvSciSync library (libnvscisync.so)",
    variable: NVSCISYNC_VARIABLE,
    names: &["libnvscisync.so.1", "libnvscisync.so"],
    folders: FOLDERS,
    install: INSTALL,
};

/// A simulator of NvSci exports this symbol.
const MARKER: &CStr = c"gpu_interop_simulated";

#[derive(Debug)]
pub(crate) struct Libraries {
    pub(crate) buf: buf::Functions,
    pub(crate) sync: sync::Functions,
    files: [PathBuf; 2],
    simulated: bool,
}

/// NvSciBuf and NvSciSync, loaded. They are never unloaded. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NvSci {
    pub(crate) libraries: Arc<Libraries>,
}

impl NvSci {
    /// Loads both libraries: the files that [`NVSCIBUF_VARIABLE`] and [`NVSCISYNC_VARIABLE`] name, and only these;
    /// otherwise libraries already loaded in the process, then by name, then in Jetson's folders.
    ///
    /// # Errors
    /// [`ErrorKind::DriverNotFound`] with every path tried and the reason of each failure; [`ErrorKind::SymbolMissing`]
    /// for a library that lacks a function; [`ErrorKind::Unsupported`] for a library that reports that it, or one of
    /// its dependencies, is not compatible with version 2.0 (`NvSciBufCheckVersionCompatibility`); otherwise the error
    /// of that function.
    pub fn load() -> Result<Self> {
        let (buf, sync) = (DriverLibrary::find(&BUF)?, DriverLibrary::find(&SYNC)?);
        let missing = |missing: MissingSymbol, library: &DriverLibrary, api| missing.error(library, api, None, (2, 0));
        // SAFETY: the library is NvSciBuf, or the file that the user named as such.
        let buf_functions = unsafe { buf::Functions::load(&buf) }.map_err(|name| missing(name, &buf, "NvSciBuf"))?;
        // SAFETY: the library is NvSciSync, or the file that the user named as such.
        let sync_functions =
            unsafe { sync::Functions::load(&sync) }.map_err(|name| missing(name, &sync, "NvSciSync"))?;
        // SAFETY: the symbol has this type in every library that exports it; it is not dereferenced.
        let is_simulated = |library: &DriverLibrary| unsafe { library.symbol::<*const c_int>(MARKER) }.is_some();
        let libraries = Libraries {
            files: [buf.file(c"NvSciBufModuleOpen"), sync.file(c"NvSciSyncModuleOpen")],
            simulated: is_simulated(&buf) || is_simulated(&sync),
            buf: buf_functions,
            sync: sync_functions,
        };
        let version = |api, major, minor| ApiVersion { api, major, minor };
        let (of_buf, of_sync) = (buf_functions.check_version.get(), sync_functions.check_version.get());
        let buf_version = version("NvSciBuf", buf::MAJOR, buf::MINOR);
        compatible("NvSciBufCheckVersionCompatibility", of_buf, buf_version, &libraries.files[0])?;
        let sync_version = version("NvSciSync", sync::MAJOR, sync::MINOR);
        compatible("NvSciSyncCheckVersionCompatibility", of_sync, sync_version, &libraries.files[1])?;
        Ok(Self { libraries: Arc::new(libraries) })
    }

    /// The files of NvSciBuf and NvSciSync.
    #[must_use]
    pub fn files(&self) -> [&Path; 2] {
        [&self.libraries.files[0], &self.libraries.files[1]]
    }

    /// `true` if a library is a simulator. Reports must state it.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.libraries.simulated
    }
}

type CheckVersion = unsafe extern "system" fn(u32, u32, *mut u8) -> Status;

/// Fails if a library reports incompatibility with a version: another major version, a lower minor version, or a
/// dependency of a wrong version. A library without this function is accepted.
fn compatible(name: &'static str, function: Option<CheckVersion>, wanted: ApiVersion, file: &Path) -> Result<()> {
    let Some(function) = function else { return Ok(()) };
    let mut is_compatible = 0;
    // SAFETY: the pointer is valid for the call.
    let result = unsafe { function.traced(name, (wanted.major, wanted.minor, &raw mut is_compatible)) };
    let named = |error: Error| error.with_context("library", file.display());
    if result.0 == BAD_PARAMETER {
        let message =
            "the library could not check the versions of its dependencies; install all libraries of one release";
        return Err(named(failure(ErrorKind::Driver, name, message, result)));
    }
    check(name, result).map_err(named)?;
    if is_compatible != 0 {
        return Ok(());
    }
    let message = format!(
        "the library, or one of its dependencies, is not compatible with version {wanted}, whose functions this \
         crate calls; install the libraries of one release that has major version {}",
        wanted.major
    );
    Err(named(Error::new(ErrorKind::Unsupported, name, message)))
}
