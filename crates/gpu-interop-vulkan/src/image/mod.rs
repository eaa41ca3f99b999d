//! An image together with its memory.

mod export;
mod import;
mod layout;
mod spec;

use std::ptr::NonNull;
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
pub use layout::SubresourceLayout;
pub use spec::ImageSpec;

/// A `VkImage` in a `VkDeviceMemory` of its own, at its beginning unless [`ImageOptions::offset`] says otherwise.
/// Destroyed with its memory once the last clone is gone.
///
/// Dropping the last clone while submitted work still uses the image is an error of whoever submitted that work through
/// ash; work submitted through [`HeadlessContext`](crate::HeadlessContext) keeps what it uses alive.
///
/// A new image has no layout. This crate keeps all of it in `VK_IMAGE_LAYOUT_GENERAL`, the layout in which other APIs
/// see it, and [`HeadlessContext`](crate::HeadlessContext) keeps track of whose it is:
///
/// * An [`ExportableImage`] is nobody's at first: [`Recording::initialize_image`](crate::Recording::initialize_image)
///   makes it this device's. Only then can it be copied to and from, and released to the other side
///   ([`Recording::release_image`](crate::Recording::release_image)), even if the other side is the first to write it.
/// * An [`ImportedImage`](crate::ImportedImage) is the other side's at first:
///   [`Recording::acquire_image`](crate::Recording::acquire_image) makes it this device's.
/// * A released image is the other side's until it is acquired again, also where it is to be overwritten as a whole.
///
/// What is out of this order is refused before it is recorded. The state changes when commands are submitted, not when
/// they are recorded. Commands that an application submits through ash change nothing in it; see
/// [`assume_initialized`](Self::assume_initialized) and [`assume_released`](Self::assume_released).
#[derive(Debug, Clone)]
pub struct OwnedImage {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Dropped in this order: the image goes before its memory, also if the two could not be bound.
    image: Unbound,
    memory: Memory,
    /// Where the image begins in the memory, bytes.
    offset: u64,
    /// Whose the image is after the commands that have been submitted.
    ownership: Arc<Ownership>,
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
    /// The caller has checked the image, and that the device shares it as `external`.
    fn new(interop: &VulkanInterop, spec: &ImageSpec, external: vk::ExternalMemoryHandleTypeFlags) -> Result<Self> {
        const OPERATION: &str = "vkCreateImage";
        let format = spec.texel_format()?;
        let query = spec.query();
        let mut external_info = vk::ExternalMemoryImageCreateInfo::default().handle_types(external);
        let info = vk::ImageCreateInfo::default()
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
        // SAFETY: the device is live (`VulkanInterop::new`); the caller has checked extent, levels, layers and usage
        // against each other and against what the device says of such images.
        let raw = unsafe { interop.device().create_image(&info, None) }
            .checked(OPERATION)
            .map_err(|error| error.with_device(interop.identity()).with_context("image", format_args!("{spec:?}")))?;
        Ok(Self { interop: interop.clone(), raw, spec: *spec, format })
    }

    fn needs(&self) -> Needs {
        // SAFETY: the image is this object's own, and no format of the table has several planes.
        unsafe { Needs::of_image(&self.interop, self.raw) }
    }

    /// Binds memory that was allocated for [`needs`](Self::needs), and for `offset` bytes before it: a multiple of the
    /// alignment that the image needs, and 0 if the allocation is dedicated.
    fn bind(self, memory: Memory, offset: u64, state: State) -> Result<OwnedImage> {
        // Put together first, so that a failure too drops them in the right order.
        let ownership = Arc::new(Ownership::new(Object::Image, state));
        let inner = Inner { image: self, memory, offset, ownership };
        // SAFETY: both are this crate's own, of one device, and neither is bound yet; the memory's type and size fit
        // the image from the offset on, which the caller has aligned; the image was created for the memory's kind of
        // handle if that is shared; the memory is a dedicated allocation for this image, and then the offset is 0, or
        // for none where the driver demands none.
        unsafe { inner.image.interop.device().bind_image_memory(inner.image.raw, inner.memory.as_raw(), offset) }
            .checked("vkBindImageMemory")
            .map_err(|error| error.with_device(inner.image.interop.identity()))?;
        Ok(OwnedImage { inner: Arc::new(inner) })
    }
}

impl OwnedImage {
    /// The `VkImage`, valid as long as a clone of this object lives.
    #[must_use]
    pub fn as_raw(&self) -> vk::Image {
        self.inner.image.raw
    }

    /// The `VkDeviceMemory`, valid as long as a clone of this object lives. Host-visible memory is mapped already;
    /// mapping it again is an error.
    #[must_use]
    pub fn memory(&self) -> vk::DeviceMemory {
        self.inner.memory.as_raw()
    }

    /// What it was created as.
    #[must_use]
    pub fn spec(&self) -> &ImageSpec {
        &self.inner.image.spec
    }

    /// Its texel format as the format of an array.
    #[must_use]
    pub fn format(&self) -> TexelFormat {
        self.inner.image.format
    }

    /// The size of the memory behind it, bytes: what an importer must be told.
    #[must_use]
    pub fn allocation_size(&self) -> u64 {
        self.inner.memory.size()
    }

    /// Where it begins in that memory, bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.inner.offset
    }

    /// The index of its memory type among [`VulkanInterop::memory_types`].
    #[must_use]
    pub fn memory_type(&self) -> u32 {
        self.inner.memory.memory_type()
    }

    /// Whether the memory is a dedicated allocation, which an importer must be told.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.inner.memory.is_dedicated()
    }

    /// The device that it belongs to.
    #[must_use]
    pub fn interop(&self) -> &VulkanInterop {
        &self.inner.image.interop
    }

    /// The image as an importer's mipmapped array in its memory.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for linear tiling: such an image is mapped
    /// as a buffer, with the offsets of [`subresource_layout`](Self::subresource_layout).
    pub fn array_desc(&self) -> Result<MipmappedArrayDesc> {
        self.spec().array_desc("OwnedImage::array_desc", self.interop(), self.offset())
    }

    /// Says that the whole image is in `VK_IMAGE_LAYOUT_GENERAL` now and belongs to the context's queue family, after
    /// commands of the application's own that [`HeadlessContext`](crate::HeadlessContext) does not know of: an initialisation, or an
    /// acquisition. It can be copied and released then.
    ///
    /// Said before the commands that rely on it are recorded, and not of an image that a recording under way has used:
    /// that recording would not notice, and its submission be refused.
    ///
    /// # Safety
    /// It must be true by the time the commands run that are recorded next.
    pub unsafe fn assume_initialized(&self) {
        self.ownership().set(State::Owned);
    }

    /// Says that the whole image is in `VK_IMAGE_LAYOUT_GENERAL` now and belongs to the other side, after a release of the
    /// application's own ([`record_release`](Self::record_release)) that [`HeadlessContext`](crate::HeadlessContext) does not know of. It
    /// can be acquired then. Otherwise as [`assume_initialized`](Self::assume_initialized).
    ///
    /// # Safety
    /// As [`assume_initialized`](Self::assume_initialized).
    pub unsafe fn assume_released(&self) {
        self.ownership().set(State::External);
    }

    pub(crate) fn ownership(&self) -> &Arc<Ownership> {
        &self.inner.ownership
    }

    /// Fails unless there is such a level and layer.
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

    /// The address of the memory's first byte, if it is host-visible. Valid as long as a clone of this object lives.
    #[must_use]
    pub fn mapped_ptr(&self) -> Option<NonNull<u8>> {
        self.inner.memory.mapped_ptr()
    }

    /// Copies `out.len()` bytes of the memory from byte `offset` on; where which texel is,
    /// [`subresource_layout`](Self::subresource_layout) tells. The memory is coherent, so nothing is flushed; it is the
    /// caller's to have waited for whoever wrote it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the image is not host-visible,
    /// or the range goes past the end of its memory.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        const OPERATION: &str = "OwnedImage::read";
        self.inner.memory.mapping(OPERATION)?.read(OPERATION, offset, out)
    }

    /// Copies `data` to byte `offset` of the memory. Work submitted later sees it, if the image is in the layout
    /// `GENERAL` by then.
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
        // SAFETY: the image is this object's own and live; nothing uses it any more, by the contract of `OwnedImage`.
        unsafe { self.interop.device().destroy_image(self.raw, None) };
    }
}
