//! Memory of a device or another API that the host has mapped.

use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::backend::bytes::words;
use crate::error::{Error, Result};

/// A range of memory that a driver mapped for the host (`vkMapMemory`, `NvSciBufObjGetCpuPtr`). For exporters; it does not
/// own the mapping.
///
/// Copies are atomic accesses ([`backend::bytes::words`](crate::backend::bytes::words)): a GPU, another process or another mapping of
/// the same memory may write at the same time, which then tears the data but is no undefined behaviour. Threads of this
/// process take turns: their accesses may be of different sizes.
#[derive(Debug)]
pub struct HostMapping {
    base: NonNull<u8>,
    size: u64,
    turn: Mutex<()>,
}

// SAFETY: the mapping is plain memory, and one thread at a time accesses it.
unsafe impl Send for HostMapping {}
// SAFETY: as above.
unsafe impl Sync for HostMapping {}

impl HostMapping {
    /// `size` bytes from `base` on.
    ///
    /// # Safety
    /// They must be readable memory, and writable if anything is ever written by this, that stays mapped as long as this
    /// object lives, and that nothing in this process accesses through these addresses otherwise while this reads or
    /// writes: neither by a reference nor by another object of this type.
    #[must_use]
    pub unsafe fn new(base: NonNull<u8>, size: u64) -> Self {
        Self { base, size, turn: Mutex::new(()) }
    }

    /// The address of the first byte.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.base
    }

    /// Copies `out.len()` bytes from `offset` on. `operation` goes into the error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if they are not all inside.
    pub fn read(&self, operation: &'static str, offset: u64, out: &mut [u8]) -> Result<()> {
        let source = self.range(operation, offset, out.len())?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the range is inside the mapping. `out` is as long, is borrowed by this alone, and is no part of a mapping
        // that no reference names.
        unsafe { words::read(source, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies `data` to `offset`. `operation` goes into the error.
    ///
    /// # Errors
    /// As for [`HostMapping::read`].
    pub fn write(&self, operation: &'static str, offset: u64, data: &[u8]) -> Result<()> {
        let target = self.range(operation, offset, data.len())?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the range is inside the mapping. `data` is as long, is not written while it is borrowed, and is no part of
        // a mapping that no reference names.
        unsafe { words::write(data.as_ptr(), target, data.len()) };
        Ok(())
    }

    /// The address of `length` bytes from `offset` on, if they are inside.
    fn range(&self, operation: &'static str, offset: u64, length: usize) -> Result<*mut u8> {
        let inside = u64::try_from(length)
            .ok()
            .and_then(|length| offset.checked_add(length))
            .is_some_and(|end| end <= self.size);
        match usize::try_from(offset) {
            // SAFETY: the offset is at most `size`, so the result is inside the mapping or one past its end.
            Ok(offset) if inside => Ok(unsafe { self.base.as_ptr().add(offset) }),
            _ => Err(Error::invalid(operation, "the range goes past the end of the memory")
                .with_context("offset", offset)
                .with_context("length", length)
                .with_context("size", format_args!("{} bytes", self.size))),
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn every_alignment_and_length_copies_exactly() {
        let mut memory = [0_u64; 8];
        let base = NonNull::from(&mut memory).cast::<u8>();
        // SAFETY: the array lives to the end of the test and is not accessed otherwise until then.
        let mapping = unsafe { HostMapping::new(base, 64) };
        for offset in 0..24_u8 {
            for length in 0..=40_u8 {
                mapping.write("write", 0, &[0; 64]).expect("clear");
                let data: Vec<u8> = (1..=length).collect();
                mapping.write("write", offset.into(), &data).expect("write");
                let mut all = [0xff; 64];
                mapping.read("read", 0, &mut all).expect("read");
                let (start, end) = (usize::from(offset), usize::from(offset + length));
                assert_eq!(&all[start..end], data.as_slice());
                assert!(all[..start].iter().chain(&all[end..]).all(|byte| *byte == 0), "{offset}+{length}");
                let mut part = vec![0; data.len()];
                mapping.read("read", offset.into(), &mut part).expect("read");
                assert_eq!(part, data);
            }
        }
    }

    #[test]
    fn ranges_past_the_end_are_refused() {
        let mut memory = [0_u64; 2];
        // SAFETY: as above.
        let mapping = unsafe { HostMapping::new(NonNull::from(&mut memory).cast(), 16) };
        assert!(mapping.write("write", 16, &[]).is_ok());
        assert!(mapping.write("write", 16, &[1]).is_err());
        assert!(mapping.read("read", 9, &mut [0; 8]).is_err());
        assert!(mapping.read("read", u64::MAX, &mut [0; 8]).is_err());
    }
}
