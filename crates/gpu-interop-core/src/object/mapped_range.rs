//! Ranges of a mapping with lifetimes of their own, for allocators.

use std::any::Any;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::buffer::{BufferSlice, MappedBuffer};
use super::owned::Owned;
use super::resource::Resource;
use crate::backend::DevicePtr;
use crate::error::Result;
use crate::range::byte_range;

/// A range of a [`MappedBuffer`] with an owner of its own, such as the entry of an allocator that cuts buffers from one
/// mapping. Created by [`MappedBuffer::range_with_owner`]. Keeps the mapping alive.
#[derive(Debug)]
pub struct MappedRange {
    // Fields drop in this order: the range before its mapping.
    owned: Owned,
    mapping: Arc<MappedBuffer>,
    offset: u64,
    size: u64,
}

impl MappedBuffer {
    /// Returns a range of the mapping, in bytes, and keeps `owner`.
    ///
    /// The owner is dropped once the returned object has been dropped and the work of this crate's streams that uses the
    /// range has completed: by that drop, or by the first call of [`Device::collect`](crate::Device::collect), or of a
    /// method that collects implicitly, after that. Work on other ranges of the mapping does not delay it. A device that
    /// is closed with work that never completes leaks the owner. The owner must not contain the device or an object of
    /// it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or past the end. The
    /// owner is then dropped.
    pub fn range_with_owner(
        self: &Arc<Self>,
        range: impl RangeBounds<u64>,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<MappedRange> {
        let device = &self.owned.device;
        let (offset, size) =
            byte_range("MappedBuffer::range_with_owner", range, self.size()).map_err(|error| device.decorate(error))?;
        let resource = Resource::next_borrowed();
        device.lifetimes.keep(resource, Some(&owner));
        Ok(MappedRange { owned: Owned::new(device.clone(), resource), mapping: self.clone(), offset, size })
    }
}

impl MappedRange {
    /// Device address of the first byte, valid while `self` lives. Work enqueued by other libraries must have completed
    /// before `self` is dropped.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.mapping.as_raw().offset(self.offset)
    }

    /// Offset of the range in the mapping, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Size of the range in bytes, never 0.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns a part of the range, in bytes from its start.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the part is empty or past the end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'_>> {
        BufferSlice::from(self).slice(range)
    }
}

impl<'a> From<&'a MappedRange> for BufferSlice<'a> {
    fn from(range: &'a MappedRange) -> Self {
        BufferSlice::from(&*range.mapping).part(range.offset, range.size).in_range(&range.owned)
    }
}
