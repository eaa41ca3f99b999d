//! Shared textures.

use std::sync::Arc;

use gpu_interop::vulkan::ImageSpec;
use gpu_interop::{
    ArrayFormat, ArrayUsage, BufferSlice, ErrorKind, ExternalMemory, Feature, MappedBuffer, MappedMipmappedArray,
    MemoryImport, MipmappedArrayDesc, Result,
};

use crate::check;
use crate::interop::Interop;
use crate::native::objects::{Exporter, Layout, Transfer};
use crate::object::{Handle, Object, Sealed, Shared};
use crate::tiling::{LinearLayout, TextureOptions, Tiling};

/// A texture as compute sees it: [`SharedTexture::mapping`]. [`TextureOptions`] choose which of the two it is.
#[derive(Debug)]
#[non_exhaustive]
pub enum TextureMapping {
    /// Optimal tiling: surfaces, textures and copies.
    Array(MappedMipmappedArray),
    /// Linear tiling: the memory of all levels and layers, which [`SharedTexture::linear_layout`] locates.
    Linear(MappedBuffer),
}

/// A `wgpu::Texture` whose memory the compute device maps, too. Created by [`Interop::create_texture`].
///
/// wgpu uses [`wgpu`](Self::wgpu) as any other texture; streams use [`mapping`](Self::mapping) while compute owns the
/// texture ([`Interop::begin_compute`]). It starts with zeroes and belongs to wgpu.
///
/// May be dropped at any time, as a [`SharedBuffer`](crate::SharedBuffer).
#[derive(Debug)]
pub struct SharedTexture {
    pub(crate) mapping: TextureMapping,
    pub(crate) format: ArrayFormat,
    /// By level and layer; empty for optimal tiling.
    layouts: Vec<Vec<LinearLayout>>,
    texture: wgpu::Texture,
    object: Arc<Object>,
    exporter: Exporter,
}

impl SharedTexture {
    /// The texture for wgpu.
    #[must_use]
    pub fn wgpu(&self) -> &wgpu::Texture {
        &self.texture
    }

    /// The same memory for streams and kernels.
    #[must_use]
    pub fn mapping(&self) -> &TextureMapping {
        &self.mapping
    }

    /// The mipmapped array, with optimal tiling.
    #[must_use]
    pub fn array(&self) -> Option<&MappedMipmappedArray> {
        match &self.mapping {
            TextureMapping::Array(array) => Some(array),
            TextureMapping::Linear(_) => None,
        }
    }

    /// One layer of a mip level as memory with rows, with linear tiling: its first texel is the first byte of the
    /// slice, and rows begin [`row_pitch`](LinearLayout::row_pitch) bytes apart. `None` with optimal tiling
    /// ([`array`](Self::array)), and if the texture has no such layer or level.
    #[must_use]
    pub fn linear(&self, level: u32, layer: u32) -> Option<(BufferSlice<'_>, LinearLayout)> {
        let TextureMapping::Linear(buffer) = &self.mapping else { return None };
        let layout = self.linear_layout(level, layer)?;
        Some((buffer.slice(layout.offset..).ok()?, layout))
    }

    /// The place of one layer of a mip level in the mapping, with linear tiling; `None` for optimal tiling, and if the
    /// texture has no such layer or level.
    #[must_use]
    pub fn linear_layout(&self, level: u32, layer: u32) -> Option<LinearLayout> {
        let layers = self.layouts.get(usize::try_from(level).ok()?)?;
        layers.get(usize::try_from(layer).ok()?).copied()
    }

    /// Exports the memory for another process, device or API, as [`SharedBuffer::export`](crate::SharedBuffer::export). With
    /// Vulkan, the image changes owner in `VK_IMAGE_LAYOUT_GENERAL`.
    ///
    /// # Errors
    /// As [`SharedBuffer::export`](crate::SharedBuffer::export).
    #[doc(alias("vkGetMemoryFdKHR", "vkGetMemoryWin32HandleKHR", "CreateSharedHandle"))]
    pub fn export(&self) -> Result<MemoryImport> {
        self.exporter.import_request()
    }

    /// With Vulkan, the image that an importer of [`export`](Self::export) creates: for
    /// [`import::Importer::import_texture`](crate::import::Importer::import_texture) and
    /// [`ImportedImage`](gpu_interop::vulkan::ImportedImage).
    #[must_use]
    pub fn image_spec(&self) -> Option<ImageSpec> {
        match &self.exporter {
            Exporter::VulkanImage(image) => Some(*image.image().spec()),
            _ => None,
        }
    }

    /// Type and number of the channels, in memory order. Of `Bgra8*`, the first channel is blue.
    #[must_use]
    pub fn format(&self) -> ArrayFormat {
        self.format
    }
}

impl Sealed for SharedTexture {
    fn object(&self) -> &Arc<Object> {
        &self.object
    }
}

impl Shared for SharedTexture {}

impl Interop {
    /// Creates a texture of both sides, filled with zeroes, with [`Tiling::Auto`]. `desc` is that of
    /// `wgpu::Device::create_texture`: every usage but `TRANSIENT_ATTACHMENT`, the formats of
    /// [`shared_formats`](crate::shared_formats), mip levels, layers, 1D to 3D. `RENDER_ATTACHMENT` needs
    /// [`create_texture_with`](Self::create_texture_with) and [`TextureOptions::never_discarded`].
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for a format that compute lacks, several samples, view formats with Direct3D 12, a
    /// format or usage that the wgpu device lacks, and images that the device does not share with this tiling.
    /// [`ErrorKind::InvalidArgument`] for `RENDER_ATTACHMENT` without [`TextureOptions::never_discarded`], sizes of 0 or
    /// above the wgpu device's limits, no usage or an unknown one, too many levels, and view formats that differ in more
    /// than the sRGB encoding. [`ErrorKind::OutOfMemory`]; otherwise the driver's error.
    #[doc(alias(
        "create_texture_from_hal",
        "vkGetMemoryFdKHR",
        "vkGetMemoryWin32HandleKHR",
        "cuImportExternalMemory",
        "cudaImportExternalMemory",
        "hipImportExternalMemory",
        "cuExternalMemoryGetMappedMipmappedArray",
        "cudaExternalMemoryGetMappedMipmappedArray",
        "hipExternalMemoryGetMappedMipmappedArray"
    ))]
    pub fn create_texture(&self, desc: &wgpu::TextureDescriptor<'_>) -> Result<SharedTexture> {
        self.create_texture_with(desc, TextureOptions::default())
    }

    /// As [`create_texture`](Self::create_texture), with options.
    ///
    /// # Errors
    /// As [`create_texture`](Self::create_texture).
    pub fn create_texture_with(
        &self,
        desc: &wgpu::TextureDescriptor<'_>,
        options: TextureOptions,
    ) -> Result<SharedTexture> {
        check::texture(OPERATION, &self.inner.graphics, desc, options.never_discarded)?;
        let arrays = self.compute().capabilities().feature(Feature::MappedMipmappedArray).is_supported();
        let linear = match options.tiling {
            Tiling::Auto => !arrays,
            Tiling::Optimal => false,
            Tiling::Linear => true,
        };
        if linear && desc.usage.contains(wgpu::TextureUsages::RENDER_ATTACHMENT) {
            check::linear_attachment(OPERATION, self.device())?;
        }
        let create = || self.native().create_texture(self.device(), desc, options, linear);
        let new = self.inner.graphics.checked(OPERATION, create)?;
        let memory = self.compute().import_memory(new.exporter.import_request()?)?;
        let (mapping, layouts) = match new.layout {
            Layout::Array(array) => (TextureMapping::Array(map_array(&memory, &array)?), Vec::new()),
            Layout::Linear(layouts) => (TextureMapping::Linear(memory.map_buffer(..)?), layouts),
        };
        let object = Object::new(Handle::Texture(new.texture.clone()), new.resource, self.id());
        self.inner.submit_internal(Transfer::Initialize, &object)?;
        let (format, texture, exporter) = (new.format, new.texture, new.exporter);
        Ok(SharedTexture { mapping, format, layouts, texture, object, exporter })
    }
}

/// Maps the array so that kernels can write it, whatever wgpu does with the texture.
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

const OPERATION: &str = "Interop::create_texture";
