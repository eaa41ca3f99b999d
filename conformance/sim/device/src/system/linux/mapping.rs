//! Ranges of this process's memory.

use std::os::fd::BorrowedFd;
use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags};

/// A mapped range, unmapped on drop. Its provenance is exposed, because it is passed as an address.
#[derive(Debug)]
pub struct Mapping {
    base: usize,
    length: usize,
}

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Mapping {
    /// Maps `length` bytes of a file from `offset`, which is a multiple of the page size.
    ///
    /// # Errors
    /// The kernel's error.
    pub(super) fn of_file(fd: BorrowedFd<'_>, offset: u64, length: usize) -> rustix::io::Result<Self> {
        // SAFETY: a new mapping at an address chosen by the kernel affects no other memory.
        let base = unsafe { rustix::mm::mmap(ptr::null_mut(), length, READ_WRITE, MapFlags::SHARED, fd, offset) }?;
        Ok(Self { base: base.expose_provenance(), length })
    }

    /// Maps `length` bytes of new memory, zeroed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn anonymous(length: usize) -> rustix::io::Result<Self> {
        Self::fresh(length, READ_WRITE)
    }

    /// Reserves addresses without memory.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn reserved(length: usize) -> rustix::io::Result<Self> {
        Self::fresh(length, ProtFlags::empty())
    }

    fn fresh(length: usize, protection: ProtFlags) -> rustix::io::Result<Self> {
        // SAFETY: as in `of_file`.
        let base = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), length, protection, MapFlags::PRIVATE) }?;
        Ok(Self { base: base.expose_provenance(), length })
    }

    /// Maps the same memory again at another address: `length` bytes from `offset`, a multiple of the page size. For
    /// mappings of files.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn again(&self, offset: usize, length: usize) -> rustix::io::Result<Self> {
        let from = ptr::with_exposed_provenance_mut(self.base.wrapping_add(offset));
        // SAFETY: an old length of 0 keeps the old mapping, which is shared, and creates another.
        let base = unsafe { rustix::mm::mremap(from, 0, length, MremapFlags::MAYMOVE) }?;
        Ok(Self { base: base.expose_provenance(), length })
    }

    /// The first address.
    #[must_use]
    pub fn base(&self) -> usize {
        self.base
    }

    /// Bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.length
    }

    /// Replaces the mapping at `at` by `length` bytes of a file, not accessible yet.
    ///
    /// # Errors
    /// The kernel's error; `INVAL` if the range is not inside this one.
    pub(super) fn place(&self, at: usize, length: usize, fd: BorrowedFd<'_>, offset: u64) -> rustix::io::Result<()> {
        let address = self.within(at, length)?;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the range belongs to this mapping, and its user requested the replacement.
        unsafe { rustix::mm::mmap(address, length, ProtFlags::empty(), flags, fd, offset) }.map(drop)
    }

    /// Makes a range accessible.
    ///
    /// # Errors
    /// The kernel's error; `INVAL` if the range is not inside this one.
    pub fn allow(&self, at: usize, length: usize) -> rustix::io::Result<()> {
        let address = self.within(at, length)?;
        // SAFETY: as in `place`.
        unsafe { rustix::mm::mprotect(address, length, MprotectFlags::READ | MprotectFlags::WRITE) }
    }

    /// Makes the whole range read-only.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn forbid_writes(&self) -> rustix::io::Result<()> {
        let address = self.within(self.base, self.length)?;
        // SAFETY: as in `place`.
        unsafe { rustix::mm::mprotect(address, self.length, MprotectFlags::READ) }
    }

    /// Removes the memory of a range; the addresses stay reserved.
    ///
    /// # Errors
    /// The kernel's error; `INVAL` if the range is not inside this one.
    pub fn clear(&self, at: usize, length: usize) -> rustix::io::Result<()> {
        let address = self.within(at, length)?;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: as in `place`.
        unsafe { rustix::mm::mmap_anonymous(address, length, ProtFlags::empty(), flags) }.map(drop)
    }

    fn within(&self, at: usize, length: usize) -> rustix::io::Result<*mut std::ffi::c_void> {
        let inside = at.checked_sub(self.base).and_then(|start| start.checked_add(length));
        match inside {
            Some(end) if end <= self.length => Ok(ptr::with_exposed_provenance_mut(at)),
            _ => Err(rustix::io::Errno::INVAL),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this object, as a whole. A later access crashes the process, as on a GPU.
        let unmapped = unsafe { rustix::mm::munmap(ptr::with_exposed_provenance_mut(self.base), self.length) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}
