//! Memory layout of images with linear tiling.

use ash::vk;
use gpu_interop_core::{Error, Result};

use super::OwnedImage;

/// Memory layout of one layer of one mip level of an image with linear tiling. All values are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SubresourceLayout {
    /// Offset of the first texel in the memory.
    pub offset: u64,
    /// Distance between the starts of consecutive rows.
    pub row_pitch: u64,
    /// Distance between the starts of consecutive slices; only for three-dimensional images.
    pub depth_pitch: Option<u64>,
    /// Distance between the starts of consecutive layers of one level; only for images with several layers.
    pub array_pitch: Option<u64>,
    /// Size including padding. Some drivers report the size of all levels here, so it is limited to the end of the
    /// memory.
    pub size: u64,
}

impl SubresourceLayout {
    /// Offset of a row in the memory. `row` and `slice` are not checked against the extent; `slice` is used only with a
    /// [`depth_pitch`](Self::depth_pitch).
    #[must_use]
    pub fn row_offset(&self, row: u32, slice: u32) -> u64 {
        let slices = self.depth_pitch.unwrap_or(0).saturating_mul(slice.into());
        self.row_pitch.saturating_mul(row.into()).saturating_add(slices).saturating_add(self.offset)
    }
}

impl OwnedImage {
    /// Returns the memory layout of one layer of one mip level of an image with linear tiling
    /// (`vkGetImageSubresourceLayout`). An importer maps the memory as a buffer and computes the offsets of texels from
    /// it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for optimal tiling, whose layout only the
    /// driver knows; [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the image lacks
    /// the level or the layer.
    #[doc(alias = "vkGetImageSubresourceLayout")]
    pub fn subresource_layout(&self, level: u32, layer: u32) -> Result<SubresourceLayout> {
        const OPERATION: &str = "OwnedImage::subresource_layout";
        let spec = self.spec();
        if spec.tiling != vk::ImageTiling::LINEAR {
            return Err(Error::unsupported(
                OPERATION,
                "only images with linear tiling have a known layout; map this image as a mipmapped array",
            ));
        }
        self.check_subresource(OPERATION, level, layer)?;
        self.interop().check_process(OPERATION)?;
        let subresource =
            vk::ImageSubresource { aspect_mask: vk::ImageAspectFlags::COLOR, mip_level: level, array_layer: layer };
        // SAFETY: the image is live, of this device, of colour and of linear tiling, and has this level and layer.
        let found = unsafe { self.interop().device().get_image_subresource_layout(self.as_raw(), subresource) };
        // Vulkan's offset is relative to the image. No overflow: all of the image is in the memory.
        let offset = self.offset().saturating_add(found.offset);
        // Vulkan leaves a pitch undefined that the image does not use.
        Ok(SubresourceLayout {
            offset,
            row_pitch: found.row_pitch,
            depth_pitch: (spec.view == vk::ImageViewType::TYPE_3D).then_some(found.depth_pitch),
            array_pitch: (spec.layers > 1).then_some(found.array_pitch),
            size: found.size.min(self.allocation_size().saturating_sub(offset)),
        })
    }
}
