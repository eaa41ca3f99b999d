//! Operating system interfaces of the simulators: memory ranges, and memory shared between processes.
//!
//! Both modules have the same items, with memory files, descriptors and futexes on Linux, and file mappings, NT handles
//! and `WaitOnAddress` on Windows.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub use crate::system::linux::*;
#[cfg(windows)]
pub use crate::system::windows::*;

/// Memory behind an imported handle.
#[derive(Debug)]
pub struct Opened {
    /// The whole memory.
    pub(crate) mapping: Mapping,
    /// Offset of the data.
    pub(crate) header: usize,
    /// `true` if images have lavapipe's layout.
    pub(crate) images: bool,
}
