//! What the operating system does for the simulators: ranges of memory, and memory that processes share.
//!
//! Both modules have the same: memory files, descriptors and futexes on Linux; file mappings, NT handles and
//! `WaitOnAddress` on Windows.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub use linux::*;
#[cfg(windows)]
pub use windows::*;

/// Memory behind a handle that was given to an import.
#[derive(Debug)]
pub struct Opened {
    /// All of it.
    pub(crate) mapping: Mapping,
    /// Where the data begins.
    pub(crate) header: usize,
    /// Whether images lie in it as in lavapipe's memory.
    pub(crate) images: bool,
}
