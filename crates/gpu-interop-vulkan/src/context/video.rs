//! Pictures on a context's queue: layout, ownership, and copies of planes.

use ash::vk;
use gpu_interop_core::{Error, PlaneLayout, Result};

use super::image::{COPY_ALIGNMENT, check_image_usage, check_offset};
use super::{HeadlessContext, Recording};
use crate::buffer::OwnedBuffer;
use crate::image::OwnedImage;
use crate::placement::MemoryPlacement;
use crate::tracking::Command;
use crate::video::ExportableVideo;

/// A plane to copy: its size in tightly packed bytes, and the region beside byte `offset` of a buffer.
struct PlaneCopy {
    image: vk::Image,
    size: u64,
    region: vk::BufferImageCopy,
}

impl Recording<'_> {
    /// Transitions the images of a picture to the layout `GENERAL`, and makes this device their owner, as
    /// [`initialize_image`](Self::initialize_image).
    ///
    /// # Errors
    /// As [`initialize_image`](Self::initialize_image).
    pub fn initialize_video(&mut self, video: &ExportableVideo) -> Result<()> {
        video.images().try_for_each(|image| self.initialize_image(image))
    }

    /// Releases the images of a picture to the other API, as [`release_image`](Self::release_image).
    ///
    /// # Errors
    /// As [`release_image`](Self::release_image).
    pub fn release_video(&mut self, video: &ExportableVideo) -> Result<()> {
        video.images().try_for_each(|image| self.release_image(image))
    }

    /// Acquires the images of a picture from the other API, as [`acquire_image`](Self::acquire_image).
    ///
    /// # Errors
    /// As [`acquire_image`](Self::acquire_image).
    pub fn acquire_video(&mut self, video: &ExportableVideo) -> Result<()> {
        video.images().try_for_each(|image| self.acquire_image(image))
    }

    /// Copies tightly packed texels from byte `offset` of a buffer to a plane. Records `vkCmdCopyBufferToImage`.
    ///
    /// # Errors
    /// As [`copy_to_image`](Self::copy_to_image), with a plane instead of a level and layer.
    pub fn copy_to_plane(
        &mut self,
        src: &OwnedBuffer,
        offset: u64,
        video: &ExportableVideo,
        plane: usize,
    ) -> Result<()> {
        const OPERATION: &str = "Recording::copy_to_plane";
        let copy = self.plane_copy(OPERATION, video, plane, offset, vk::ImageUsageFlags::TRANSFER_DST)?;
        self.check(OPERATION, src, vk::BufferUsageFlags::TRANSFER_SRC, offset, copy.size)?;
        self.use_plane(OPERATION, video, plane, src)?;
        let (commands, src, device) = (self.as_raw(), src.as_raw(), self.interop.device());
        let layout = vk::ImageLayout::GENERAL;
        // SAFETY: recording, outside a render pass; both are live, kept, of this device and created for this use; this
        // device owns the image, which is in the layout `GENERAL` and has the plane; the texels are inside the buffer and
        // aligned.
        unsafe { device.cmd_copy_buffer_to_image(commands, src, copy.image, layout, &[copy.region]) };
        Ok(())
    }

    /// Copies a plane to byte `offset` of a buffer, tightly packed. Records `vkCmdCopyImageToBuffer`.
    ///
    /// # Errors
    /// As [`copy_to_plane`](Self::copy_to_plane).
    pub fn copy_from_plane(
        &mut self,
        video: &ExportableVideo,
        plane: usize,
        dst: &OwnedBuffer,
        offset: u64,
    ) -> Result<()> {
        const OPERATION: &str = "Recording::copy_from_plane";
        let copy = self.plane_copy(OPERATION, video, plane, offset, vk::ImageUsageFlags::TRANSFER_SRC)?;
        self.check(OPERATION, dst, vk::BufferUsageFlags::TRANSFER_DST, offset, copy.size)?;
        self.use_plane(OPERATION, video, plane, dst)?;
        let (commands, dst, device) = (self.as_raw(), dst.as_raw(), self.interop.device());
        let layout = vk::ImageLayout::GENERAL;
        // SAFETY: as in `copy_to_plane`.
        unsafe { device.cmd_copy_image_to_buffer(commands, copy.image, layout, dst, &[copy.region]) };
        Ok(())
    }

    /// Copies level 0 of layer 0 of an image, or one plane of it, to rows of a buffer. Records `vkCmdCopyImageToBuffer`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the rows go past the buffer's end or
    /// are not at multiples of 4 bytes and of the texel's size, buffer or image lacks `TRANSFER_DST` or `TRANSFER_SRC` or is of
    /// another device, or this device does not own it.
    ///
    /// The image has the aspect, with the layout's extent and texels.
    pub(crate) fn copy_to_rows(
        &mut self,
        image: &OwnedImage,
        aspect_mask: vk::ImageAspectFlags,
        dst: &OwnedBuffer,
        layout: &PlaneLayout,
    ) -> Result<()> {
        const OPERATION: &str = "Recording::copy_to_rows";
        check_image_usage(OPERATION, image, vk::ImageUsageFlags::TRANSFER_SRC)?;
        let texel = u64::from(layout.texel.texel_size());
        check_offset(OPERATION, layout.offset, texel)?;
        check_offset(OPERATION, layout.pitch, texel)?;
        layout.check(OPERATION, dst.size())?;
        self.check(OPERATION, dst, vk::BufferUsageFlags::TRANSFER_DST, 0, dst.size())?;
        let Ok(row_length) = u32::try_from(layout.pitch / texel) else {
            return Err(Error::invalid(OPERATION, "the pitch exceeds Vulkan's limit"));
        };
        self.use_buffer(OPERATION, dst)?;
        self.use_image(OPERATION, image, Command::Use)?;
        self.order();
        let region = [region(layout.offset, aspect_mask, layout.extent).buffer_row_length(row_length)];
        let (commands, dst, device) = (self.as_raw(), dst.as_raw(), self.interop.device());
        // SAFETY: recording, outside a render pass; both are live, kept, of this device and created for this use; this device
        // owns the image, which is in the layout `GENERAL` and, as the caller promises, has the aspect with these texels; the
        // rows are inside the buffer, aligned, and do not overlap.
        unsafe { device.cmd_copy_image_to_buffer(commands, image.as_raw(), vk::ImageLayout::GENERAL, dst, &region) };
        Ok(())
    }

    /// Checks the picture's side of a copy.
    fn plane_copy(
        &self,
        operation: &'static str,
        video: &ExportableVideo,
        plane: usize,
        offset: u64,
        usage: vk::ImageUsageFlags,
    ) -> Result<PlaneCopy> {
        let (image, aspect_mask) = video.image_of(operation, plane)?;
        self.check_image_device(operation, image)?;
        self.flight.check_state(operation, image.ownership(), Command::Use)?;
        if !video.spec().usage.contains(usage) {
            return Err(Error::invalid(operation, format!("the picture was not created for {usage:?}")));
        }
        let texel = u64::from(video.spec().format.texel(plane).texel_size());
        check_offset(operation, offset, texel)?;
        let size = plane_size(operation, video, plane)?;
        let extent = video.spec().format.plane_extent(plane, video.spec().extent);
        Ok(PlaneCopy { image: image.as_raw(), size, region: region(offset, aspect_mask, extent) })
    }

    /// Keeps buffer and image alive for a copy, and orders it after earlier commands.
    fn use_plane(
        &mut self,
        operation: &'static str,
        video: &ExportableVideo,
        plane: usize,
        buffer: &OwnedBuffer,
    ) -> Result<()> {
        self.use_buffer(operation, buffer)?;
        let (image, _) = video.image_of(operation, plane)?;
        self.use_image(operation, image, Command::Use)?;
        self.order();
        Ok(())
    }
}

/// The region of level 0 of layer 0, tightly packed in the buffer.
fn region(offset: u64, aspect_mask: vk::ImageAspectFlags, [width, height]: [u32; 2]) -> vk::BufferImageCopy {
    vk::BufferImageCopy::default()
        .buffer_offset(offset)
        .image_subresource(vk::ImageSubresourceLayers { aspect_mask, layer_count: 1, ..Default::default() })
        .image_extent(vk::Extent3D { width, height, depth: 1 })
}

/// Size of a plane, tightly packed, bytes.
fn plane_size(operation: &'static str, video: &ExportableVideo, plane: usize) -> Result<u64> {
    video.image_of(operation, plane)?;
    let spec = video.spec();
    let [width, height] = spec.format.plane_extent(plane, spec.extent).map(u64::from);
    let size = width.checked_mul(height).and_then(|n| n.checked_mul(spec.format.texel(plane).texel_size().into()));
    size.ok_or_else(|| Error::invalid(operation, "the plane exceeds the address space"))
}

impl HeadlessContext {
    /// Transitions the images of a picture to the layout `GENERAL` and makes this device their owner. Blocks until
    /// completion.
    ///
    /// # Errors
    /// Those of [`Recording::initialize_video`] and [`HeadlessContext::run`].
    pub fn initialize_video(&self, video: &ExportableVideo) -> Result<()> {
        self.run(|recording| recording.initialize_video(video))
    }

    /// Releases a picture to the other API. Blocks until completion, so the other API needs no further wait.
    ///
    /// # Errors
    /// Those of [`Recording::release_video`] and [`HeadlessContext::run`].
    pub fn release_video(&self, video: &ExportableVideo) -> Result<()> {
        self.run(|recording| recording.release_video(video))
    }

    /// Acquires a picture from the other API. Blocks until completion.
    ///
    /// # Errors
    /// Those of [`Recording::acquire_video`] and [`HeadlessContext::run`].
    pub fn acquire_video(&self, video: &ExportableVideo) -> Result<()> {
        self.run(|recording| recording.acquire_video(video))
    }

    /// Copies tightly packed texels to every plane, in one submission, through a staging buffer. Blocks until completion.
    /// The picture is initialised, owned by this device, and has the usage `TRANSFER_DST`.
    ///
    /// # Errors
    /// [`InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if `planes` has not one slice for each plane with
    /// the size of its texels; otherwise those of [`Recording::copy_to_plane`] and [`HeadlessContext::run`].
    pub fn upload_video(&self, video: &ExportableVideo, planes: &[impl AsRef<[u8]>]) -> Result<()> {
        const OPERATION: &str = "HeadlessContext::upload_video";
        let lengths: Vec<_> = planes.iter().map(|plane| plane.as_ref().len()).collect();
        let (staging, offsets) = self.video_staging(OPERATION, video, &lengths)?;
        for (plane, offset) in planes.iter().zip(&offsets) {
            staging.write(*offset, plane.as_ref())?;
        }
        self.run(|recording| {
            let mut each = offsets.iter().enumerate();
            each.try_for_each(|(plane, offset)| recording.copy_to_plane(&staging, *offset, video, plane))
        })
    }

    /// Copies every plane to the host, tightly packed, in one submission, through a staging buffer. Blocks until completion.
    /// The picture is owned by this device and has the usage `TRANSFER_SRC`.
    ///
    /// # Errors
    /// As [`upload_video`](Self::upload_video), with those of [`Recording::copy_from_plane`].
    pub fn download_video(&self, video: &ExportableVideo, planes: &mut [impl AsMut<[u8]>]) -> Result<()> {
        const OPERATION: &str = "HeadlessContext::download_video";
        let lengths: Vec<_> = planes.iter_mut().map(|plane| plane.as_mut().len()).collect();
        let (staging, offsets) = self.video_staging(OPERATION, video, &lengths)?;
        self.run(|recording| {
            let mut each = offsets.iter().enumerate();
            each.try_for_each(|(plane, offset)| recording.copy_from_plane(video, plane, &staging, *offset))
        })?;
        planes.iter_mut().zip(&offsets).try_for_each(|(plane, offset)| staging.read(*offset, plane.as_mut()))
    }

    /// Creates a staging buffer for all planes, if the lengths are their sizes, and returns the offset of each.
    fn video_staging(
        &self,
        operation: &'static str,
        video: &ExportableVideo,
        lengths: &[usize],
    ) -> Result<(OwnedBuffer, Vec<u64>)> {
        if lengths.len() != video.planes() {
            return Err(Error::invalid(operation, "pass one slice for each plane")
                .with_context("slices", lengths.len())
                .with_context("planes", video.planes()));
        }
        let mut offsets = Vec::with_capacity(lengths.len());
        let mut end = 0_u64;
        for (plane, length) in lengths.iter().enumerate() {
            let size = plane_size(operation, video, plane)?;
            if size != *length as u64 {
                return Err(Error::invalid(operation, "the data does not have the size of the plane, tightly packed")
                    .with_context("plane", plane)
                    .with_context("data", format_args!("{length} bytes"))
                    .with_context("texels", format_args!("{size} bytes")));
            }
            offsets.push(end);
            end = end.saturating_add(size).checked_next_multiple_of(COPY_ALIGNMENT).unwrap_or(u64::MAX);
        }
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        Ok((OwnedBuffer::new(self.interop(), end, usage, MemoryPlacement::HostVisible)?, offsets))
    }
}
