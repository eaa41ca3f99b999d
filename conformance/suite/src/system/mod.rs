//! Differences between operating systems: processes, connections between them, and exported handles.
//!
//! Both modules have the same items.

use std::ffi::OsString;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::*;
#[cfg(windows)]
pub use windows::*;

/// The handle of memory and semaphores sent to another process: a descriptor, or an NT handle.
#[cfg(unix)]
pub type OsHandle = std::os::fd::OwnedFd;
/// The handle of memory and semaphores sent to another process: a descriptor, or an NT handle.
#[cfg(windows)]
pub type OsHandle = std::os::windows::io::OwnedHandle;

/// As [`OsHandle`], borrowed.
#[cfg(unix)]
pub type BorrowedOsHandle<'a> = std::os::fd::BorrowedFd<'a>;
/// As [`OsHandle`], borrowed.
#[cfg(windows)]
pub type BorrowedOsHandle<'a> = std::os::windows::io::BorrowedHandle<'a>;

/// The value of an environment variable. A variable that is set to nothing counts as not set.
#[must_use]
pub fn set_variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The countable resources of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceSnapshot {
    /// Open descriptors or handles.
    pub descriptors: usize,
    /// Mapped regions.
    pub mappings: usize,
    /// Resident memory, bytes.
    pub resident: u64,
}

/// A received message, or the end of a [`Connection`].
#[derive(Debug)]
pub enum Received {
    /// A message, with its descriptors or handles.
    Message(Vec<u8>, Vec<OsHandle>),
    /// The other side has ended, or crashed with an unread message of this side.
    Gone,
}

/// Maximum number of handles in a message.
pub(crate) const MAX_HANDLES: usize = 4;
