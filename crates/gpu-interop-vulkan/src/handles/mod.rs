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

use gpu_interop_core::{Error, ErrorKind};

/// The error for a driver that exports nothing and reports success, as some do for an object that was not created for export.
fn nothing_exported(operation: &'static str) -> Error {
    let message = if operation.starts_with("vkGetMemory") {
        "the driver reported success but returned no handle, as for memory that was not allocated for export: chain \
         VkExportMemoryAllocateInfo with this handle type to vkAllocateMemory. Allocators do so only if configured to (VMA: \
         pTypeExternalMemoryHandleTypes; a version of gpu-allocator without such an option: allocate the memory yourself)"
    } else {
        "the driver reported success but returned no handle, as for a semaphore that was not created for export: chain \
         VkExportSemaphoreCreateInfo with this handle type to vkCreateSemaphore"
    };
    Error::new(ErrorKind::Driver, operation, message)
}

/// The error for a handle of another operating system, or of an API that Vulkan does not import.
fn not_importable(operation: &'static str) -> Error {
    Error::unsupported(operation, format!("only {IMPORTABLE} can be imported on this platform"))
}
