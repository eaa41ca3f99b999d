//! Textures in imported memory.

use std::ffi::{c_int, c_uint};

use gpu_interop_core::{ArrayShape, Error, ErrorKind, MipmappedArrayDesc, Result};

use crate::error;
use crate::format::TextureFormat;
use crate::functions::{Found, Functions, integer, need};
use crate::interop::GlInterop;
use crate::memory::{ImportedMemory, object_in_memory};
use crate::sys::{self, TexStorage1d, TexStorage2d, TexStorage3d};

/// Memory layout of the texels; must match the exporter's image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TextureTiling {
    /// The driver's own layout (`VK_IMAGE_TILING_OPTIMAL`).
    #[default]
    Optimal,
    /// Row by row (`VK_IMAGE_TILING_LINEAR`). Few drivers support it.
    Linear,
}

/// Description of a texture in imported memory: everything that must match the exporter's image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextureSpec {
    /// Offset of the image in the imported memory, bytes.
    pub offset: u64,
    /// Dimensions of level 0.
    pub shape: ArrayShape,
    /// Texel format.
    pub format: TextureFormat,
    /// Number of mip levels, at least 1.
    pub levels: u32,
    /// Memory layout of the texels.
    pub tiling: TextureTiling,
}

impl TextureSpec {
    /// Describes a texture with one level and optimal tiling at offset 0.
    #[must_use]
    pub fn new(shape: ArrayShape, format: TextureFormat) -> Self {
        Self { offset: 0, shape, format, levels: 1, tiling: TextureTiling::Optimal }
    }

    /// Converts the description of a mipmapped array, with red first. OpenGL drivers use the layout of their Vulkan
    /// drivers, so [`MipmappedArrayDesc::layout_levels`] is ignored.
    ///
    /// # Errors
    /// Those of [`TextureFormat::from_array`].
    pub fn from_array(desc: &MipmappedArrayDesc) -> Result<Self> {
        let format = TextureFormat::from_array(desc.format)?;
        Ok(Self { offset: desc.offset, levels: desc.levels, ..Self::new(desc.shape, format) })
    }

    /// Sets the offset of the image, bytes.
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

    /// Sets the format, for BGRA and sRGB, which array formats do not distinguish.
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

    /// Checks that need no driver: those of [`MipmappedArrayDesc::validate`], with the name of this operation.
    fn check(&self, operation: &'static str, memory_size: u64) -> Result<Geometry> {
        let desc =
            MipmappedArrayDesc::new(self.shape, self.format.array()).with_offset(self.offset).with_levels(self.levels);
        desc.validate(memory_size).map_err(|error| {
            let renamed = Error::new(error.kind(), operation, error.message());
            error.context().iter().fold(renamed, |renamed, (key, value)| renamed.with_context(key, value))
        })?;
        Geometry::of(self.shape).ok_or_else(|| {
            Error::unsupported(operation, "OpenGL has no textures of this shape or extent")
                .with_context("shape", format_args!("{:?}", self.shape))
        })
    }
}

/// OpenGL target and extents of a texture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Geometry {
    target: c_uint,
    binding: c_uint,
    extent: Extent,
}

/// Extents for the functions of one, two and three dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    One(c_int),
    Two(c_int, c_int),
    Three(c_int, c_int, c_int),
}

/// The functions that allocate storage, by name or through a binding point, for one, two and three dimensions.
struct StorageFunctions {
    names: [&'static str; 3],
    one: Found<TexStorage1d>,
    two: TexStorage2d,
    three: TexStorage3d,
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

/// An OpenGL texture whose texels are an image in imported memory. Deleted on drop.
///
/// The storage is immutable (`glTexStorage`); sampling parameters may be set.
#[doc(alias("glDeleteTextures", "glTexStorage"))]
#[derive(Debug)]
pub struct ImportedTexture {
    memory: ImportedMemory,
    name: c_uint,
    target: c_uint,
    spec: TextureSpec,
}

impl ImportedMemory {
    /// Creates a texture for an image in the memory. `spec` must match the exporter's image: OpenGL cannot check it,
    /// and reads other texels on a mismatch. The extension requires that the exporter creates the image with every
    /// usage that its format supports (`VK_IMAGE_USAGE_...`).
    ///
    /// Calls `glTextureStorageMem1DEXT`, `2D` or `3D`; without direct state access `glTexStorageMem1DEXT` and the like,
    /// and restores the binding of the target afterwards.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`]: the errors of [`MipmappedArrayDesc::validate`], such as extents of 0, levels
    ///   of 0 or more than the extent allows, an image past the end of the memory; no context is current. The driver
    ///   was not called.
    /// * [`ErrorKind::Unsupported`]: OpenGL has no such texture (OpenGL ES has none of one dimension), or the driver
    ///   does not support it in imported memory.
    /// * [`ErrorKind::ImportRejected`]: the driver accepted the import but has no memory behind the handle.
    ///   [`ErrorKind::OutOfMemory`], [`ErrorKind::Driver`].
    #[doc(alias(
        "glTexStorageMem1DEXT",
        "glTextureStorageMem1DEXT",
        "glTexStorageMem2DEXT",
        "glTextureStorageMem2DEXT",
        "glTexStorageMem3DEXT",
        "glTextureStorageMem3DEXT",
        "glCreateTextures",
        "glGenTextures",
        "glBindTexture",
        "glTexParameteri",
        "glTextureParameteri"
    ))]
    pub fn map_texture(&self, spec: &TextureSpec) -> Result<ImportedTexture> {
        const OPERATION: &str = "ImportedMemory::map_texture";
        let geometry = spec.check(OPERATION, self.size())?;
        let interop = self.interop();
        if interop.is_es() && matches!(geometry.target, sys::TEXTURE_1D | sys::TEXTURE_1D_ARRAY) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                OPERATION,
                "OpenGL ES has no one-dimensional textures; export a two-dimensional image, or use an OpenGL context",
            )
            .with_device(interop.identity())
            .with_context("shape", format_args!("{:?}", spec.shape)));
        }
        interop.check_current(OPERATION)?;
        interop.check_offset(OPERATION, spec.offset)?;
        // Created first, so that its drop deletes the name after any failure.
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
        let Functions { base, direct_access, memory_object, memory_object_1d, .. } = interop.functions();
        match direct_access {
            Some(direct) => {
                let target = self.target;
                // SAFETY: the context is current and has the function; `name` has space for one name.
                interop.named("glCreateTextures", &mut self.name, |name| unsafe {
                    (direct.create_textures)(target, 1, name);
                })?;
                // SAFETY: the texture is new and belongs to this context.
                self.set_parameters(&interop, "glTextureParameteri", |name, value| unsafe {
                    (direct.texture_parameter_i)(self.name, name, value);
                })?;
                let functions = StorageFunctions {
                    names: ["glTextureStorageMem1DEXT", "glTextureStorageMem2DEXT", "glTextureStorageMem3DEXT"],
                    one: Ok(direct.tex_storage_1d),
                    two: direct.tex_storage_2d,
                    three: direct.tex_storage_3d,
                };
                // SAFETY: the context is current and has these functions; the texture has this name.
                unsafe { self.store(self.name, &functions, geometry.extent) }
            }
            None => {
                // SAFETY: the context is current; `name` has space for one name.
                interop.named("glGenTextures", &mut self.name, |name| unsafe { (base.gen_textures)(1, name) })?;
                let bound = integer(base, geometry.binding).cast_unsigned();
                // SAFETY: the texture is new, and gets this target. A context without the target reports an error.
                interop.call("glBindTexture", error::storage, |_| unsafe {
                    (base.bind_texture)(self.target, self.name);
                })?;
                // SAFETY: the texture is bound to the target.
                let outcome = self
                    .set_parameters(&interop, "glTexParameteri", |name, value| unsafe {
                        (base.tex_parameter_i)(self.target, name, value);
                    })
                    .and_then(|()| {
                        let two_and_three = need(memory_object, "glTexStorageMem2DEXT")?;
                        let functions = StorageFunctions {
                            names: ["glTexStorageMem1DEXT", "glTexStorageMem2DEXT", "glTexStorageMem3DEXT"],
                            one: memory_object_1d.as_ref().map(|table| table.tex_storage_1d).map_err(|absent| *absent),
                            two: two_and_three.tex_storage_2d,
                            three: two_and_three.tex_storage_3d,
                        };
                        // SAFETY: the context is current and has these functions; the texture is bound to the target.
                        unsafe { self.store(self.target, &functions, geometry.extent) }
                    });
                // SAFETY: restores the earlier binding.
                unsafe { (base.bind_texture)(self.target, bound) };
                outcome
            }
        }
    }

    /// Sets the tiling, which applies to the storage call, and the order of the channels.
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

    /// Calls the storage function for the extent, with the texture's name or its target as `object`.
    ///
    /// # Safety
    /// The context must be current, `functions` must be its functions, and `object` must be this texture's name, or the
    /// target that it is bound to.
    unsafe fn store(&self, object: c_uint, functions: &StorageFunctions, extent: Extent) -> Result<()> {
        let (memory, offset) = (self.memory.as_raw(), self.spec.offset);
        let (levels, format) = (self.levels(), self.spec.format.internal());
        let operation = functions.names[match extent {
            Extent::One(_) => 0,
            Extent::Two(..) => 1,
            Extent::Three(..) => 2,
        }];
        let one = match extent {
            Extent::One(_) => Some(need(&functions.one, operation)?),
            _ => None,
        };
        self.interop().call(operation, error::storage, |_| {
            // SAFETY: the caller's promise; texture and memory are live and belong to the context; extents and levels
            // were checked.
            unsafe {
                match extent {
                    Extent::One(width) => {
                        if let Some(one) = one {
                            one(object, levels, format, width, memory, offset);
                        }
                    }
                    Extent::Two(width, height) => {
                        (functions.two)(object, levels, format, width, height, memory, offset);
                    }
                    Extent::Three(width, height, depth) => {
                        (functions.three)(object, levels, format, width, height, depth, memory, offset);
                    }
                }
            }
        })
    }

    /// The number of levels, checked to be at most 64.
    fn levels(&self) -> c_int {
        c_int::try_from(self.spec.levels).unwrap_or(c_int::MAX)
    }

    /// The target of the texture: `GL_TEXTURE_2D` and the like.
    #[must_use]
    pub fn target(&self) -> u32 {
        self.target
    }

    /// The description that the texture was created with.
    #[must_use]
    pub fn spec(&self) -> &TextureSpec {
        &self.spec
    }
}

object_in_memory!(ImportedTexture, "texture", "glDeleteTextures", delete_textures);

#[cfg(test)]
mod tests {
    use gpu_interop_core::{ArrayFormat, ChannelType};

    use super::*;

    fn format() -> TextureFormat {
        TextureFormat::from_array(ArrayFormat::new(ChannelType::Unorm8, 4).expect("a format")).expect("in the table")
    }

    #[test]
    fn shapes_map_to_targets() {
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
    fn invalid_textures_are_rejected_with_the_operation() {
        let spec = TextureSpec::new(ArrayShape::D2 { width: 16, height: 8 }, format());
        let invalid = [
            (spec.levels(0), "mip levels"),
            (spec.levels(6), "mip levels"),
            (spec.offset(1024), "starts past the end"),
            (spec.offset(u64::MAX), "starts past the end"),
            (spec.offset(1023), "exceed the memory"),
            (spec.levels(5).offset(700), "exceed the memory"),
            (TextureSpec::new(ArrayShape::D2 { width: 0, height: 8 }, format()), "at least 1"),
        ];
        for (spec, words) in invalid {
            let error = spec.check("op", 1024).expect_err("rejected");
            assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, "op"), "{spec:?}");
            assert!(error.message().contains(words) && !error.context().is_empty(), "{error}");
        }
        spec.levels(5).check("op", 1024).expect("a texture");
        let huge = TextureSpec::new(ArrayShape::D1 { width: 1 << 31 }, format());
        assert_eq!(huge.check("op", 1 << 40).expect_err("rejected").kind(), ErrorKind::Unsupported);
    }
}
