//! Descriptions of images in NvSciBuf.

use gpu_interop_core::{ArrayFormat, ChannelType, Error, Result};

use crate::list::Value;
use crate::sys::buf::{self, key};

/// Memory layout of an image's texels (`NvSciBufAttrValImageLayoutType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ImageLayout {
    /// The hardware's tiled layout. Texel positions are known only in a mapping as a mipmapped array.
    BlockLinear,
    /// Row by row, [`Plane::pitch`](super::Plane::pitch) bytes apart.
    PitchLinear,
}

/// Texel format of a plane (`NvSciBufAttrValColorFmt`). The names list the channels from the highest bits to the
/// lowest, so `A8B8G8R8` is red, green, blue, alpha in memory. Formats of sensors and of YUV planes with several
/// channels are not included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColorFormat {
    /// One channel of 8 bits.
    Y8,
    /// One channel of 16 bits.
    Y16,
    /// One channel of 8 bits.
    A8,
    /// Four channels of 8 bits: blue, green, red, alpha in memory.
    A8R8G8B8,
    /// Four channels of 8 bits: red, green, blue, alpha in memory.
    A8B8G8R8,
    /// One channel of 16 bits.
    A16,
    /// Four channels of 16 bits: red, green, blue, alpha in memory.
    A16B16G16R16,
    /// Four floats of 16 bits: red, green, blue, alpha in memory.
    FloatA16B16G16R16,
    /// One channel of 32 bits.
    A32,
    /// One float of 16 bits.
    FloatA16,
}

impl ColorFormat {
    /// The format's number, and the format of an array of such texels.
    const fn parts(self) -> (u32, ChannelType, u8) {
        match self {
            Self::Y8 => (84, ChannelType::Uint8, 1),
            Self::Y16 => (87, ChannelType::Uint16, 1),
            Self::A8 => (102, ChannelType::Uint8, 1),
            Self::A8R8G8B8 => (105, ChannelType::Uint8, 4),
            Self::A8B8G8R8 => (106, ChannelType::Uint8, 4),
            Self::A16 => (108, ChannelType::Uint16, 1),
            Self::A16B16G16R16 => (111, ChannelType::Uint16, 4),
            Self::FloatA16B16G16R16 => (113, ChannelType::Float16, 4),
            Self::A32 => (114, ChannelType::Uint32, 1),
            Self::FloatA16 => (116, ChannelType::Float16, 1),
        }
    }

    const ALL: [Self; 10] = [
        Self::Y8,
        Self::Y16,
        Self::A8,
        Self::A8R8G8B8,
        Self::A8B8G8R8,
        Self::A16,
        Self::A16B16G16R16,
        Self::FloatA16B16G16R16,
        Self::A32,
        Self::FloatA16,
    ];

    /// The format with a number; `None` for an unknown number.
    pub(crate) fn from_raw(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.parts().0 == number)
    }

    /// The format of an array with the same texels. Its channels are integers; another type of the same width has the
    /// same bits.
    ///
    /// # Errors
    /// Cannot fail: every format here has an array format.
    pub fn array_format(self) -> Result<ArrayFormat> {
        let (_, channel, channels) = self.parts();
        ArrayFormat::new(channel, channels)
    }
}

/// One plane of an image, as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneAttributes {
    /// Texels per row.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
    /// Texel format.
    pub format: ColorFormat,
}

/// An image, as requested: one mip level, progressive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageAttributes {
    layout: ImageLayout,
    planes: Vec<PlaneAttributes>,
    alignment: Option<u32>,
}

impl ImageAttributes {
    /// An image with one plane.
    #[must_use]
    pub fn new(layout: ImageLayout, plane: PlaneAttributes) -> Self {
        Self { layout, planes: vec![plane], alignment: None }
    }

    /// Adds a plane. An image has at most 3.
    #[must_use]
    pub fn plane(mut self, plane: PlaneAttributes) -> Self {
        self.planes.push(plane);
        self
    }

    /// Minimum alignment of the first byte of each plane, in bytes: a power of two.
    #[must_use]
    pub fn alignment(mut self, alignment: u32) -> Self {
        self.alignment = Some(alignment);
        self
    }

    pub(crate) fn values(&self, operation: &'static str) -> Result<Vec<Value>> {
        if self.planes.len() > buf::MAX_PLANES {
            let error = Error::invalid(operation, format!("an image has at most {} planes", buf::MAX_PLANES));
            return Err(error.with_context("planes", self.planes.len()));
        }
        if self.planes.iter().any(|plane| plane.width == 0 || plane.height == 0) {
            return Err(Error::invalid(operation, "every dimension of a plane must be at least 1"));
        }
        if self.alignment.is_some_and(|alignment| !alignment.is_power_of_two()) {
            return Err(Error::invalid(operation, "the alignment must be a power of two"));
        }
        let layout = match self.layout {
            ImageLayout::BlockLinear => buf::LAYOUT_BLOCK_LINEAR,
            ImageLayout::PitchLinear => buf::LAYOUT_PITCH_LINEAR,
        };
        let of_planes = |key, value: fn(&PlaneAttributes) -> u32| Value::u32s(key, self.planes.iter().map(value));
        let count = u32::try_from(self.planes.len()).unwrap_or(u32::MAX);
        let mut values = vec![
            Value::u32(key::IMAGE_LAYOUT, layout),
            Value::u32(key::IMAGE_PLANE_COUNT, count),
            of_planes(key::IMAGE_PLANE_COLOR_FORMAT, |plane| plane.format.parts().0),
            of_planes(key::IMAGE_PLANE_WIDTH, |plane| plane.width),
            of_planes(key::IMAGE_PLANE_HEIGHT, |plane| plane.height),
            Value::u32(key::IMAGE_SCAN_TYPE, buf::SCAN_PROGRESSIVE),
            Value::u64(key::IMAGE_COUNT, 1),
        ];
        values.extend(
            self.alignment
                .map(|alignment| Value::u32s(key::IMAGE_PLANE_BASE_ADDR_ALIGN, self.planes.iter().map(|_| alignment))),
        );
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_found_by_their_numbers() {
        for format in ColorFormat::ALL {
            assert_eq!(ColorFormat::from_raw(format.parts().0), Some(format));
            format.array_format().expect("every format has one");
        }
        assert_eq!(ColorFormat::from_raw(1), None);
    }

    /// `NvSciBufAttrValColorFmt` of `nvscibuf.h`.
    #[test]
    fn formats_have_the_numbers_and_channels_of_the_header() {
        let formats = [
            (ColorFormat::Y8, 84, ChannelType::Uint8, 1),
            (ColorFormat::Y16, 87, ChannelType::Uint16, 1),
            (ColorFormat::A8, 102, ChannelType::Uint8, 1),
            (ColorFormat::A8R8G8B8, 105, ChannelType::Uint8, 4),
            (ColorFormat::A8B8G8R8, 106, ChannelType::Uint8, 4),
            (ColorFormat::A16, 108, ChannelType::Uint16, 1),
            (ColorFormat::A16B16G16R16, 111, ChannelType::Uint16, 4),
            (ColorFormat::FloatA16B16G16R16, 113, ChannelType::Float16, 4),
            (ColorFormat::A32, 114, ChannelType::Uint32, 1),
            (ColorFormat::FloatA16, 116, ChannelType::Float16, 1),
        ];
        assert_eq!(formats.map(|(format, ..)| format), ColorFormat::ALL);
        for (format, number, channel, channels) in formats {
            assert_eq!(format.parts(), (number, channel, channels));
        }
    }

    #[test]
    fn planes_are_checked() {
        let plane = PlaneAttributes { width: 4, height: 4, format: ColorFormat::Y8 };
        let image = |plane| ImageAttributes::new(ImageLayout::PitchLinear, plane);
        assert!(image(plane).values("op").is_ok());
        let refused = [
            image(PlaneAttributes { height: 0, ..plane }),
            image(plane).plane(plane).plane(plane).plane(plane),
            image(plane).alignment(24),
        ];
        assert!(refused.iter().all(|image| image.values("op").is_err()));
    }
}
