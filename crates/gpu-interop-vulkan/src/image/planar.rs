//! Images of multi-planar formats.

use std::sync::Arc;

use ash::vk;
use gpu_interop_core::{Error, PlaneLayout, Result, VideoFormat};

use super::{ImageSpec, Inner, Modifiers, OwnedImage, Owner, Unbound};
use crate::error::Checked;
use crate::format::TexelFormat;
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Needs, Sharing};
use crate::placement::MemoryPlacement;
use crate::tracking::State;

/// Aspects of the planes.
const PLANES: [vk::ImageAspectFlags; 3] =
    [vk::ImageAspectFlags::PLANE_0, vk::ImageAspectFlags::PLANE_1, vk::ImageAspectFlags::PLANE_2];

/// The aspect of a plane; planes beyond the last are as the last.
pub(crate) fn plane_aspect(plane: usize) -> vk::ImageAspectFlags {
    PLANES[plane.min(2)]
}

/// The aspect of a memory plane of an image with a DRM modifier; there are at most four.
pub(crate) fn memory_plane_aspect(plane: usize) -> vk::ImageAspectFlags {
    [
        vk::ImageAspectFlags::MEMORY_PLANE_0_EXT,
        vk::ImageAspectFlags::MEMORY_PLANE_1_EXT,
        vk::ImageAspectFlags::MEMORY_PLANE_2_EXT,
        vk::ImageAspectFlags::MEMORY_PLANE_3_EXT,
    ][plane.min(3)]
}

/// A multi-planar image to be created, all of which the device was queried for.
pub(crate) struct Planar<'a> {
    pub(crate) spec: &'a ImageSpec,
    pub(crate) format: VideoFormat,
    pub(crate) types: vk::ExternalMemoryHandleTypeFlags,
    pub(crate) placement: MemoryPlacement,
    /// Requests a dedicated allocation; never for a disjoint image.
    pub(crate) dedicated: bool,
}

impl Planar<'_> {
    fn unbound(&self, interop: &VulkanInterop) -> Result<Unbound> {
        let luma = TexelFormat::from_vulkan(vk::Format::from_raw(self.format.plane_vulkan_number(0)))?;
        Unbound::create(interop, self.spec, luma, self.types, Modifiers::None)
    }

    /// Creates the image in one allocation.
    pub(crate) fn joint(&self, interop: &VulkanInterop) -> Result<OwnedImage> {
        let image = self.unbound(interop)?;
        let sharing = Sharing::Export(self.types);
        let memory = Memory::new(interop, &image.needs(), &sharing, self.placement, self.dedicated)?;
        image.bind(memory, 0, State::New)
    }

    /// Creates the image with an allocation for each plane. The specification must have the flag `DISJOINT`.
    pub(crate) fn disjoint(&self, operation: &'static str, interop: &VulkanInterop) -> Result<OwnedImage> {
        let image = self.unbound(interop)?;
        let planes = &PLANES[..self.format.planes()];
        let allocate = |plane: &vk::ImageAspectFlags| {
            // SAFETY: the image is live, of this device, disjoint, and has the plane.
            let needs = unsafe { Needs::of_plane(interop, image.raw, *plane) };
            if needs.requires_dedicated {
                let message = "the driver requires a dedicated allocation for a plane, which Vulkan forbids for disjoint \
                               images; use PlaneStorage::Separate";
                return Err(Error::unsupported(operation, message).with_device(interop.identity()));
            }
            Memory::new(interop, &needs, &Sharing::Export(self.types), self.placement, false)
        };
        let memories = planes.iter().map(allocate).collect::<Result<Vec<_>>>()?;
        bind_planes(image, planes, memories, (State::New, vk::QUEUE_FAMILY_EXTERNAL))
    }
}

/// Binds each plane of a disjoint image, by its aspect, to its memory. The image has all of these planes and no others, each
/// memory was allocated for its plane alone and is not dedicated.
pub(super) fn bind_planes(
    image: Unbound,
    planes: &[vk::ImageAspectFlags],
    mut memories: Vec<Memory>,
    owner: Owner,
) -> Result<OwnedImage> {
    let memory = memories.remove(0);
    // Built before the bind, so that a failure drops image and memory in the right order.
    let mut inner = Inner::new(image, memory, 0, owner);
    inner.others = memories;
    let mut aspects: Vec<_> =
        planes.iter().map(|plane| vk::BindImagePlaneMemoryInfo::default().plane_aspect(*plane)).collect();
    let binds: Vec<_> = [&inner.memory]
        .into_iter()
        .chain(&inner.others)
        .zip(&mut aspects)
        .map(|(memory, plane)| {
            vk::BindImageMemoryInfo::default().image(inner.image.raw).memory(memory.as_raw()).push_next(plane)
        })
        .collect();
    let interop = &inner.image.interop;
    // SAFETY: the objects belong to this crate and to one device; no plane is bound yet, and each is bound once, at
    // offset 0 of memory that was allocated for it alone and is not dedicated; the image was created for the memory's
    // handle type.
    unsafe { interop.device().bind_image_memory2(&binds) }
        .checked("vkBindImageMemory2")
        .map_err(|error| error.with_device(interop.identity()))?;
    Ok(OwnedImage { inner: Arc::new(inner) })
}

impl OwnedImage {
    /// All allocations of the image: one, or one for each plane.
    pub(crate) fn memories(&self) -> impl Iterator<Item = &Memory> {
        [&self.inner.memory].into_iter().chain(&self.inner.others)
    }

    /// Layout of a plane of an image of this format, which has the plane, in its memory. The tiling is linear, or by the
    /// modifier `LINEAR`.
    pub(crate) fn plane_layout(&self, format: VideoFormat, plane: usize) -> PlaneLayout {
        let aspect = match self.spec().tiling {
            vk::ImageTiling::LINEAR => plane_aspect(plane),
            _ => memory_plane_aspect(plane),
        };
        let found = self.aspect_layout(aspect);
        let extent = format.plane_extent(plane, [self.spec().extent.width, self.spec().extent.height]);
        PlaneLayout::new(found.offset, found.row_pitch, extent, format.texel(plane))
    }

    /// Layout of an aspect: a plane of linear tiling, or a memory plane of tiling by a DRM modifier, which the image has.
    pub(crate) fn aspect_layout(&self, aspect_mask: vk::ImageAspectFlags) -> vk::SubresourceLayout {
        let subresource = vk::ImageSubresource { aspect_mask, mip_level: 0, array_layer: 0 };
        // SAFETY: the image is live and of this device; the caller names an aspect of its tiling.
        unsafe { self.interop().device().get_image_subresource_layout(self.as_raw(), subresource) }
    }
}
