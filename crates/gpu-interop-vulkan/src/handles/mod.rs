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

pub(crate) use functions::{Functions, OPTIONAL_EXTENSIONS, REQUIRED_EXTENSIONS};

use gpu_interop_core::Error;

/// The error for a handle of another operating system, or of an API that Vulkan does not import.
fn not_importable(operation: &'static str) -> Error {
    Error::unsupported(operation, format!("only {IMPORTABLE} can be imported on this platform"))
}
