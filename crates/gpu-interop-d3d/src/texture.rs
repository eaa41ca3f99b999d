//! What a shared texture is, for both versions of Direct3D.

use gpu_interop_core::{ArrayShape, ArrayUsage, Error, MipmappedArrayDesc, Result};

use crate::dimension::{SrvDimension, array_shape};
use crate::format::{DxgiFormat, TexelFormat};

/// A texture that an importer maps as a mipmapped array: how shaders see it, its extent, mip levels and format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TextureSpec {
    /// How shaders see all of it, which tells an array of one layer from none and a cube from six layers.
    pub dimension: SrvDimension,
    /// Texels in a row of level 0.
    pub width: u64,
    /// Rows of level 0; 1 for one dimension.
    pub height: u32,
    /// Slices of level 0 for three dimensions, else the number of layers; a cube has six.
    pub depth_or_array_size: u16,
    /// Number of mip levels, at least 1. Unlike in Direct3D, 0 does not mean all: an importer is told the number.
    pub levels: u16,
    /// Format of a texel.
    pub format: DxgiFormat,
}

impl TextureSpec {
    /// A texture of one mip level with this extent: width, height, depth or number of layers.
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

    /// Its shape as an array.
    ///
    /// # Errors
    /// As [`array_shape`].
    pub fn shape(&self) -> Result<ArrayShape> {
        array_shape(self.dimension, self.width, self.height, self.depth_or_array_size.into())
    }

    /// Its format as that of an array.
    ///
    /// # Errors
    /// As [`TexelFormat::from_dxgi`].
    pub fn texel_format(&self) -> Result<TexelFormat> {
        TexelFormat::from_dxgi(self.format)
    }

    /// What an importer maps the texture with, if it starts at the imported memory's first byte, as that of a committed
    /// resource does.
    ///
    /// # Errors
    /// Those of [`shape`](Self::shape) and [`texel_format`](Self::texel_format);
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a number of mip levels that no
    /// such texture has.
    pub fn array_desc(&self, usage: ArrayUsage) -> Result<MipmappedArrayDesc> {
        self.check("TextureSpec::array_desc")?;
        let desc = MipmappedArrayDesc::new(self.shape()?, self.texel_format()?.array);
        Ok(desc.with_levels(self.levels.into()).with_usage(usage))
    }

    /// Size of the texels of all levels and layers, tightly packed, bytes: the least that the allocation holds.
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
            .ok_or_else(|| Error::invalid(OPERATION, "the texture exceeds the address space"))
    }

    /// What can be known without a device.
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
    fn an_importer_is_told_shape_format_levels_and_use() {
        let texture = spec(View::TEXTURE2DARRAY, (16, 8, 3)).levels(5);
        let desc = texture.array_desc(ArrayUsage::COLOR_ATTACHMENT).expect("a legal texture");
        assert_eq!(desc.shape, ArrayShape::D2Layered { width: 16, height: 8, layers: 3 });
        assert_eq!((desc.levels, desc.layout_levels, desc.offset), (5, None, 0));
        assert_eq!((desc.format.texel_size(), desc.usage), (4, ArrayUsage::COLOR_ATTACHMENT));
        let size = texture.packed_size().expect("small");
        assert_eq!(size, 3 * 4 * (16 * 8 + 8 * 4 + 4 * 2 + 2 + 1));
        // The core takes what the packed size says, and no less.
        assert!(desc.validate(size).is_ok() && desc.validate(size - 1).is_err());
    }

    #[test]
    fn what_no_device_has_is_refused_without_one() {
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
            assert_eq!(texture.array_desc(ArrayUsage::empty()).expect_err("refused").kind(), kind, "{texture:?}");
            assert_eq!(texture.packed_size().expect_err("refused").kind(), kind, "{texture:?}");
        }
        flat.levels(5).check("op").expect("a legal texture");
        let huge = TextureSpec { width: u64::MAX, ..flat };
        assert_eq!(huge.packed_size().expect_err("too great").kind(), ErrorKind::InvalidArgument);
    }
}
