//! Where the texels of a linear image are.

use ash::vk;
use gpu_interop_core::{Error, Result};

use super::OwnedImage;

/// Where one layer of one mip level lies in the memory of an image with linear tiling, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SubresourceLayout {
    /// Where its first texel is in the memory.
    pub offset: u64,
    /// From the start of a row to that of the next.
    pub row_pitch: u64,
    /// From the start of a slice to that of the next; only for images of three dimensions.
    pub depth_pitch: Option<u64>,
    /// From the start of a layer to that of the next at the same level; only for images of several layers.
    pub array_pitch: Option<u64>,
    /// Its size with all padding. Some drivers say the size of all levels here, so it is cut off at the end of the
    /// memory.
    pub size: u64,
}

impl SubresourceLayout {
    /// Where a row starts. Neither is checked against the extent; `slice` counts only with a
    /// [`depth_pitch`](Self::depth_pitch).
    #[must_use]
    pub fn row_offset(&self, row: u32, slice: u32) -> u64 {
        let slices = self.depth_pitch.unwrap_or(0).saturating_mul(slice.into());
        self.row_pitch.saturating_mul(row.into()).saturating_add(slices).saturating_add(self.offset)
    }
}

impl OwnedImage {
    /// Where one layer of one mip level lies in the memory of an image with linear tiling
    /// (`vkGetImageSubresourceLayout`). An importer maps the memory as a buffer and finds the texels by it.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for optimal tiling, whose layout is the
    /// driver's own business; [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if there is
    /// no such level or layer.
    pub fn subresource_layout(&self, level: u32, layer: u32) -> Result<SubresourceLayout> {
        const OPERATION: &str = "OwnedImage::subresource_layout";
        let spec = self.spec();
        if spec.tiling != vk::ImageTiling::LINEAR {
            return Err(Error::unsupported(
                OPERATION,
                "only images of linear tiling have a layout to be known; map this one as a mipmapped array",
            ));
        }
        self.check_subresource(OPERATION, level, layer)?;
        let subresource =
            vk::ImageSubresource { aspect_mask: vk::ImageAspectFlags::COLOR, mip_level: level, array_layer: layer };
        // SAFETY: the image is live, of this device, of colour and of linear tiling, and has this level and layer.
        let found = unsafe { self.interop().device().get_image_subresource_layout(self.as_raw(), subresource) };
        // Vulkan counts from the beginning of the image. Cannot overflow: all of the image is in the memory.
        let offset = self.offset().saturating_add(found.offset);
        // Vulkan leaves the pitches undefined that such an image does not need.
        Ok(SubresourceLayout {
            offset,
            row_pitch: found.row_pitch,
            depth_pitch: (spec.view == vk::ImageViewType::TYPE_3D).then_some(found.depth_pitch),
            array_pitch: (spec.layers > 1).then_some(found.array_pitch),
            size: found.size.min(self.allocation_size().saturating_sub(offset)),
        })
    }
}
