//! Images with their memory.

mod export;
mod import;
#[cfg(unix)]
pub(crate) mod modifier;
#[cfg(unix)]
pub(crate) mod picture;
pub(crate) mod planar;
mod spec;

use std::sync::Arc;

use ash::vk;
use gpu_interop_core::{Error, MipmappedArrayDesc, Result};

use crate::error::Checked;
use crate::format::TexelFormat;
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Needs};
use crate::tracking::{Object, Ownership, State};

pub use export::{ExportableImage, ImageOptions};
pub use import::{ImageImportOptions, ImportedImage};
pub use spec::ImageSpec;

/// A `VkImage` in its own `VkDeviceMemory`, at offset 0 unless [`ImageOptions::offset`] is set. Both are destroyed with
/// the last clone.
///
/// The last clone must not be dropped while work submitted through ash uses the image; work submitted through
/// [`HeadlessContext`](crate::HeadlessContext) keeps its images alive.
///
/// A new image has no layout. This crate keeps all of it in `VK_IMAGE_LAYOUT_GENERAL`, the layout in which other APIs
/// access it, and [`HeadlessContext`](crate::HeadlessContext) tracks its owner:
///
/// * A new [`ExportableImage`] has no owner. [`Recording::initialize_image`](crate::Recording::initialize_image) makes
///   this device the owner. Only then can the image be copied, or released to the other API
///   ([`Recording::release_image`](crate::Recording::release_image)), even if the other API writes it first.
/// * The other API owns a new [`ImportedImage`](crate::ImportedImage).
///   [`Recording::acquire_image`](crate::Recording::acquire_image) makes this device the owner.
/// * The other API owns a released image until it is acquired again, even if it is then overwritten as a whole.
///
/// Commands out of this order are rejected before they are recorded. The state changes when commands are submitted, not
/// when they are recorded. Commands submitted through ash do not change it; see
/// [`assume_initialized`](Self::assume_initialized) and [`assume_released`](Self::assume_released).
#[derive(Debug, Clone)]
pub struct OwnedImage {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Field order is drop order: the image is destroyed before its memory, also after a failed bind.
    image: Unbound,
    /// The memory; that of plane 0 for a disjoint image.
    memory: Memory,
    /// The memory of the other planes of a disjoint image.
    others: Vec<Memory>,
    /// Offset of the image in the memory, bytes.
    offset: u64,
    /// Owner of the image after the submitted commands.
    ownership: Arc<Ownership>,
    /// The queue family of the other side: `VK_QUEUE_FAMILY_EXTERNAL`, or `VK_QUEUE_FAMILY_FOREIGN_EXT`.
    other_family: u32,
}

/// The layout of an image tiled by a DRM modifier; the device supports each modifier.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(windows, allow(dead_code, reason = "Windows has no DRM modifiers"))]
pub(crate) enum Modifiers<'a> {
    /// Another tiling.
    None,
    /// The driver chooses.
    OneOf(&'a [u64]),
    /// A modifier, and the layout of each memory plane.
    Explicit(u64, &'a [vk::SubresourceLayout]),
}

/// The owner of an image after its creation, and the queue family of the other side.
type Owner = (State, u32);

impl Inner {
    fn new(image: Unbound, memory: Memory, offset: u64, (state, other_family): Owner) -> Self {
        let ownership = Arc::new(Ownership::new(Object::Image, image.raw, state));
        Self { image, memory, others: Vec::new(), offset, ownership, other_family }
    }
}

/// An image without memory: the state between `vkCreateImage` and `vkBindImageMemory`.
#[derive(Debug)]
struct Unbound {
    interop: VulkanInterop,
    raw: vk::Image,
    spec: ImageSpec,
    format: TexelFormat,
}

impl Unbound {
    /// Creates the image. The caller has checked the image, and that the device shares it as `external`.
    fn new(interop: &VulkanInterop, spec: &ImageSpec, external: vk::ExternalMemoryHandleTypeFlags) -> Result<Self> {
        Self::create(interop, spec, spec.texel_format()?, external, Modifiers::None)
    }

    /// As [`new`](Self::new), for an image with this format of its texels, or of its luma.
    fn create(
        interop: &VulkanInterop,
        spec: &ImageSpec,
        format: TexelFormat,
        external: vk::ExternalMemoryHandleTypeFlags,
        modifiers: Modifiers<'_>,
    ) -> Result<Self> {
        const OPERATION: &str = "vkCreateImage";
        interop.check_process(OPERATION)?;
        let query = spec.query();
        let mut external_info = vk::ExternalMemoryImageCreateInfo::default().handle_types(external);
        let (mut modifier_list, mut explicit);
        let mut info = vk::ImageCreateInfo::default()
            .flags(query.flags)
            .image_type(query.image_type)
            .format(spec.format)
            .extent(spec.extent)
            .mip_levels(spec.levels)
            .array_layers(spec.layers)
            .samples(vk::SampleCountFlags::TYPE_1)
            .tiling(spec.tiling)
            .usage(spec.usage)
            .sharing_mode(vk::SharingMode::EXCLUSIVE)
            .initial_layout(vk::ImageLayout::UNDEFINED)
            .push_next(&mut external_info);
        match modifiers {
            Modifiers::None => {}
            Modifiers::OneOf(modifiers) => {
                modifier_list = vk::ImageDrmFormatModifierListCreateInfoEXT::default().drm_format_modifiers(modifiers);
                info = info.push_next(&mut modifier_list);
            }
            Modifiers::Explicit(modifier, layouts) => {
                explicit = vk::ImageDrmFormatModifierExplicitCreateInfoEXT::default()
                    .drm_format_modifier(modifier)
                    .plane_layouts(layouts);
                info = info.push_next(&mut explicit);
            }
        }
        // SAFETY: the device is live (`VulkanInterop::new`); the caller has checked extent, levels, layers and usage
        // against each other and against the device's limits for such images.
        let raw = unsafe { interop.device().create_image(&info, None) }
            .checked(OPERATION)
            .map_err(|error| error.with_device(interop.identity()).with_context("image", spec))?;
        Ok(Self { interop: interop.clone(), raw, spec: *spec, format })
    }

    fn needs(&self) -> Needs {
        // SAFETY: this object owns the image; only `planar` and `picture` create disjoint ones, and query their planes.
        unsafe { Needs::of_image(&self.interop, self.raw) }
    }

    /// Binds memory that was allocated for [`needs`](Self::needs) plus `offset` bytes before it. `offset` is a multiple
    /// of the image's alignment, and 0 for a dedicated allocation.
    fn bind(self, memory: Memory, offset: u64, state: State) -> Result<OwnedImage> {
        self.bind_for(memory, offset, (state, vk::QUEUE_FAMILY_EXTERNAL))
    }

    /// As [`bind`](Self::bind), with the queue family of the other side.
    fn bind_for(self, memory: Memory, offset: u64, owner: Owner) -> Result<OwnedImage> {
        // Built before the bind, so that a failure drops both in the right order.
        let inner = Inner::new(self, memory, offset, owner);
        // SAFETY: both objects belong to this crate and to one device, and neither is bound yet; the memory's type and
        // size fit the image at the offset, which the caller has aligned; the image was created for the memory's handle
        // type if that is shared; the allocation is dedicated to this image with offset 0, or to nothing where the
        // driver does not require dedication.
        unsafe { inner.image.interop.device().bind_image_memory(inner.image.raw, inner.memory.as_raw(), offset) }
            .checked("vkBindImageMemory")
            .map_err(|error| error.with_device(inner.image.interop.identity()))?;
        Ok(OwnedImage { inner: Arc::new(inner) })
    }
}

memory_accessors!(OwnedImage, image);

impl OwnedImage {
    /// The `VkImage`, valid as long as a clone of this object lives.
    #[must_use]
    pub fn as_raw(&self) -> vk::Image {
        self.inner.image.raw
    }

    /// The description that the image was created with.
    #[must_use]
    pub fn spec(&self) -> &ImageSpec {
        &self.inner.image.spec
    }

    /// The texel format as an array format.
    #[must_use]
    pub fn format(&self) -> TexelFormat {
        self.inner.image.format
    }

    /// Offset of the image in its memory, bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.inner.offset
    }

    /// Description of the image as a mipmapped array in its memory, for an importer.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for linear tiling: map such an image as a
    /// buffer, with the offsets of [`subresource_layout`](Self::subresource_layout).
    pub fn array_desc(&self) -> Result<MipmappedArrayDesc> {
        self.spec().array_desc("OwnedImage::array_desc", self.interop(), self.offset())
    }

    /// Declares that the whole image is in `VK_IMAGE_LAYOUT_GENERAL` and owned by the context's queue family, after an
    /// initialisation or an acquire that the application submitted itself. The image can then be copied and released.
    ///
    /// Call it before recording the commands that rely on it. A recording in progress that has already used the image
    /// does not see the change, and its submission fails.
    ///
    /// # Safety
    /// The declaration must hold when the commands recorded next execute.
    pub unsafe fn assume_initialized(&self) {
        self.ownership().set(State::Owned);
    }

    /// Declares that the whole image is in `VK_IMAGE_LAYOUT_GENERAL` and owned by the other API, after a release that
    /// the application submitted itself ([`record_release`](Self::record_release)). The image can then be acquired.
    /// Otherwise as [`assume_initialized`](Self::assume_initialized).
    ///
    /// # Safety
    /// As [`assume_initialized`](Self::assume_initialized).
    pub unsafe fn assume_released(&self) {
        self.ownership().set(State::External);
    }

    /// The queue family of the other side.
    pub(crate) fn other_family(&self) -> u32 {
        self.inner.other_family
    }

    pub(crate) fn ownership(&self) -> &Arc<Ownership> {
        &self.inner.ownership
    }

    /// Fails if the image lacks the level or the layer.
    pub(crate) fn check_subresource(&self, operation: &'static str, level: u32, layer: u32) -> Result<()> {
        let spec = self.spec();
        if level < spec.levels && layer < spec.layers {
            return Ok(());
        }
        Err(Error::invalid(operation, "the image has no such mip level or layer")
            .with_context("level", level)
            .with_context("levels", spec.levels)
            .with_context("layer", layer)
            .with_context("layers", spec.layers))
    }

    /// Copies `out.len()` bytes of the memory starting at byte `offset` to `out`;
    /// [`subresource_layout`](Self::subresource_layout) has the offsets of texels. The memory is coherent, so nothing
    /// is flushed; the caller must have waited for the last writer.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the image is not host-visible,
    /// or the range exceeds its memory.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        const OPERATION: &str = "OwnedImage::read";
        self.inner.memory.mapping(OPERATION)?.read(OPERATION, offset, out)
    }

    /// Copies `data` to the memory at byte `offset`. Later submissions see it if the image is in the layout `GENERAL`
    /// by then.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        const OPERATION: &str = "OwnedImage::write";
        self.inner.memory.mapping(OPERATION)?.write(OPERATION, offset, data)
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        if self.interop.is_forked() {
            return;
        }
        // SAFETY: this object owns the image, which is live; nothing uses it any more, by the contract of `OwnedImage`.
        unsafe { self.interop.device().destroy_image(self.raw, None) };
    }
}

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
                "only images with linear tiling have rows of a known pitch; create the image with linear tiling, copy it to a \
                 shared buffer, or map it as an array where the device maps arrays",
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
