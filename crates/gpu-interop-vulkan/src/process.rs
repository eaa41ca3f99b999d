//! The process that uses Vulkan's drivers.

use std::sync::OnceLock;

use gpu_interop_core::{Error, ErrorKind, ProcessMark, Result};

/// The process of the first instance.
static FIRST: OnceLock<ProcessMark> = OnceLock::new();

/// Records the first use of the drivers.
///
/// # Errors
/// [`ErrorKind::System`] in a process that was forked after it: no driver works there.
pub(crate) fn enter(operation: &'static str) -> Result<()> {
    if FIRST.get_or_init(ProcessMark::of_this_process).is_this_process() { Ok(()) } else { Err(forked(operation)) }
}

/// The error of a forked process.
pub(crate) fn forked(operation: &'static str) -> Error {
    let message = "the driver was used before this process was forked: use `spawn`, or fork before the first use";
    Error::new(ErrorKind::System, operation, message)
}
