//! Checks shared by the safe objects. Errors name the operation, the value and its bound.

use std::ops::{Bound, RangeBounds};

use crate::capability::{Capabilities, Feature};
use crate::error::{Error, Result};
use crate::handle::Win32Object;
use crate::identity::DeviceIdentity;
use crate::import::{MemoryImport, SemaphoreImport};

/// Converts a range inside `size` bytes to offset and length. Rejects empty ranges, ranges past the end and ranges
/// whose end overflows.
pub(super) fn range(operation: &'static str, range: impl RangeBounds<u64>, size: u64) -> Result<(u64, u64)> {
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

/// Checks that an offset and a length are inside `size` bytes.
pub(super) fn extent(operation: &'static str, offset: u64, length: u64, size: u64) -> Result<()> {
    let invalid = |what: &str| {
        Error::invalid(operation, what)
            .with_context("offset", offset)
            .with_context("length", length)
            .with_context("size", format_args!("{size} bytes"))
    };
    if length == 0 {
        return Err(invalid("the length is 0"));
    }
    match offset.checked_add(length) {
        None => Err(invalid("offset + length overflows 64 bits")),
        Some(end) if end > size => Err(invalid("the range goes past the end")),
        Some(_) => Ok(()),
    }
}

/// Validates a memory import before the backend is called.
pub(super) fn memory_import(
    request: &MemoryImport,
    capabilities: &Capabilities,
    importer: &DeviceIdentity,
) -> Result<()> {
    const OPERATION: &str = "Device::import_memory";
    let kind = request.handle().kind();
    if let Some(error) =
        capabilities.memory(kind).unsupported_error(OPERATION, "memory of this kind cannot be imported")
    {
        return Err(error);
    }
    by_name(OPERATION, capabilities, request.handle().as_win32(), Feature::NamedMemory)?;
    request.validate(OPERATION, importer)
}

/// Validates a semaphore import before the backend is called.
pub(super) fn semaphore_import(
    request: &SemaphoreImport,
    capabilities: &Capabilities,
    importer: &DeviceIdentity,
) -> Result<()> {
    const OPERATION: &str = "Device::import_semaphore";
    let kind = request.handle().kind();
    if let Some(error) =
        capabilities.semaphore(kind).unsupported_error(OPERATION, "semaphores of this kind cannot be imported")
    {
        return Err(error);
    }
    by_name(OPERATION, capabilities, request.handle().as_win32(), Feature::NamedSemaphores)?;
    request.validate(OPERATION, importer)
}

/// Rejects an object's name where the device requires a handle.
fn by_name(
    operation: &'static str,
    capabilities: &Capabilities,
    object: Option<&Win32Object>,
    needed: Feature,
) -> Result<()> {
    match object {
        Some(Win32Object::Name(_)) => feature(operation, capabilities, needed),
        _ => Ok(()),
    }
}

/// Checks that the device supports a feature.
pub(super) fn feature(operation: &'static str, capabilities: &Capabilities, feature: Feature) -> Result<()> {
    if capabilities.has_feature(feature) {
        return Ok(());
    }
    let error =
        capabilities.feature(feature).unsupported_error(operation, format_args!("this device has no {feature}"));
    error.map_or(Ok(()), Err)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A range is accepted exactly if it is inside, by 128-bit arithmetic.
        #[test]
        fn extents_are_exact(offset: u64, length: u64, size: u64) {
            let inside = length > 0 && u128::from(offset) + u128::from(length) <= u128::from(size);
            prop_assert_eq!(extent("op", offset, length, size).is_ok(), inside);
        }

        #[test]
        fn ranges_are_exact(start: u64, end: u64, size: u64) {
            let expected = (start < end && end <= size).then(|| (start, end - start));
            prop_assert_eq!(range("op", start..end, size).ok(), expected);
        }
    }

    #[test]
    fn every_form_of_range_works() {
        assert_eq!(range("op", .., 8).ok(), Some((0, 8)));
        assert_eq!(range("op", 2.., 8).ok(), Some((2, 6)));
        assert_eq!(range("op", ..=3, 8).ok(), Some((0, 4)));
        assert!(range("op", 0..=u64::MAX, u64::MAX).is_err());
        assert!(range("op", 8.., 8).is_err());
        assert!(range("op", .., 0).is_err());
    }
}
