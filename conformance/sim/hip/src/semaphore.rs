//! External semaphores, which the runtime supports on Windows. Graphs do not capture them.

use std::ffi::{c_uint, c_void};
use std::{ptr, slice};

use cubecl_hip_sys as hip;
use gpu_interop_sim_abi::hip::generation::{CHECKS_KINDS, Generation, Handle};
use gpu_interop_sim_abi::hip::version::{Behaviour, Era};
use gpu_interop_sim_device::semaphore::{BatchKind, Point, SEMAPHORES, Semaphore, batch_work};
use gpu_interop_sim_device::system::Given;
use gpu_interop_sim_device::{code, die, entries};

use crate::device::need;
use crate::die_because;
use crate::external::given;
use crate::streams::Missing;
use crate::{give, streams};

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
        Given::Object { handle, .. } => Given::Object { handle, name: ptr::null() },
        number @ Given::Kmt(_) => number,
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
    sort: BatchKind,
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
        stream.enqueue_now(batch_work(sort, some, &|index| unsafe { point(params, index) })?);
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
