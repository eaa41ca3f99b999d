//! Linear device memory: mapped buffers and slices.

use std::ops::RangeBounds;
use std::sync::Arc;

use super::device_state::DeviceInner;
use super::device_state::{InFlight, Owned};
use super::lifetime::Resource;
use super::memory::{ExternalMemory, MemoryInner};
use super::validate;
use crate::array::MipmappedArrayDesc;
use crate::backend::{DevicePtr, RawMemory};
use crate::capability::Feature;
use crate::error::Result;
use crate::import::check_buffer;
use crate::kernel::KernelArg;
use crate::mapping::byte_range;

/// A range of imported memory, mapped into the device's address space. Keeps the import alive.
///
/// Unmapping may wait for work of all streams of the device: `hipFree` does, and `cuMemFree` may. The HIP backend maps
/// an import once, as a whole, and unmaps it with the last of its mappings.
#[derive(Debug)]
pub struct MappedBuffer {
    // Fields drop in this order: the mapping before its memory.
    pub(super) owned: Owned,
    memory: Arc<MemoryInner>,
    ptr: DevicePtr,
    offset: u64,
    size: u64,
}

impl ExternalMemory {
    /// Maps a range, in bytes, as a linear buffer (`cuExternalMemoryGetMappedBuffer`); `..` maps all of the memory.
    ///
    /// May be called several times. Overlapping ranges may be mapped at different addresses, and writes through one
    /// mapping need not be visible through another: map the whole range once, and take slices of it.
    ///
    /// The range must be that of a buffer of the exporter, or all of an image with linear tiling, aligned as its API requires
    /// (`VkMemoryRequirements::alignment`). The library does not know where its buffers begin. The tested drivers map
    /// other ranges correctly, too; their references do not guarantee it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty, not inside the memory, or
    /// contains texels of the declared [image](ExternalMemory::image), which has optimal tiling: its bytes are not rows of
    /// texels. Otherwise the driver's error.
    #[doc(alias(
        "cuExternalMemoryGetMappedBuffer",
        "cudaExternalMemoryGetMappedBuffer",
        "hipExternalMemoryGetMappedBuffer"
    ))]
    pub fn map_buffer(&self, range: impl RangeBounds<u64>) -> Result<MappedBuffer> {
        self.map_range("ExternalMemory::map_buffer", range, self.image())
    }

    /// As [`map_buffer`](Self::map_buffer), also over the declared [image](Self::image): for its bytes in the order in
    /// which the exporter's driver stores them, which is private to the driver and differs between images, GPUs and
    /// versions.
    ///
    /// # Errors
    /// As [`map_buffer`](Self::map_buffer), but for the image.
    pub fn map_image_bytes(&self, range: impl RangeBounds<u64>) -> Result<MappedBuffer> {
        self.map_range("ExternalMemory::map_image_bytes", range, None)
    }

    /// Maps a range that contains no texels of `image`.
    fn map_range(
        &self,
        operation: &'static str,
        range: impl RangeBounds<u64>,
        image: Option<&MipmappedArrayDesc>,
    ) -> Result<MappedBuffer> {
        let device = &self.inner.owned.device;
        device
            .check_process(operation)
            .and_then(|()| validate::feature(operation, device.raw.capabilities(), Feature::MappedBuffer))
            .and_then(|()| byte_range(operation, range, self.inner.size))
            .and_then(|(offset, size)| check_buffer(operation, image, offset, size).map(|()| (offset, size)))
            .and_then(|(offset, size)| {
                // SAFETY: the import is live, and the range is not empty and inside it.
                let ptr = unsafe { device.raw.map_buffer(self.inner.raw, offset, size) }?;
                Ok(MappedBuffer::new(self.inner.clone(), ptr, offset, size))
            })
            .map_err(|error| device.decorate(error))
    }
}

impl MappedBuffer {
    fn new(memory: Arc<MemoryInner>, ptr: DevicePtr, offset: u64, size: u64) -> Self {
        let owned = Owned::new(memory.owned.device.clone(), Resource::Buffer { ptr, memory: memory.raw });
        Self { owned, memory, ptr, offset, size }
    }

    /// Device address of the first byte, valid while `self` lives. Kernels of the application may use it; work enqueued
    /// by other libraries must have completed before `self` is dropped.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.ptr
    }

    /// Offset of the mapping in the imported memory, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Size of the mapping in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// `true` if the exporter allows reads only
    /// ([`NvSciBufProperties::read_only`](crate::NvSciBufProperties::read_only)).
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.memory.is_read_only()
    }

    /// Returns a range of the mapping, in bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or past the end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'_>> {
        BufferSlice::from(self).slice(range)
    }

    /// Unmaps the buffer and returns the driver's error. Pending work that uses it defers this until the work has
    /// completed.
    ///
    /// # Errors
    /// The driver's error (`cuMemFree`). The object is consumed in either case.
    #[doc(alias("cuMemFree", "cudaFree", "hipFree"))]
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }
}

/// A range of linear device memory, the operand of copies, fills and stream memory operations.
#[derive(Debug, Clone, Copy)]
pub struct BufferSlice<'a> {
    pub(super) device: &'a Arc<DeviceInner>,
    in_flight: &'a InFlight,
    /// Uses of the mapping that contains it, if these are recorded apart from its own.
    mapping_in_flight: Option<&'a InFlight>,
    pub(super) ptr: DevicePtr,
    pub(super) size: u64,
    /// The exporter allows reads only.
    pub(super) read_only: bool,
    /// Import that contains it and the offset in that import, if any.
    imported: Option<(RawMemory, u64)>,
}

/// Equal addresses and sizes on one device.
impl PartialEq for BufferSlice<'_> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(self.device, other.device) && (self.ptr, self.size) == (other.ptr, other.size)
    }
}

impl<'a> BufferSlice<'a> {
    pub(super) fn of(owned: &'a Owned, ptr: DevicePtr, size: u64) -> Self {
        Self {
            device: &owned.device,
            in_flight: &owned.in_flight,
            mapping_in_flight: None,
            ptr,
            size,
            read_only: false,
            imported: None,
        }
    }

    /// Records uses with `owned`, too: a range with a lifetime of its own.
    pub(super) fn in_range(self, owned: &'a Owned) -> Self {
        Self { in_flight: &owned.in_flight, mapping_in_flight: Some(self.in_flight), ..self }
    }

    /// Records a use on the stream in `slot`. Called before the work is enqueued.
    pub(super) fn mark(&self, slot: usize) {
        self.in_flight.mark(slot);
        if let Some(mapping) = self.mapping_in_flight {
            mapping.mark(slot);
        }
    }

    /// Device address of the first byte.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.ptr
    }

    /// Size in bytes, never 0.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// `true` if the exporter allows reads only ([`MappedBuffer::is_read_only`]).
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Returns a range of the slice, in bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or past the end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<Self> {
        let (offset, size) =
            byte_range("BufferSlice::slice", range, self.size).map_err(|error| self.device.decorate(error))?;
        Ok(self.part(offset, size))
    }

    /// The range of `size` bytes at `offset`, which the caller has checked.
    pub(super) fn part(&self, offset: u64, size: u64) -> Self {
        let imported = self.imported.map(|(memory, start)| (memory, start + offset));
        Self { ptr: self.ptr.offset(offset), size, imported, ..*self }
    }

    /// `true` if two slices overlap, by address or by offset in one import, whose mappings may have different
    /// addresses. Does not detect two imports of the same memory.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let overlap = |one: u64, other_start: u64| match one.checked_sub(other_start) {
            Some(distance) => distance < other.size,
            None => other_start - one < self.size,
        };
        let in_one_import = match (self.imported, other.imported) {
            (Some((memory, start)), Some((same, other_start))) => memory == same && overlap(start, other_start),
            _ => false,
        };
        in_one_import || overlap(self.ptr.get(), other.ptr.get())
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
