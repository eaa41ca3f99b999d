//! Mapped images with their extents in the record. Used by the backends' tests.

use gpu_interop_core::backend::RawMemory;
use gpu_interop_core::{ArrayShape, BackendDevice, MipmappedArrayDesc};

use super::recorder::{Expected, MEMORY, MIPMAPPED, Recorder};

/// Every shape with its extent in the headers' terms, and whether it is layered and a cube.
pub const SHAPES: [(ArrayShape, [u64; 3], bool, bool); 7] = [
    (ArrayShape::D1 { width: 64 }, [64, 0, 0], false, false),
    (ArrayShape::D1Layered { width: 64, layers: 5 }, [64, 0, 5], true, false),
    (ArrayShape::D2 { width: 64, height: 32 }, [64, 32, 0], false, false),
    (ArrayShape::D2Layered { width: 64, height: 32, layers: 5 }, [64, 32, 5], true, false),
    (ArrayShape::D3 { width: 64, height: 32, depth: 16 }, [64, 32, 16], false, false),
    (ArrayShape::Cube { width: 64 }, [64, 64, 6], false, true),
    (ArrayShape::CubeLayered { width: 64, cubes: 2 }, [64, 64, 12], true, true),
];

/// Maps an image, and checks its description in the record.
pub fn mapped(device: &dyn BackendDevice, recorder: &mut Recorder, desc: &MipmappedArrayDesc, shown: &str) {
    // SAFETY: the mock maps nothing.
    let array = unsafe { device.map_mipmapped_array(RawMemory::new(MEMORY), desc) }.expect("maps");
    assert_eq!(array.get(), MIPMAPPED);
    let (cuda, hip) = ("cuExternalMemoryGetMappedMipmappedArray", "hipExternalMemoryGetMappedMipmappedArray");
    let map = Expected { cuda, hip, arguments: format!("{MEMORY:#x} {shown}") };
    recorder.entered(&format!("{desc:?}"), &[map]);
}
