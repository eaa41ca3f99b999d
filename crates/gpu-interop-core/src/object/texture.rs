//! Surfaces and textures: how kernels see an image.

use std::sync::Arc;

use super::array::{ArrayInner, MappedMipmappedArray};
use super::owned::Owned;
use super::resource::Resource;
use super::transfer::READ_ONLY;
use super::validate;
use crate::array::ArrayUsage;
use crate::backend::{RawSurface, RawTexture, TextureSource};
use crate::capability::Feature;
use crate::error::{Error, Result};
use crate::kernel::KernelArg;
use crate::texture::{FilterMode, ReadMode, TextureDesc};

/// One level of an image that kernels read and write by texel. Keeps the image mapped.
#[derive(Debug)]
pub struct Surface {
    // Dropped in this order: the surface goes before its array.
    owned: Owned,
    _array: Arc<ArrayInner>,
    raw: RawSurface,
}

impl Surface {
    /// The driver's object, valid while `self` lives. Work that uses it must have run before `self` is dropped.
    #[must_use]
    pub fn as_raw(&self) -> RawSurface {
        self.raw
    }

    /// The surface as an argument of a kernel, which takes it as a 64-bit integer. Does not keep it alive: the kernel must
    /// have run before `self` is dropped.
    #[must_use]
    pub fn as_arg(&self) -> KernelArg<'static> {
        KernelArg::U64(self.raw.get() as u64)
    }

    /// Destroys it, and says if that failed.
    ///
    /// # Errors
    /// What the driver answers (`cuSurfObjectDestroy`); the object is gone either way.
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }
}

/// An image that kernels sample. Keeps the image mapped.
#[derive(Debug)]
pub struct Texture {
    // Dropped in this order: the texture goes before its array.
    owned: Owned,
    _array: Arc<ArrayInner>,
    raw: RawTexture,
    desc: TextureDesc,
}

impl Texture {
    /// The driver's object, valid while `self` lives. Work that uses it must have run before `self` is dropped.
    #[must_use]
    pub fn as_raw(&self) -> RawTexture {
        self.raw
    }

    /// The texture as an argument of a kernel, which takes it as a 64-bit integer. Does not keep it alive: the kernel must
    /// have run before `self` is dropped.
    #[must_use]
    pub fn as_arg(&self) -> KernelArg<'static> {
        KernelArg::U64(self.raw.get() as u64)
    }

    /// How it is sampled.
    #[must_use]
    pub fn desc(&self) -> &TextureDesc {
        &self.desc
    }

    /// Destroys it, and says if that failed.
    ///
    /// # Errors
    /// What the driver answers (`cuTexObjectDestroy`); the object is gone either way.
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }
}

impl MappedMipmappedArray {
    /// A surface of one level (`cuSurfObjectCreate`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where the device cannot;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if there is no such level or the image was
    /// mapped without [`ArrayUsage::SURFACE_LOAD_STORE`]; else what the driver answers.
    pub fn surface(&self, level: u32) -> Result<Surface> {
        const OPERATION: &str = "MappedMipmappedArray::surface";
        let inner = &self.inner;
        let device = &inner.owned.device;
        validate::feature(OPERATION, device.raw.capabilities(), Feature::Surfaces)
            .map_err(|error| device.decorate(error))?;
        if !inner.desc.usage.contains(ArrayUsage::SURFACE_LOAD_STORE) {
            let error = Error::invalid(OPERATION, "the image was mapped without ArrayUsage::SURFACE_LOAD_STORE")
                .with_context("usage", format_args!("{:?}", inner.desc.usage));
            return Err(device.decorate(error));
        }
        if inner.memory.is_read_only() {
            return Err(device.decorate(Error::invalid(OPERATION, READ_ONLY)));
        }
        let array = inner.level(OPERATION, level)?;
        // SAFETY: the level is live, and its image was mapped for surfaces.
        let raw = unsafe { device.raw.create_surface(array) }.map_err(|error| device.decorate(error))?;
        let owned = Owned::new(device.clone(), Resource::Surface { raw, array: inner.raw, memory: inner.memory.raw });
        Ok(Surface { owned, _array: inner.clone(), raw })
    }

    /// A texture of all levels (`cuTexObjectCreate`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where the device cannot;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a description without normalized
    /// coordinates, which only [`MappedMipmappedArray::texture_of_level`] takes, or as there; else what the driver
    /// answers.
    pub fn texture(&self, desc: &TextureDesc) -> Result<Texture> {
        const OPERATION: &str = "MappedMipmappedArray::texture";
        if !desc.normalized_coordinates {
            let error = Error::invalid(OPERATION, "a texture of all levels takes normalized coordinates");
            return Err(self.inner.owned.device.decorate(error));
        }
        let source = TextureSource::MipmappedArray { raw: self.inner.raw, levels: self.inner.desc.levels };
        self.create_texture(OPERATION, source, desc)
    }

    /// A texture of one level (`cuTexObjectCreate`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where the device cannot;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if there is no such level, or for a
    /// description that does not fit the format: linear filters of integers, normalized or sRGB reads of 32-bit
    /// channels; else what the driver answers.
    pub fn texture_of_level(&self, level: u32, desc: &TextureDesc) -> Result<Texture> {
        const OPERATION: &str = "MappedMipmappedArray::texture_of_level";
        let array = self.inner.level(OPERATION, level)?;
        self.create_texture(OPERATION, TextureSource::Array(array), desc)
    }

    fn create_texture(&self, operation: &'static str, source: TextureSource, desc: &TextureDesc) -> Result<Texture> {
        let inner = &self.inner;
        let device = &inner.owned.device;
        validate::feature(operation, device.raw.capabilities(), Feature::Textures)
            .and_then(|()| self.check_sampling(operation, desc))
            .map_err(|error| device.decorate(error))?;
        // SAFETY: the array is live, and the description fits its format.
        let raw = unsafe { device.raw.create_texture(source, desc) }.map_err(|error| device.decorate(error))?;
        let owned = Owned::new(device.clone(), Resource::Texture { raw, array: inner.raw, memory: inner.memory.raw });
        Ok(Texture { owned, _array: inner.clone(), raw, desc: *desc })
    }

    fn check_sampling(&self, operation: &'static str, desc: &TextureDesc) -> Result<()> {
        let format = self.inner.desc.format;
        let channel = format.channel();
        let refused = |what: &str| {
            Err(Error::invalid(operation, what)
                .with_context("format", format)
                .with_context("description", format_args!("{desc:?}")))
        };
        let floats = !channel.is_integer() || desc.read != ReadMode::Element;
        if (desc.filter == FilterMode::Linear || desc.mip_filter == FilterMode::Linear) && !floats {
            return refused("integers cannot be mixed: read them as normalized floats, or filter nearest");
        }
        if desc.read != ReadMode::Element && channel.is_integer() && channel.bits() > 16 {
            return refused("channels of 32 bits cannot be read as normalized floats");
        }
        if desc.read == ReadMode::Srgb && (channel.bits() != 8 || channel.is_signed()) {
            return refused("only unsigned channels of 8 bits can be sRGB");
        }
        Ok(())
    }
}
