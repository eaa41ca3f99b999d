//! Memory of buffer objects: one memfd, mapped once as a whole. A buffer object is a range of it.

use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::extents::Extents;
use super::names::Names;
use crate::abi::Result;

/// Address space, not memory: pages are allocated when they are written.
const CAPACITY: u64 = 1 << 40;
const PAGE: u64 = 4096;
const LARGE_PAGE: u64 = 2 << 20;

#[derive(Debug)]
pub(crate) struct Pool {
    file: OwnedFd,
    base: NonNull<u8>,
    extents: Mutex<Extents>,
    names: Mutex<Names>,
}

// SAFETY: `base` is the address of a mapping that lives as long as the process; access to it is by raw pointers only.
unsafe impl Send for Pool {}
// SAFETY: as above; the extents are behind a lock.
unsafe impl Sync for Pool {}

/// Moves a descriptor of the emulation to a high number, so that the application gets the usual numbers.
pub(crate) fn high_descriptor(file: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&file, 900).unwrap_or(file)
}

impl Pool {
    pub(crate) fn new() -> Result<Self> {
        let file = high_descriptor(rustix::fs::memfd_create(c"emulated-amdgpu-memory", MemfdFlags::CLOEXEC)?);
        rustix::fs::ftruncate(&file, CAPACITY)?;
        let capacity = usize::try_from(CAPACITY).map_err(|_| Errno::NOMEM)?;
        // SAFETY: a new mapping at an address chosen by the kernel affects no other memory.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                capacity,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                &file,
                0,
            )?
        };
        // A child does not inherit the GPU's memory, and a core dump does not contain it.
        for advice in [Advice::LinuxDontFork, Advice::LinuxDontDump] {
            // SAFETY: the range is the new mapping; both calls concern only children and core dumps.
            unsafe { rustix::mm::madvise(base, capacity, advice)? };
        }
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { file, base, extents: Mutex::new(Extents::new(CAPACITY)), names: Mutex::default() })
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The objects, by their offset on a render node.
    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allocates a zeroed range of at least `size` bytes.
    pub(crate) fn take(&self, size: u64) -> Result<u64> {
        let alignment = if size >= LARGE_PAGE { LARGE_PAGE } else { PAGE };
        let mut extents = self.extents.lock().unwrap_or_else(PoisonError::into_inner);
        let size = size.checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        extents.take(size, alignment).ok_or(Errno::NOMEM)
    }

    /// Frees a range, and returns its pages to the system.
    pub(crate) fn give(&self, offset: u64, size: u64) {
        let size = size.next_multiple_of(PAGE);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, punch, offset, size) {
            Ok(()) => self.extents.lock().unwrap_or_else(PoisonError::into_inner).give(offset, size),
            // Not reused: the next owner would see the old contents.
            Err(error) => crate::log::failure(format_args!("memory is lost: fallocate: {error}")),
        }
    }

    /// The address of a range that [`take`](Self::take) returned.
    pub(crate) fn address(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset < CAPACITY);
        // `offset` is below the capacity, which is the mapping's length.
        self.base.as_ptr().wrapping_add(usize::try_from(offset).unwrap_or(0))
    }
}
