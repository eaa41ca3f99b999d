//! Mipmapped arrays of external memory, and copies of them. Surfaces and textures are not supported: `dlsym` does not
//! find their functions, as in a driver that lacks them.

use std::ffi::{c_uint, c_void};

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::array::{CopyLocation, CopySide, Image, MIPMAPPED, Mipmapped, enqueue_copy};
use gpu_interop_sim_device::{entries, work};

use crate::external::memory_of;
use crate::{address, code, driver, give};

type Desc = cuda::CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st;
type Copy = cuda::CUDA_MEMCPY3D_st;

/// The flags of this version of CUDA.
const FLAGS: u32 = 0x1ff;

/// Bytes of a channel, and the number of channels if the format determines it.
fn format(format: u32) -> Option<(usize, Option<u32>)> {
    Some(match format {
        0x01 | 0x08 => (1, None),
        0x02 | 0x09 | 0x10 => (2, None),
        0x03 | 0x0a | 0x20 => (4, None),
        // UNORM_INT_101010_2: one texel of four bytes.
        0x50 => (1, Some(4)),
        // UNORM and SNORM, of 8 and 16 bits, of 1, 2 and 4 channels.
        192..=203 => (1 + ((format - 192) / 3 % 2) as usize, Some(1 << ((format - 192) % 3))),
        _ => return None,
    })
}

/// The image of a description.
///
/// # Safety
/// `desc` is valid. Its enum is read as a number, because callers may pass any value.
unsafe fn image(desc: *const Desc) -> Result<Image, u32> {
    // SAFETY: the caller's promise.
    let (number, [width, height, depth], channels, flags) = unsafe {
        let array = &raw const (*desc).arrayDesc;
        (
            (&raw const (*array).Format).cast::<u32>().read(),
            [(*array).Width, (*array).Height, (*array).Depth],
            (*array).NumChannels,
            (*array).Flags,
        )
    };
    let (size, fixed) = format(number).ok_or(code::INVALID_VALUE)?;
    let layered = flags & (cuda::CUDA_ARRAY3D_LAYERED | cuda::CUDA_ARRAY3D_CUBEMAP) != 0;
    let cube = flags & cuda::CUDA_ARRAY3D_CUBEMAP != 0;
    let sound = width > 0
        && [1, 2, 4].contains(&channels)
        && fixed.is_none_or(|fixed| fixed == channels)
        && flags & !FLAGS == 0
        && (!layered || depth > 0)
        && (!cube || (width == height && depth % 6 == 0))
        && (layered || depth == 0 || height > 0);
    code::reject_if(!sound)?;
    Ok(Image { width, height, depth: depth.max(1), layered, texel: size * channels as usize })
}

/// The kind of a side, by its memory type: host, device or array.
fn place(kind: u32, host: usize, device: u64, array: usize) -> CopyLocation {
    match kind {
        1 => CopyLocation::Memory(host),
        2 => CopyLocation::Memory(address(device)),
        3 => CopyLocation::Array(array),
        _ => CopyLocation::Unknown,
    }
}

/// # Safety
/// `copy` is valid. Its enums are read as numbers.
unsafe fn sides(copy: *const Copy) -> [CopySide; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        [
            CopySide {
                place: place(
                    (&raw const (*copy).srcMemoryType).cast::<u32>().read(),
                    (*copy).srcHost.expose_provenance(),
                    (*copy).srcDevice,
                    (*copy).srcArray.addr(),
                ),
                origin: [(*copy).srcXInBytes, (*copy).srcY, (*copy).srcZ],
                pitch: (*copy).srcPitch,
                height: (*copy).srcHeight,
            },
            CopySide {
                place: place(
                    (&raw const (*copy).dstMemoryType).cast::<u32>().read(),
                    (*copy).dstHost.expose_provenance(),
                    (*copy).dstDevice,
                    (*copy).dstArray.addr(),
                ),
                origin: [(*copy).dstXInBytes, (*copy).dstY, (*copy).dstZ],
                pitch: (*copy).dstPitch,
                height: (*copy).dstHeight,
            },
        ]
    }
}

/// `true` if the reserved fields are zero.
///
/// # Safety
/// `copy` is valid.
unsafe fn is_plain(copy: *const Copy) -> bool {
    // SAFETY: the caller's promise.
    let (levels, reserved): ([usize; 2], [*mut c_void; 2]) =
        unsafe { ([(*copy).srcLOD, (*copy).dstLOD], [(*copy).reserved0, (*copy).reserved1]) };
    levels == [0; 2] && reserved.iter().all(|pointer| pointer.is_null())
}

entries! {
    after driver::need_context;

    fn cuExternalMemoryGetMappedMipmappedArray(array: *mut usize, memory: usize, desc: *const Desc) gives array {
        let memory = memory_of(memory);
        code::reject_if(array.is_null() || desc.is_null())?;
        let levels = (*desc).numLevels;
        if levels == 0 {
            // Measured: glibc detects heap corruption.
            std::process::abort();
        }
        let image = image(desc)?;
        code::reject_if(levels > image.max_levels())?;
        if !memory.has_known_images() {
            return Err(code::NOT_SUPPORTED);
        }
        let (mapping, lead) = memory.map_rest((*desc).offset).ok_or(code::INVALID_VALUE)?;
        give(array, MIPMAPPED.insert(Mipmapped::new(mapping, lead, &image, levels)))
    }

    fn cuMipmappedArrayGetLevel(level: *mut usize, array: usize, number: c_uint) gives level {
        let array = MIPMAPPED.get(array).ok_or(code::INVALID_HANDLE)?;
        give(level, array.level(number).ok_or(code::INVALID_VALUE)?)
    }

    fn cuMipmappedArrayDestroy(array: usize) {
        driver::drain();
        MIPMAPPED.remove(array).map(drop).ok_or(code::INVALID_HANDLE)
    }

    fn cuMemcpy3DAsync_v2(copy: *const Copy, stream: usize) {
        let stream = work::stream_of(stream)?;
        code::reject_if(copy.is_null() || !is_plain(copy))?;
        let [source, target] = sides(copy);
        enqueue_copy(&stream, source, target, [(*copy).WidthInBytes, (*copy).Height, (*copy).Depth])
    }
}
