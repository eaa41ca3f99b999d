//! Surfaces and textures of mapped arrays.

use std::sync::Arc;

use super::array::{ArrayInner, MappedMipmappedArray};
use super::device_state::Owned;
use super::lifetime::Resource;
use super::transfer::READ_ONLY;
use super::validate;
use crate::array::ArrayUsage;
use crate::backend::{RawSurface, RawTexture, TextureSource};
use crate::capability::Feature;
use crate::error::{Error, Result};
use crate::kernel::KernelArg;
use crate::texture::{FilterMode, ReadMode, TextureDesc};

/// A surface: one level of an image that kernels read and write by texel. Keeps the image mapped.
#[doc(alias("CUsurfObject", "cudaSurfaceObject_t", "hipSurfaceObject_t"))]
#[derive(Debug)]
pub struct Surface {
    // Fields drop in this order: the surface before its array.
    owned: Owned,
    _array: Arc<ArrayInner>,
    raw: RawSurface,
}

impl Surface {
    /// The driver's object, valid while `self` lives. Work that uses it must have completed before `self` is dropped.
    #[must_use]
    pub fn as_raw(&self) -> RawSurface {
        self.raw
    }

    /// The surface as a kernel argument, a 64-bit integer. Does not keep the surface alive: the kernel must have
    /// completed before `self` is dropped.
    #[must_use]
    pub fn as_arg(&self) -> KernelArg<'static> {
        KernelArg::U64(self.raw.get() as u64)
    }

    /// Destroys the object and returns the driver's error.
    ///
    /// # Errors
    /// The driver's error (`cuSurfObjectDestroy`). The object is consumed in either case.
    #[doc(alias("cuSurfObjectDestroy", "cudaDestroySurfaceObject", "hipDestroySurfaceObject"))]
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }
}

/// A texture: an image that kernels sample. Keeps the image mapped.
#[doc(alias("CUtexObject", "cudaTextureObject_t", "hipTextureObject_t"))]
#[derive(Debug)]
pub struct Texture {
    // Fields drop in this order: the texture before its array.
    owned: Owned,
    _array: Arc<ArrayInner>,
    raw: RawTexture,
    desc: TextureDesc,
}

impl Texture {
    /// The driver's object, valid while `self` lives. Work that uses it must have completed before `self` is dropped.
    #[must_use]
    pub fn as_raw(&self) -> RawTexture {
        self.raw
    }

    /// The texture as a kernel argument, a 64-bit integer. Does not keep the texture alive: the kernel must have
    /// completed before `self` is dropped.
    #[must_use]
    pub fn as_arg(&self) -> KernelArg<'static> {
        KernelArg::U64(self.raw.get() as u64)
    }

    /// Description of the texture.
    #[must_use]
    pub fn desc(&self) -> &TextureDesc {
        &self.desc
    }

    /// Destroys the object and returns the driver's error.
    ///
    /// # Errors
    /// The driver's error (`cuTexObjectDestroy`). The object is consumed in either case.
    #[doc(alias("cuTexObjectDestroy", "cudaDestroyTextureObject", "hipTexObjectDestroy", "hipDestroyTextureObject"))]
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }
}

impl MappedMipmappedArray {
    /// Creates a surface of one level (`cuSurfObjectCreate`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where the device does not support it;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the level does not exist or the image was
    /// mapped without [`ArrayUsage::SURFACE_LOAD_STORE`]. Errors of the driver.
    #[doc(alias("cuSurfObjectCreate", "cudaCreateSurfaceObject", "hipCreateSurfaceObject"))]
    pub fn surface(&self, level: u32) -> Result<Surface> {
        const OPERATION: &str = "MappedMipmappedArray::surface";
        let inner = &self.inner;
        let device = &inner.owned.device;
        device
            .check_process(OPERATION)
            .and_then(|()| validate::feature(OPERATION, device.raw.capabilities(), Feature::Surfaces))
            .map_err(|error| device.decorate(error))?;
        if !inner.desc.usage.contains(ArrayUsage::SURFACE_LOAD_STORE) {
            let error = Error::invalid(OPERATION, "the image was mapped without ArrayUsage::SURFACE_LOAD_STORE")
                .with_context("usage", inner.desc.usage);
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

    /// Creates a texture of all levels (`cuTexObjectCreate`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where the device does not support it;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a description without normalized
    /// coordinates, which only [`MappedMipmappedArray::texture_of_level`] supports. Other errors as for
    /// [`MappedMipmappedArray::texture_of_level`].
    #[doc(alias("cuTexObjectCreate", "cudaCreateTextureObject", "hipTexObjectCreate", "hipCreateTextureObject"))]
    pub fn texture(&self, desc: &TextureDesc) -> Result<Texture> {
        const OPERATION: &str = "MappedMipmappedArray::texture";
        if !desc.normalized_coordinates {
            let error = Error::invalid(OPERATION, "a texture of all levels requires normalized coordinates");
            return Err(self.inner.owned.device.decorate(error));
        }
        let source = TextureSource::MipmappedArray { raw: self.inner.raw, levels: self.inner.desc.levels };
        self.create_texture(OPERATION, source, desc)
    }

    /// Creates a texture of one level (`cuTexObjectCreate`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where the device does not support it;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the level does not exist, or for a
    /// description that is invalid for the format: linear filters of integers, normalized or sRGB reads of 32-bit
    /// channels. Errors of the driver.
    #[doc(alias("cuTexObjectCreate", "cudaCreateTextureObject", "hipTexObjectCreate", "hipCreateTextureObject"))]
    pub fn texture_of_level(&self, level: u32, desc: &TextureDesc) -> Result<Texture> {
        const OPERATION: &str = "MappedMipmappedArray::texture_of_level";
        let array = self.inner.level(OPERATION, level)?;
        self.create_texture(OPERATION, TextureSource::Array(array), desc)
    }

    fn create_texture(&self, operation: &'static str, source: TextureSource, desc: &TextureDesc) -> Result<Texture> {
        let inner = &self.inner;
        let device = &inner.owned.device;
        device
            .check_process(operation)
            .and_then(|()| validate::feature(operation, device.raw.capabilities(), Feature::Textures))
            .and_then(|()| self.check_sampling(operation, desc))
            .map_err(|error| device.decorate(error))?;
        // SAFETY: the array is live, and the description is valid for its format.
        let raw = unsafe { device.raw.create_texture(source, desc) }.map_err(|error| device.decorate(error))?;
        let owned = Owned::new(device.clone(), Resource::Texture { raw, array: inner.raw, memory: inner.memory.raw });
        Ok(Texture { owned, _array: inner.clone(), raw, desc: *desc })
    }

    fn check_sampling(&self, operation: &'static str, desc: &TextureDesc) -> Result<()> {
        let format = self.inner.desc.format;
        let channel = format.channel();
        let invalid = |what: &str| {
            Err(Error::invalid(operation, what)
                .with_context("format", format)
                .with_context("description", format_args!("{desc:?}")))
        };
        let floats = !channel.is_integer() || desc.read != ReadMode::Element;
        if (desc.filter == FilterMode::Linear || desc.mip_filter == FilterMode::Linear) && !floats {
            return invalid(
                "integers cannot be interpolated; read them as normalized floats, or use the nearest filter",
            );
        }
        if desc.read != ReadMode::Element && channel.is_integer() && channel.bits() > 16 {
            return invalid("channels of 32 bits cannot be read as normalized floats");
        }
        if desc.read == ReadMode::Srgb && (channel.bits() != 8 || channel.is_signed()) {
            return invalid("only unsigned channels of 8 bits can be sRGB");
        }
        Ok(())
    }
}
