//! Byte ranges.

use std::ops::{Bound, RangeBounds};

use crate::error::{Error, Result};

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
