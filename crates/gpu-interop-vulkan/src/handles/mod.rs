//! What the operating system adds to sharing: file descriptors on Linux, NT handles on Windows.
//!
//! Both modules have the same items, so that the rest of this crate knows only one way to export and one to import.

#[cfg(unix)]
mod fd;
#[cfg(windows)]
mod win32;

#[cfg(unix)]
pub(crate) use fd::*;
#[cfg(windows)]
pub(crate) use win32::*;

use gpu_interop_core::Error;

/// The error of a function that the device lacks.
fn missing(operation: &'static str, function: &str, extension: &str) -> Error {
    Error::unsupported(operation, format!("the device has no {function}; create it with the extension {extension}"))
}
