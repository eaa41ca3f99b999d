//! Description of a shared texture, for both Direct3D versions.

use gpu_interop_core::{ArrayShape, ArrayUsage, Error, MipmappedArrayDesc, Result};

use crate::dimension::{SrvDimension, array_shape};
use crate::format::{DxgiFormat, TexelFormat};

/// A texture that an importer maps as a mipmapped array: view dimension, extent, mip levels and format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TextureSpec {
    /// View dimension of the whole texture; distinguishes an array of one layer from a texture without layers, and a
    /// cube from six layers.
    pub dimension: SrvDimension,
    /// Texels per row of level 0.
    pub width: u64,
    /// Rows of level 0; 1 for one-dimensional textures.
    pub height: u32,
    /// Slices of level 0 for three-dimensional textures, otherwise the number of layers; a cube has six.
    pub depth_or_array_size: u16,
    /// Number of mip levels, at least 1. Unlike in Direct3D, 0 does not mean all levels, because an importer needs the
    /// number.
    pub levels: u16,
    /// Format of a texel.
    pub format: DxgiFormat,
}

impl TextureSpec {
    /// Creates the description of a texture with one mip level and this extent: width, height, depth or number of
    /// layers.
    #[must_use]
    pub fn new(
        dimension: impl Into<SrvDimension>,
        (width, height, depth_or_array_size): (u64, u32, u16),
        format: impl Into<DxgiFormat>,
    ) -> Self {
        Self { dimension: dimension.into(), width, height, depth_or_array_size, levels: 1, format: format.into() }
    }

    /// Sets the number of mip levels.
    #[must_use]
    pub fn levels(mut self, levels: u16) -> Self {
        self.levels = levels;
        self
    }

    /// The array shape.
    ///
    /// # Errors
    /// As [`array_shape`].
    pub fn shape(&self) -> Result<ArrayShape> {
        array_shape(self.dimension, self.width, self.height, self.depth_or_array_size.into())
    }

    /// The array format.
    ///
    /// # Errors
    /// As [`TexelFormat::from_dxgi`].
    pub fn texel_format(&self) -> Result<TexelFormat> {
        TexelFormat::from_dxgi(self.format)
    }

    /// The array description for an importer, for a texture at offset 0 of the imported memory, as in a committed
    /// resource.
    ///
    /// # Errors
    /// Those of [`shape`](Self::shape) and [`texel_format`](Self::texel_format);
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for an invalid number of mip
    /// levels.
    pub fn array_desc(&self, usage: ArrayUsage) -> Result<MipmappedArrayDesc> {
        self.check("TextureSpec::array_desc")?;
        let desc = MipmappedArrayDesc::new(self.shape()?, self.texel_format()?.array);
        Ok(desc.with_levels(self.levels.into()).with_usage(usage))
    }

    /// Size of the texels of all levels and layers, tightly packed, bytes: the minimum size of the allocation.
    ///
    /// # Errors
    /// As [`array_desc`](Self::array_desc), and `InvalidArgument` if it exceeds 64 bits.
    pub fn packed_size(&self) -> Result<u64> {
        const OPERATION: &str = "TextureSpec::packed_size";
        self.check(OPERATION)?;
        let (shape, texel) = (self.shape()?, u64::from(self.texel_format()?.array.texel_size()));
        (0..u32::from(self.levels))
            .map(|level| shape.level_extent(level))
            .try_fold(0_u64, |sum, extent| {
                extent.into_iter().try_fold(texel, u64::checked_mul).and_then(|size| sum.checked_add(size))
            })
            .ok_or_else(|| Error::invalid(OPERATION, "the texture size exceeds 64 bits"))
    }

    /// Checks everything that needs no device.
    pub(crate) fn check(&self, operation: &'static str) -> Result<()> {
        let most = self.shape()?.max_levels();
        if self.levels == 0 || u32::from(self.levels) > most {
            return Err(Error::invalid(operation, format!("the number of mip levels must be from 1 to {most}"))
                .with_context("levels", self.levels)
                .with_context("texture", format_args!("{self:?}")));
        }
        self.texel_format().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::SrvDimension as View;
    use super::*;

    fn spec(view: View, extent: (u64, u32, u16)) -> TextureSpec {
        TextureSpec::new(view, extent, DxgiFormat::R8G8B8A8_UNORM)
    }

    #[test]
    fn array_descriptions_have_shape_format_levels_and_usage() {
        let texture = spec(View::TEXTURE2DARRAY, (16, 8, 3)).levels(5);
        let desc = texture.array_desc(ArrayUsage::COLOR_ATTACHMENT).expect("a legal texture");
        assert_eq!(desc.shape, ArrayShape::D2Layered { width: 16, height: 8, layers: 3 });
        assert_eq!((desc.levels, desc.layout_levels, desc.offset), (5, None, 0));
        assert_eq!((desc.format.texel_size(), desc.usage), (4, ArrayUsage::COLOR_ATTACHMENT));
        let size = texture.packed_size().expect("small");
        assert_eq!(size, 3 * 4 * (16 * 8 + 8 * 4 + 4 * 2 + 2 + 1));
        // The core accepts the packed size and rejects less.
        assert!(desc.validate(size).is_ok() && desc.validate(size - 1).is_err());
    }

    #[test]
    fn invalid_textures_are_rejected_without_a_device() {
        let flat = spec(View::TEXTURE2D, (16, 8, 1));
        let cases = [
            (flat.levels(0), ErrorKind::InvalidArgument),
            (flat.levels(6), ErrorKind::InvalidArgument),
            (spec(View::TEXTURE2D, (16, 0, 1)), ErrorKind::InvalidArgument),
            (spec(View::TEXTURECUBE, (16, 8, 6)), ErrorKind::InvalidArgument),
            (spec(View::BUFFER, (16, 1, 1)), ErrorKind::Unsupported),
            (TextureSpec { format: DxgiFormat::R8G8B8A8_TYPELESS, ..flat }, ErrorKind::Unsupported),
        ];
        for (texture, kind) in cases {
            assert_eq!(texture.array_desc(ArrayUsage::empty()).expect_err("invalid").kind(), kind, "{texture:?}");
            assert_eq!(texture.packed_size().expect_err("invalid").kind(), kind, "{texture:?}");
        }
        flat.levels(5).check("op").expect("a legal texture");
        let huge = TextureSpec { width: u64::MAX, ..flat };
        assert_eq!(huge.packed_size().expect_err("too great").kind(), ErrorKind::InvalidArgument);
    }
}
