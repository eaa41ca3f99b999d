//! The interface for a simulator of CUDA's driver.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu_interop_sim_abi::lock;
use gpu_interop_sim_abi::nvsci::{BufferView, GpuId, Interface, Point};
use gpu_interop_sim_abi::objects::Objects;

use crate::attributes::Stored;
use crate::buffer::buffer_of;
use crate::sync::{Fence, GPU, Primitive, REQUIRED_PERM, SIGNAL, SyncObject, WAIT, list_of, sync_of};
use crate::{IMPORTS, error, panics};

static INTERFACE: Interface = Interface {
    import_buffer,
    release_buffer,
    fill_list,
    import_sync,
    release_sync,
    next_point,
    point_of,
    signal,
    wait,
    release_point,
    count_memsync,
};

/// Returns the interface.
#[unsafe(no_mangle)]
pub extern "C" fn sim_nvsci_interface() -> *const Interface {
    &raw const INTERFACE
}

/// Signals with and without synchronisation of memory, and waits with and without it.
static MEMSYNCS: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// The number of signals (0, 1) and waits (2, 3) with (0, 2) or without (1, 3) synchronisation of memory.
#[unsafe(no_mangle)]
pub extern "C" fn sim_nvsci_memsyncs(which: u32) -> u64 {
    MEMSYNCS.get(which as usize).map_or(0, |count| count.load(Ordering::SeqCst))
}

extern "C" fn count_memsync(signal: u32, skipped: u32) {
    let which = if signal == 1 { skipped } else { 2 + skipped };
    if let Some(count) = MEMSYNCS.get(which as usize) {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

unsafe extern "C" fn import_buffer(object: usize, gpu: *const GpuId, view: *mut BufferView) -> u32 {
    let buffer = buffer_of(object);
    // SAFETY: the driver passes both.
    unsafe {
        if !buffer.is_for(&*gpu) {
            return error::BAD_PARAMETER;
        }
        view.write(BufferView {
            fd: buffer.memory.file.as_raw_fd(),
            read_only: (buffer.perm() != 3).into(),
            image: buffer.is_image().into(),
            block_linear: buffer.is_block_linear().into(),
            size: buffer.size(),
        });
    }
    buffer.imports.fetch_add(1, Ordering::SeqCst);
    IMPORTS.fetch_add(1, Ordering::SeqCst);
    0
}

unsafe extern "C" fn release_buffer(object: usize) {
    buffer_of(object).imports.fetch_sub(1, Ordering::SeqCst);
    IMPORTS.fetch_sub(1, Ordering::SeqCst);
}

unsafe extern "C" fn fill_list(list: usize, gpu: *const GpuId, flags: c_int) -> u32 {
    let list = list_of(list);
    let mut values = lock(&list.values);
    if list.is_reconciled() || values.contains_key(&REQUIRED_PERM) {
        return error::BAD_PARAMETER;
    }
    let perm = |flag: c_int, perm: u64| if flags & flag == 0 { 0 } else { perm };
    values.insert(REQUIRED_PERM, Stored::new(&(perm(1, 2) | perm(2, 1)).to_ne_bytes()));
    // SAFETY: the driver passes it.
    values.insert(GPU, Stored::new(unsafe { &*gpu }));
    0
}

/// A driver's import of an object, which holds the object.
#[derive(Debug)]
struct SyncImport {
    object: Arc<SyncObject>,
    /// The GPU's permissions.
    perm: u64,
}

static SYNC_IMPORTS: Objects<SyncImport> = Objects::new();

unsafe extern "C" fn import_sync(object: usize, gpu: *const GpuId, import: *mut usize) -> u32 {
    let object = sync_of(object);
    object.imports.fetch_add(1, Ordering::SeqCst);
    IMPORTS.fetch_add(1, Ordering::SeqCst);
    // SAFETY: the driver passes both.
    unsafe {
        let perm = object.gpu_perm(&*gpu);
        import.write(SYNC_IMPORTS.insert(SyncImport { object, perm }));
    }
    0
}

unsafe extern "C" fn release_sync(import: usize) {
    let import = SYNC_IMPORTS.remove(import).unwrap_or_else(|| panics("an import was released twice, or is invalid"));
    import.object.imports.fetch_sub(1, Ordering::SeqCst);
    IMPORTS.fetch_sub(1, Ordering::SeqCst);
}

/// An import whose GPU has this permission.
fn permitted(import: usize, perm: u64) -> Result<Arc<SyncImport>, u32> {
    let import = SYNC_IMPORTS.get(import).unwrap_or_else(|| panics("this import was released, or is invalid"));
    if import.perm & perm == 0 { Err(error::NOT_SUPPORTED) } else { Ok(import) }
}

fn point(primitive: &Arc<Primitive>, value: u64) -> Point {
    Point { primitive: Arc::into_raw(primitive.clone()).cast(), value }
}

unsafe extern "C" fn next_point(import: usize, fence: *mut c_void, out: *mut Point) -> u32 {
    let object = match permitted(import, SIGNAL) {
        Ok(import) => import.object.clone(),
        Err(code) => return code,
    };
    let fence = fence.cast::<Fence>();
    // SAFETY: the driver passes a fence of the application, and a target for the point.
    unsafe {
        if fence.is_null() {
            return error::BAD_PARAMETER;
        }
        // A stricter check for the application: NVIDIA's driver overwrites a filled fence. It is not documented whether
        // it releases the old reference, so passing a filled fence may leak.
        if !(*fence).is_cleared() {
            panics("a signal was given an NvSciSyncFence that is not cleared: its previous reference is lost");
        }
        let value = object.primitive.plan();
        fence.write(Fence::new(&object, 0, value));
        out.write(point(&object.primitive, value));
    }
    0
}

unsafe extern "C" fn point_of(import: usize, fence: *const c_void, out: *mut Point) -> u32 {
    if let Err(code) = permitted(import, WAIT) {
        return code;
    }
    // SAFETY: the driver passes a fence of the application, and a target for the point.
    unsafe {
        let Some(fence) = fence.cast::<Fence>().as_ref() else { return error::BAD_PARAMETER };
        // A stricter check for the application: NVIDIA's samples pass cleared fences, which seem to count as signalled.
        if fence.is_cleared() {
            return error::BAD_PARAMETER;
        }
        out.write(point(&fence.reference().primitive, fence.value()));
    }
    0
}

/// # Safety
/// The point was not released.
unsafe fn primitive<'a>(point: *const Point) -> (&'a Primitive, u64) {
    // SAFETY: the caller's promise: the point holds it.
    unsafe { (&*(*point).primitive.cast::<Primitive>(), (*point).value) }
}

unsafe extern "C" fn signal(point: *const Point) {
    // SAFETY: the driver releases points last.
    let (primitive, value) = unsafe { primitive(point) };
    primitive.reach(value);
}

unsafe extern "C" fn wait(point: *const Point) {
    // SAFETY: as above.
    let (primitive, value) = unsafe { primitive(point) };
    if !primitive.skips_waits {
        primitive.wait(value, None);
    }
}

unsafe extern "C" fn release_point(point: *const Point) {
    // SAFETY: created by `point`, released once.
    drop(unsafe { Arc::from_raw((*point).primitive.cast::<Primitive>()) });
}
