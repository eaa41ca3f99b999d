//! Structs of images and array copies of HIP 6 and later. HIP 5 maps no images and so needs no arrays.

use std::ffi::{c_int, c_uint, c_void};

use gpu_interop_driver::{DeviceAddress, Handle};

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

/// `hipMemoryType` since HIP 6.
pub(crate) mod memory_type {
    use std::ffi::c_uint;

    pub(crate) const HOST: c_uint = 1;
    pub(crate) const DEVICE: c_uint = 2;
    pub(crate) const ARRAY: c_uint = 10;
}

/// `hipExternalMemoryMipmappedArrayDesc`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MipmappedArrayDesc {
    pub(crate) offset: u64,
    /// `hipChannelFormatDesc`: the bits of each channel.
    pub(crate) channel_bits: [c_int; 4],
    pub(crate) channel_kind: c_uint,
    pub(crate) extent: [usize; 3],
    pub(crate) flags: c_uint,
    pub(crate) levels: c_uint,
}

/// Side of a [`Memcpy3d`]: origin and memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memcpy3dSide {
    /// Byte within the row, row, slice.
    pub(crate) offset: [usize; 3],
    pub(crate) level_of_detail: usize,
    pub(crate) memory_type: c_uint,
    pub(crate) host: *mut c_void,
    pub(crate) device: DeviceAddress,
    pub(crate) array: Handle,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `HIP_MEMCPY3D`, whose two sides have the same fields.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memcpy3d {
    pub(crate) src: Memcpy3dSide,
    pub(crate) dst: Memcpy3dSide,
    /// Bytes per row, rows, slices.
    pub(crate) extent: [usize; 3],
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use cubecl_hip_sys as hip;

    use super::*;

    #[test]
    fn constants_match_the_header() {
        assert_eq!(channel_kind::SIGNED, hip::hipChannelFormatKind_hipChannelFormatKindSigned);
        assert_eq!(channel_kind::UNSIGNED, hip::hipChannelFormatKind_hipChannelFormatKindUnsigned);
        assert_eq!(channel_kind::FLOAT, hip::hipChannelFormatKind_hipChannelFormatKindFloat);
        assert_eq!(array_flag::LAYERED, hip::hipArrayLayered);
        assert_eq!(array_flag::SURFACE_LOAD_STORE, hip::hipArraySurfaceLoadStore);
        assert_eq!(array_flag::TEXTURE_GATHER, hip::hipArrayTextureGather);
        assert_eq!(memory_type::HOST, hip::hipMemoryType_hipMemoryTypeHost);
        assert_eq!(memory_type::DEVICE, hip::hipMemoryType_hipMemoryTypeDevice);
        assert_eq!(memory_type::ARRAY, hip::hipMemoryType_hipMemoryTypeArray);
    }

    #[test]
    fn images_are_laid_out_as_in_the_header() {
        type Image = hip::hipExternalMemoryMipmappedArrayDesc_st;
        assert_eq!(size_of::<MipmappedArrayDesc>(), size_of::<Image>());
        assert_eq!(offset_of!(MipmappedArrayDesc, channel_bits), offset_of!(Image, formatDesc.x));
        assert_eq!(offset_of!(MipmappedArrayDesc, channel_kind), offset_of!(Image, formatDesc.f));
        assert_eq!(offset_of!(MipmappedArrayDesc, extent), offset_of!(Image, extent.width));
        assert_eq!(offset_of!(MipmappedArrayDesc, flags), offset_of!(Image, flags));
        assert_eq!(offset_of!(MipmappedArrayDesc, levels), offset_of!(Image, numLevels));
    }

    #[test]
    fn copies_are_laid_out_as_in_the_header() {
        type Copy = hip::HIP_MEMCPY3D;
        assert_eq!(size_of::<Memcpy3d>(), size_of::<Copy>());
        let dst = |field| offset_of!(Memcpy3d, dst) + field;
        let pairs = [
            (offset_of!(Memcpy3dSide, offset), offset_of!(Copy, srcXInBytes), offset_of!(Copy, dstXInBytes)),
            (offset_of!(Memcpy3dSide, level_of_detail), offset_of!(Copy, srcLOD), offset_of!(Copy, dstLOD)),
            (offset_of!(Memcpy3dSide, memory_type), offset_of!(Copy, srcMemoryType), offset_of!(Copy, dstMemoryType)),
            (offset_of!(Memcpy3dSide, host), offset_of!(Copy, srcHost), offset_of!(Copy, dstHost)),
            (offset_of!(Memcpy3dSide, device), offset_of!(Copy, srcDevice), offset_of!(Copy, dstDevice)),
            (offset_of!(Memcpy3dSide, array), offset_of!(Copy, srcArray), offset_of!(Copy, dstArray)),
            (offset_of!(Memcpy3dSide, pitch), offset_of!(Copy, srcPitch), offset_of!(Copy, dstPitch)),
            (offset_of!(Memcpy3dSide, height), offset_of!(Copy, srcHeight), offset_of!(Copy, dstHeight)),
        ];
        for (ours, source_offset, target_offset) in pairs {
            assert_eq!((ours, dst(ours)), (source_offset, target_offset));
        }
        assert_eq!(offset_of!(Memcpy3d, extent), offset_of!(Copy, WidthInBytes));
    }
}
