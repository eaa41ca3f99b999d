//! Encoding of images as `CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC`.

use std::ffi::c_uint;

use gpu_interop_core::{ArrayShape, ArrayUsage, ChannelType, Error, MipmappedArrayDesc, Result};

use gpu_interop_driver::array::sizes;

use crate::sys;

/// `CUDA_ARRAY3D_*` flags.
mod flag {
    use std::ffi::c_uint;

    pub(super) const LAYERED: c_uint = 0x1;
    pub(super) const SURFACE_LDST: c_uint = 0x2;
    pub(super) const CUBEMAP: c_uint = 0x4;
    pub(super) const TEXTURE_GATHER: c_uint = 0x8;
    pub(super) const COLOR_ATTACHMENT: c_uint = 0x20;
}

/// `CUarray_format`. UNORM and SNORM formats include the number of channels.
fn format(channel: ChannelType, channels: u8) -> Option<c_uint> {
    let by_channels = |one, two, four| match channels {
        1 => Some(one),
        2 => Some(two),
        4 => Some(four),
        _ => None,
    };
    match channel {
        ChannelType::Uint8 => Some(0x01),
        ChannelType::Uint16 => Some(0x02),
        ChannelType::Uint32 => Some(0x03),
        ChannelType::Sint8 => Some(0x08),
        ChannelType::Sint16 => Some(0x09),
        ChannelType::Sint32 => Some(0x0a),
        ChannelType::Float16 => Some(0x10),
        ChannelType::Float32 => Some(0x20),
        ChannelType::Unorm8 => by_channels(192, 193, 194),
        ChannelType::Unorm16 => by_channels(195, 196, 197),
        ChannelType::Snorm8 => by_channels(198, 199, 200),
        ChannelType::Snorm16 => by_channels(201, 202, 203),
        // Since CUDA 12.8; older drivers reject it.
        ChannelType::Unorm1010102 if channels == 4 => Some(0x50),
        _ => None,
    }
}

fn flags(shape: ArrayShape, usage: ArrayUsage) -> c_uint {
    let shape = match shape {
        ArrayShape::D1Layered { .. } | ArrayShape::D2Layered { .. } => flag::LAYERED,
        ArrayShape::Cube { .. } => flag::CUBEMAP,
        ArrayShape::CubeLayered { .. } => flag::CUBEMAP | flag::LAYERED,
        _ => 0,
    };
    let used = |bit, flag| if usage.contains(bit) { flag } else { 0 };
    shape
        | used(ArrayUsage::SURFACE_LOAD_STORE, flag::SURFACE_LDST)
        | used(ArrayUsage::TEXTURE_GATHER, flag::TEXTURE_GATHER)
        | used(ArrayUsage::COLOR_ATTACHMENT, flag::COLOR_ATTACHMENT)
}

/// Encodes a validated image descriptor.
pub(crate) fn encode(operation: &'static str, desc: &MipmappedArrayDesc) -> Result<sys::MipmappedArrayDesc> {
    let Some(format) = format(desc.format.channel(), desc.format.channels()) else {
        return Err(
            Error::unsupported(operation, "CUDA has no arrays of this format").with_context("format", desc.format)
        );
    };
    let [width, height, depth] = sizes(operation, desc.shape.driver_extent())?;
    Ok(sys::MipmappedArrayDesc {
        offset: desc.offset,
        array: sys::Array3dDescriptor {
            width,
            height,
            depth,
            format,
            channels: c_uint::from(desc.format.channels()),
            flags: flags(desc.shape, desc.usage),
        },
        levels: desc.driver_levels(),
        reserved: [0; 16],
    })
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use cudarc::driver::sys as cuda;
    use gpu_interop_core::ArrayFormat;

    use super::*;

    #[test]
    fn formats_are_those_of_the_header() {
        use cuda::CUarray_format_enum as F;
        let expected = [
            (ChannelType::Uint8, [F::CU_AD_FORMAT_UNSIGNED_INT8; 3]),
            (ChannelType::Uint16, [F::CU_AD_FORMAT_UNSIGNED_INT16; 3]),
            (ChannelType::Uint32, [F::CU_AD_FORMAT_UNSIGNED_INT32; 3]),
            (ChannelType::Sint8, [F::CU_AD_FORMAT_SIGNED_INT8; 3]),
            (ChannelType::Sint16, [F::CU_AD_FORMAT_SIGNED_INT16; 3]),
            (ChannelType::Sint32, [F::CU_AD_FORMAT_SIGNED_INT32; 3]),
            (ChannelType::Float16, [F::CU_AD_FORMAT_HALF; 3]),
            (ChannelType::Float32, [F::CU_AD_FORMAT_FLOAT; 3]),
            (
                ChannelType::Unorm8,
                [F::CU_AD_FORMAT_UNORM_INT8X1, F::CU_AD_FORMAT_UNORM_INT8X2, F::CU_AD_FORMAT_UNORM_INT8X4],
            ),
            (
                ChannelType::Unorm16,
                [F::CU_AD_FORMAT_UNORM_INT16X1, F::CU_AD_FORMAT_UNORM_INT16X2, F::CU_AD_FORMAT_UNORM_INT16X4],
            ),
            (
                ChannelType::Snorm8,
                [F::CU_AD_FORMAT_SNORM_INT8X1, F::CU_AD_FORMAT_SNORM_INT8X2, F::CU_AD_FORMAT_SNORM_INT8X4],
            ),
            (
                ChannelType::Snorm16,
                [F::CU_AD_FORMAT_SNORM_INT16X1, F::CU_AD_FORMAT_SNORM_INT16X2, F::CU_AD_FORMAT_SNORM_INT16X4],
            ),
        ];
        for (channel, formats) in expected {
            for (channels, expected) in [1, 2, 4].into_iter().zip(formats) {
                assert_eq!(format(channel, channels), Some(expected as u32), "{channels} x {channel:?}");
            }
        }
        let packed = |channels| format(ChannelType::Unorm1010102, channels);
        assert_eq!(packed(4), Some(F::CU_AD_FORMAT_UNORM_INT_101010_2 as u32));
        assert_eq!((packed(1), packed(2)), (None, None));
    }

    #[test]
    fn shapes_and_uses_become_extents_and_flags() {
        let rgba8 = ArrayFormat::new(ChannelType::Uint8, 4).expect("four channels");
        let encode = |shape, usage| {
            let desc = MipmappedArrayDesc::new(shape, rgba8).with_usage(usage).with_levels(3).with_offset(64);
            encode("op", &desc).expect("encodes")
        };
        let cubes = encode(ArrayShape::CubeLayered { width: 8, cubes: 2 }, ArrayUsage::SURFACE_LOAD_STORE);
        assert_eq!((cubes.offset, cubes.levels), (64, 3));
        assert_eq!((cubes.array.width, cubes.array.height, cubes.array.depth), (8, 8, 12));
        assert_eq!(
            cubes.array.flags,
            cuda::CUDA_ARRAY3D_CUBEMAP | cuda::CUDA_ARRAY3D_LAYERED | cuda::CUDA_ARRAY3D_SURFACE_LDST
        );
        let layout =
            MipmappedArrayDesc::new(ArrayShape::Cube { width: 8 }, rgba8).with_levels(2).with_layout_levels(Some(4));
        assert_eq!(super::encode("op", &layout).expect("encodes").levels, 4);
        let flat = encode(ArrayShape::D2 { width: 8, height: 4 }, ArrayUsage::COLOR_ATTACHMENT);
        assert_eq!((flat.array.width, flat.array.height, flat.array.depth), (8, 4, 0));
        assert_eq!(flat.array.flags, cuda::CUDA_ARRAY3D_COLOR_ATTACHMENT);
    }

    #[test]
    fn structs_are_laid_out_as_in_the_header() {
        type Theirs = cuda::CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st;
        assert_eq!(size_of::<sys::MipmappedArrayDesc>(), size_of::<Theirs>());
        assert_eq!(offset_of!(sys::MipmappedArrayDesc, array), offset_of!(Theirs, arrayDesc));
        assert_eq!(offset_of!(sys::MipmappedArrayDesc, levels), offset_of!(Theirs, numLevels));
        type Array = cuda::CUDA_ARRAY3D_DESCRIPTOR_st;
        assert_eq!(size_of::<sys::Array3dDescriptor>(), size_of::<Array>());
        assert_eq!(offset_of!(sys::Array3dDescriptor, format), offset_of!(Array, Format));
        assert_eq!(offset_of!(sys::Array3dDescriptor, channels), offset_of!(Array, NumChannels));
        assert_eq!(offset_of!(sys::Array3dDescriptor, flags), offset_of!(Array, Flags));
    }
}
