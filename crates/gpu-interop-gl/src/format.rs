//! Conversion of OpenGL's sized formats to and from array formats and Vulkan formats.

use std::ffi::c_uint;

use gpu_interop_core::format::TexelRow;
use gpu_interop_core::{ArrayFormat, ChannelOrder, Error, Result};

/// Format of a texture in imported memory: a sized internal format, and whether red and blue are swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextureFormat {
    internal: c_uint,
    array: ArrayFormat,
    blue_first: bool,
}

impl TextureFormat {
    /// Converts a `VkFormat` number (`vk::Format::as_raw`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for a format that OpenGL or arrays lack.
    pub fn from_vulkan(format: i32) -> Result<Self> {
        Self::of_row("TextureFormat::from_vulkan", TexelRow::of_vulkan(format))
            .map_err(|error| error.with_context("VkFormat", format))
    }

    /// Converts a sized internal format such as `GL_RGBA8`, with red first.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for a format that arrays lack, and for
    /// unsized formats.
    pub fn from_internal(internal: u32) -> Result<Self> {
        Self::of_row("TextureFormat::from_internal", TexelRow::of_gl(internal))
            .map_err(|error| error.with_context("internal format", format_args!("{internal:#06x}")))
    }

    /// Converts an array format, with red first and linear encoding.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for a format unknown to this version.
    pub fn from_array(array: ArrayFormat) -> Result<Self> {
        Self::of_row("TextureFormat::from_array", TexelRow::of_array(array))
            .map_err(|error| error.with_context("format", array))
    }

    fn of_row(operation: &'static str, row: Option<&TexelRow>) -> Result<Self> {
        let Some(row) = row else {
            let message = "OpenGL or arrays lack this format; use 1, 2 or 4 channels of 8, 16 or 32 bits, or \
                           RGB10_A2";
            return Err(Error::unsupported(operation, message));
        };
        Ok(Self { internal: row.gl, array: row.array, blue_first: row.order == ChannelOrder::Bgra })
    }

    /// Every `VkFormat` number that [`from_vulkan`](Self::from_vulkan) converts.
    pub fn vulkan_formats() -> impl ExactSizeIterator<Item = i32> {
        TexelRow::all().iter().map(|row| row.vulkan)
    }

    /// The sized internal format.
    #[must_use]
    pub fn internal(self) -> u32 {
        self.internal
    }

    /// The array format of the texels.
    #[must_use]
    pub fn array(self) -> ArrayFormat {
        self.array
    }

    /// Reports whether blue is the first channel in memory. Sampling such a texture swaps red and blue
    /// (`GL_TEXTURE_SWIZZLE_R`, `_B`); rendering and image loads use the memory order.
    #[must_use]
    pub fn blue_first(self) -> bool {
        self.blue_first
    }

    /// The `VkFormat` number; among formats with the same texels the unpacked one.
    #[must_use]
    pub fn to_vulkan(self) -> i32 {
        let same =
            |row: &&TexelRow| Self::of_row("TextureFormat::to_vulkan", Some(row)).is_ok_and(|of_row| of_row == self);
        // The format was made from a row, so a row exists; 0 is `VK_FORMAT_UNDEFINED`.
        TexelRow::all().iter().find(same).map_or(0, |row| row.vulkan)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use gpu_interop_core::{ChannelType, ErrorKind};
    use gpu_interop_vulkan::ash::vk;
    use gpu_interop_vulkan::{ColorEncoding, TexelFormat};

    use super::*;

    #[test]
    fn formats_match_those_of_vulkan() {
        assert_eq!(TextureFormat::vulkan_formats().len(), TexelFormat::vulkan_formats().len());
        for format in TexelFormat::vulkan_formats() {
            let texel = TexelFormat::from_vulkan(format).expect("in the table");
            let found = TextureFormat::from_vulkan(format.as_raw()).expect("in this table too");
            assert_eq!(found.array(), texel.array, "{format:?}");
            assert_eq!(found.blue_first(), texel.order == ChannelOrder::Bgra, "{format:?}");
            let srgb = [0x8FBD, 0x8FBE, 0x8C43].contains(&found.internal());
            assert_eq!(srgb, texel.encoding == ColorEncoding::Srgb, "{format:?}");
            // Converts back to the same format, or to the unpacked one.
            let back = vk::Format::from_raw(found.to_vulkan());
            assert_eq!(TexelFormat::from_vulkan(back).expect("in the table"), texel, "{format:?}");
            assert!(back == format || format!("{format:?}").starts_with("A8B8G8R8"), "{format:?}: {back:?}");
        }
    }

    /// The internal formats by glow's constants, where it has them.
    #[test]
    fn internal_formats_match_glow() {
        macro_rules! check {
            ($($name:ident $vulkan:ident;)*) => {
                $(assert_eq!(
                    TextureFormat::from_vulkan(vk::Format::$vulkan.as_raw()).expect("in the table").internal(),
                    glow::$name,
                    stringify!($name)
                );)*
            };
        }
        check! {
            R8 R8_UNORM; RG8 R8G8_UNORM; RGBA8 R8G8B8A8_UNORM; SRGB8_ALPHA8 R8G8B8A8_SRGB;
            R8_SNORM R8_SNORM; RG8_SNORM R8G8_SNORM; RGBA8_SNORM R8G8B8A8_SNORM;
            R16 R16_UNORM; RG16 R16G16_UNORM; RGBA16 R16G16B16A16_UNORM;
            R16_SNORM R16_SNORM; RG16_SNORM R16G16_SNORM; RGBA16_SNORM R16G16B16A16_SNORM;
            R16F R16_SFLOAT; RG16F R16G16_SFLOAT; RGBA16F R16G16B16A16_SFLOAT;
            R32F R32_SFLOAT; RG32F R32G32_SFLOAT; RGBA32F R32G32B32A32_SFLOAT;
            R8UI R8_UINT; RG8UI R8G8_UINT; RGBA8UI R8G8B8A8_UINT; R8I R8_SINT; RG8I R8G8_SINT; RGBA8I R8G8B8A8_SINT;
            R16UI R16_UINT; RG16UI R16G16_UINT; RGBA16UI R16G16B16A16_UINT;
            R16I R16_SINT; RG16I R16G16_SINT; RGBA16I R16G16B16A16_SINT;
            R32UI R32_UINT; RG32UI R32G32_UINT; RGBA32UI R32G32B32A32_UINT;
            R32I R32_SINT; RG32I R32G32_SINT; RGBA32I R32G32B32A32_SINT;
            RGB10_A2 A2B10G10R10_UNORM_PACK32; RGBA8 B8G8R8A8_UNORM;
        }
    }

    /// The internal formats by the numbers in the header.
    #[test]
    fn internal_formats_match_the_header() {
        use ChannelType as T;
        #[rustfmt::skip]
        let names = [
            (T::Uint8, [0x8232, 0x8238, 0x8D7C]), (T::Sint8, [0x8231, 0x8237, 0x8D8E]),
            (T::Uint16, [0x8234, 0x823A, 0x8D76]), (T::Sint16, [0x8233, 0x8239, 0x8D88]),
            (T::Uint32, [0x8236, 0x823C, 0x8D70]), (T::Sint32, [0x8235, 0x823B, 0x8D82]),
            (T::Float16, [0x822D, 0x822F, 0x881A]), (T::Float32, [0x822E, 0x8230, 0x8814]),
            (T::Unorm8, [0x8229, 0x822B, 0x8058]), (T::Snorm8, [0x8F94, 0x8F95, 0x8F97]),
            (T::Unorm16, [0x822A, 0x822C, 0x805B]), (T::Snorm16, [0x8F98, 0x8F99, 0x8F9B]),
        ];
        let mut seen = HashSet::new();
        for (channel, internals) in names {
            for (channels, internal) in [1, 2, 4].into_iter().zip(internals) {
                let array = ArrayFormat::new(channel, channels).expect("a format");
                let format = TextureFormat::from_array(array).expect("in the table");
                assert_eq!((format.internal(), format.array()), (internal, array), "{array}");
                assert_eq!(TextureFormat::from_internal(internal).expect("in the table"), format, "{array}");
                assert!(seen.insert(internal), "{internal:#x} twice");
            }
        }
        let packed = ArrayFormat::new(T::Unorm1010102, 4).expect("a format");
        assert_eq!(TextureFormat::from_array(packed).expect("in the table").internal(), 0x8059);
    }

    #[test]
    fn other_formats_are_rejected_with_their_number() {
        let converted: HashSet<_> = TextureFormat::vulkan_formats().collect();
        assert_eq!(converted.len(), 51);
        for format in (-1..=185).chain([1_000_156_000, i32::MAX]).filter(|format| !converted.contains(format)) {
            let error = TextureFormat::from_vulkan(format).expect_err("not shared");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{format}");
            assert_eq!(error.context(), [("VkFormat", format.to_string())]);
        }
        // RGBA, RGB8, RGB565, DEPTH24_STENCIL8, R11F_G11F_B10F, a compressed one.
        for internal in [0, 0x1908, 0x8051, 0x8D62, 0x88F0, 0x8C3A, 0x83F0, u32::MAX] {
            let error = TextureFormat::from_internal(internal).expect_err("not shared");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{internal:#x}");
        }
    }
}
