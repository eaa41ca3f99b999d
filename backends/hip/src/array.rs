//! Encoding of array copies as `HIP_MEMCPY3D`.

use std::ptr;

use gpu_interop_driver::array::{Copy3d, Place, Side};

use crate::sys::array::{Memcpy3d, Memcpy3dSide, memory_type};

pub(crate) fn encode(copy: Copy3d) -> Memcpy3d {
    Memcpy3d { src: side(copy.src), dst: side(copy.dst), extent: copy.extent }
}

fn side(side: Side) -> Memcpy3dSide {
    let (memory_type, host, device, array) = match side.place {
        Place::Host(ptr) => (memory_type::HOST, ptr.cast(), 0, 0),
        Place::Device(ptr) => (memory_type::DEVICE, ptr::null_mut(), ptr.get(), 0),
        Place::Array(raw) => (memory_type::ARRAY, ptr::null_mut(), 0, raw.get()),
    };
    let Side { offset, pitch, height, .. } = side;
    Memcpy3dSide { offset, level_of_detail: 0, memory_type, host, device, array, pitch, height }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::DevicePtr;
    use gpu_interop_core::backend::RawArray;

    use super::*;

    #[test]
    fn a_copy_out_of_an_array_is_encoded() {
        let src = Side { place: Place::Array(RawArray::new(7)), offset: [8, 2, 3], pitch: 0, height: 0 };
        let dst = Side { place: Place::Device(DevicePtr::new(0x1000)), offset: [0; 3], pitch: 64, height: 5 };
        let encoded = encode(Copy3d { src, dst, extent: [20, 3, 2] });
        assert_eq!((encoded.src.memory_type, encoded.src.array, encoded.src.device), (10, 7, 0));
        assert_eq!(encoded.src.offset, [8, 2, 3]);
        assert_eq!((encoded.dst.memory_type, encoded.dst.array, encoded.dst.device), (2, 0, 0x1000));
        assert_eq!((encoded.dst.pitch, encoded.dst.height, encoded.extent), (64, 5, [20, 3, 2]));
    }
}
