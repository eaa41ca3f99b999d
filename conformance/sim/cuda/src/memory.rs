//! Allocations, copies and fills; virtual memory management: memory that can be exported; and mipmapped arrays of
//! external memory, with copies of them. Surfaces and textures are not supported: `dlsym` does not find their
//! functions, as in a driver that lacks them.

use std::ffi::{c_uint, c_void};
use std::ptr::with_exposed_provenance_mut as to;

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::array::{CopyLocation, CopySide, Image, MIPMAPPED, Mipmapped, enqueue_copy};
use gpu_interop_sim_device::system::ExportHandle;
use gpu_interop_sim_device::{device, entries, memory, physical, system, work};

use crate::external::memory_of;
use crate::{address, code, driver, give, graph};

entries! {
    after driver::need_context;

    fn cuMemAlloc_v2(pointer: *mut u64, size: usize) gives pointer {
        graph::check_permitted()?;
        code::reject_if(size == 0)?;
        give(pointer, memory::allocate(size, false).ok_or(code::OUT_OF_MEMORY)? as u64)
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        give(free, usize::try_from(device::free_memory()).unwrap_or(usize::MAX))?;
        give(total, usize::try_from(device::TOTAL_MEMORY).unwrap_or(usize::MAX))
    }

    fn cuMemFree_v2(pointer: u64) {
        graph::check_permitted()?;
        driver::drain();
        if memory::free(address(pointer)) { Ok(()) } else { Err(code::INVALID_VALUE) }
    }

    fn cuMemHostAlloc(pointer: *mut *mut c_void, size: usize, flags: c_uint) gives pointer {
        graph::check_permitted()?;
        code::reject_if(size == 0 || flags & !7 != 0)?;
        give(pointer, to(memory::allocate(size, false).ok_or(code::OUT_OF_MEMORY)?))
    }

    fn cuMemHostGetDevicePointer_v2(device: *mut u64, pointer: *mut c_void, flags: c_uint) gives device {
        code::reject_if(pointer.is_null() || flags != 0)?;
        let address = pointer.expose_provenance();
        code::reject_if(memory::number(address).is_none() && !memory::is_pinned(address))?;
        give(device, address as u64)
    }

    fn cuMemHostRegister_v2(pointer: *mut c_void, size: usize, flags: c_uint) {
        graph::check_permitted()?;
        code::reject_if(pointer.is_null() || size == 0 || flags & !0xf != 0)?;
        if memory::pin(pointer.expose_provenance()) { Ok(()) } else { Err(code::HOST_MEMORY_ALREADY_REGISTERED) }
    }

    fn cuMemHostUnregister(pointer: *mut c_void) {
        graph::check_permitted()?;
        driver::drain();
        if memory::unpin(pointer.expose_provenance()) { Ok(()) } else { Err(code::HOST_MEMORY_NOT_REGISTERED) }
    }

    fn cuMemFreeHost(pointer: *mut c_void) {
        graph::check_permitted()?;
        driver::drain();
        if memory::free(pointer.expose_provenance()) { Ok(()) } else { Err(code::INVALID_VALUE) }
    }

    fn cuMemcpyDtoDAsync_v2(target: u64, source: u64, size: usize, stream: usize) {
        work::copy(address(target), address(source), size, stream)
    }

    fn cuMemcpyDtoHAsync_v2(target: *mut c_void, source: u64, size: usize, stream: usize) {
        work::copy(target.expose_provenance(), address(source), size, stream)
    }

    fn cuMemcpyHtoDAsync_v2(target: u64, source: *const c_void, size: usize, stream: usize) {
        work::copy(address(target), source.expose_provenance(), size, stream)
    }

    fn cuMemcpyDtoH_v2(target: *mut c_void, source: u64, size: usize) {
        work::copy(target.expose_provenance(), address(source), size, 0)?;
        work::stream_of(0)?.synchronize()
    }

    fn cuMemcpyHtoD_v2(target: u64, source: *const c_void, size: usize) {
        work::copy(address(target), source.expose_provenance(), size, 0)?;
        work::stream_of(0)?.synchronize()
    }

    fn cuMemsetD8Async(target: u64, value: u8, count: usize, stream: usize) {
        work::fill(target, value, count, stream)
    }

    fn cuMemsetD32Async(target: u64, value: u32, count: usize, stream: usize) {
        work::fill(target, value, count, stream)
    }

    fn cuMemsetD8_v2(target: u64, value: u8, count: usize) {
        work::fill(target, value, count, 0)?;
        work::stream_of(0)?.synchronize()
    }
}

type Prop = cuda::CUmemAllocationProp_st;
type Access = cuda::CUmemAccessDesc_st;

/// The numbers of a description. Its enums are read as numbers, because callers may pass any value.
///
/// # Safety
/// `prop` is valid.
unsafe fn numbers(prop: *const Prop) -> [u32; 4] {
    // SAFETY: the caller's promise. Of a location the device comes after the type.
    unsafe {
        [
            (&raw const (*prop).type_).cast::<u32>().read(),
            (&raw const (*prop).requestedHandleTypes).cast::<u32>().read(),
            (&raw const (*prop).location).cast::<u32>().read(),
            (&raw const (*prop).location).cast::<u32>().add(1).read(),
        ]
    }
}

entries! {
    after driver::need_context;

    fn cuMemGetAllocationGranularity(granularity: *mut usize, prop: *const Prop, option: c_uint) gives granularity {
        code::reject_if(prop.is_null() || option > 1)?;
        physical::check(numbers(prop))?;
        give(granularity, physical::granularity())
    }

    fn cuMemCreate(handle: *mut u64, size: usize, prop: *const Prop, flags: u64) gives handle {
        code::reject_if(handle.is_null() || prop.is_null())?;
        physical::check(numbers(prop))?;
        if cfg!(windows) && (&raw const (*prop).requestedHandleTypes).cast::<u32>().read() != 0 {
            // As documented: Win32 exports require security attributes.
            code::reject_if((*prop).win32HandleMetaData.is_null())?;
        }
        give(handle, physical::create(size, flags)?)
    }

    fn cuMemRelease(handle: u64) {
        physical::release(handle)
    }

    fn cuMemAddressReserve(pointer: *mut u64, size: usize, alignment: usize, _hint: u64, flags: u64) gives pointer {
        code::reject_if(pointer.is_null())?;
        give(pointer, physical::reserve(size, alignment, flags)?)
    }

    fn cuMemAddressFree(pointer: u64, size: usize) {
        physical::unreserve(pointer, size)
    }

    fn cuMemMap(pointer: u64, size: usize, offset: usize, handle: u64, flags: u64) {
        physical::map(pointer, size, offset, handle, flags)
    }

    fn cuMemUnmap(pointer: u64, size: usize) {
        physical::unmap(pointer, size)
    }

    fn cuMemSetAccess(pointer: u64, size: usize, desc: *const Access, count: usize) {
        code::reject_if(desc.is_null() || count != 1)?;
        let location = (&raw const (*desc).location).cast::<u32>().read();
        physical::allow(pointer, size, [location, (&raw const (*desc).flags).cast::<u32>().read()])
    }

    fn cuMemImportFromShareableHandle(handle: *mut u64, exported: *mut c_void, kind: c_uint) gives handle {
        code::reject_if(handle.is_null())?;
        give(handle, physical::import(system::given(exported), kind)?)
    }

    fn cuMemExportToShareableHandle(shareable: *mut ExportHandle, handle: u64, kind: c_uint, flags: u64) {
        code::reject_if(shareable.is_null())?;
        give(shareable, physical::export(handle, kind, flags)?)
    }
}

type ArrayDesc = cuda::CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st;
type ArrayCopy = cuda::CUDA_MEMCPY3D_st;

/// The flags of this version of CUDA.
const ARRAY_FLAGS: u32 = 0x1ff;

/// Bytes of a channel, and the number of channels if the format determines it.
fn array_format(format: u32) -> Option<(usize, Option<u32>)> {
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
unsafe fn image(desc: *const ArrayDesc) -> Result<Image, u32> {
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
    let (size, fixed) = array_format(number).ok_or(code::INVALID_VALUE)?;
    let layered = flags & (cuda::CUDA_ARRAY3D_LAYERED | cuda::CUDA_ARRAY3D_CUBEMAP) != 0;
    let cube = flags & cuda::CUDA_ARRAY3D_CUBEMAP != 0;
    let sound = width > 0
        && [1, 2, 4].contains(&channels)
        && fixed.is_none_or(|fixed| fixed == channels)
        && flags & !ARRAY_FLAGS == 0
        && (!layered || depth > 0)
        && (!cube || (width == height && depth % 6 == 0))
        && (layered || depth == 0 || height > 0);
    code::reject_if(!sound)?;
    Ok(Image { width, height, depth: depth.max(1), layered, texel: size * channels as usize })
}

/// The kind of a side, by its memory type: host, device or array.
fn copy_location(kind: u32, host: usize, device: u64, array: usize) -> CopyLocation {
    match kind {
        1 => CopyLocation::Memory(host),
        2 => CopyLocation::Memory(address(device)),
        3 => CopyLocation::Array(array),
        _ => CopyLocation::Unknown,
    }
}

/// # Safety
/// `copy` is valid. Its enums are read as numbers.
unsafe fn copy_sides(copy: *const ArrayCopy) -> [CopySide; 2] {
    // SAFETY: the caller's promise.
    unsafe {
        [
            CopySide {
                place: copy_location(
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
                place: copy_location(
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
unsafe fn is_plain_copy(copy: *const ArrayCopy) -> bool {
    // SAFETY: the caller's promise.
    let (levels, reserved): ([usize; 2], [*mut c_void; 2]) =
        unsafe { ([(*copy).srcLOD, (*copy).dstLOD], [(*copy).reserved0, (*copy).reserved1]) };
    levels == [0; 2] && reserved.iter().all(|pointer| pointer.is_null())
}

entries! {
    after driver::need_context;

    fn cuExternalMemoryGetMappedMipmappedArray(array: *mut usize, memory: usize, desc: *const ArrayDesc) gives array {
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

    fn cuMemcpy3DAsync_v2(copy: *const ArrayCopy, stream: usize) {
        let stream = work::stream_of(stream)?;
        code::reject_if(copy.is_null() || !is_plain_copy(copy))?;
        let [source, target] = copy_sides(copy);
        enqueue_copy(&stream, source, target, [(*copy).WidthInBytes, (*copy).Height, (*copy).Depth])
    }
}
