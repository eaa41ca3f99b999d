//! Images on a context's queue: their layout, their owner, and their texels to and from the host.

use ash::vk;
use gpu_interop_core::{Error, Result};

use super::{HeadlessContext, Recording};
use crate::buffer::OwnedBuffer;
use crate::image::OwnedImage;
use crate::ownership::OwnershipTransfer;
use crate::placement::MemoryPlacement;
use crate::tracking::Command;

/// Vulkan wants a buffer's side of a copy aligned to this on queues that only copy, and to the texel on all.
const COPY_ALIGNMENT: u64 = 4;

impl Recording<'_> {
    /// Keeps an image alive until the commands have run.
    pub fn keep_image(&mut self, image: &OwnedImage) {
        self.flight.keep_image(image);
    }

    /// Brings an image into the layout `GENERAL`, in which this crate keeps images, and makes it this device's. Its
    /// contents are undefined after it: done once to a new image, and again where its contents no longer matter. Rests
    /// on `vkCmdPipelineBarrier`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the image is of another device,
    /// or belongs to the other side: it was imported or released, and not acquired since.
    pub fn initialize_image(&mut self, image: &OwnedImage) -> Result<()> {
        self.use_image("Recording::initialize_image", image, Command::Initialize)?;
        // SAFETY: recording, outside a render pass; the image is live, kept, of this device, and not the other side's,
        // so that nobody else uses it. What the queue did with it before is ordered by the barrier.
        unsafe { image.record_initialize(self.as_raw()) };
        Ok(())
    }

    /// Releases the image to the other API, in the layout `GENERAL`; see [`OwnershipTransfer`]. An exporter does so
    /// before the other side first uses the image, also if nothing was written yet. Rests on `vkCmdPipelineBarrier`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the image is of another device,
    /// was never initialised, or belongs to the other side already.
    pub fn release_image(&mut self, image: &OwnedImage) -> Result<()> {
        self.use_image("Recording::release_image", image, Command::Release)?;
        let from = OwnershipTransfer::all(self.queue_family);
        // SAFETY: recording, outside a render pass; the image is live, kept, of this device and in the layout `GENERAL`.
        // It belongs to this family: no other has a queue of the device, or `HeadlessContext::on_queue`'s caller has promised it.
        unsafe { image.record_release(self.as_raw(), from, vk::ImageLayout::GENERAL) }
    }

    /// Takes the image from the other API, which has released it in the layout `GENERAL`; see [`OwnershipTransfer`].
    /// Rests on `vkCmdPipelineBarrier`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the image is of another device,
    /// was exported and never released, or is this device's already.
    pub fn acquire_image(&mut self, image: &OwnedImage) -> Result<()> {
        self.use_image("Recording::acquire_image", image, Command::Acquire)?;
        let to = OwnershipTransfer::all(self.queue_family);
        // SAFETY: recording, outside a render pass; the image is live, kept and of this device, and the queue of this
        // family. The image is the other side's: it was imported, or was released in `GENERAL`, which the other side
        // leaves it in.
        unsafe { image.record_acquire(self.as_raw(), to, vk::ImageLayout::GENERAL) }
    }

    /// Copies tightly packed texels from byte `offset` of a buffer to one layer of one mip level. Rests on
    /// `vkCmdCopyBufferToImage`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if there is no such level or layer,
    /// the texels go past the end of the buffer, the offset is no multiple of 4 bytes and of the texel, one of the two
    /// lacks `TRANSFER_SRC` or `TRANSFER_DST` or is of another device, or one is not this device's: the image was never
    /// initialised, or one was imported or released and not acquired since.
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
        // SAFETY: recording, outside a render pass; both are live, kept, of this device and usable so; the image is its
        // queue's own, in the layout `GENERAL`, and has the level and layer; the texels are inside the buffer and
        // aligned.
        unsafe { device.cmd_copy_buffer_to_image(commands, src, dst, vk::ImageLayout::GENERAL, &regions) };
        Ok(())
    }

    /// Copies one layer of one mip level to byte `offset` of a buffer, tightly packed. Rests on
    /// `vkCmdCopyImageToBuffer`.
    ///
    /// # Errors
    /// As [`copy_to_image`](Self::copy_to_image).
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

    fn check_image_device(&self, operation: &'static str, image: &OwnedImage) -> Result<()> {
        if image.interop().is_same_device(self.interop) {
            return Ok(());
        }
        Err(Error::invalid(operation, "the image belongs to another device"))
    }

    /// Fails unless the image is of this device and in a state for the command, which is recorded next. Keeps it alive.
    fn use_image(&mut self, operation: &'static str, image: &OwnedImage, command: Command) -> Result<()> {
        self.check_image_device(operation, image)?;
        self.flight.uses(operation, image.ownership(), command)?;
        self.keep_image(image);
        Ok(())
    }

    /// Checks the image's side of a copy, and tells how many bytes are copied.
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
        if !(offset.is_multiple_of(texel) && offset.is_multiple_of(COPY_ALIGNMENT)) {
            return Err(Error::invalid(operation, "the offset must be a multiple of 4 bytes and of the texel's size")
                .with_context("offset", offset)
                .with_context("texel", format_args!("{texel} bytes")));
        }
        image.spec().level_size(level)
    }
}

fn check_image_usage(operation: &'static str, image: &OwnedImage, usage: vk::ImageUsageFlags) -> Result<()> {
    if image.spec().usage.contains(usage) {
        return Ok(());
    }
    Err(Error::invalid(operation, format!("the image was not created for {usage:?}")))
}

/// All of one layer of one level, tightly packed in the buffer.
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
    /// Brings an image into the layout `GENERAL` and makes it this device's. Blocks until it is done.
    ///
    /// # Errors
    /// Those of [`Recording::initialize_image`] and [`HeadlessContext::run`].
    pub fn initialize_image(&self, image: &OwnedImage) -> Result<()> {
        self.run(|recording| recording.initialize_image(image))
    }

    /// Releases an image to the other API; see [`OwnershipTransfer`]. Blocks until it is done, so the other side needs
    /// to wait for nothing else.
    ///
    /// # Errors
    /// Those of [`Recording::release_image`] and [`HeadlessContext::run`].
    pub fn release_image(&self, image: &OwnedImage) -> Result<()> {
        self.run(|recording| recording.release_image(image))
    }

    /// Takes an image from the other API; see [`OwnershipTransfer`]. Blocks until it is done.
    ///
    /// # Errors
    /// Those of [`Recording::acquire_image`] and [`HeadlessContext::run`].
    pub fn acquire_image(&self, image: &OwnedImage) -> Result<()> {
        self.run(|recording| recording.acquire_image(image))
    }

    /// Copies texels, tightly packed, to one layer of one mip level, through a staging buffer of that size and the
    /// queue. Blocks until it is done.
    ///
    /// # Errors
    /// [`InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if `data` has not the size of the level
    /// ([`ImageSpec::level_size`](crate::ImageSpec::level_size)); otherwise those of [`Recording::copy_to_image`] and
    /// [`HeadlessContext::run`].
    pub fn upload_image(&self, image: &OwnedImage, level: u32, layer: u32, data: &[u8]) -> Result<()> {
        let staging = self.image_staging("HeadlessContext::upload_image", image, level, layer, data.len())?;
        staging.write(0, data)?;
        self.run(|recording| recording.copy_to_image(&staging, 0, image, level, layer))
    }

    /// Copies one layer of one mip level to `out`, tightly packed, through the queue and a staging buffer of that size.
    /// Blocks until it is done.
    ///
    /// # Errors
    /// [`InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if `out` has not the size of the level
    /// ([`ImageSpec::level_size`](crate::ImageSpec::level_size)); otherwise those of [`Recording::copy_from_image`] and
    /// [`HeadlessContext::run`].
    pub fn download_image(&self, image: &OwnedImage, level: u32, layer: u32, out: &mut [u8]) -> Result<()> {
        let staging = self.image_staging("HeadlessContext::download_image", image, level, layer, out.len())?;
        self.run(|recording| recording.copy_from_image(image, level, layer, &staging, 0))?;
        staging.read(0, out)
    }

    /// A staging buffer for one layer of one mip level, if `length` is its size.
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
