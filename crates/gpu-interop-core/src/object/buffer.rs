//! Linear device memory: mapped buffers, and slices of anything linear.

use std::ops::RangeBounds;
use std::sync::Arc;

use super::device::DeviceInner;
use super::memory::MemoryInner;
use super::owned::{InFlight, Owned};
use super::resource::Resource;
use super::validate;
use crate::backend::{DevicePtr, RawMemory};
use crate::error::Result;
use crate::kernel::KernelArg;

/// A range of imported memory, mapped into the device's address space. Keeps the import alive.
///
/// Unmapping it may wait for work of any stream of the device: `hipFree` does, and `cuMemFree` may. With HIP an import
/// is mapped once, as a whole, and the last of its mappings to be dropped ends that.
#[derive(Debug)]
pub struct MappedBuffer {
    // Dropped in this order: the mapping goes before its memory.
    owned: Owned,
    memory: Arc<MemoryInner>,
    ptr: DevicePtr,
    offset: u64,
    size: u64,
}

impl MappedBuffer {
    pub(super) fn new(memory: Arc<MemoryInner>, ptr: DevicePtr, offset: u64, size: u64) -> Self {
        let owned = Owned::new(memory.owned.device.clone(), Resource::Buffer { ptr, memory: memory.raw });
        Self { owned, memory, ptr, offset, size }
    }

    /// The first byte's address on the device, valid while `self` lives. Kernels of the application may use it; work
    /// enqueued outside this crate must have run before `self` is dropped.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.ptr
    }

    /// Where the mapping starts in the imported memory, bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Size of the mapping, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A part of the mapping, in bytes from its start.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or past the end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'_>> {
        BufferSlice::from(self).slice(range)
    }

    /// Unmaps it, and says if that failed. If work that uses it is pending, it is unmapped once that has run.
    ///
    /// # Errors
    /// What the driver answers (`cuMemFree`); the object is gone either way.
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }
}

/// A part of linear device memory: what copies, fills and stream memory operations work on.
#[derive(Debug, Clone, Copy)]
pub struct BufferSlice<'a> {
    pub(super) device: &'a Arc<DeviceInner>,
    pub(super) in_flight: &'a InFlight,
    pub(super) ptr: DevicePtr,
    pub(super) size: u64,
    /// The exporter allows no writes.
    pub(super) read_only: bool,
    /// The import that it is of, and where in it, if it is of one.
    imported: Option<(RawMemory, u64)>,
}

/// The same bytes by the same addresses.
impl PartialEq for BufferSlice<'_> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.device, other.device) && (self.ptr, self.size) == (other.ptr, other.size)
    }
}

impl<'a> BufferSlice<'a> {
    pub(super) fn of(owned: &'a Owned, ptr: DevicePtr, size: u64) -> Self {
        Self { device: &owned.device, in_flight: &owned.in_flight, ptr, size, read_only: false, imported: None }
    }

    /// The first byte's address on the device.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.ptr
    }

    /// Size in bytes, never 0.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// A part of the slice, in bytes from its start.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or past the end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<Self> {
        let (offset, size) =
            validate::range("BufferSlice::slice", range, self.size).map_err(|error| self.device.decorate(error))?;
        let imported = self.imported.map(|(memory, start)| (memory, start + offset));
        Ok(Self { ptr: self.ptr.offset(offset), size, imported, ..*self })
    }

    /// Compares addresses, and offsets in one import, whose mappings may have different addresses. Two imports of the
    /// same memory are not detected.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let meet = |one: u64, other_start: u64| match one.checked_sub(other_start) {
            Some(distance) => distance < other.size,
            None => other_start - one < self.size,
        };
        let in_one_import = match (self.imported, other.imported) {
            (Some((memory, start)), Some((same, other_start))) => memory == same && meet(start, other_start),
            _ => false,
        };
        in_one_import || meet(self.ptr.get(), other.ptr.get())
    }
}

impl<'a> From<&'a MappedBuffer> for BufferSlice<'a> {
    fn from(buffer: &'a MappedBuffer) -> Self {
        let imported = Some((buffer.memory.raw, buffer.offset));
        Self { read_only: buffer.memory.is_read_only(), imported, ..Self::of(&buffer.owned, buffer.ptr, buffer.size) }
    }
}

impl<'a, T: Into<BufferSlice<'a>>> From<T> for KernelArg<'a> {
    fn from(buffer: T) -> Self {
        Self::Buffer(buffer.into())
    }
}
