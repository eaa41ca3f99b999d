//! Encoding of images as `hipExternalMemoryMipmappedArrayDesc`. Used on Windows: runtimes up to HIP 7.2 map no images
//! elsewhere.

use std::ffi::{c_int, c_uint};

use gpu_interop_core::{ArrayFormat, ArrayShape, ArrayUsage, ChannelType, Error, MipmappedArrayDesc, Result};
use gpu_interop_driver::array::sizes;

/// `hipChannelFormatKind`.
pub(crate) mod channel_kind {
    use std::ffi::c_uint;

    pub(crate) const SIGNED: c_uint = 0;
    pub(crate) const UNSIGNED: c_uint = 1;
    pub(crate) const FLOAT: c_uint = 2;
}

/// `hipArray*` flags.
pub(crate) mod array_flag {
    use std::ffi::c_uint;

    pub(crate) const LAYERED: c_uint = 0x1;
    pub(crate) const SURFACE_LOAD_STORE: c_uint = 0x2;
    pub(crate) const TEXTURE_GATHER: c_uint = 0x8;
}

/// `hipExternalMemoryMipmappedArrayDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub(crate) offset: u64,
    /// `hipChannelFormatDesc`: the bits of each channel.
    pub(crate) channel_bits: [c_int; 4],
    pub(crate) channel_kind: c_uint,
    pub(crate) extent: [usize; 3],
    pub(crate) flags: c_uint,
    pub(crate) levels: c_uint,
}

/// Returns the bits and the kind of a channel. HIP has no normalised channels; the texture's read mode normalises
/// instead.
fn channel(channel: ChannelType) -> Option<(c_int, c_uint)> {
    Some(match channel {
        ChannelType::Uint8 => (8, channel_kind::UNSIGNED),
        ChannelType::Uint16 => (16, channel_kind::UNSIGNED),
        ChannelType::Uint32 => (32, channel_kind::UNSIGNED),
        ChannelType::Sint8 => (8, channel_kind::SIGNED),
        ChannelType::Sint16 => (16, channel_kind::SIGNED),
        ChannelType::Sint32 => (32, channel_kind::SIGNED),
        ChannelType::Float16 => (16, channel_kind::FLOAT),
        ChannelType::Float32 => (32, channel_kind::FLOAT),
        _ => return None,
    })
}

fn channels(format: ArrayFormat) -> Option<([c_int; 4], c_uint)> {
    let (bits, kind) = channel(format.channel())?;
    let mut all = [0; 4];
    all.iter_mut().take(format.channels().into()).for_each(|channel| *channel = bits);
    Some((all, kind))
}

/// Encodes a validated image descriptor.
pub(crate) fn encode(operation: &'static str, desc: &MipmappedArrayDesc) -> Result<Descriptor> {
    let unsupported = |what: &str| Err(Error::unsupported(operation, what));
    let Some((channel_bits, channel_kind)) = channels(desc.format) else {
        return unsupported("HIP maps integer and float formats only")
            .map_err(|error| error.with_context("format", desc.format));
    };
    let shape = match desc.shape {
        ArrayShape::Cube { .. } | ArrayShape::CubeLayered { .. } => {
            return unsupported("HIP maps no cubes; map them as layers");
        }
        ArrayShape::D1Layered { .. } | ArrayShape::D2Layered { .. } => array_flag::LAYERED,
        _ => 0,
    };
    // HIP has no flag for colour attachments.
    let uses = [
        (ArrayUsage::SURFACE_LOAD_STORE, array_flag::SURFACE_LOAD_STORE),
        (ArrayUsage::TEXTURE_GATHER, array_flag::TEXTURE_GATHER),
    ];
    let uses = uses.iter().filter(|(bit, _)| desc.usage.contains(*bit)).fold(0, |all, (_, flag)| all | flag);
    Ok(Descriptor {
        offset: desc.offset,
        channel_bits,
        channel_kind,
        extent: sizes(operation, desc.shape.driver_extent())?,
        flags: shape | uses,
        levels: desc.driver_levels(),
    })
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use cubecl_hip_sys as hip;
    use gpu_interop_core::ErrorKind;

    use super::*;

    fn format(channel: ChannelType, channels: u8) -> ArrayFormat {
        ArrayFormat::new(channel, channels).expect("a format")
    }

    #[test]
    fn constants_match_the_header() {
        assert_eq!(channel_kind::SIGNED, hip::hipChannelFormatKind_hipChannelFormatKindSigned);
        assert_eq!(channel_kind::UNSIGNED, hip::hipChannelFormatKind_hipChannelFormatKindUnsigned);
        assert_eq!(channel_kind::FLOAT, hip::hipChannelFormatKind_hipChannelFormatKindFloat);
        assert_eq!(array_flag::LAYERED, hip::hipArrayLayered);
        assert_eq!(array_flag::SURFACE_LOAD_STORE, hip::hipArraySurfaceLoadStore);
        assert_eq!(array_flag::TEXTURE_GATHER, hip::hipArrayTextureGather);
    }

    #[test]
    fn images_are_laid_out_as_in_the_header() {
        type Image = hip::hipExternalMemoryMipmappedArrayDesc_st;
        assert_eq!(size_of::<Descriptor>(), size_of::<Image>());
        assert_eq!(offset_of!(Descriptor, channel_bits), offset_of!(Image, formatDesc.x));
        assert_eq!(offset_of!(Descriptor, channel_kind), offset_of!(Image, formatDesc.f));
        assert_eq!(offset_of!(Descriptor, extent), offset_of!(Image, extent.width));
        assert_eq!(offset_of!(Descriptor, flags), offset_of!(Image, flags));
        assert_eq!(offset_of!(Descriptor, levels), offset_of!(Image, numLevels));
    }

    #[test]
    fn channels_are_encoded_as_bits_and_kind() {
        for (channel, count, expected) in [
            (ChannelType::Uint8, 4, Some(([8; 4], 1))),
            (ChannelType::Sint16, 2, Some(([16, 16, 0, 0], 0))),
            (ChannelType::Float32, 1, Some(([32, 0, 0, 0], 2))),
            (ChannelType::Unorm8, 4, None),
        ] {
            assert_eq!(channels(format(channel, count)), expected, "{channel:?}");
        }
    }

    #[test]
    fn shapes_and_uses_become_extents_and_flags() {
        let image = |shape| {
            MipmappedArrayDesc::new(shape, format(ChannelType::Uint8, 4))
                .with_usage(ArrayUsage::SURFACE_LOAD_STORE | ArrayUsage::COLOR_ATTACHMENT)
                .with_levels(3)
                .with_offset(64)
        };
        let layers = encode("op", &image(ArrayShape::D2Layered { width: 8, height: 4, layers: 6 })).expect("encodes");
        assert_eq!((layers.offset, layers.levels, layers.flags), (64, 3, 0x3));
        assert_eq!(layers.extent, [8, 4, 6]);
        let cube = encode("op", &image(ArrayShape::Cube { width: 8 })).expect_err("no cubes");
        assert_eq!(cube.kind(), ErrorKind::Unsupported);
    }
}
