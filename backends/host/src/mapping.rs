//! Shared memory mapped into this process.

use std::ptr::NonNull;

use gpu_interop_core::{Error, ErrorKind, Result};

use crate::sys;

/// A mapping of a range of shared memory, undone on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    /// Length of the whole mapping, bytes; it begins `lead` bytes before the wanted range.
    length: usize,
    lead: usize,
}

// SAFETY: a shared mapping is valid from every thread; all access goes through raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `size` bytes from `offset`, read and write, shared. Any offset will do.
    pub(crate) fn new(memory: sys::Borrowed<'_>, offset: u64, size: u64) -> Result<Self> {
        let lead = offset % sys::granularity();
        let describe = |error: Error| error.with_context("offset", offset).with_context("size", size);
        let too_large = || describe(Error::new(ErrorKind::OutOfMemory, "mmap", "the range exceeds the address space"));
        let length = size.checked_add(lead).and_then(|length| usize::try_from(length).ok()).ok_or_else(too_large)?;
        let base = sys::map(memory, offset - lead, length).map_err(describe)?;
        // `lead` is less than what offsets are multiples of.
        Ok(Self { base, length, lead: usize::try_from(lead).unwrap_or(0) })
    }

    /// The first byte of the wanted range. Its provenance is exposed, so that it may travel as an address.
    pub(crate) fn ptr(&self) -> *mut u8 {
        let ptr = self.base.as_ptr().wrapping_add(self.lead);
        let _ = ptr.expose_provenance();
        ptr
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, of this length, and nothing uses it any more: whoever hands
        // out its addresses keeps it until their last use.
        if let Err(error) = unsafe { sys::unmap(self.base, self.length) } {
            tracing::error!(%error, "unmapping shared memory failed");
        }
    }
}
