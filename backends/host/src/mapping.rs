//! Mappings of shared memory.

use std::ptr::NonNull;

use gpu_interop_core::{Error, ErrorKind, Result, caught};

use crate::sys;

/// Mapping of a range of shared memory, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    /// Length of the whole mapping in bytes. It starts `lead` bytes before the requested range.
    length: usize,
    lead: usize,
}

// SAFETY: a shared mapping is valid from every thread; all access goes through raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `size` bytes from `offset`, shared, for reads and writes. The offset needs no alignment.
    pub(crate) fn new(memory: sys::Borrowed<'_>, offset: u64, size: u64) -> Result<Self> {
        let lead = offset % sys::granularity();
        let describe = |error: Error| error.with_context("offset", offset).with_context("size", size);
        let too_large = || describe(Error::new(ErrorKind::OutOfMemory, "mmap", "the range exceeds the address space"));
        let length = size.checked_add(lead).and_then(|length| usize::try_from(length).ok()).ok_or_else(too_large)?;
        let base = sys::map(memory, offset - lead, length).map_err(describe)?;
        // `lead` is less than the mapping granularity.
        Ok(Self { base, length, lead: usize::try_from(lead).unwrap_or(0) })
    }

    /// Pointer to the first byte of the requested range. Its provenance is exposed because it is passed as an integer
    /// address.
    pub(crate) fn ptr(&self) -> *mut u8 {
        let ptr = self.base.as_ptr().wrapping_add(self.lead);
        let _ = ptr.expose_provenance();
        ptr
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping of `new`, of this length. Owners that hand out its addresses keep it until their
        // last use.
        if let Err(error) = unsafe { sys::unmap(self.base, self.length) } {
            let _ = caught(|| tracing::error!(%error, "unmapping shared memory failed"));
        }
    }
}
