//! Byte ranges, and host mappings of device memory.

use std::ops::{Bound, RangeBounds};
use std::ptr::NonNull;
use std::sync::Mutex;

use crate::backend::bytes::words;
use crate::error::{Error, Result};
use crate::sync::lock;

/// A range of memory that a driver mapped for the host (`vkMapMemory`, `NvSciBufObjGetCpuPtr`). Used by exporters. Does
/// not own the mapping.
///
/// Copies are atomic accesses ([`backend::bytes::words`](crate::backend::bytes::words)): a concurrent write by a GPU,
/// another process or another mapping tears the data but is not undefined behaviour. A lock serialises the threads of
/// this process, whose accesses may differ in size.
#[doc(alias("vkMapMemory", "vkFlushMappedMemoryRanges", "vkInvalidateMappedMemoryRanges", "NvSciBufObjGetCpuPtr"))]
#[derive(Debug)]
pub struct HostMapping {
    base: NonNull<u8>,
    size: u64,
    lock: Mutex<()>,
}

// SAFETY: the mapping is plain memory, and the lock lets one thread at a time access it.
unsafe impl Send for HostMapping {}
// SAFETY: as above.
unsafe impl Sync for HostMapping {}

impl HostMapping {
    /// Wraps `size` bytes at `base`.
    ///
    /// # Safety
    /// The bytes must be readable, and writable if [`HostMapping::write`] is called, and stay mapped as long as this
    /// object lives. While this object reads or writes, nothing else in this process accesses them through these
    /// addresses: neither a reference nor another object of this type.
    #[must_use]
    pub unsafe fn new(base: NonNull<u8>, size: u64) -> Self {
        Self { base, size, lock: Mutex::new(()) }
    }

    /// Address of the first byte.
    #[must_use]
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.base
    }

    /// Copies `out.len()` bytes at `offset`. `operation` is reported in the error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is not inside the mapping.
    pub fn read(&self, operation: &'static str, offset: u64, out: &mut [u8]) -> Result<()> {
        let source = self.range(operation, offset, out.len())?;
        let _guard = lock(&self.lock);
        // SAFETY: the range is inside the mapping. `out` has the same length, is mutably borrowed, and does not overlap
        // the mapping, which no reference names.
        unsafe { words::read(source, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Copies `data` to `offset`. `operation` is reported in the error.
    ///
    /// # Errors
    /// As for [`HostMapping::read`].
    pub fn write(&self, operation: &'static str, offset: u64, data: &[u8]) -> Result<()> {
        let target = self.range(operation, offset, data.len())?;
        let _guard = lock(&self.lock);
        // SAFETY: the range is inside the mapping. `data` has the same length, is not written while it is borrowed, and
        // does not overlap the mapping, which no reference names.
        unsafe { words::write(data.as_ptr(), target, data.len()) };
        Ok(())
    }

    /// Returns the address of `length` bytes at `offset`, if they are inside the mapping.
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

/// Resolves a range inside `size` bytes to its offset and length in bytes. Used by importers; `operation` is reported
/// in the error.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty, goes past the end, or has
/// an end that overflows.
pub fn byte_range(operation: &'static str, range: impl RangeBounds<u64>, size: u64) -> Result<(u64, u64)> {
    let overflow = || Error::invalid(operation, "the end of the range overflows 64 bits");
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before.checked_add(1).ok_or_else(overflow)?,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last.checked_add(1).ok_or_else(overflow)?,
        Bound::Excluded(end) => *end,
        Bound::Unbounded => size,
    };
    let invalid = |what: &str| {
        Error::invalid(operation, what)
            .with_context("start", start)
            .with_context("end", end)
            .with_context("size", format_args!("{size} bytes"))
    };
    if start >= end {
        return Err(invalid("the range is empty"));
    }
    if end > size {
        return Err(invalid("the range goes past the end"));
    }
    Ok((start, end - start))
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn copies_are_exact_for_every_alignment_and_length() {
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
    fn ranges_past_the_end_are_rejected() {
        let mut memory = [0_u64; 2];
        // SAFETY: as above.
        let mapping = unsafe { HostMapping::new(NonNull::from(&mut memory).cast(), 16) };
        assert!(mapping.write("write", 16, &[]).is_ok());
        assert!(mapping.write("write", 16, &[1]).is_err());
        assert!(mapping.read("read", 9, &mut [0; 8]).is_err());
        assert!(mapping.read("read", u64::MAX, &mut [0; 8]).is_err());
    }

    proptest! {
        /// Either the range is inside and is returned as it is, or it is rejected.
        #[test]
        fn ranges_are_exact(start: u64, end: u64, size: u64) {
            let expected = (start < end && end <= size).then(|| (start, end - start));
            prop_assert_eq!(byte_range("op", start..end, size).ok(), expected);
        }
    }

    #[test]
    fn every_form_of_range_works() {
        assert_eq!(byte_range("op", .., 8).ok(), Some((0, 8)));
        assert_eq!(byte_range("op", 2.., 8).ok(), Some((2, 6)));
        assert_eq!(byte_range("op", ..=3, 8).ok(), Some((0, 4)));
        assert!(byte_range("op", 0..=u64::MAX, u64::MAX).is_err());
        assert!(byte_range("op", 8.., 8).is_err());
        assert!(byte_range("op", .., 0).is_err());
    }
}
