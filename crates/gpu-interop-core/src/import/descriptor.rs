//! Checks of descriptors. Drivers block on some that are neither memory nor semaphores, and crash on others.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use super::exceeds_memory;
use crate::error::{Error, Result};
use crate::handle::{FdKind, MemoryHandle, MemoryHandleKind, SemaphoreHandle, classify_fd, open_file};

/// `true` for a descriptor that is not open.
pub(super) fn is_closed(fd: Option<BorrowedFd<'_>>) -> bool {
    fd.is_some_and(|fd| classify_fd(fd) == FdKind::Closed)
}

pub(super) fn check_memory(operation: &'static str, handle: &MemoryHandle, size: u64, open: &AtomicBool) -> Result<()> {
    let Some(fd) = handle.as_fd() else { return Ok(()) };
    let opaque = handle.kind() == MemoryHandleKind::OpaqueFd;
    let file = open_file(fd);
    open.store(file.kind != FdKind::Closed, Ordering::Relaxed);
    match file.kind {
        FdKind::DmaBuf => Ok(()),
        FdKind::Memory if opaque => check_length(operation, fd, file.length, size),
        FdKind::CharDevice | FdKind::Other if opaque => Ok(()),
        kind => Err(rejected(operation, fd, kind, "memory")),
    }
}

pub(super) fn check_semaphore(operation: &'static str, handle: &SemaphoreHandle, open: &AtomicBool) -> Result<()> {
    let Some(fd) = handle.as_fd() else { return Ok(()) };
    let kind = classify_fd(fd);
    open.store(kind != FdKind::Closed, Ordering::Relaxed);
    match kind {
        FdKind::Memory | FdKind::CharDevice | FdKind::AnonymousInode | FdKind::Other => Ok(()),
        kind => Err(rejected(operation, fd, kind, "a semaphore")),
    }
}

/// Checks the length of a memory file, which CPU drivers export. lavapipe maps past its end.
fn check_length(operation: &'static str, fd: BorrowedFd<'_>, length: Option<u64>, size: u64) -> Result<()> {
    match length {
        Some(length) if length < size => Err(exceeds_memory(operation)
            .with_context("fd", fd.as_raw_fd())
            .with_context("memory", format_args!("{length} bytes"))),
        _ => Ok(()),
    }
}

fn rejected(operation: &'static str, fd: BorrowedFd<'_>, kind: FdKind, wanted: &str) -> Error {
    let message = match kind {
        FdKind::Closed => {
            "the number is not an open file descriptor; it may have been closed or imported before; check a number before \
             it is owned (MemoryHandle::opaque_from_raw_fd, classify_fd)"
                .into()
        }
        _ => format!("the descriptor is {kind}, which no GPU API exports as {wanted}"),
    };
    Error::invalid(operation, message).with_context("fd", fd.as_raw_fd())
}
