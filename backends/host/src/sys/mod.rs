//! What the operating system does for this backend: memory and words that processes share.
//!
//! Both modules have the same functions: memfds, descriptors and futexes on Linux; file mappings, NT handles and
//! `WaitOnAddress` on Windows.

#[cfg(unix)]
mod linux;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use linux::*;
#[cfg(windows)]
pub(crate) use windows::*;

use std::sync::atomic::AtomicU32;

/// A word to sleep on while it has a value, and whether other processes may wake its sleepers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word<'a> {
    pub(crate) word: &'a AtomicU32,
    pub(crate) expected: u32,
    pub(crate) shared: bool,
}

/// The system cannot sleep on as many words at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CannotSleep;
