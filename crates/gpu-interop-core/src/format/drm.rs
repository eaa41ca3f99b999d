//! Format codes and format modifiers of DRM.

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

    /// The code of the same texels with alpha, for a code whose highest bits are unused (`XR24` becomes `AR24`). Other codes
    /// come back unchanged.
    #[must_use]
    pub const fn with_alpha(self) -> Self {
        // fourcc_code('X', colours, ...) and fourcc_code('A', colours, ...) differ in the first character.
        let is_unused =
            matches!(self.0.to_le_bytes(), [b'X', b'R' | b'B', b'2', b'4'] | [b'X', b'R' | b'B', b'3', b'0']);
        if is_unused { Self(self.0 ^ (b'X' ^ b'A') as u32) } else { self }
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

/// A `DRM_FORMAT_MOD_*` of `drm_fourcc.h`: the layout of texels in memory. The highest byte is the vendor's; the meaning
/// of the others is the vendor's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DrmModifier(pub u64);

/// Vendors of `drm_fourcc.h`.
const VENDORS: [(u8, &str); 12] = [
    (0x00, "NONE"),
    (0x01, "INTEL"),
    (0x02, "AMD"),
    (0x03, "NVIDIA"),
    (0x04, "SAMSUNG"),
    (0x05, "QCOM"),
    (0x06, "VIVANTE"),
    (0x07, "BROADCOM"),
    (0x08, "ARM"),
    (0x09, "ALLWINNER"),
    (0x0a, "AMLOGIC"),
    (0x0b, "MTK"),
];

/// Modifiers with a name and a constant number.
const NAMES: [(u64, &str); 27] = [
    (0, "LINEAR"),
    (0x00ff_ffff_ffff_ffff, "INVALID"),
    (0x0100_0000_0000_0001, "INTEL_X_TILED"),
    (0x0100_0000_0000_0002, "INTEL_Y_TILED"),
    (0x0100_0000_0000_0003, "INTEL_YF_TILED"),
    (0x0100_0000_0000_0004, "INTEL_Y_TILED_CCS"),
    (0x0100_0000_0000_0005, "INTEL_YF_TILED_CCS"),
    (0x0100_0000_0000_0006, "INTEL_Y_TILED_GEN12_RC_CCS"),
    (0x0100_0000_0000_0007, "INTEL_Y_TILED_GEN12_MC_CCS"),
    (0x0100_0000_0000_0008, "INTEL_Y_TILED_GEN12_RC_CCS_CC"),
    (0x0100_0000_0000_0009, "INTEL_4_TILED"),
    (0x0100_0000_0000_000a, "INTEL_4_TILED_DG2_RC_CCS"),
    (0x0100_0000_0000_000b, "INTEL_4_TILED_DG2_MC_CCS"),
    (0x0100_0000_0000_000c, "INTEL_4_TILED_DG2_RC_CCS_CC"),
    (0x0100_0000_0000_000d, "INTEL_4_TILED_MTL_RC_CCS"),
    (0x0100_0000_0000_000e, "INTEL_4_TILED_MTL_MC_CCS"),
    (0x0100_0000_0000_000f, "INTEL_4_TILED_MTL_RC_CCS_CC"),
    (0x0300_0000_0000_0001, "NVIDIA_TEGRA_TILED"),
    (0x0400_0000_0000_0001, "SAMSUNG_64_32_TILE"),
    (0x0400_0000_0000_0002, "SAMSUNG_16_16_TILE"),
    (0x0500_0000_0000_0001, "QCOM_COMPRESSED"),
    (0x0600_0000_0000_0001, "VIVANTE_TILED"),
    (0x0600_0000_0000_0002, "VIVANTE_SUPER_TILED"),
    (0x0600_0000_0000_0003, "VIVANTE_SPLIT_TILED"),
    (0x0600_0000_0000_0004, "VIVANTE_SPLIT_SUPER_TILED"),
    (0x0700_0000_0000_0001, "BROADCOM_VC4_T_TILED"),
    (0x0900_0000_0000_0001, "ALLWINNER_TILED"),
];

impl DrmModifier {
    /// `DRM_FORMAT_MOD_LINEAR`: row after row.
    pub const LINEAR: Self = Self(0);
    /// `DRM_FORMAT_MOD_INVALID`: the layout is unknown, and only its producer's driver may know it.
    pub const INVALID: Self = Self(0x00ff_ffff_ffff_ffff);

    /// The modifier of the halves that Wayland's `zwp_linux_dmabuf_v1` sends.
    #[must_use]
    pub const fn from_halves(high: u32, low: u32) -> Self {
        Self((high as u64) << 32 | low as u64)
    }

    /// The name without its prefix, if `drm_fourcc.h` has one for the number. Modifiers with parameters have none.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }

    /// The vendor's name; `None` for a vendor unknown to this version.
    #[must_use]
    pub fn vendor(self) -> Option<&'static str> {
        let vendor = self.0.to_be_bytes()[0];
        VENDORS.iter().find(|(number, _)| *number == vendor).map(|(_, name)| *name)
    }

    /// The parameters of NVIDIA's `DRM_FORMAT_MOD_NVIDIA_BLOCK_LINEAR_2D`: compression, sector layout, kind generation,
    /// page kind, logarithm of the block's height.
    fn block_linear(self) -> Option<[u64; 5]> {
        let is_block_linear = self.0 >> 56 == 0x03 && self.0 >> 4 & 1 == 1;
        let bits = |from: u32, count: u32| self.0 >> from & ((1 << count) - 1);
        is_block_linear.then(|| [bits(23, 3), bits(22, 1), bits(20, 2), bits(12, 8), bits(0, 4)])
    }
}

/// The name, with parameters or as a number of the vendor, and the number.
impl fmt::Display for DrmModifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            f.write_str(name)?;
        } else if let Some([c, s, g, k, h]) = self.block_linear() {
            write!(f, "NVIDIA_BLOCK_LINEAR_2D(c={c},s={s},g={g},k={k:#x},h={h})")?;
        } else {
            f.write_str(self.vendor().unwrap_or("unknown vendor"))?;
        }
        write!(f, " ({:#018x})", self.0)
    }
}

impl fmt::Debug for DrmModifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DrmModifier({self})")
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::collections::HashSet;

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

    #[test]
    fn codes_without_alpha_have_one_with_it() {
        let code = DrmFourcc::from_code;
        for (unused, alpha) in [("XR24", "AR24"), ("XB24", "AB24"), ("XR30", "AR30"), ("XB30", "AB30")] {
            assert_eq!(code(unused).with_alpha(), code(alpha));
            assert_eq!(code(alpha).with_alpha(), code(alpha));
            assert!(TexelRow::of_drm(code(alpha)).is_some());
        }
        for other in ["XV30", "X0L0", "NV12", "RX24"] {
            assert_eq!(code(other).with_alpha(), code(other));
        }
    }

    #[test]
    fn modifiers_have_two_halves_in_wayland() {
        assert_eq!(DrmModifier::from_halves(0x0300_0000, 0x0060_6014), DrmModifier(0x0300_0000_0060_6014));
        assert_eq!(DrmModifier::from_halves(0x00ff_ffff, 0xffff_ffff), DrmModifier::INVALID);
    }

    #[test]
    fn modifiers_are_shown_by_name_and_number() {
        let cases = [
            (0, "LINEAR (0x0000000000000000)"),
            (0x00ff_ffff_ffff_ffff, "INVALID (0x00ffffffffffffff)"),
            (0x0100_0000_0000_0002, "INTEL_Y_TILED (0x0100000000000002)"),
            // fourcc_mod_code(NVIDIA, 0x10 | h 4 | k 0x06 << 12 | g 2 << 20 | s 1 << 22 | c 0 << 23).
            (0x0300_0000_0060_6014, "NVIDIA_BLOCK_LINEAR_2D(c=0,s=1,g=2,k=0x6,h=4) (0x0300000000606014)"),
            (0x0200_0000_0000_0901, "AMD (0x0200000000000901)"),
            (0x0800_0000_0000_0041, "ARM (0x0800000000000041)"),
            (0xee00_0000_0000_0041, "unknown vendor (0xee00000000000041)"),
        ];
        for (number, text) in cases {
            assert_eq!(DrmModifier(number).to_string(), text);
        }
    }

    #[test]
    fn names_are_unique_and_begin_with_their_vendor() {
        let (numbers, names): (HashSet<_>, HashSet<_>) = NAMES.into_iter().unzip();
        assert_eq!((numbers.len(), names.len()), (NAMES.len(), NAMES.len()));
        for (number, name) in NAMES.into_iter().skip(2) {
            let vendor = DrmModifier(number).vendor().expect("a vendor");
            assert!(name.starts_with(vendor) && vendor != "NONE", "{name}");
        }
    }
}
