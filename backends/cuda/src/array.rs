//! Encoding of array copies as `CUDA_MEMCPY3D`.

use std::ptr;

use gpu_interop_driver::array::{Copy3d, Place, Side};

use crate::sys::array::{Memcpy3d, Memcpy3dSide, memory_type};

pub(crate) fn encode(copy: Copy3d) -> Memcpy3d {
    let [width_in_bytes, height, depth] = copy.extent;
    Memcpy3d { src: side(copy.src), dst: side(copy.dst), width_in_bytes, height, depth }
}

fn side(side: Side) -> Memcpy3dSide {
    let [x_in_bytes, y, z] = side.offset;
    let mut out = Memcpy3dSide {
        x_in_bytes,
        y,
        z,
        level_of_detail: 0,
        memory_type: memory_type::HOST,
        host: ptr::null_mut(),
        device: 0,
        array: 0,
        reserved: ptr::null_mut(),
        pitch: side.pitch,
        height: side.height,
    };
    match side.place {
        Place::Host(ptr) => out.host = ptr.cast(),
        Place::Device(ptr) => (out.memory_type, out.device) = (memory_type::DEVICE, ptr.get()),
        Place::Array(raw) => (out.memory_type, out.array) = (memory_type::ARRAY, raw.get()),
    }
    out
}

#[cfg(test)]
mod tests {
    use cudarc::driver::sys as cuda;
    use gpu_interop_core::backend::{RawArray, RawMipmappedArray, TextureSource};
    use gpu_interop_core::{AddressMode, DevicePtr, FilterMode, ReadMode, TextureDesc};
    use gpu_interop_driver::texture::sampling;

    use super::*;

    #[test]
    fn each_side_of_a_copy_is_encoded() {
        let mut byte = 0_u8;
        let array = Side { place: Place::Array(RawArray::new(7)), offset: [8, 2, 3], pitch: 0, height: 0 };
        let linear = Side { place: Place::Device(DevicePtr::new(0x1000)), offset: [0; 3], pitch: 64, height: 5 };
        let host = Side { place: Place::Host(&raw mut byte), offset: [0; 3], pitch: 20, height: 3 };
        let encoded = encode(Copy3d { dst: linear, src: array, extent: [20, 3, 2] });
        assert_eq!((encoded.width_in_bytes, encoded.height, encoded.depth), (20, 3, 2));
        let (src, dst) = (encoded.src, encoded.dst);
        assert_eq!((src.memory_type, src.array), (memory_type::ARRAY, 7));
        assert_eq!((src.x_in_bytes, src.y, src.z), (8, 2, 3));
        assert_eq!((dst.memory_type, dst.device), (memory_type::DEVICE, 0x1000));
        assert_eq!((dst.pitch, dst.height), (64, 5));
        let encoded = encode(Copy3d { dst: array, src: host, extent: [20, 3, 2] });
        assert_eq!((encoded.src.memory_type, encoded.src.host.cast()), (memory_type::HOST, &raw mut byte));
        assert_eq!((encoded.src.pitch, encoded.src.height), (20, 3));
        assert_eq!(encoded.dst.array, 7);
    }

    #[test]
    fn sampling_is_encoded_with_the_headers_constants() {
        use cuda::{CUaddress_mode_enum as A, CUfilter_mode_enum as F};
        let texture = |desc: &TextureDesc| sampling("op", TextureSource::Array(RawArray::new(1)), desc);
        let desc = TextureDesc::new();
        let encoded = texture(&desc).expect("encodes");
        assert_eq!(encoded.flags, cuda::CU_TRSF_READ_AS_INTEGER);
        assert_eq!(encoded.filter_mode, F::CU_TR_FILTER_MODE_POINT as u32);
        let modes = [
            (AddressMode::Wrap, A::CU_TR_ADDRESS_MODE_WRAP),
            (AddressMode::Clamp, A::CU_TR_ADDRESS_MODE_CLAMP),
            (AddressMode::Mirror, A::CU_TR_ADDRESS_MODE_MIRROR),
            (AddressMode::Border, A::CU_TR_ADDRESS_MODE_BORDER),
        ];
        for (ours, theirs) in modes {
            assert_eq!(texture(&desc.with_address(ours)).expect("encodes").address_mode, [theirs as u32; 3]);
        }
        let linear = desc.with_filter(FilterMode::Linear).with_normalized_coordinates(true).with_read(ReadMode::Srgb);
        let encoded = texture(&linear).expect("encodes");
        assert_eq!(encoded.flags, cuda::CU_TRSF_NORMALIZED_COORDINATES | cuda::CU_TRSF_SRGB);
        assert_eq!(encoded.filter_mode, F::CU_TR_FILTER_MODE_LINEAR as u32);
        assert_eq!(encoded.mipmap_filter_mode, F::CU_TR_FILTER_MODE_LINEAR as u32);
        let all = TextureSource::MipmappedArray { raw: RawMipmappedArray::new(1), levels: 5 };
        assert!((sampling("op", all, &linear).expect("encodes").max_mipmap_level_clamp - 4.0).abs() < f32::EPSILON);
    }
}
