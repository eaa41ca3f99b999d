//! Buffers, images and pictures of a frame, on both sides.

use std::ops::RangeBounds;

use ash::vk;
use gpu_interop_core::{
    ArrayUsage, BufferSlice, Device, ErrorKind, ExternalMemory, MappedBuffer, MappedMipmappedArray, MappedPlanes,
    MipmappedArrayDesc, PlaneLayout, Result, Stream,
};

use crate::buffer::OwnedBuffer;
use crate::context::Recording;
use crate::export::{BufferOptions, ExportableBuffer};
use crate::feed::planes_size;
use crate::image::{ExportableImage, ImageOptions, OwnedImage};
use crate::interop::VulkanInterop;
use crate::ring::FrameRingOptions;

/// Buffers, images and pictures of one of the frames of a [`FrameRing`](crate::FrameRing), in the order of its options.
#[derive(Debug, Default)]
pub struct FrameMemory {
    index: usize,
    buffers: Vec<FrameBuffer>,
    images: Vec<FrameImage>,
    pictures: Vec<FramePicture>,
}

impl FrameMemory {
    /// Creates the objects, and imports and maps them.
    pub(super) fn new(
        interop: &VulkanInterop,
        device: &Device,
        options: &FrameRingOptions,
        index: usize,
    ) -> Result<Self> {
        let buffers = options.buffers.iter().map(|buffer| FrameBuffer::new(interop, device, buffer));
        let images = options.images.iter().map(|image| FrameImage::new(interop, device, image));
        let pictures = options.pictures.iter().map(|planes| FramePicture::new(interop, device, planes));
        Ok(Self {
            index,
            buffers: buffers.collect::<Result<_>>()?,
            images: images.collect::<Result<_>>()?,
            pictures: pictures.collect::<Result<_>>()?,
        })
    }

    /// Position of the frame in its ring, from 0: for objects of the application that each frame in flight has, such as
    /// command buffers and descriptor sets.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The buffers.
    #[must_use]
    pub fn buffers(&self) -> &[FrameBuffer] {
        &self.buffers
    }

    /// The images.
    #[must_use]
    pub fn images(&self) -> &[FrameImage] {
        &self.images
    }

    /// The pictures.
    #[must_use]
    pub fn pictures(&self) -> &[FramePicture] {
        &self.pictures
    }

    /// Vulkan's side of all buffers.
    pub(super) fn vulkan_buffers(&self) -> impl Iterator<Item = &OwnedBuffer> {
        let buffers = self.buffers.iter().map(|buffer| &buffer.buffer);
        buffers.chain(self.pictures.iter().map(|picture| &picture.buffer))
    }

    /// Records the initialisation of new images, and the first release of everything to the compute side.
    pub(super) fn initialize(&self, recording: &mut Recording<'_>) -> Result<()> {
        self.images.iter().try_for_each(|image| recording.initialize_image(&image.image))?;
        self.release(recording)
    }

    /// Records the acquire of everything from the compute side.
    pub(super) fn acquire(&self, recording: &mut Recording<'_>) -> Result<()> {
        self.vulkan_buffers().try_for_each(|buffer| recording.acquire(buffer))?;
        self.images.iter().try_for_each(|image| recording.acquire_image(&image.image))
    }

    /// Records the release of everything to the compute side.
    pub(super) fn release(&self, recording: &mut Recording<'_>) -> Result<()> {
        self.vulkan_buffers().try_for_each(|buffer| recording.release(buffer))?;
        self.images.iter().try_for_each(|image| recording.release_image(&image.image))
    }

    /// Keeps the mappings until the stream's work has completed. Fails for a stream of another device.
    pub(super) fn keep(&self, stream: &Stream) -> Result<()> {
        self.buffers.iter().try_for_each(|buffer| stream.keep(buffer))?;
        let of_pictures = self.pictures.iter().flat_map(|picture| picture.planes.memories());
        self.images.iter().filter_map(FrameImage::linear).chain(of_pictures).try_for_each(|buffer| stream.keep(buffer))
    }

    /// `true` if an image is mapped as an array, whose pending uses the core does not know.
    pub(super) fn has_arrays(&self) -> bool {
        self.images.iter().any(|image| image.array().is_some())
    }

    /// Leaks Vulkan's objects and the arrays, with their devices: work that uses them never completed. Mapped buffers are
    /// freed once the work of their streams has completed.
    pub(super) fn leak(&mut self) {
        self.vulkan_buffers().for_each(|buffer| std::mem::forget(buffer.clone()));
        for FrameImage { image, mapping } in self.images.drain(..) {
            std::mem::forget(image);
            if let Mapping::Array(array) = mapping {
                std::mem::forget(array);
            }
        }
    }
}

/// A buffer of a frame: a `VkBuffer`, and the compute device's mapping of it.
#[derive(Debug)]
pub struct FrameBuffer {
    // Fields drop in this order.
    mapped: MappedBuffer,
    buffer: OwnedBuffer,
}

impl FrameBuffer {
    fn new(interop: &VulkanInterop, device: &Device, options: &BufferOptions) -> Result<Self> {
        let exported = ExportableBuffer::new(interop, options)?;
        let mapped = device.import_memory(exported.import_request()?)?.map_buffer(0..options.size)?;
        Ok(Self { mapped, buffer: exported.buffer().clone() })
    }

    /// Vulkan's side. [`Frame::render`](crate::Frame::render) acquires and releases it. Do not do so yourself
    /// ([`HeadlessContext::acquire`](crate::HeadlessContext::acquire)): the frame cannot be rendered until you release
    /// the buffer again.
    #[must_use]
    pub fn buffer(&self) -> &OwnedBuffer {
        &self.buffer
    }

    /// The compute device's side, an operand of its streams and kernels.
    #[must_use]
    pub fn mapped(&self) -> &MappedBuffer {
        &self.mapped
    }

    /// Size, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.buffer.size()
    }

    /// A range of the compute device's side, bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if the range is empty or past the end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'_>> {
        self.mapped.slice(range)
    }
}

impl<'a> From<&'a FrameBuffer> for BufferSlice<'a> {
    fn from(buffer: &'a FrameBuffer) -> Self {
        Self::from(&buffer.mapped)
    }
}

/// A picture of a frame: a `VkBuffer`, and the compute device's mapping of it as planes.
#[derive(Debug)]
pub struct FramePicture {
    // Fields drop in this order.
    planes: MappedPlanes,
    buffer: OwnedBuffer,
}

impl FramePicture {
    fn new(interop: &VulkanInterop, device: &Device, planes: &[PlaneLayout]) -> Result<Self> {
        use vk::BufferUsageFlags as Usage;
        let size = planes_size(planes)?;
        let usage = Usage::TRANSFER_SRC | Usage::TRANSFER_DST | Usage::STORAGE_BUFFER;
        let FrameBuffer { mapped, buffer } = FrameBuffer::new(interop, device, &BufferOptions::new(size, usage))?;
        let planes = MappedPlanes::new(vec![mapped], planes.iter().map(|plane| (0, *plane)).collect())?;
        Ok(Self { planes, buffer })
    }

    /// Vulkan's side, with the usages `TRANSFER_SRC`, `TRANSFER_DST` and `STORAGE_BUFFER`. As [`FrameBuffer::buffer`].
    #[must_use]
    pub fn buffer(&self) -> &OwnedBuffer {
        &self.buffer
    }

    /// The compute device's side.
    #[must_use]
    pub fn planes(&self) -> &MappedPlanes {
        &self.planes
    }
}

/// An image of a frame: a `VkImage`, and the compute device's mapping of it. Between the halves of a frame it is in
/// `VK_IMAGE_LAYOUT_GENERAL`.
#[derive(Debug)]
pub struct FrameImage {
    // Fields drop in this order.
    mapping: Mapping,
    image: OwnedImage,
}

#[derive(Debug)]
enum Mapping {
    Array(MappedMipmappedArray),
    Linear(MappedBuffer),
}

impl FrameImage {
    fn new(interop: &VulkanInterop, device: &Device, options: &ImageOptions) -> Result<Self> {
        let exported = ExportableImage::new(interop, options)?;
        let memory = device.import_memory(exported.import_request()?)?;
        let mapping = if options.image.tiling == vk::ImageTiling::LINEAR {
            Mapping::Linear(memory.map_buffer(..)?)
        } else {
            Mapping::Array(map_array(&memory, &exported.array_desc()?)?)
        };
        Ok(Self { mapping, image: exported.image().clone() })
    }

    /// Vulkan's side. [`Frame::render`](crate::Frame::render) acquires and releases it. Do not do so yourself
    /// ([`HeadlessContext::acquire_image`](crate::HeadlessContext::acquire_image)): the frame cannot be rendered until
    /// you release the image again.
    #[must_use]
    pub fn image(&self) -> &OwnedImage {
        &self.image
    }

    /// The compute device's side of an image with optimal tiling, for surfaces, textures and copies.
    #[must_use]
    pub fn array(&self) -> Option<&MappedMipmappedArray> {
        match &self.mapping {
            Mapping::Array(array) => Some(array),
            Mapping::Linear(_) => None,
        }
    }

    /// The compute device's side of an image with linear tiling: all of its memory.
    /// [`OwnedImage::subresource_layout`] locates its rows.
    #[must_use]
    pub fn linear(&self) -> Option<&MappedBuffer> {
        match &self.mapping {
            Mapping::Array(_) => None,
            Mapping::Linear(buffer) => Some(buffer),
        }
    }
}

/// Maps the array so that kernels can write it, whatever Vulkan does with the image.
fn map_array(memory: &ExternalMemory, desc: &MipmappedArrayDesc) -> Result<MappedMipmappedArray> {
    let writable = desc.with_usage(desc.usage | ArrayUsage::SURFACE_LOAD_STORE);
    match memory.map_mipmapped_array(&writable) {
        // The format has no surfaces; textures and copies remain.
        Err(error) if writable.usage != desc.usage && error.kind() != ErrorKind::OutOfMemory => {
            memory.map_mipmapped_array(desc).map_err(|_| error)
        }
        mapped => mapped,
    }
}
