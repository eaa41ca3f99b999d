//! NvSciBuf and NvSciSync objects of sim-nvsci.
//!
//! NVIDIA's driver is linked with the real libraries. This simulator finds sim-nvsci as the application does, by the
//! variable `GPU_INTEROP_NVSCIBUF_LIBRARY`, and queries the contents of objects. Without it, or with another library,
//! imports fail.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::slice;
use std::sync::{Arc, LazyLock};

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::memory::Imported;
use gpu_interop_sim_device::nvsci::{BufferView, ENTRY, Entry, GpuId, Interface, NOT_SUPPORTED, Point};
use gpu_interop_sim_device::objects::Objects;
use gpu_interop_sim_device::semaphore::BatchKind;
use gpu_interop_sim_device::{entries, semaphore, settings};
use libloading::Library;

use crate::driver::check_device;
use crate::{code, driver};

/// Imported NvSciSync objects. Their handles differ from those of other semaphores.
pub(crate) static SYNCS: Objects<Sync> = Objects::new();

/// An imported NvSciSync object.
#[derive(Debug)]
pub(crate) struct Sync {
    interface: &'static Interface,
    import: usize,
}

impl Drop for Sync {
    fn drop(&mut self) {
        // SAFETY: imported once, released once.
        unsafe { (self.interface.release_sync)(self.import) };
    }
}

/// The buffer of an import, which is recorded while this lives.
#[derive(Debug)]
struct RecordedImport {
    interface: &'static Interface,
    object: usize,
}

impl Drop for RecordedImport {
    fn drop(&mut self) {
        // SAFETY: imported once, released once.
        unsafe { (self.interface.release_buffer)(self.object) };
    }
}

/// A point of an object, held until the work that uses it has been dropped.
#[derive(Debug)]
struct HeldPoint {
    interface: &'static Interface,
    point: Point,
}

// SAFETY: the simulator's primitives may be used from any thread.
unsafe impl Send for HeldPoint {}
// SAFETY: as above.
unsafe impl std::marker::Sync for HeldPoint {}

impl Drop for HeldPoint {
    fn drop(&mut self) {
        // SAFETY: created once, released once.
        unsafe { (self.interface.release_point)(&raw const self.point) };
    }
}

/// The simulator, if it is set. Never unloaded.
fn interface() -> Result<&'static Interface, u32> {
    static FOUND: LazyLock<Option<&'static Interface>> = LazyLock::new(|| {
        let file = settings::text("GPU_INTEROP_NVSCIBUF_LIBRARY")?;
        // SAFETY: a simulator's library; the symbol has this type, and its result lives as long as the library.
        unsafe {
            let library = ManuallyDrop::new(Library::new(file).ok()?);
            library.get::<Entry>(ENTRY).ok()?().as_ref()
        }
    });
    (*FOUND).ok_or(code::NOT_SUPPORTED)
}

/// Converts a result of the library to the driver's codes.
fn answer(status: u32) -> Result<(), u32> {
    match status {
        0 => Ok(()),
        NOT_SUPPORTED => Err(code::NOT_SUPPORTED),
        _ => Err(code::INVALID_VALUE),
    }
}

/// `true` if the device supports NvSci.
fn need_embedded() -> Result<(), u32> {
    if driver::is_integrated() { Ok(()) } else { Err(code::NOT_SUPPORTED) }
}

/// The id of the GPU whose context is current: all contexts belong to the first GPU.
fn gpu() -> GpuId {
    driver::uuid(0)
}

pub(crate) fn import_buffer(object: *const c_void) -> Result<Imported, u32> {
    need_embedded()?;
    let interface = interface()?;
    let object = object.expose_provenance();
    code::reject_if(object == 0)?;
    let gpu = gpu();
    let mut view = BufferView { fd: -1, read_only: 0, image: 0, block_linear: 0, size: 0 };
    // SAFETY: the application guarantees the object; the rest is valid for the call.
    answer(unsafe { (interface.import_buffer)(object, &raw const gpu, &raw mut view) })?;
    let noted = RecordedImport { interface, object };
    let imported = open(view.fd).ok_or(code::UNKNOWN)?;
    let imported = imported.sized(view.size).read_only(view.read_only == 1).with_images(view.image == 1);
    Ok(imported.without_rows(view.block_linear == 1).keeping(Arc::new(noted)))
}

#[cfg(target_os = "linux")]
fn open(fd: c_int) -> Option<Imported> {
    Imported::open(fd)
}

/// NvSci does not exist with file mappings.
#[cfg(windows)]
fn open(_fd: c_int) -> Option<Imported> {
    None
}

/// Imports an NvSciSync object.
pub(crate) fn import_sync(object: *const c_void) -> Result<Sync, u32> {
    need_embedded()?;
    let (interface, object) = (interface()?, object.expose_provenance());
    code::reject_if(object == 0)?;
    let (gpu, mut import) = (gpu(), 0);
    // SAFETY: the application guarantees the object; the rest is valid for the call.
    answer(unsafe { (interface.import_sync)(object, &raw const gpu, &raw mut import) })?;
    Ok(Sync { interface, import })
}

/// `true` if a batch consists of NvSciSync objects; mixed batches are not simulated.
///
/// # Safety
/// `handles` points to that many elements.
pub(crate) unsafe fn is_batch(semaphores: *const usize, count: c_uint) -> bool {
    // SAFETY: the caller's promise.
    !semaphores.is_null() && count > 0 && SYNCS.get(unsafe { *semaphores }).is_some()
}

pub(crate) type SignalParams = cuda::CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st;
pub(crate) type WaitParams = cuda::CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st;

/// The parameters of signals, or of waits.
pub(crate) trait Params {
    const KIND: BatchKind;

    /// The point, unless the semaphore is one of NvSciSync, and the flags.
    fn point(&self) -> (semaphore::Point, u32);

    /// The fence, if the semaphore is one of NvSciSync.
    fn fence(&self) -> *mut c_void;
}

impl Params for SignalParams {
    const KIND: BatchKind = BatchKind::Signals;

    fn point(&self) -> (semaphore::Point, u32) {
        (
            semaphore::Point { value: self.params.fence.value, key: self.params.keyedMutex.key, timeout_ms: 0 },
            self.flags,
        )
    }

    fn fence(&self) -> *mut c_void {
        // SAFETY: pointers of any value.
        unsafe { self.params.nvSciSync.fence }
    }
}

impl Params for WaitParams {
    const KIND: BatchKind = BatchKind::Waits;

    fn point(&self) -> (semaphore::Point, u32) {
        let mutex = &self.params.keyedMutex;
        (semaphore::Point { value: self.params.fence.value, key: mutex.key, timeout_ms: mutex.timeoutMs }, self.flags)
    }

    fn fence(&self) -> *mut c_void {
        // SAFETY: pointers of any value.
        unsafe { self.params.nvSciSync.fence }
    }
}

/// The work of a batch. The fences of signals are filled at once, those of waits read.
///
/// # Safety
/// The arrays have that many elements, whose fences are valid.
pub(crate) unsafe fn batch<P: Params>(
    semaphores: *const usize,
    params: *const P,
    count: c_uint,
) -> Result<impl Fn() -> Result<(), u32> + Send + std::marker::Sync + 'static, u32> {
    let signals = P::KIND == BatchKind::Signals;
    code::reject_if(params.is_null())?;
    // SAFETY: the caller's promise.
    let (semaphores, params) =
        unsafe { (slice::from_raw_parts(semaphores, count as usize), slice::from_raw_parts(params, count as usize)) };
    let mut all = Vec::with_capacity(params.len());
    for (semaphore, params) in semaphores.iter().zip(params) {
        let sync = SYNCS.get(*semaphore).ok_or(code::INVALID_HANDLE)?;
        let ((_, flags), fence) = (params.point(), params.fence());
        code::reject_if(flags & !P::KIND.flag() != 0)?;
        let mut point = Point { primitive: std::ptr::null(), value: 0 };
        let interface = sync.interface;
        // SAFETY: the application guarantees the fence.
        answer(unsafe {
            if signals {
                (interface.next_point)(sync.import, fence, &raw mut point)
            } else {
                (interface.point_of)(sync.import, fence, &raw mut point)
            }
        })?;
        (interface.count_memsync)(u32::from(signals), u32::from(flags != 0));
        all.push(HeldPoint { interface, point });
    }
    Ok(move || {
        for HeldPoint { interface, point } in &all {
            let reach = if signals { interface.signal } else { interface.wait };
            // SAFETY: held.
            unsafe { reach(point) };
        }
        Ok(())
    })
}

entries! {
    fn cuDeviceGetNvSciSyncAttributes(list: *mut c_void, device: c_int, flags: c_int) {
        let device = check_device(device)?;
        if list.is_null() {
            return Err(code::INVALID_HANDLE);
        }
        code::reject_if(flags & !3 != 0 || flags == 0)?;
        need_embedded()?;
        let gpu = driver::uuid(device);
        answer((interface()?.fill_list)(list.expose_provenance(), &raw const gpu, flags))
    }
}
