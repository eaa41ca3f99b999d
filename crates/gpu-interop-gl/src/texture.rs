//! Textures in imported memory.

use std::ffi::{c_int, c_uint};

use gpu_interop_core::{ArrayShape, Error, ErrorKind, MipmappedArrayDesc, Result};

use crate::error;
use crate::format::TextureFormat;
use crate::functions::{Functions, need};
use crate::interop::{GlInterop, integer};
use crate::memory::{ImportedMemory, delete};
use crate::sys;

/// How the texels of a texture lie in memory; as the exporter made its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TextureTiling {
    /// As the driver likes (`VK_IMAGE_TILING_OPTIMAL`).
    #[default]
    Optimal,
    /// Row by row (`VK_IMAGE_TILING_LINEAR`). Few drivers have such textures.
    Linear,
}

/// A texture inside imported memory: everything that it must have in common with the exporter's image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextureSpec {
    /// Where the image starts in the imported memory, bytes.
    pub offset: u64,
    /// Dimensions of level 0.
    pub shape: ArrayShape,
    /// Texel format.
    pub format: TextureFormat,
    /// Number of mip levels, at least 1.
    pub levels: u32,
    /// How the texels lie in memory.
    pub tiling: TextureTiling,
}

impl TextureSpec {
    /// A texture of one level and optimal tiling at the beginning of the memory.
    #[must_use]
    pub fn new(shape: ArrayShape, format: TextureFormat) -> Self {
        Self { offset: 0, shape, format, levels: 1, tiling: TextureTiling::Optimal }
    }

    /// What an importer of arrays maps, as a texture with red first. Drivers of OpenGL lay images out as their Vulkan does,
    /// so [`MipmappedArrayDesc::layout_levels`] does not count.
    ///
    /// # Errors
    /// Those of [`TextureFormat::from_array`].
    pub fn from_array(desc: &MipmappedArrayDesc) -> Result<Self> {
        let format = TextureFormat::from_array(desc.format)?;
        Ok(Self { offset: desc.offset, levels: desc.levels, ..Self::new(desc.shape, format) })
    }

    /// Sets where the image starts, bytes.
    #[must_use]
    pub fn offset(mut self, offset: u64) -> Self {
        self.offset = offset;
        self
    }

    /// Sets the number of mip levels.
    #[must_use]
    pub fn levels(mut self, levels: u32) -> Self {
        self.levels = levels;
        self
    }

    /// Sets the format, for one that arrays do not tell apart: blue first, or sRGB.
    #[must_use]
    pub fn format(mut self, format: TextureFormat) -> Self {
        self.format = format;
        self
    }

    /// Sets the tiling.
    #[must_use]
    pub fn tiling(mut self, tiling: TextureTiling) -> Self {
        self.tiling = tiling;
        self
    }

    /// Everything that can be known without a driver: that of [`MipmappedArrayDesc::validate`], under the name of what was
    /// called.
    fn check(&self, operation: &'static str, memory_size: u64) -> Result<Geometry> {
        let desc = MipmappedArrayDesc {
            offset: self.offset,
            levels: self.levels,
            ..MipmappedArrayDesc::new(self.shape, self.format.array())
        };
        desc.validate(memory_size).map_err(|error| {
            let renamed = Error::new(error.kind(), operation, error.message());
            error.context().iter().fold(renamed, |renamed, (key, value)| renamed.with_context(key, value))
        })?;
        Geometry::of(self.shape).ok_or_else(|| {
            Error::unsupported(operation, "OpenGL has no textures of such a shape or so great an extent")
                .with_context("shape", format_args!("{:?}", self.shape))
        })
    }
}

/// A texture's target and extents in OpenGL's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Geometry {
    target: c_uint,
    binding: c_uint,
    extent: Extent,
}

/// The extents that the functions of one, two and three dimensions take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    One(c_int),
    Two(c_int, c_int),
    Three(c_int, c_int, c_int),
}

impl Geometry {
    fn of(shape: ArrayShape) -> Option<Self> {
        let [a, b, c] = shape.driver_extent().map(|texels| c_int::try_from(texels).ok());
        let (target, binding, extent) = match shape {
            ArrayShape::D1 { .. } => (sys::TEXTURE_1D, sys::TEXTURE_BINDING_1D, Extent::One(a?)),
            ArrayShape::D1Layered { .. } => (sys::TEXTURE_1D_ARRAY, sys::TEXTURE_BINDING_1D_ARRAY, Extent::Two(a?, c?)),
            ArrayShape::D2 { .. } => (sys::TEXTURE_2D, sys::TEXTURE_BINDING_2D, Extent::Two(a?, b?)),
            ArrayShape::D2Layered { .. } => {
                (sys::TEXTURE_2D_ARRAY, sys::TEXTURE_BINDING_2D_ARRAY, Extent::Three(a?, b?, c?))
            }
            ArrayShape::D3 { .. } => (sys::TEXTURE_3D, sys::TEXTURE_BINDING_3D, Extent::Three(a?, b?, c?)),
            ArrayShape::Cube { .. } => (sys::TEXTURE_CUBE_MAP, sys::TEXTURE_BINDING_CUBE_MAP, Extent::Two(a?, b?)),
            ArrayShape::CubeLayered { .. } => {
                let binding = sys::TEXTURE_BINDING_CUBE_MAP_ARRAY;
                (sys::TEXTURE_CUBE_MAP_ARRAY, binding, Extent::Three(a?, b?, c?))
            }
            _ => return None,
        };
        Some(Self { target, binding, extent })
    }
}

/// A texture of OpenGL whose texels are an image in imported memory. Deleted when dropped.
///
/// Its storage is immutable (`glTexStorage`); parameters of sampling may be set.
#[derive(Debug)]
pub struct ImportedTexture {
    memory: ImportedMemory,
    name: c_uint,
    target: c_uint,
    spec: TextureSpec,
}

impl ImportedMemory {
    /// A texture that is an image in the memory. `spec` must be what the exporter's image is: OpenGL cannot tell, and reads
    /// something else if not. The exporter makes its image with every use that the format has (`VK_IMAGE_USAGE_...`), as the
    /// extension demands.
    ///
    /// Rests on `glTextureStorageMem1DEXT`, `2D` and `3D`; where there are no calls by name, on `glTexStorageMem1DEXT` and its
    /// like with what is bound to the target put back afterwards.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`]: what [`MipmappedArrayDesc::validate`] refuses, such as extents of 0, levels of 0 or
    ///   more than the extent allows, an image past the end of the memory; no context is current. The driver was not called.
    /// * [`ErrorKind::Unsupported`]: OpenGL has no such texture (OpenGL ES none of one dimension), or the driver none in such
    ///   memory.
    /// * [`ErrorKind::ImportRejected`]: the driver had not understood the handle. [`ErrorKind::OutOfMemory`],
    ///   [`ErrorKind::Driver`].
    pub fn map_texture(&self, spec: &TextureSpec) -> Result<ImportedTexture> {
        const OPERATION: &str = "ImportedMemory::map_texture";
        let geometry = spec.check(OPERATION, self.size())?;
        let interop = self.interop();
        if interop.is_es() && matches!(geometry.target, sys::TEXTURE_1D | sys::TEXTURE_1D_ARRAY) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                OPERATION,
                "OpenGL ES has no textures of one dimension; export an image of two, or use a context of OpenGL",
            )
            .with_device(interop.identity())
            .with_context("shape", format_args!("{:?}", spec.shape)));
        }
        interop.check_current(OPERATION)?;
        interop.check_offset(OPERATION, spec.offset)?;
        // Owns the name before anything can fail.
        let mut texture = ImportedTexture { memory: self.clone(), name: 0, target: geometry.target, spec: *spec };
        texture.make(geometry).map_err(|error| {
            error
                .with_context("shape", format_args!("{:?}", spec.shape))
                .with_context("levels", spec.levels)
                .with_context("format", spec.format.array())
                .with_context("offset", spec.offset)
        })?;
        Ok(texture)
    }
}

impl ImportedTexture {
    fn make(&mut self, geometry: Geometry) -> Result<()> {
        let interop = self.memory.interop().clone();
        let Functions { base, direct_access, .. } = interop.functions();
        match direct_access {
            Some(direct) => {
                let target = self.target;
                // SAFETY: the context is current and has the function; there is room for one name.
                interop.named("glCreateTextures", &mut self.name, |name| unsafe {
                    (direct.create_textures)(target, 1, name);
                })?;
                // SAFETY: the texture is new and of this context.
                self.set_parameters(&interop, "glTextureParameteri", |name, value| unsafe {
                    (direct.texture_parameter_i)(self.name, name, value);
                })?;
                self.store_by_name(&interop, geometry.extent)
            }
            None => {
                // SAFETY: the context is current; there is room for one name.
                interop.named("glGenTextures", &mut self.name, |name| unsafe { (base.gen_textures)(1, name) })?;
                let bound = integer(base, geometry.binding).cast_unsigned();
                // SAFETY: the texture is new, and is of this target from here on. A context without the target says so here.
                interop.call("glBindTexture", error::storage, |_| unsafe {
                    (base.bind_texture)(self.target, self.name);
                })?;
                // SAFETY: the texture is bound to the target.
                let made = self
                    .set_parameters(&interop, "glTexParameteri", |name, value| unsafe {
                        (base.tex_parameter_i)(self.target, name, value);
                    })
                    .and_then(|()| self.store_bound(&interop, geometry.extent));
                // SAFETY: it was bound there before.
                unsafe { (base.bind_texture)(self.target, bound) };
                made
            }
        }
    }

    /// The tiling, which counts from the storage on, and the order of the channels.
    fn set_parameters(&self, interop: &GlInterop, operation: &'static str, set: impl Fn(c_uint, c_int)) -> Result<()> {
        let tiling = match self.spec.tiling {
            TextureTiling::Optimal => sys::OPTIMAL_TILING_EXT,
            TextureTiling::Linear => sys::LINEAR_TILING_EXT,
        };
        interop.call(operation, error::storage, |_| {
            set(sys::TEXTURE_TILING_EXT, tiling);
            if self.spec.format.blue_first() {
                set(sys::TEXTURE_SWIZZLE_R, sys::BLUE);
                set(sys::TEXTURE_SWIZZLE_B, sys::RED);
            }
        })
    }

    fn store_by_name(&self, interop: &GlInterop, extent: Extent) -> Result<()> {
        let Some(direct) = &interop.functions().direct_access else { return Ok(()) };
        let (texture, memory, offset) = (self.name, self.memory.as_raw(), self.spec.offset);
        let (levels, format) = (self.levels(), self.spec.format.internal());
        let operation = match extent {
            Extent::One(_) => "glTextureStorageMem1DEXT",
            Extent::Two(..) => "glTextureStorageMem2DEXT",
            Extent::Three(..) => "glTextureStorageMem3DEXT",
        };
        // SAFETY: texture and memory are live and of this context, which is current; extents and levels were checked.
        interop.call(operation, error::storage, |_| unsafe {
            match extent {
                Extent::One(width) => (direct.tex_storage_1d)(texture, levels, format, width, memory, offset),
                Extent::Two(width, height) => {
                    (direct.tex_storage_2d)(texture, levels, format, width, height, memory, offset);
                }
                Extent::Three(width, height, depth) => {
                    (direct.tex_storage_3d)(texture, levels, format, width, height, depth, memory, offset);
                }
            }
        })
    }

    fn store_bound(&self, interop: &GlInterop, extent: Extent) -> Result<()> {
        let (target, memory, offset) = (self.target, self.memory.as_raw(), self.spec.offset);
        let (levels, format) = (self.levels(), self.spec.format.internal());
        let operation = match extent {
            Extent::One(_) => "glTexStorageMem1DEXT",
            Extent::Two(..) => "glTexStorageMem2DEXT",
            Extent::Three(..) => "glTexStorageMem3DEXT",
        };
        let functions = need(&interop.functions().memory_object, operation)?;
        let one = match extent {
            Extent::One(_) => Some(need(&interop.functions().memory_object_1d, operation)?),
            _ => None,
        };
        // SAFETY: the texture is bound to its target; it and the memory are live and of this context, which is current;
        // extents and levels were checked.
        interop.call(operation, error::storage, |_| unsafe {
            match extent {
                Extent::One(width) => {
                    if let Some(one) = one {
                        (one.tex_storage_1d)(target, levels, format, width, memory, offset);
                    }
                }
                Extent::Two(width, height) => {
                    (functions.tex_storage_2d)(target, levels, format, width, height, memory, offset);
                }
                Extent::Three(width, height, depth) => {
                    (functions.tex_storage_3d)(target, levels, format, width, height, depth, memory, offset);
                }
            }
        })
    }

    /// At most 64, as was checked.
    fn levels(&self) -> c_int {
        c_int::try_from(self.spec.levels).unwrap_or(c_int::MAX)
    }

    /// OpenGL's name of the texture, valid while this object lives.
    #[must_use]
    pub fn as_raw(&self) -> u32 {
        self.name
    }

    /// The target that it is bound to: `GL_TEXTURE_2D` and the like.
    #[must_use]
    pub fn target(&self) -> u32 {
        self.target
    }

    /// What it was made as.
    #[must_use]
    pub fn spec(&self) -> &TextureSpec {
        &self.spec
    }

    /// The memory that it lies in.
    #[must_use]
    pub fn memory(&self) -> &ImportedMemory {
        &self.memory
    }

    pub(crate) fn interop(&self) -> &GlInterop {
        self.memory.interop()
    }
}

impl Drop for ImportedTexture {
    fn drop(&mut self) {
        if self.name == 0 {
            return;
        }
        delete(self.interop(), "glDeleteTextures", |interop| {
            // SAFETY: the context is current (`delete`), and the name is this object's own. What the context still has
            // to do with the texture it does before.
            unsafe { (interop.functions().base.delete_textures)(1, &raw const self.name) };
        });
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::{ArrayFormat, ChannelType};

    use super::*;

    fn format() -> TextureFormat {
        TextureFormat::from_array(ArrayFormat::new(ChannelType::Unorm8, 4).expect("a format")).expect("in the table")
    }

    #[test]
    fn every_shape_has_a_target() {
        let cases = [
            (ArrayShape::D1 { width: 9 }, 0x0DE0, Extent::One(9)),
            (ArrayShape::D1Layered { width: 9, layers: 5 }, 0x8C18, Extent::Two(9, 5)),
            (ArrayShape::D2 { width: 9, height: 7 }, 0x0DE1, Extent::Two(9, 7)),
            (ArrayShape::D2Layered { width: 9, height: 7, layers: 5 }, 0x8C1A, Extent::Three(9, 7, 5)),
            (ArrayShape::D3 { width: 9, height: 7, depth: 5 }, 0x806F, Extent::Three(9, 7, 5)),
            (ArrayShape::Cube { width: 9 }, 0x8513, Extent::Two(9, 9)),
            (ArrayShape::CubeLayered { width: 9, cubes: 2 }, 0x9009, Extent::Three(9, 9, 12)),
        ];
        for (shape, target, extent) in cases {
            let found = TextureSpec::new(shape, format()).check("op", 1 << 20).expect("a texture");
            assert_eq!((found.target, found.extent), (target, extent), "{shape:?}");
        }
    }

    #[test]
    fn bad_textures_are_refused_under_the_callers_name() {
        let spec = TextureSpec::new(ArrayShape::D2 { width: 16, height: 8 }, format());
        let bad = [
            (spec.levels(0), "mip levels"),
            (spec.levels(6), "mip levels"),
            (spec.offset(1024), "starts past the end"),
            (spec.offset(u64::MAX), "starts past the end"),
            (spec.offset(1023), "exceed the memory"),
            (spec.levels(5).offset(700), "exceed the memory"),
            (TextureSpec::new(ArrayShape::D2 { width: 0, height: 8 }, format()), "at least 1"),
        ];
        for (spec, words) in bad {
            let error = spec.check("op", 1024).expect_err("refused");
            assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, "op"), "{spec:?}");
            assert!(error.message().contains(words) && !error.context().is_empty(), "{error}");
        }
        spec.levels(5).check("op", 1024).expect("a texture");
        let huge = TextureSpec::new(ArrayShape::D1 { width: 1 << 31 }, format());
        assert_eq!(huge.check("op", 1 << 40).expect_err("refused").kind(), ErrorKind::Unsupported);
    }
}
