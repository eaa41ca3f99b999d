//! Structs of array copies.

use std::ffi::{c_uint, c_void};

use gpu_interop_driver::{DeviceAddress, Handle};

/// `CUmemorytype`.
pub(crate) mod memory_type {
    use std::ffi::c_uint;

    pub(crate) const HOST: c_uint = 1;
    pub(crate) const DEVICE: c_uint = 2;
    pub(crate) const ARRAY: c_uint = 3;
}

/// Side of a [`Memcpy3d`].
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memcpy3dSide {
    pub(crate) x_in_bytes: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) level_of_detail: usize,
    pub(crate) memory_type: c_uint,
    pub(crate) host: *mut c_void,
    pub(crate) device: DeviceAddress,
    pub(crate) array: Handle,
    pub(crate) reserved: *mut c_void,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEMCPY3D`, whose two sides have the same fields.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memcpy3d {
    pub(crate) src: Memcpy3dSide,
    pub(crate) dst: Memcpy3dSide,
    pub(crate) width_in_bytes: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use cudarc::driver::sys as cuda;

    use super::*;

    #[test]
    fn constants_match_the_header() {
        use cuda::CUmemorytype_enum as M;
        assert_eq!(memory_type::HOST, M::CU_MEMORYTYPE_HOST as u32);
        assert_eq!(memory_type::DEVICE, M::CU_MEMORYTYPE_DEVICE as u32);
        assert_eq!(memory_type::ARRAY, M::CU_MEMORYTYPE_ARRAY as u32);
    }

    #[test]
    fn structs_are_laid_out_as_in_the_header() {
        type Copy = cuda::CUDA_MEMCPY3D_st;
        assert_eq!(size_of::<Memcpy3d>(), size_of::<Copy>());
        let side = |field, dst| if dst { offset_of!(Memcpy3d, dst) + field } else { field };
        let pairs = [
            (offset_of!(Memcpy3dSide, x_in_bytes), offset_of!(Copy, srcXInBytes), offset_of!(Copy, dstXInBytes)),
            (offset_of!(Memcpy3dSide, y), offset_of!(Copy, srcY), offset_of!(Copy, dstY)),
            (offset_of!(Memcpy3dSide, z), offset_of!(Copy, srcZ), offset_of!(Copy, dstZ)),
            (offset_of!(Memcpy3dSide, level_of_detail), offset_of!(Copy, srcLOD), offset_of!(Copy, dstLOD)),
            (offset_of!(Memcpy3dSide, memory_type), offset_of!(Copy, srcMemoryType), offset_of!(Copy, dstMemoryType)),
            (offset_of!(Memcpy3dSide, host), offset_of!(Copy, srcHost), offset_of!(Copy, dstHost)),
            (offset_of!(Memcpy3dSide, device), offset_of!(Copy, srcDevice), offset_of!(Copy, dstDevice)),
            (offset_of!(Memcpy3dSide, array), offset_of!(Copy, srcArray), offset_of!(Copy, dstArray)),
            (offset_of!(Memcpy3dSide, reserved), offset_of!(Copy, reserved0), offset_of!(Copy, reserved1)),
            (offset_of!(Memcpy3dSide, pitch), offset_of!(Copy, srcPitch), offset_of!(Copy, dstPitch)),
            (offset_of!(Memcpy3dSide, height), offset_of!(Copy, srcHeight), offset_of!(Copy, dstHeight)),
        ];
        for (ours, src, dst) in pairs {
            assert_eq!((side(ours, false), side(ours, true)), (src, dst));
        }
        assert_eq!(offset_of!(Memcpy3d, width_in_bytes), offset_of!(Copy, WidthInBytes));
        assert_eq!(offset_of!(Memcpy3d, height), offset_of!(Copy, Height));
        assert_eq!(offset_of!(Memcpy3d, depth), offset_of!(Copy, Depth));
    }
}
