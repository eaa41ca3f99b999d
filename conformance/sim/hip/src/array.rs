//! Mipmapped arrays of external memory, which the runtime supports on Windows, and copies of them. Surfaces and
//! textures are not supported.

use std::ffi::c_uint;

use cubecl_hip_sys as hip;
use gpu_interop_sim_abi::hip::version::Behaviour;
use gpu_interop_sim_device::array::{CopyLocation, CopySide, Image, LEVELS, MIPMAPPED, Mipmapped, enqueue_copy_now};
use gpu_interop_sim_device::memory::IMPORTED;
use gpu_interop_sim_device::{code, entries, work};

use crate::device::need;
use crate::die_because;
use crate::give;
use crate::streams::DESTROYED;

type Desc = hip::hipExternalMemoryMipmappedArrayDesc_st;
type Copy = hip::HIP_MEMCPY3D;

/// The supported flags of an array: layers, stores and gathers.
const FLAGS: u32 = hip::hipArrayLayered | hip::hipArraySurfaceLoadStore | hip::hipArrayTextureGather;

/// Bytes per texel: channels of equal width, without gaps, of a supported kind.
fn texel(format: hip::hipChannelFormatDesc) -> Option<usize> {
    let bits = [format.x, format.y, format.z, format.w];
    let kinds = [
        hip::hipChannelFormatKind_hipChannelFormatKindSigned,
        hip::hipChannelFormatKind_hipChannelFormatKindUnsigned,
        hip::hipChannelFormatKind_hipChannelFormatKindFloat,
    ];
    let channels = bits.iter().take_while(|bits| **bits > 0).count();
    let alike =
        bits[..channels].iter().all(|width| *width == bits[0]) && bits[channels..].iter().all(|bits| *bits == 0);
    let least = if format.f == kinds[2] { 16 } else { 8 };
    let sound =
        [1, 2, 4].contains(&channels) && alike && [least, 16, 32].contains(&bits[0]) && kinds.contains(&format.f);
    sound.then_some(usize::try_from(bits[0] / 8).ok()? * channels)
}

/// The image of a description.
fn image(desc: &Desc) -> Option<Image> {
    let (extent, layered) = (desc.extent, desc.flags & hip::hipArrayLayered != 0);
    let sound = extent.width > 0
        && desc.flags & !FLAGS == 0
        && (!layered || extent.depth > 0)
        && (layered || extent.depth == 0 || extent.height > 0);
    let texel = texel(desc.formatDesc).filter(|_| sound)?;
    Some(Image { width: extent.width, height: extent.height, depth: extent.depth.max(1), layered, texel })
}

fn place(kind: hip::hipMemoryType, host: usize, device: usize, array: usize) -> CopyLocation {
    match kind {
        hip::hipMemoryType_hipMemoryTypeHost => CopyLocation::Memory(host),
        hip::hipMemoryType_hipMemoryTypeDevice => CopyLocation::Memory(device),
        hip::hipMemoryType_hipMemoryTypeArray => CopyLocation::Array(array),
        _ => CopyLocation::Unknown,
    }
}

entries! {
    after need;

    fn hipExternalMemoryGetMappedMipmappedArray(array: *mut usize, memory: usize, desc: *const Desc) gives array {
        let memory = IMPORTED.get(memory).ok_or(code::INVALID_VALUE)?;
        code::reject_if(array.is_null() || desc.is_null())?;
        let (image, levels) = (image(&*desc).ok_or(code::INVALID_VALUE)?, (*desc).numLevels);
        // The number of levels is not checked: wrap-around is impossible, and the runtime's behaviour with too many is
        // unknown.
        if levels == 0 || levels > image.max_levels() {
            die_because("an image is mapped with a number of levels that it cannot have");
        }
        let (mapping, lead) = memory.map_real_rest((*desc).offset).ok_or(code::INVALID_VALUE)?;
        give(array, MIPMAPPED.insert(Mipmapped::new(mapping, lead, &image, levels)))
    }

    fn hipMipmappedArrayGetLevel(level: *mut usize, array: usize, number: c_uint) gives level {
        let array = MIPMAPPED.get(array).ok_or(code::INVALID_HANDLE)?;
        // Each call returns a new array.
        give(level, array.new_level(number).ok_or(code::INVALID_VALUE)?)
    }

    fn hipArrayDestroy(array: usize) {
        code::reject_if(array == 0)?;
        LEVELS.remove(array).map(drop).ok_or(DESTROYED)
    }

    fn hipMipmappedArrayDestroy(array: usize) {
        let array = MIPMAPPED.remove(array).ok_or(code::INVALID_HANDLE)?;
        if !Behaviour::LevelsKeepImages.now() {
            array.end_levels();
        }
        Ok(())
    }

    fn hipDrvMemcpy3DAsync(copy: *const Copy, stream: usize) {
        let stream = work::stream_of(stream)?;
        code::reject_if(copy.is_null() || (*copy).srcLOD != 0 || (*copy).dstLOD != 0)?;
        let copy = &*copy;
        let (host, device) = (copy.srcHost.expose_provenance(), copy.srcDevice.expose_provenance());
        let source = CopySide {
            place: place(copy.srcMemoryType, host, device, copy.srcArray.addr()),
            origin: [copy.srcXInBytes, copy.srcY, copy.srcZ],
            pitch: copy.srcPitch,
            height: copy.srcHeight,
        };
        let (host, device) = (copy.dstHost.expose_provenance(), copy.dstDevice.expose_provenance());
        let target = CopySide {
            place: place(copy.dstMemoryType, host, device, copy.dstArray.addr()),
            origin: [copy.dstXInBytes, copy.dstY, copy.dstZ],
            pitch: copy.dstPitch,
            height: copy.dstHeight,
        };
        // No version captures it.
        enqueue_copy_now(&stream, source, target, [copy.WidthInBytes, copy.Height, copy.Depth])
    }
}
