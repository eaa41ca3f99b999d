//! Mapped images and external semaphores, which the runtime supports on Windows only.
//!
//! Surfaces and textures are not supported. Graphs do not capture external semaphores.

use std::ffi::{c_uint, c_void};
use std::{ptr, slice};

use cubecl_hip_sys as hip;
use gpu_interop_sim_abi::hip::generation::{CHECKS_KINDS, Generation, Handle};
use gpu_interop_sim_abi::hip::version::{Behaviour, Era};
use gpu_interop_sim_device::array::{CopyLocation, CopySide, Image, LEVELS, MIPMAPPED, Mipmapped, enqueue_copy_now};
use gpu_interop_sim_device::memory::IMPORTED;
use gpu_interop_sim_device::semaphore::{BatchKind, Point, SEMAPHORES, Semaphore, batch_work};
use gpu_interop_sim_device::system::ImportHandle;
use gpu_interop_sim_device::{code, die, entries, work};

use crate::device::need;
use crate::external::given;
use crate::streams::{DESTROYED, Missing};
use crate::{die_because, give, streams};

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

/// The last kind that the runtime tries to open, of those that begin with 1.
const LAST: u32 = hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeD3D12Fence;
const OPAQUE_FD: u32 = hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueFd;
const KMT: u32 = hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueWin32Kmt;

/// Opens a handle; `None` if the object does not exist.
///
/// # Safety
/// The import's description is still valid.
unsafe fn open(kind: u32, handle: Handle) -> Option<Semaphore> {
    let kind = match kind {
        OPAQUE_FD => return None,
        LAST if Behaviour::NoFence.now() => return None,
        LAST if Behaviour::FenceAsKmt.now() => KMT,
        kind => kind,
    };
    // Names are never used.
    // SAFETY: the caller's promise.
    let given = match unsafe { given(kind, handle) } {
        ImportHandle::Object { handle, .. } => ImportHandle::Object { handle, name: ptr::null() },
        number @ ImportHandle::Kmt(_) => number,
    };
    Semaphore::open(given)
}

/// The semaphores of a batch up to the first invalid one, and whether all are valid. NULL and all flags are invalid
/// (`hipSignalExternalSemaphoresAsync` of CLR 6), and earlier elements stay enqueued.
///
/// # Safety
/// The arrays are NULL, or have that many elements, which live as long as the result.
unsafe fn right<'a>(
    semaphores: *const usize,
    params: *const c_void,
    count: c_uint,
) -> Result<(&'a [usize], bool), u32> {
    code::reject_if(semaphores.is_null() || params.is_null())?;
    // SAFETY: the caller's promise.
    let semaphores = unsafe { slice::from_raw_parts(semaphores, count as usize) };
    let refuses_flags = Era::now() >= Era::Six;
    // SAFETY: the caller's promise.
    let flags = |index| unsafe { Generation::now().flags(params, index) };
    let wrong = |(index, semaphore): (usize, &usize)| *semaphore == 0 || (refuses_flags && flags(index) != 0);
    let right = semaphores.iter().enumerate().position(wrong).unwrap_or(semaphores.len());
    Ok((&semaphores[..right], right == semaphores.len()))
}

/// The point of an element, whose flags were checked: no runtime has keyed mutexes.
///
/// # Safety
/// The element exists.
unsafe fn point(params: *const c_void, index: usize) -> (Point, u32) {
    // SAFETY: the caller's promise.
    let [value, key] = unsafe { Generation::now().value_and_key(params, index) };
    (Point { value, key, timeout_ms: 0 }, 0)
}

/// Has a stream signal semaphores, or wait for them. Neither is recorded: they are run at once where a graph is.
///
/// # Safety
/// As for [`right`].
unsafe fn enqueue(
    kind: BatchKind,
    semaphores: *const usize,
    params: *const c_void,
    count: c_uint,
    stream: usize,
) -> Result<(), u32> {
    need()?;
    let (_, stream) = streams::for_work(stream, &Missing::KERNEL)?;
    // SAFETY: the caller's promise.
    let (some, all) = unsafe { right(semaphores, params, count) }?;
    if !some.is_empty() {
        // SAFETY: as above: the elements are there.
        stream.enqueue_now(batch_work(kind, some, &|index| unsafe { point(params, index) })?);
    }
    code::reject_if(!all)
}

entries! {
    fn hipImportExternalSemaphore(semaphore: *mut usize, desc: *const c_void) gives semaphore {
        need()?;
        code::reject_if(semaphore.is_null() || desc.is_null())?;
        // The flags are not checked (CLR, `hipImportExternalSemaphore`).
        let (kind, handle, _flags) = Generation::now().semaphore(desc);
        let checks = Generation::now().version() >= CHECKS_KINDS;
        code::reject_if(checks && (!(OPAQUE_FD..=LAST).contains(&kind) || handle.object()[0].is_null()))?;
        let failed = if Era::now() == Era::Early { code::INVALID_VALUE } else { code::NOT_SUPPORTED };
        give(semaphore, SEMAPHORES.insert(open(kind, handle).ok_or(failed)?))
    }

    fn hipDestroyExternalSemaphore(semaphore: usize) {
        need()?;
        code::reject_if(semaphore == 0)?;
        SEMAPHORES.remove(semaphore).unwrap_or_else(|| die());
        Ok(())
    }

    fn hipSignalExternalSemaphoresAsync(semaphores: *const usize, params: *const c_void, count: c_uint, stream: usize) {
        enqueue(BatchKind::Signals, semaphores, params, count, stream)
    }

    fn hipWaitExternalSemaphoresAsync(semaphores: *const usize, params: *const c_void, count: c_uint, stream: usize) {
        enqueue(BatchKind::Waits, semaphores, params, count, stream)
    }

    fn hipGraphExecExternalSemaphoresSignalNodeSetParams(graph: usize, node: usize, params: *const c_void) {
        set_params(graph, node, params)
    }

    fn hipGraphExecExternalSemaphoresWaitNodeSetParams(graph: usize, node: usize, params: *const c_void) {
        set_params(graph, node, params)
    }
}

/// Replaces the work of a node. The runtime does not check that the node is one of semaphores, and nothing here creates
/// such nodes: it overwrites memory of another node.
fn set_params(graph: usize, node: usize, params: *const c_void) -> Result<(), u32> {
    code::reject_if(graph == 0 || node == 0 || params.is_null())?;
    die_because("a node of a graph that has no semaphores is given some")
}
