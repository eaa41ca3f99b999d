//! Conversion of OpenGL's sized formats to and from array formats and Vulkan formats.

use std::ffi::c_uint;

use gpu_interop_core::{ArrayFormat, ChannelType, Error, Result};

/// Format of a texture in imported memory: a sized internal format, and whether red and blue are swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TextureFormat {
    internal: c_uint,
    array: ArrayFormat,
    blue_first: bool,
}

struct Row {
    /// `VkFormat`.
    vulkan: i32,
    /// Sized internal format.
    internal: c_uint,
    channel: ChannelType,
    channels: u8,
    blue_first: bool,
}

/// Table of `name of the internal format = VkFormat internal format: channel type x channels, order`.
macro_rules! rows {
    ($($name:ident = $vulkan:literal $internal:literal: $channel:ident x $channels:literal, $order:ident;)*) => {
        &[$(Row {
            vulkan: $vulkan,
            internal: $internal,
            channel: ChannelType::$channel,
            channels: $channels,
            blue_first: rows!(@ $order),
        }),*]
    };
    (@ Rgba) => { false };
    (@ Bgra) => { true };
}

/// Every format that arrays support. OpenGL has no BGRA formats: such texels use the RGBA format, and the texture swaps
/// red and blue when it is sampled.
#[rustfmt::skip]
const TABLE: &[Row] = rows! {
    R8UI = 13 0x8232: Uint8 x 1, Rgba; // VK_FORMAT_R8_UINT
    RG8UI = 20 0x8238: Uint8 x 2, Rgba; // VK_FORMAT_R8G8_UINT
    RGBA8UI = 41 0x8D7C: Uint8 x 4, Rgba; // VK_FORMAT_R8G8B8A8_UINT
    R8I = 14 0x8231: Sint8 x 1, Rgba; // VK_FORMAT_R8_SINT
    RG8I = 21 0x8237: Sint8 x 2, Rgba; // VK_FORMAT_R8G8_SINT
    RGBA8I = 42 0x8D8E: Sint8 x 4, Rgba; // VK_FORMAT_R8G8B8A8_SINT
    R16UI = 74 0x8234: Uint16 x 1, Rgba; // VK_FORMAT_R16_UINT
    RG16UI = 81 0x823A: Uint16 x 2, Rgba; // VK_FORMAT_R16G16_UINT
    RGBA16UI = 95 0x8D76: Uint16 x 4, Rgba; // VK_FORMAT_R16G16B16A16_UINT
    R16I = 75 0x8233: Sint16 x 1, Rgba; // VK_FORMAT_R16_SINT
    RG16I = 82 0x8239: Sint16 x 2, Rgba; // VK_FORMAT_R16G16_SINT
    RGBA16I = 96 0x8D88: Sint16 x 4, Rgba; // VK_FORMAT_R16G16B16A16_SINT
    R32UI = 98 0x8236: Uint32 x 1, Rgba; // VK_FORMAT_R32_UINT
    RG32UI = 101 0x823C: Uint32 x 2, Rgba; // VK_FORMAT_R32G32_UINT
    RGBA32UI = 107 0x8D70: Uint32 x 4, Rgba; // VK_FORMAT_R32G32B32A32_UINT
    R32I = 99 0x8235: Sint32 x 1, Rgba; // VK_FORMAT_R32_SINT
    RG32I = 102 0x823B: Sint32 x 2, Rgba; // VK_FORMAT_R32G32_SINT
    RGBA32I = 108 0x8D82: Sint32 x 4, Rgba; // VK_FORMAT_R32G32B32A32_SINT
    R32F = 100 0x822E: Float32 x 1, Rgba; // VK_FORMAT_R32_SFLOAT
    RG32F = 103 0x8230: Float32 x 2, Rgba; // VK_FORMAT_R32G32_SFLOAT
    RGBA32F = 109 0x8814: Float32 x 4, Rgba; // VK_FORMAT_R32G32B32A32_SFLOAT
    R16F = 76 0x822D: Float16 x 1, Rgba; // VK_FORMAT_R16_SFLOAT
    RG16F = 83 0x822F: Float16 x 2, Rgba; // VK_FORMAT_R16G16_SFLOAT
    RGBA16F = 97 0x881A: Float16 x 4, Rgba; // VK_FORMAT_R16G16B16A16_SFLOAT
    R8 = 9 0x8229: Unorm8 x 1, Rgba; // VK_FORMAT_R8_UNORM
    RG8 = 16 0x822B: Unorm8 x 2, Rgba; // VK_FORMAT_R8G8_UNORM
    RGBA8 = 37 0x8058: Unorm8 x 4, Rgba; // VK_FORMAT_R8G8B8A8_UNORM
    R8_SNORM = 10 0x8F94: Snorm8 x 1, Rgba; // VK_FORMAT_R8_SNORM
    RG8_SNORM = 17 0x8F95: Snorm8 x 2, Rgba; // VK_FORMAT_R8G8_SNORM
    RGBA8_SNORM = 38 0x8F97: Snorm8 x 4, Rgba; // VK_FORMAT_R8G8B8A8_SNORM
    R16 = 70 0x822A: Unorm16 x 1, Rgba; // VK_FORMAT_R16_UNORM
    RG16 = 77 0x822C: Unorm16 x 2, Rgba; // VK_FORMAT_R16G16_UNORM
    RGBA16 = 91 0x805B: Unorm16 x 4, Rgba; // VK_FORMAT_R16G16B16A16_UNORM
    R16_SNORM = 71 0x8F98: Snorm16 x 1, Rgba; // VK_FORMAT_R16_SNORM
    RG16_SNORM = 78 0x8F99: Snorm16 x 2, Rgba; // VK_FORMAT_R16G16_SNORM
    RGBA16_SNORM = 92 0x8F9B: Snorm16 x 4, Rgba; // VK_FORMAT_R16G16B16A16_SNORM
    SR8_EXT = 15 0x8FBD: Unorm8 x 1, Rgba; // VK_FORMAT_R8_SRGB
    SRG8_EXT = 22 0x8FBE: Unorm8 x 2, Rgba; // VK_FORMAT_R8G8_SRGB
    SRGB8_ALPHA8 = 43 0x8C43: Unorm8 x 4, Rgba; // VK_FORMAT_R8G8B8A8_SRGB
    RGBA8 = 44 0x8058: Unorm8 x 4, Bgra; // VK_FORMAT_B8G8R8A8_UNORM
    RGBA8_SNORM = 45 0x8F97: Snorm8 x 4, Bgra; // VK_FORMAT_B8G8R8A8_SNORM
    RGBA8UI = 48 0x8D7C: Uint8 x 4, Bgra; // VK_FORMAT_B8G8R8A8_UINT
    RGBA8I = 49 0x8D8E: Sint8 x 4, Bgra; // VK_FORMAT_B8G8R8A8_SINT
    SRGB8_ALPHA8 = 50 0x8C43: Unorm8 x 4, Bgra; // VK_FORMAT_B8G8R8A8_SRGB
    RGBA8 = 51 0x8058: Unorm8 x 4, Rgba; // VK_FORMAT_A8B8G8R8_UNORM_PACK32
    RGBA8_SNORM = 52 0x8F97: Snorm8 x 4, Rgba; // VK_FORMAT_A8B8G8R8_SNORM_PACK32
    RGBA8UI = 55 0x8D7C: Uint8 x 4, Rgba; // VK_FORMAT_A8B8G8R8_UINT_PACK32
    RGBA8I = 56 0x8D8E: Sint8 x 4, Rgba; // VK_FORMAT_A8B8G8R8_SINT_PACK32
    SRGB8_ALPHA8 = 57 0x8C43: Unorm8 x 4, Rgba; // VK_FORMAT_A8B8G8R8_SRGB_PACK32
    RGB10_A2 = 64 0x8059: Unorm1010102 x 4, Rgba; // VK_FORMAT_A2B10G10R10_UNORM_PACK32
    RGB10_A2 = 58 0x8059: Unorm1010102 x 4, Bgra; // VK_FORMAT_A2R10G10B10_UNORM_PACK32
};

impl TextureFormat {
    /// Converts a `VkFormat` number (`vk::Format::as_raw`).
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for a format that OpenGL or arrays lack.
    pub fn from_vulkan(format: i32) -> Result<Self> {
        Self::find("TextureFormat::from_vulkan", |row| row.vulkan == format)
            .map_err(|error| error.with_context("VkFormat", format))
    }

    /// Converts a sized internal format such as `GL_RGBA8`, with red first.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for a format that arrays lack, and for
    /// unsized formats.
    pub fn from_internal(internal: u32) -> Result<Self> {
        Self::find("TextureFormat::from_internal", |row| row.internal == internal && !row.blue_first)
            .map_err(|error| error.with_context("internal format", format_args!("{internal:#06x}")))
    }

    /// Converts an array format, with red first and linear encoding.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for a format unknown to this version.
    pub fn from_array(array: ArrayFormat) -> Result<Self> {
        Self::find("TextureFormat::from_array", |row| {
            (row.channel, row.channels, row.blue_first) == (array.channel(), array.channels(), false)
        })
        .map_err(|error| error.with_context("format", array))
    }

    fn find(operation: &'static str, matches: impl Fn(&Row) -> bool) -> Result<Self> {
        let Some(row) = TABLE.iter().find(|row| matches(row)) else {
            let message = "OpenGL or arrays lack this format; use 1, 2 or 4 channels of 8, 16 or 32 bits, or \
                           RGB10_A2";
            return Err(Error::unsupported(operation, message));
        };
        let array = ArrayFormat::new(row.channel, row.channels)?;
        Ok(Self { internal: row.internal, array, blue_first: row.blue_first })
    }

    /// Every `VkFormat` number that [`from_vulkan`](Self::from_vulkan) converts.
    pub fn vulkan_formats() -> impl ExactSizeIterator<Item = i32> {
        TABLE.iter().map(|row| row.vulkan)
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
        let same = |row: &&Row| (row.internal, row.blue_first) == (self.internal, self.blue_first);
        // The format was made from a row, so a row exists; 0 is `VK_FORMAT_UNDEFINED`.
        TABLE.iter().find(same).map_or(0, |row| row.vulkan)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use gpu_interop_core::ErrorKind;
    use gpu_interop_vulkan::ash::vk;
    use gpu_interop_vulkan::{ChannelOrder, ColorEncoding, TexelFormat};

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
