//! Operating system functions of this backend: shared memory, and sleeping on words in it.
//!
//! Both modules have the same functions, with memfds, file descriptors and futexes on Linux, and file mappings, NT
//! handles and `WaitOnAddress` on Windows.

#[cfg(unix)]
mod linux;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use linux::*;
#[cfg(windows)]
pub(crate) use windows::*;

use std::sync::atomic::AtomicU32;

/// Word to sleep on while it has the value `expected`; `shared` if other processes may wake it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word<'a> {
    pub(crate) word: &'a AtomicU32,
    pub(crate) expected: u32,
    pub(crate) shared: bool,
}

/// Error: the system cannot sleep on this many words at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CannotSleep;
