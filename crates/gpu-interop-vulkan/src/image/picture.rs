//! Images on the dma-bufs of a picture, with an explicit layout.

use std::os::fd::BorrowedFd;

use ash::vk;
use gpu_interop_core::{Error, Result};

use super::planar::{bind_planes, memory_plane_aspect};
use super::{ImageSpec, Modifiers, OwnedImage, Owner, Unbound};
use crate::format::TexelFormat;
use crate::handles::Importable;
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Needs, Sharing};
use crate::placement::imported_type;
use crate::tracking::State;

const DMA_BUF: vk::ExternalMemoryHandleTypeFlags = vk::ExternalMemoryHandleTypeFlags::DMA_BUF_EXT;

/// The dma-buf of a memory plane, and its size in bytes.
pub(crate) type Object<'a> = (BorrowedFd<'a>, u64);

/// An image to be created on dma-bufs. The device was queried for it, and the layouts are inside the dma-bufs.
pub(crate) struct PictureImage<'a> {
    pub(crate) operation: &'static str,
    pub(crate) interop: &'a VulkanInterop,
    pub(crate) spec: &'a ImageSpec,
    /// Format of the texels, or of the luma.
    pub(crate) texel: TexelFormat,
    pub(crate) modifier: u64,
    /// Layout of each memory plane in its dma-buf.
    pub(crate) layouts: &'a [vk::SubresourceLayout],
    /// The queue family of the producer.
    pub(crate) other_family: u32,
}

impl PictureImage<'_> {
    fn unbound(&self) -> Result<Unbound> {
        let modifiers = Modifiers::Explicit(self.modifier, self.layouts);
        Unbound::create(self.interop, self.spec, self.texel, DMA_BUF, modifiers)
    }

    /// Creates the image in one dma-buf.
    pub(crate) fn joint(&self, object: Object<'_>, dedicated: bool) -> Result<OwnedImage> {
        let image = self.unbound()?;
        let needs = image.needs();
        let memory = self.allocate(&needs, object, dedicated || needs.requires_dedicated)?;
        image.bind_for(memory, 0, self.owner())
    }

    /// The producer owns the image until it is acquired.
    fn owner(&self) -> Owner {
        (State::External, self.other_family)
    }

    /// Creates the image with a dma-buf for each memory plane. The specification must have the flag `DISJOINT`.
    pub(crate) fn disjoint(&self, objects: &[Object<'_>]) -> Result<OwnedImage> {
        let image = self.unbound()?;
        let planes: Vec<_> = (0..objects.len()).map(memory_plane_aspect).collect();
        let allocate = |(index, (aspect, object)): (usize, (&vk::ImageAspectFlags, &Object<'_>))| {
            // SAFETY: the image is live, of this device, disjoint, and has the memory plane.
            let needs = unsafe { Needs::of_plane(self.interop, image.raw, *aspect) };
            if needs.requires_dedicated {
                let message = "the driver requires a dedicated allocation for a plane, which Vulkan forbids for disjoint \
                               images; import each plane as a picture of its own (DmaBufPicture::into_planes)";
                return Err(Error::unsupported(self.operation, message).with_context("plane", index));
            }
            self.allocate(&needs, *object, false).map_err(|error| error.with_context("plane", index))
        };
        let memories = planes.iter().zip(objects).enumerate().map(allocate).collect::<Result<Vec<_>>>()?;
        bind_planes(image, &planes, memories, self.owner())
    }

    /// Imports a dma-buf. The driver gets a duplicate of the descriptor.
    fn allocate(&self, needs: &Needs, (fd, size): Object<'_>, dedicated: bool) -> Result<Memory> {
        let needed = needs.requirements.size;
        if needed > size {
            let message = "the driver needs more bytes for the picture than the dma-buf has; have the producer allocate rows up \
                           to the device's alignment, or copy the picture";
            return Err(Error::invalid(self.operation, message)
                .with_context("needed", format_args!("{needed} bytes"))
                .with_context("dma-buf", format_args!("{size} bytes")));
        }
        let lent = Importable::of(fd).lend()?;
        let importable = lent.memory_types(self.interop, gpu_interop_core::MemoryHandleKind::DmaBufFd, DMA_BUF)?;
        let allowed = needs.requirements.memory_type_bits & importable;
        let Some(memory_type) = imported_type(self.interop.memory_types(), allowed) else {
            let message = "the device has no memory type that both the dma-buf and the image allow; have the producer \
                           allocate memory that this device accesses";
            return Err(Error::unsupported(self.operation, message)
                .with_context("types of the dma-buf", format_args!("{importable:#x}"))
                .with_context("types of the image", format_args!("{:#x}", needs.requirements.memory_type_bits)));
        };
        // Vulkan requires the image's size for a dedicated allocation.
        let size = if dedicated { needed } else { size };
        let sharing = Sharing::Import(DMA_BUF, &lent);
        let outcome = Memory::allocate(self.interop, needs, &sharing, size, memory_type, dedicated);
        lent.finish(outcome)
    }
}
