//! Loading of the Vulkan loader at run time.

use std::error::Error as StdError;
use std::ffi::OsStr;

use gpu_interop_core::{Error, ErrorKind, LoadAttempt, Result};

/// The Vulkan loader's library name on this operating system.
#[cfg(windows)]
pub const LOADER_LIBRARY: &str = "vulkan-1.dll";
/// The Vulkan loader's library name on this operating system.
#[cfg(any(target_os = "android", target_os = "fuchsia"))]
pub const LOADER_LIBRARY: &str = "libvulkan.so";
/// The Vulkan loader's library name on this operating system.
#[cfg(any(target_os = "macos", target_os = "ios"))]
pub const LOADER_LIBRARY: &str = "libvulkan.dylib";
/// The Vulkan loader's library name on this operating system.
#[cfg(not(any(windows, target_os = "android", target_os = "fuchsia", target_os = "macos", target_os = "ios")))]
pub const LOADER_LIBRARY: &str = "libvulkan.so.1";

const OPERATION: &str = "load the Vulkan loader";

/// Message for a missing loader.
const NO_LOADER: &str = if cfg!(windows) {
    "the Vulkan loader is missing; install your GPU's driver, which includes it"
} else {
    "the Vulkan loader is missing; install it and a driver (Debian: libvulkan1, and your GPU's driver or \
     mesa-vulkan-drivers)"
};

/// Loads the system's Vulkan loader, [`LOADER_LIBRARY`].
///
/// The library is unloaded when the entry and its clones are dropped; keep one as long as anything made from it. The last
/// instance unloads the drivers: keep one in a program that creates and destroys many. NVIDIA's driver 580 could not be
/// loaded again after some tens to hundreds of times in one process, for want of static TLS.
///
/// # Errors
/// [`ErrorKind::DriverNotFound`] if the library is not installed or does not load; [`Error::attempts`] has the name
/// tried and the dynamic linker's text. [`ErrorKind::SymbolMissing`] if the library is not a Vulkan loader.
#[doc(alias = "vkGetInstanceProcAddr")]
pub fn load_entry() -> Result<ash::Entry> {
    // SAFETY: the name is that of the system's Vulkan loader, which is safe to load at run time.
    unsafe { load_entry_from(LOADER_LIBRARY) }
}

/// Loads the Vulkan loader from a library name or path of the caller's choice.
///
/// # Errors
/// As [`load_entry`].
///
/// # Safety
/// If `library` exists, it must be a Vulkan loader, or at least safe to load: its initialisers run, and its
/// `vkGetInstanceProcAddr` is called as Vulkan's.
pub unsafe fn load_entry_from(library: impl AsRef<OsStr>) -> Result<ash::Entry> {
    let library = library.as_ref();
    // SAFETY: the caller promises that the library is safe to load.
    let loaded = unsafe { ash::Entry::load_from(library) };
    loaded.map_err(|failure| {
        let attempt = LoadAttempt::new(library.to_string_lossy().into_owned(), error_texts(&failure));
        let error = match failure {
            ash::LoadingError::LibraryLoadFailure(_) => Error::new(ErrorKind::DriverNotFound, OPERATION, NO_LOADER),
            ash::LoadingError::MissingEntryPoint(_) => {
                Error::new(ErrorKind::SymbolMissing, OPERATION, "the library has no vkGetInstanceProcAddr")
            }
        };
        error.with_attempts([attempt]).with_source(failure)
    })
}

/// Joins the texts of an error and its sources. Some errors of the dynamic linker have the reason in the source.
fn error_texts(error: &(dyn StdError + 'static)) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if texts.last() != Some(&text) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}
