//! Images on a context's queue: layout, ownership, and copies of texels to and from the host.

use ash::vk;
use gpu_interop_core::{Error, Result};

use super::{HeadlessContext, Recording};
use crate::buffer::OwnedBuffer;
use crate::image::OwnedImage;
use crate::ownership::OwnershipTransfer;
use crate::placement::MemoryPlacement;
use crate::tracking::Command;

/// Required alignment of the buffer offset of a copy on transfer-only queues; all queues also require the texel's size.
pub(super) const COPY_ALIGNMENT: u64 = 4;

impl Recording<'_> {
    /// Keeps an image alive until the commands have run.
    pub fn keep_image(&mut self, image: &OwnedImage) {
        self.flight.keep_image(image);
    }

    /// Transitions an image to the layout `GENERAL`, in which this crate keeps images, and makes this device its owner.
    /// The contents are undefined afterwards. Call it once for a new image, and again when the contents may be
    /// discarded. Records `vkCmdPipelineBarrier`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the image is of another device,
    /// or the other API owns it: it was imported or released, and not acquired since.
    pub fn initialize_image(&mut self, image: &OwnedImage) -> Result<()> {
        self.use_image("Recording::initialize_image", image, Command::Initialize)?;
        // SAFETY: recording, outside a render pass; the image is live, kept, of this device, and not owned by the other
        // API, so it has no other user. The barrier orders earlier uses on the queue.
        unsafe { image.record_initialize(self.as_raw()) };
        Ok(())
    }

    /// Releases the image to the other API, in the layout `GENERAL`; see [`OwnershipTransfer`]. An exporter calls it
    /// before the other API first uses the image, even if nothing was written yet. Records `vkCmdPipelineBarrier`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the image is of another device,
    /// was never initialised, or is already owned by the other API.
    pub fn release_image(&mut self, image: &OwnedImage) -> Result<()> {
        self.use_image("Recording::release_image", image, Command::Release)?;
        let from = OwnershipTransfer::all(self.queue_family);
        // SAFETY: recording, outside a render pass; the image is live, kept, of this device and in the layout
        // `GENERAL`. This family owns it: either no other family has a queue of the device, or the caller of
        // `HeadlessContext::on_queue` guarantees it.
        unsafe { image.record_release(self.as_raw(), from, vk::ImageLayout::GENERAL) }
    }

    /// Acquires the image from the other API, which has released it in the layout `GENERAL`; see [`OwnershipTransfer`].
    /// Records `vkCmdPipelineBarrier`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the image is of another device,
    /// was exported and never released, or is already owned by this device.
    pub fn acquire_image(&mut self, image: &OwnedImage) -> Result<()> {
        self.use_image("Recording::acquire_image", image, Command::Acquire)?;
        let to = OwnershipTransfer::all(self.queue_family);
        // SAFETY: recording, outside a render pass; the image is live, kept and of this device, and the queue of this
        // family. The other API owns the image: it was imported, or was released in `GENERAL`, in which the other API
        // leaves it.
        unsafe { image.record_acquire(self.as_raw(), to, vk::ImageLayout::GENERAL) }
    }

    /// Copies tightly packed texels from byte `offset` of a buffer to one layer of one mip level. Records
    /// `vkCmdCopyBufferToImage`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the level or layer does not
    /// exist, the texels exceed the buffer, the offset is not a multiple of 4 bytes and of the texel's size, the buffer
    /// or image lacks `TRANSFER_SRC` or `TRANSFER_DST` or is of another device, or this device does not own it: the
    /// image was never initialised, or the buffer or image was imported or released and not acquired since.
    #[doc(alias = "vkCmdCopyBufferToImage")]
    pub fn copy_to_image(
        &mut self,
        src: &OwnedBuffer,
        offset: u64,
        image: &OwnedImage,
        level: u32,
        layer: u32,
    ) -> Result<()> {
        const OPERATION: &str = "Recording::copy_to_image";
        check_image_usage(OPERATION, image, vk::ImageUsageFlags::TRANSFER_DST)?;
        let size = self.check_copy(OPERATION, image, level, layer, offset)?;
        self.check(OPERATION, src, vk::BufferUsageFlags::TRANSFER_SRC, offset, size)?;
        self.use_buffer(OPERATION, src)?;
        self.use_image(OPERATION, image, Command::Use)?;
        self.order();
        let regions = [region(image, level, layer, offset)];
        let (commands, src, dst) = (self.as_raw(), src.as_raw(), image.as_raw());
        let device = self.interop.device();
        // SAFETY: recording, outside a render pass; both are live, kept, of this device and created for this use; this
        // device owns the image, which is in the layout `GENERAL` and has the level and layer; the texels are inside
        // the buffer and aligned.
        unsafe { device.cmd_copy_buffer_to_image(commands, src, dst, vk::ImageLayout::GENERAL, &regions) };
        Ok(())
    }

    /// Copies one layer of one mip level to byte `offset` of a buffer, tightly packed. Records
    /// `vkCmdCopyImageToBuffer`.
    ///
    /// # Errors
    /// As [`copy_to_image`](Self::copy_to_image).
    #[doc(alias = "vkCmdCopyImageToBuffer")]
    pub fn copy_from_image(
        &mut self,
        image: &OwnedImage,
        level: u32,
        layer: u32,
        dst: &OwnedBuffer,
        offset: u64,
    ) -> Result<()> {
        const OPERATION: &str = "Recording::copy_from_image";
        check_image_usage(OPERATION, image, vk::ImageUsageFlags::TRANSFER_SRC)?;
        let size = self.check_copy(OPERATION, image, level, layer, offset)?;
        self.check(OPERATION, dst, vk::BufferUsageFlags::TRANSFER_DST, offset, size)?;
        self.use_buffer(OPERATION, dst)?;
        self.use_image(OPERATION, image, Command::Use)?;
        self.order();
        let regions = [region(image, level, layer, offset)];
        let (commands, src, dst) = (self.as_raw(), image.as_raw(), dst.as_raw());
        let device = self.interop.device();
        // SAFETY: as in `copy_to_image`.
        unsafe { device.cmd_copy_image_to_buffer(commands, src, vk::ImageLayout::GENERAL, dst, &regions) };
        Ok(())
    }

    pub(super) fn check_image_device(&self, operation: &'static str, image: &OwnedImage) -> Result<()> {
        if image.interop().is_same_device(self.interop) {
            return Ok(());
        }
        Err(Error::invalid(operation, "the image belongs to another device"))
    }

    /// Fails unless the image is of this device and in a valid state for `command`. Keeps the image alive.
    pub(super) fn use_image(&mut self, operation: &'static str, image: &OwnedImage, command: Command) -> Result<()> {
        self.check_image_device(operation, image)?;
        self.flight.uses(operation, image.ownership(), command)?;
        self.keep_image(image);
        Ok(())
    }

    /// Checks the image's side of a copy, and returns the number of bytes to copy.
    fn check_copy(
        &self,
        operation: &'static str,
        image: &OwnedImage,
        level: u32,
        layer: u32,
        offset: u64,
    ) -> Result<u64> {
        self.check_image_device(operation, image)?;
        self.flight.check_state(operation, image.ownership(), Command::Use)?;
        image.check_subresource(operation, level, layer)?;
        let texel = u64::from(image.format().array.texel_size());
        check_offset(operation, offset, texel)?;
        image.spec().level_size(level)
    }
}

/// Fails unless an offset in the buffer of a copy is aligned for texels of this size, bytes.
pub(super) fn check_offset(operation: &'static str, offset: u64, texel: u64) -> Result<()> {
    if offset.is_multiple_of(texel) && offset.is_multiple_of(COPY_ALIGNMENT) {
        return Ok(());
    }
    Err(Error::invalid(operation, "the offset must be a multiple of 4 bytes and of the texel's size")
        .with_context("offset", offset)
        .with_context("texel", format_args!("{texel} bytes")))
}

pub(super) fn check_image_usage(operation: &'static str, image: &OwnedImage, usage: vk::ImageUsageFlags) -> Result<()> {
    if image.spec().usage.contains(usage) {
        return Ok(());
    }
    Err(Error::invalid(operation, format!("the image was not created for {usage:?}")))
}

/// The copy region of one layer of one level, tightly packed in the buffer.
fn region(image: &OwnedImage, level: u32, layer: u32, offset: u64) -> vk::BufferImageCopy {
    vk::BufferImageCopy::default()
        .buffer_offset(offset)
        .image_subresource(vk::ImageSubresourceLayers {
            aspect_mask: vk::ImageAspectFlags::COLOR,
            mip_level: level,
            base_array_layer: layer,
            layer_count: 1,
        })
        .image_extent(image.spec().level_extent(level))
}

impl HeadlessContext {
    /// Transitions an image to the layout `GENERAL` and makes this device its owner. Blocks until completion.
    ///
    /// # Errors
    /// Those of [`Recording::initialize_image`] and [`HeadlessContext::run`].
    pub fn initialize_image(&self, image: &OwnedImage) -> Result<()> {
        self.run(|recording| recording.initialize_image(image))
    }

    /// Releases an image to the other API; see [`OwnershipTransfer`]. Blocks until completion, so the other API needs
    /// no further wait.
    ///
    /// # Errors
    /// Those of [`Recording::release_image`] and [`HeadlessContext::run`].
    pub fn release_image(&self, image: &OwnedImage) -> Result<()> {
        self.run(|recording| recording.release_image(image))
    }

    /// Acquires an image from the other API; see [`OwnershipTransfer`]. Blocks until completion.
    ///
    /// # Errors
    /// Those of [`Recording::acquire_image`] and [`HeadlessContext::run`].
    pub fn acquire_image(&self, image: &OwnedImage) -> Result<()> {
        self.run(|recording| recording.acquire_image(image))
    }

    /// Copies tightly packed texels to one layer of one mip level, through a staging buffer of that size and the queue.
    /// Blocks until completion.
    ///
    /// # Errors
    /// [`InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the length of `data` is not the size of the
    /// level ([`ImageSpec::level_size`](crate::ImageSpec::level_size)); otherwise those of [`Recording::copy_to_image`]
    /// and [`HeadlessContext::run`].
    pub fn upload_image(&self, image: &OwnedImage, level: u32, layer: u32, data: &[u8]) -> Result<()> {
        let staging = self.image_staging("HeadlessContext::upload_image", image, level, layer, data.len())?;
        staging.write(0, data)?;
        self.run(|recording| recording.copy_to_image(&staging, 0, image, level, layer))
    }

    /// Copies one layer of one mip level to `out`, tightly packed, through the queue and a staging buffer of that size.
    /// Blocks until completion.
    ///
    /// # Errors
    /// [`InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the length of `out` is not the size of the
    /// level ([`ImageSpec::level_size`](crate::ImageSpec::level_size)); otherwise those of
    /// [`Recording::copy_from_image`] and [`HeadlessContext::run`].
    pub fn download_image(&self, image: &OwnedImage, level: u32, layer: u32, out: &mut [u8]) -> Result<()> {
        let staging = self.image_staging("HeadlessContext::download_image", image, level, layer, out.len())?;
        self.run(|recording| recording.copy_from_image(image, level, layer, &staging, 0))?;
        staging.read(0, out)
    }

    /// Creates a staging buffer for one layer of one mip level, if `length` is its size.
    fn image_staging(
        &self,
        operation: &'static str,
        image: &OwnedImage,
        level: u32,
        layer: u32,
        length: usize,
    ) -> Result<OwnedBuffer> {
        image.check_subresource(operation, level, layer)?;
        let size = image.spec().level_size(level)?;
        if size != length as u64 {
            return Err(Error::invalid(operation, "the data does not have the size of the level, tightly packed")
                .with_context("data", format_args!("{length} bytes"))
                .with_context("level", format_args!("{size} bytes")));
        }
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        OwnedBuffer::new(self.interop(), size, usage, MemoryPlacement::HostVisible)
    }
}
