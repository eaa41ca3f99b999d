//! Format codes of DRM.

use std::fmt;

/// A `DRM_FORMAT_*` of `drm_fourcc.h`: four characters, the first in the lowest byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrmFourcc(pub u32);

impl DrmFourcc {
    /// The code of four ASCII characters, as in `fourcc_code`. Further characters are ignored, missing ones are 0.
    #[must_use]
    pub const fn from_code(code: &str) -> Self {
        let bytes = code.as_bytes();
        let (mut number, mut at) = (0, 0);
        while at < bytes.len() && at < 4 {
            number |= (bytes[at] as u32) << (8 * at);
            at += 1;
        }
        Self(number)
    }
}

/// The four characters in quotes if they are printable, otherwise the number.
impl fmt::Display for DrmFourcc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.to_le_bytes();
        if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            write!(f, "'{}'", bytes.map(char::from).iter().collect::<String>())
        } else {
            write!(f, "{:#010x}", self.0)
        }
    }
}

impl fmt::Debug for DrmFourcc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DrmFourcc({self})")
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use crate::format::{ChannelOrder, TexelRow, VideoFormat};

    #[test]
    fn codes_are_little_endian_and_printed_as_characters() {
        let code = DrmFourcc::from_code("NV12");
        assert_eq!((code.0, code.to_string().as_str()), (0x3231_564e, "'NV12'"));
        assert_eq!(DrmFourcc::from_code("R8  ").to_string(), "'R8  '");
        // DRM_FORMAT_BIG_ENDIAN, and no code at all.
        assert_eq!(DrmFourcc(code.0 | 1 << 31).to_string(), "0xb231564e");
        assert_eq!(format!("{:?}", DrmFourcc(0)), "DrmFourcc(0x00000000)");
    }

    /// Numbers and names of `drm_fourcc.h`. Its names list the channels from the highest bits to the lowest, which are
    /// first in memory.
    #[test]
    fn codes_match_the_header() {
        let texels = [
            (0x2020_3852, "R8", "R8_UNORM"),
            (0x3838_5247, "GR88", "R8G8_UNORM"),
            (0x2036_3152, "R16", "R16_UNORM"),
            (0x3233_5247, "GR1616", "R16G16_UNORM"),
            (0x3432_4241, "ABGR8888", "R8G8B8A8_UNORM"),
            (0x3432_5241, "ARGB8888", "B8G8R8A8_UNORM"),
            (0x3033_4241, "ABGR2101010", "A2B10G10R10_UNORM_PACK32"),
            (0x3033_5241, "ARGB2101010", "A2R10G10B10_UNORM_PACK32"),
            (0x3834_4241, "ABGR16161616", "R16G16B16A16_UNORM"),
            (0x4834_4241, "ABGR16161616F", "R16G16B16A16_SFLOAT"),
        ];
        for (number, name, row) in texels {
            let found = TexelRow::of_drm(DrmFourcc(number)).expect(name);
            assert_eq!(found.name, row, "{name}");
            let blue_first = name.starts_with("ARGB");
            assert_eq!(found.order == ChannelOrder::Bgra, blue_first, "{name}");
            let channels = name.chars().filter(|letter| "ARGB".contains(*letter)).count();
            assert_eq!(usize::from(found.array.channels()), channels, "{name}");
        }
        assert_eq!(TexelRow::all().iter().filter(|row| row.drm.is_some()).count(), texels.len());
        let video = [
            (0x3231_564e, VideoFormat::Nv12),         // DRM_FORMAT_NV12
            (0x3631_564e, VideoFormat::Nv16),         // DRM_FORMAT_NV16
            (0x3031_3050, VideoFormat::P010),         // DRM_FORMAT_P010
            (0x3231_3050, VideoFormat::P012),         // DRM_FORMAT_P012
            (0x3631_3050, VideoFormat::P016),         // DRM_FORMAT_P016
            (0x3031_3250, VideoFormat::P210),         // DRM_FORMAT_P210
            (0x3231_5559, VideoFormat::Yuv420),       // DRM_FORMAT_YUV420
            (0x3631_5559, VideoFormat::Yuv422),       // DRM_FORMAT_YUV422
            (0x3432_5559, VideoFormat::Yuv444),       // DRM_FORMAT_YUV444
            (0x3031_3451, VideoFormat::Yuv444Bits10), // DRM_FORMAT_Q410
        ];
        for (number, format) in video {
            assert_eq!(
                (VideoFormat::from_drm(DrmFourcc(number)), format.drm()),
                (Some(format), Some(DrmFourcc(number)))
            );
        }
        assert_eq!(VideoFormat::all().filter(|format| format.drm().is_some()).count(), video.len());
    }
}
