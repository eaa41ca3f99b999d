//! Platform handles of shared memory and semaphores: file descriptors on Linux, NT handles on Windows.
//!
//! `fd` and `win32` have the same items, so that one code path of this crate exports and one imports.

#[cfg(unix)]
mod fd;
mod functions;
#[cfg(windows)]
mod win32;

#[cfg(unix)]
pub(crate) use fd::*;
#[cfg(windows)]
pub(crate) use win32::*;

use std::ffi::CStr;

use gpu_interop_core::{Error, Result};

pub(crate) const REQUIRED_EXTENSIONS: &[&CStr] = &[MEMORY_EXTENSION];

/// The error for a handle of another operating system, or of an API that Vulkan does not import.
fn not_importable(operation: &'static str) -> Error {
    Error::unsupported(operation, format!("only {IMPORTABLE} can be imported on this platform"))
}

/// The device functions that export and import.
pub(crate) struct Functions {
    memory: MemoryFunctions,
    semaphore: Option<SemaphoreFunctions>,
}

impl Functions {
    /// Loads the functions. `has` reports whether the device has a function.
    ///
    /// # Errors
    /// `Unsupported` if the functions for memory are missing.
    pub(crate) fn load(
        operation: &'static str,
        instance: &ash::Instance,
        device: &ash::Device,
        has: impl Fn(&CStr) -> bool,
    ) -> Result<Self> {
        if !MEMORY_FUNCTIONS.into_iter().all(&has) {
            return Err(missing(operation, MEMORY_FUNCTIONS[0], MEMORY_EXTENSION));
        }
        let semaphore = SEMAPHORE_FUNCTIONS.into_iter().all(has).then(|| SemaphoreFunctions::new(instance, device));
        Ok(Self { memory: MemoryFunctions::new(instance, device), semaphore })
    }

    /// The functions for semaphores.
    ///
    /// # Errors
    /// `Unsupported` if their extension is not enabled.
    pub(crate) fn semaphore(&self, operation: &'static str) -> Result<&SemaphoreFunctions> {
        self.semaphore.as_ref().ok_or_else(|| missing(operation, SEMAPHORE_FUNCTIONS[0], SEMAPHORE_EXTENSION))
    }
}

/// The error for a function that the device lacks.
fn missing(operation: &'static str, function: &CStr, extension: &CStr) -> Error {
    let [function, extension] = [function, extension].map(CStr::to_string_lossy);
    Error::unsupported(operation, format!("the device has no {function}; create it with the extension {extension}"))
}
