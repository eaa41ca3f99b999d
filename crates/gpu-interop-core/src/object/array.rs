//! Mipmapped arrays in imported memory.

use std::sync::Arc;

use super::device_state::DeviceInner;
use super::device_state::{InFlight, Owned};
use super::lifetime::Resource;
use super::memory::{ExternalMemory, MemoryInner};
use super::validate;
use crate::array::{ArrayUsage, MipmappedArrayDesc};
use crate::backend::{RawArray, RawMipmappedArray};
use crate::capability::Feature;
use crate::error::{Error, Result};
use crate::handle::MemoryHandleKind;

#[derive(Debug)]
pub(super) struct ArrayInner {
    // Fields drop in this order: the mapping before its memory.
    pub(super) owned: Owned,
    pub(super) memory: Arc<MemoryInner>,
    pub(super) raw: RawMipmappedArray,
    pub(super) desc: MipmappedArrayDesc,
}

impl ArrayInner {
    /// Returns the driver's array of one level, owned by `self`.
    pub(super) fn level(&self, operation: &'static str, level: u32) -> Result<RawArray> {
        let device = &self.owned.device;
        device.check_process(operation)?;
        if level >= self.desc.levels {
            let error = Error::invalid(operation, "the mip level does not exist")
                .with_context("level", level)
                .with_context("levels", self.desc.levels);
            return Err(device.decorate(error));
        }
        // SAFETY: the array is live and has this level.
        unsafe { device.raw.mipmapped_array_level(self.raw, level) }.map_err(|error| device.decorate(error))
    }
}

/// An image in imported memory, mapped as a mipmapped array. Keeps the import alive.
///
/// Unmapped with its last surface or texture, or when it is closed or dropped without any.
#[doc(alias("CUmipmappedArray", "cudaMipmappedArray_t", "hipMipmappedArray_t"))]
#[derive(Debug)]
pub struct MappedMipmappedArray {
    pub(super) inner: Arc<ArrayInner>,
}

impl ExternalMemory {
    /// Maps an image (`cuExternalMemoryGetMappedMipmappedArray`). The only way to the texels of images with optimal tiling.
    ///
    /// `desc` is the exporter's image: its offset, shape, format, all of its mip levels, and
    /// [`ArrayUsage::COLOR_ATTACHMENT`] exactly if the exporter may render to it. Any other description is undefined
    /// behaviour of the driver. It is checked against the image declared in the request
    /// ([`MemoryImport::of_image`](crate::MemoryImport::of_image)), which gpu-interop's image exporters set. For heaps,
    /// NvSciBuf objects and other requests the caller must pass the correct description.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where the device does not support it;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) as for [`MipmappedArrayDesc::validate`], for
    /// another image than [`ExternalMemory::image`], and for several mip levels of an NvSciBuf object; otherwise the
    /// driver's error.
    #[doc(alias(
        "cuExternalMemoryGetMappedMipmappedArray",
        "cudaExternalMemoryGetMappedMipmappedArray",
        "hipExternalMemoryGetMappedMipmappedArray"
    ))]
    pub fn map_mipmapped_array(&self, desc: &MipmappedArrayDesc) -> Result<MappedMipmappedArray> {
        const OPERATION: &str = "ExternalMemory::map_mipmapped_array";
        let device = &self.inner.owned.device;
        device
            .check_process(OPERATION)
            .and_then(|()| validate::feature(OPERATION, device.raw.capabilities(), Feature::MappedMipmappedArray))
            .and_then(|()| desc.validate(self.inner.size))
            .and_then(|()| self.check_levels(OPERATION, desc))
            .and_then(|()| self.check_image(OPERATION, desc))
            // SAFETY: the import is live and the descriptor was validated against its size.
            .and_then(|()| unsafe { device.raw.map_mipmapped_array(self.inner.raw, desc) })
            .map(|raw| MappedMipmappedArray::new(self.inner.clone(), raw, *desc))
            .map_err(|error| device.decorate(error))
    }

    /// Checks that an image in an NvSciBuf object has one mip level, as NVIDIA's programming guide requires.
    fn check_levels(&self, operation: &'static str, desc: &MipmappedArrayDesc) -> Result<()> {
        if self.inner.kind == MemoryHandleKind::NvSciBuf && desc.driver_levels() != 1 {
            return Err(Error::invalid(operation, "an image in an NvSciBuf object has exactly one mip level")
                .with_context("levels", desc.driver_levels()));
        }
        Ok(())
    }

    /// Checks the description against the exporter's image, except for the kernel usages.
    fn check_image(&self, operation: &'static str, desc: &MipmappedArrayDesc) -> Result<()> {
        let Some(image) = &self.inner.image else { return Ok(()) };
        let attachment = |desc: &MipmappedArrayDesc| desc.usage.contains(ArrayUsage::COLOR_ATTACHMENT);
        let same = [
            ("offset", desc.offset == image.offset),
            ("shape", desc.shape == image.shape),
            ("format", desc.format == image.format),
            ("number of mip levels", desc.levels == image.levels),
            ("number of levels in the layout", desc.driver_levels() == image.driver_levels()),
            ("use as a colour attachment", attachment(desc) == attachment(image)),
        ];
        let Some((what, _)) = same.into_iter().find(|(_, same)| !same) else { return Ok(()) };
        let message = format!("the {what} differs from the exporter's image; pass the exporter's description");
        Err(Error::invalid(operation, message).with_context("image", image).with_context("description", desc))
    }
}

impl MappedMipmappedArray {
    fn new(memory: Arc<MemoryInner>, raw: RawMipmappedArray, desc: MipmappedArrayDesc) -> Self {
        let owned = Owned::new(memory.owned.device.clone(), Resource::MipmappedArray { raw, memory: memory.raw });
        Self { inner: Arc::new(ArrayInner { owned, memory, raw, desc }) }
    }

    /// The driver's object, valid while `self` lives. Work enqueued by other libraries must have completed before
    /// `self` is dropped.
    #[must_use]
    pub fn as_raw(&self) -> RawMipmappedArray {
        self.inner.raw
    }

    /// Description of the mapped array.
    #[must_use]
    pub fn desc(&self) -> &MipmappedArrayDesc {
        &self.inner.desc
    }

    /// Returns one mip level with all its layers (`cuMipmappedArrayGetLevel`), owned by `self`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the level does not exist; otherwise the
    /// driver's error.
    #[doc(alias(
        "cuMipmappedArrayGetLevel",
        "cudaGetMipmappedArrayLevel",
        "hipMipmappedArrayGetLevel",
        "hipGetMipmappedArrayLevel"
    ))]
    pub fn level(&self, level: u32) -> Result<ArrayRegion<'_>> {
        let raw = self.inner.level("MappedMipmappedArray::level", level)?;
        Ok(ArrayRegion {
            device: &self.inner.owned.device,
            in_flight: &self.inner.owned.in_flight,
            raw,
            offset: [0; 3],
            extent: self.inner.desc.shape.level_extent(level),
            texel_size: self.inner.desc.format.texel_size(),
            read_only: self.inner.memory.is_read_only(),
        })
    }

    /// Unmaps the array and returns the driver's error. Pending work that uses it defers this until the work has
    /// completed; a live surface or texture defers it to the drop of the last one.
    ///
    /// # Errors
    /// The driver's error (`cuMipmappedArrayDestroy`). The object is consumed in either case.
    #[doc(alias(
        "cuMipmappedArrayDestroy",
        "cudaFreeMipmappedArray",
        "hipMipmappedArrayDestroy",
        "hipFreeMipmappedArray",
        "hipArrayDestroy"
    ))]
    pub fn close(self) -> Result<()> {
        Arc::into_inner(self.inner).map_or(Ok(()), |mut inner| inner.owned.release())
    }
}

/// A box of texels in one mip level, the operand of image copies.
///
/// The third dimension counts slices, layers, or the faces of cubes.
#[doc(alias("CUarray", "cudaArray_t", "hipArray_t"))]
#[derive(Debug, Clone, Copy)]
pub struct ArrayRegion<'a> {
    pub(super) device: &'a Arc<DeviceInner>,
    pub(super) in_flight: &'a InFlight,
    pub(super) raw: RawArray,
    pub(super) offset: [u64; 3],
    pub(super) extent: [u64; 3],
    pub(super) texel_size: u32,
    /// The exporter allows reads only.
    pub(super) read_only: bool,
}

impl ArrayRegion<'_> {
    /// The driver's array of the whole level, owned by the mipmapped array: do not free it.
    #[must_use]
    pub fn as_raw(&self) -> RawArray {
        self.raw
    }

    /// First texel of the region in its level.
    #[must_use]
    pub fn offset(&self) -> [u64; 3] {
        self.offset
    }

    /// Texels in each dimension, at least 1.
    #[must_use]
    pub fn extent(&self) -> [u64; 3] {
        self.extent
    }

    /// Size of the texels without gaps, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        let [width, rows, slices] = self.copy_extent();
        width.saturating_mul(rows).saturating_mul(slices)
    }

    /// Returns a part of the region, in texels relative to its origin.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if it is empty or not inside the region.
    pub fn region(&self, offset: [u64; 3], extent: [u64; 3]) -> Result<Self> {
        let inside = (0..3).all(|dimension| {
            extent[dimension] > 0
                && offset[dimension].checked_add(extent[dimension]).is_some_and(|end| end <= self.extent[dimension])
        });
        if !inside {
            let error = Error::invalid("ArrayRegion::region", "the part is empty or not inside the region")
                .with_context("offset", format_args!("{offset:?}"))
                .with_context("extent", format_args!("{extent:?}"))
                .with_context("region", format_args!("{:?}", self.extent));
            return Err(self.device.decorate(error));
        }
        // Cannot overflow: the part is inside the region, which is inside the level.
        let offset = std::array::from_fn(|dimension| self.offset[dimension].saturating_add(offset[dimension]));
        Ok(Self { offset, extent, ..*self })
    }

    /// Bytes in a row, rows, slices.
    pub(super) fn copy_extent(&self) -> [u64; 3] {
        let [width, height, depth] = self.extent;
        [width.saturating_mul(u64::from(self.texel_size)), height, depth]
    }

    /// The origin with its first dimension in bytes.
    pub(super) fn copy_offset(&self) -> [u64; 3] {
        let [x, y, z] = self.offset;
        [x.saturating_mul(u64::from(self.texel_size)), y, z]
    }
}
