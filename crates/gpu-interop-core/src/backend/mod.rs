//! Traits that a backend implements: a thin unsafe layer over one driver, without policy.
//!
//! # Contract
//! A [`BackendDevice`] method maps to one or two driver calls and nothing else. Its caller is a safe object of this
//! crate, which guarantees the following, so that backends need not check it again:
//!
//! * every raw value belongs to the same device, is live, and is freed exactly once;
//! * ranges lie inside the memory they belong to, sizes and counts are not 0, batches are not empty;
//! * handle kinds and features are declared supported by [`Capabilities`];
//! * nothing is freed while work that uses it is pending on a stream.
//!
//! A backend guarantees in return:
//!
//! * it never takes the handle out of an import request; the driver gets a duplicate of a descriptor
//!   ([`LentFd`](crate::handle::LentFd)), and after a failure no duplicate is left open;
//! * a method that returns an error has created, enqueued and freed nothing;
//! * errors name the driver function and its code; the caller adds backend, device and sizes;
//! * all methods may be called from any thread, and restore the calling thread's current context.

pub mod bytes;
mod types;

use std::ffi::{CStr, c_void};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

pub use crate::raw::{
    DevicePtr, RawAllocation, RawArray, RawContext, RawEvent, RawGraph, RawGraphNode, RawKernel, RawMemory,
    RawMipmappedArray, RawModule, RawSemaphore, RawStream, RawSurface, RawTexture,
};

pub use types::{
    ArrayCopy, ArrayCopySide, BlockLayout, ExportableAllocation, HostFunction, RawSignal, RawWait, SemaphoreBlocks,
    SignalMemory, TextureSource, WaitCondition,
};

use crate::array::MipmappedArrayDesc;
use crate::capability::Capabilities;
use crate::error::{Error, Result};
use crate::handle::{MemoryHandle, NvSciSyncAttrList};
use crate::identity::DeviceIdentity;
use crate::import::{MemoryImport, SemaphoreImport};
use crate::kernel::{KernelArg, LaunchConfig, ModuleImage};
use crate::nv_sci::NvSciSyncUse;
use crate::texture::TextureDesc;

/// Name and driver of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[doc(alias("cuDriverGetVersion", "cudaDriverGetVersion", "hipRuntimeGetVersion", "hipDriverGetVersion"))]
#[non_exhaustive]
pub struct BackendInfo {
    /// The backend's name: `cuda`, `hip`, `host`, or a third party's.
    pub name: String,
    /// Driver version in the vendor's notation.
    pub driver: String,
    /// Path of the loaded library, if there is one.
    pub library: Option<PathBuf>,
    /// `true` if the driver is a simulator, shim, fake or mock, and not a vendor's. Reports mark such runs.
    pub simulated: bool,
}

impl BackendInfo {
    /// A vendor's driver without a library file.
    #[must_use]
    pub fn new(name: impl Into<String>, driver: impl Into<String>) -> Self {
        Self { name: name.into(), driver: driver.into(), library: None, simulated: false }
    }
}

setters! {
    BackendInfo {
        /// Sets the library file.
        with_library => library: impl Into<Option<PathBuf>>;
        /// Sets whether the driver is a simulator, a shim, a fake or a mock.
        with_simulated => simulated: bool;
    }
}

/// A loaded driver.
pub trait Backend: Send + Sync + fmt::Debug {
    /// Name and driver of this backend.
    fn info(&self) -> &BackendInfo;

    /// Identities of all devices, in the driver's order.
    ///
    /// # Errors
    /// The driver's error if the device count cannot be queried; no device at all is an empty list, not an error. A
    /// device whose properties cannot be queried stays in the list, with the failure in its name and no other field,
    /// and [`Backend::open`] returns the error: a broken device hides no other.
    #[doc(alias("cuDeviceGetCount", "cudaGetDeviceCount", "hipGetDeviceCount"))]
    fn devices(&self) -> Result<Vec<DeviceIdentity>>;

    /// Opens the device at `ordinal` in [`Backend::devices`].
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`](crate::ErrorKind::NoDevice) if there is no such device; else the driver's error.
    fn open(&self, ordinal: usize) -> Result<Arc<dyn BackendDevice>>;
}

fn missing(operation: &'static str) -> Error {
    Error::unsupported(operation, "the backend does not implement it")
}

/// One device of a driver. The [module documentation](self) states the contract of every method.
///
/// A backend may omit methods with a default body; its capabilities must then not declare the feature. This is one
/// trait, not one for each role, because applications never call it: they call [`Device`](crate::Device), and
/// [`Capabilities`] says before a call what a device has.
///
/// # Safety of the unsafe methods
/// The caller fulfils the contract of the [module documentation](self); each method documents additional requirements.
///
/// # Safety
/// Safe objects rely on these properties of an implementation:
/// * [`allocate_signal_memory`](Self::allocate_signal_memory) returns host memory that is live, aligned to 8 bytes and
///   of the stated size until [`free_signal_memory`](Self::free_signal_memory), and that the backend accesses with
///   atomics only;
/// * [`query_stream`](Self::query_stream), [`query_event`](Self::query_event) and
///   [`synchronize_stream`](Self::synchronize_stream) report work as completed only when it is, and return an error of
///   kind [`DeviceLost`](crate::ErrorKind::DeviceLost) only when no work runs any more;
/// * imports, mappings and allocations have at least the requested size, and are live until they are freed;
/// * imports neither close the request's handle nor retain it;
/// * [`export_allocation`](Self::export_allocation) returns a new handle of that allocation, which keeps the memory
///   alive and is of the kind that its variant names;
/// * host functions run once, and copies access only the given ranges.
///
/// ```compile_fail,E0200
/// # use gpu_interop_core::BackendDevice;
/// #[derive(Debug)]
/// struct Mine;
/// impl BackendDevice for Mine {} // requires `unsafe impl`
/// ```
#[allow(clippy::missing_safety_doc, clippy::missing_errors_doc)] // Documented once, above.
pub unsafe trait BackendDevice: Send + Sync + fmt::Debug {
    /// Identity of the device.
    fn identity(&self) -> &DeviceIdentity;

    /// Capabilities of the device; the same value at every call.
    fn capabilities(&self) -> &Capabilities;

    /// The driver's context that every object of the device belongs to, valid while the device is open; `None` if the
    /// driver has none. Other libraries compare it with theirs.
    fn context(&self) -> Option<RawContext> {
        None
    }

    /// Architecture that compiled images must be built for, in the vendor's notation (`gfx90a:sramecc+:xnack-`); `None`
    /// if the driver compiles code for its devices itself, or does not report one.
    fn architecture(&self) -> Option<&str> {
        None
    }

    /// `true` if freeing memory or a module waits for all streams of the device, as `hipFree` does. If so, the safe
    /// objects do not call [`destroy_memory`](Self::destroy_memory), [`destroy_exportable`](Self::destroy_exportable)
    /// and [`unload_module`](Self::unload_module) while a stream waits for a word in memory or a semaphore of another
    /// API: the calling thread may be the one that must satisfy the wait.
    fn frees_wait_for_streams(&self) -> bool {
        false
    }

    /// Cancels enqueued work that is waiting, where the driver supports it. The device is being closed and no more work
    /// will be enqueued. Does not block.
    ///
    /// Beyond the contract: no other thread uses this device.
    unsafe fn cancel_pending_work(&self) {}

    /// Imports memory (`cuImportExternalMemory`, `hipImportExternalMemory`). The request keeps ownership of its handle.
    unsafe fn import_memory(&self, request: &MemoryImport) -> Result<RawMemory>;

    /// Destroys an import (`cuDestroyExternalMemory`) whose mappings have been freed.
    unsafe fn destroy_memory(&self, memory: RawMemory) -> Result<()>;

    /// Maps a range as a linear buffer (`cuExternalMemoryGetMappedBuffer`). Offset and size are in bytes.
    unsafe fn map_buffer(&self, memory: RawMemory, offset: u64, size: u64) -> Result<DevicePtr>;

    /// Frees a mapping that [`BackendDevice::map_buffer`] returned for this memory (`cuMemFree`, `hipFree`). Other
    /// mappings may begin at the same address, and stay valid.
    unsafe fn free_buffer(&self, memory: RawMemory, buffer: DevicePtr) -> Result<()>;

    /// Maps an image (`cuExternalMemoryGetMappedMipmappedArray`).
    unsafe fn map_mipmapped_array(&self, _memory: RawMemory, _desc: &MipmappedArrayDesc) -> Result<RawMipmappedArray> {
        Err(missing("BackendDevice::map_mipmapped_array"))
    }

    /// Returns one level of a mipmapped array (`cuMipmappedArrayGetLevel`), owned by the mipmapped array.
    unsafe fn mipmapped_array_level(&self, _array: RawMipmappedArray, _level: u32) -> Result<RawArray> {
        Err(missing("BackendDevice::mipmapped_array_level"))
    }

    /// Unmaps an image (`cuMipmappedArrayDestroy`).
    unsafe fn free_mipmapped_array(&self, _array: RawMipmappedArray) -> Result<()> {
        Err(missing("BackendDevice::free_mipmapped_array"))
    }

    /// Creates a surface of an array that was mapped with surface usage (`cuSurfObjectCreate`).
    unsafe fn create_surface(&self, _array: RawArray) -> Result<RawSurface> {
        Err(missing("BackendDevice::create_surface"))
    }

    /// Destroys a surface (`cuSurfObjectDestroy`).
    unsafe fn destroy_surface(&self, _surface: RawSurface) -> Result<()> {
        Err(missing("BackendDevice::destroy_surface"))
    }

    /// Creates a texture (`cuTexObjectCreate`). The description is valid for the array's format.
    unsafe fn create_texture(&self, _source: TextureSource, _desc: &TextureDesc) -> Result<RawTexture> {
        Err(missing("BackendDevice::create_texture"))
    }

    /// Destroys a texture (`cuTexObjectDestroy`).
    unsafe fn destroy_texture(&self, _texture: RawTexture) -> Result<()> {
        Err(missing("BackendDevice::destroy_texture"))
    }

    /// Allocates exportable memory of at least `size` bytes.
    fn create_exportable(&self, _size: u64) -> Result<ExportableAllocation> {
        Err(missing("BackendDevice::create_exportable"))
    }

    /// Exports an allocation. Each call returns a new handle.
    unsafe fn export_allocation(&self, _allocation: &ExportableAllocation) -> Result<MemoryHandle> {
        Err(missing("BackendDevice::export_allocation"))
    }

    /// Frees an allocation. Handles exported from it stay valid.
    unsafe fn destroy_exportable(&self, _allocation: &ExportableAllocation) -> Result<()> {
        Err(missing("BackendDevice::destroy_exportable"))
    }

    /// Imports a semaphore (`cuImportExternalSemaphore`). The request keeps ownership of its handle.
    unsafe fn import_semaphore(&self, _request: &SemaphoreImport) -> Result<RawSemaphore> {
        Err(missing("BackendDevice::import_semaphore"))
    }

    /// Destroys an imported semaphore (`cuDestroyExternalSemaphore`).
    unsafe fn destroy_semaphore(&self, _semaphore: RawSemaphore) -> Result<()> {
        Err(missing("BackendDevice::destroy_semaphore"))
    }

    /// Fills an NvSciSync attribute list (`cuDeviceGetNvSciSyncAttributes`). `uses` is not empty.
    ///
    /// Beyond the contract: the list is valid, and no other thread uses it during the call.
    unsafe fn fill_nv_sci_sync_attributes(&self, _list: NvSciSyncAttrList, _uses: NvSciSyncUse) -> Result<()> {
        Err(missing("BackendDevice::fill_nv_sci_sync_attributes"))
    }

    /// Enqueues signals (`cuSignalExternalSemaphoresAsync`).
    unsafe fn signal_semaphores(&self, _stream: RawStream, _signals: &[RawSignal]) -> Result<()> {
        Err(missing("BackendDevice::signal_semaphores"))
    }

    /// Enqueues waits (`cuWaitExternalSemaphoresAsync`).
    unsafe fn wait_semaphores(&self, _stream: RawStream, _waits: &[RawWait]) -> Result<()> {
        Err(missing("BackendDevice::wait_semaphores"))
    }

    /// Layout of the driver's parameter blocks of binary semaphores and timelines, for prepared batches. `None` if the
    /// backend has none; prepared batches then use [`BackendDevice::signal_semaphores`].
    fn semaphore_blocks(&self) -> Option<SemaphoreBlocks> {
        None
    }

    /// Enqueues signals of binary semaphores and timelines, with one block of [`BackendDevice::semaphore_blocks`] for
    /// each.
    unsafe fn signal_blocks(&self, _stream: RawStream, _semaphores: &[RawSemaphore], _blocks: &[u64]) -> Result<()> {
        Err(missing("BackendDevice::signal_blocks"))
    }

    /// Enqueues waits, as [`BackendDevice::signal_blocks`] enqueues signals.
    unsafe fn wait_blocks(&self, _stream: RawStream, _semaphores: &[RawSemaphore], _blocks: &[u64]) -> Result<()> {
        Err(missing("BackendDevice::wait_blocks"))
    }

    /// Creates a stream that does not synchronise with the default stream.
    fn create_stream(&self) -> Result<RawStream>;

    /// Destroys a stream. Work already enqueued still runs.
    unsafe fn destroy_stream(&self, stream: RawStream) -> Result<()>;

    /// Blocks until all enqueued work has completed, and returns failures since the last call.
    unsafe fn synchronize_stream(&self, stream: RawStream) -> Result<()>;

    /// Returns failures since the last report, without blocking; the stream is idle. Needed only if
    /// [`BackendDevice::query_stream`] does not report them.
    unsafe fn take_stream_failure(&self, _stream: RawStream) -> Result<()> {
        Ok(())
    }

    /// `true` if all enqueued work has completed. Does not block, and does not consume the failure that a
    /// synchronisation reports. A transient condition is `Ok(false)`, and so may be the first query after new work.
    /// After an error the caller queries in another way ([`BackendDevice::query_event`], and for an event its stream)
    /// and treats the work as pending, unless both return [`DeviceLost`](crate::ErrorKind::DeviceLost).
    unsafe fn query_stream(&self, stream: RawStream) -> Result<bool>;

    /// `true` if a graph is being captured on the stream, which the query leaves intact. `false` for backends and
    /// drivers without such a query.
    unsafe fn is_capturing(&self, _stream: RawStream) -> Result<bool> {
        Ok(false)
    }

    /// `true` if the stream is known to be of another context or device than this. `false` for backends and drivers
    /// without such a query. Not called for the numbers of default streams.
    unsafe fn is_foreign(&self, _stream: RawStream) -> Result<bool> {
        Ok(false)
    }

    /// Creates an event without timing.
    fn create_event(&self) -> Result<RawEvent>;

    /// Destroys an event. Unlike other objects, an event may be pending, as in CUDA and HIP.
    unsafe fn destroy_event(&self, event: RawEvent) -> Result<()>;

    /// Records an event after all work enqueued so far.
    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()>;

    /// `true` if all work before the event's last record has completed; `true` if it was never recorded. Errors as for
    /// [`BackendDevice::query_stream`].
    unsafe fn query_event(&self, event: RawEvent) -> Result<bool>;

    /// Makes a stream wait for an event's last record.
    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()>;

    /// Enqueues a copy between device addresses, `size` in bytes. The ranges do not overlap.
    unsafe fn copy(&self, stream: RawStream, dst: DevicePtr, src: DevicePtr, size: u64) -> Result<()>;

    /// Enqueues a copy to host memory, which is valid until the copy has completed.
    unsafe fn copy_to_host(&self, stream: RawStream, dst: *mut u8, src: DevicePtr, size: u64) -> Result<()>;

    /// Enqueues a copy from host memory, which is valid until the copy has completed.
    unsafe fn copy_from_host(&self, stream: RawStream, dst: DevicePtr, src: *const u8, size: u64) -> Result<()>;

    /// Enqueues a copy with an array on at least one side (`cuMemcpy3DAsync`). Both sides contain the extent; host
    /// memory is valid until the copy has completed.
    unsafe fn copy_array(&self, _stream: RawStream, _copy: &ArrayCopy) -> Result<()> {
        Err(missing("BackendDevice::copy_array"))
    }

    /// Enqueues a fill of `size` bytes.
    unsafe fn fill_u8(&self, stream: RawStream, dst: DevicePtr, value: u8, size: u64) -> Result<()>;

    /// Enqueues a fill of `count` 32-bit words; `dst` is 4-byte aligned.
    unsafe fn fill_u32(&self, stream: RawStream, dst: DevicePtr, value: u32, count: u64) -> Result<()>;

    /// Makes a stream wait for a naturally aligned 32-bit word (`cuStreamWaitValue32`).
    unsafe fn wait_value_u32(
        &self,
        _stream: RawStream,
        _word: DevicePtr,
        _value: u32,
        _condition: WaitCondition,
    ) -> Result<()> {
        Err(missing("BackendDevice::wait_value_u32"))
    }

    /// Makes a stream wait for a naturally aligned 64-bit word (`cuStreamWaitValue64`).
    unsafe fn wait_value_u64(
        &self,
        _stream: RawStream,
        _word: DevicePtr,
        _value: u64,
        _condition: WaitCondition,
    ) -> Result<()> {
        Err(missing("BackendDevice::wait_value_u64"))
    }

    /// Makes a stream write a naturally aligned 32-bit word after earlier work's writes are visible
    /// (`cuStreamWriteValue32`).
    unsafe fn write_value_u32(&self, _stream: RawStream, _word: DevicePtr, _value: u32) -> Result<()> {
        Err(missing("BackendDevice::write_value_u32"))
    }

    /// Makes a stream write a naturally aligned 64-bit word, as [`BackendDevice::write_value_u32`]
    /// (`cuStreamWriteValue64`).
    unsafe fn write_value_u64(&self, _stream: RawStream, _word: DevicePtr, _value: u64) -> Result<()> {
        Err(missing("BackendDevice::write_value_u64"))
    }

    /// Allocates zeroed memory for words that streams wait for and write ([`BackendDevice::wait_value_u64`] and the
    /// other word operations) while the host writes and reads them (`cuMemHostRegister`, `hipExtMallocWithFlags`).
    /// The size is the allocation granularity: a page, or a single word.
    #[doc(alias(
        "cuMemHostRegister",
        "cuMemHostGetDevicePointer",
        "cuMemHostAlloc",
        "cudaHostRegister",
        "cudaHostGetDevicePointer",
        "cudaHostAlloc",
        "hipHostRegister",
        "hipHostGetDevicePointer",
        "hipExtMallocWithFlags",
        "hipMalloc"
    ))]
    fn allocate_signal_memory(&self) -> Result<SignalMemory> {
        Err(missing("BackendDevice::allocate_signal_memory"))
    }

    /// Frees signal memory that no pending work waits for or writes.
    #[doc(alias("cuMemHostUnregister", "cudaHostUnregister", "hipHostUnregister"))]
    unsafe fn free_signal_memory(&self, _memory: SignalMemory) -> Result<()> {
        Err(missing("BackendDevice::free_signal_memory"))
    }

    /// Enqueues a call of `function(data)` (`cuLaunchHostFunc`). After `Ok` it is called exactly once, unless the
    /// device is closed first; after `Err`, never. The function does not unwind.
    unsafe fn launch_host_function(
        &self,
        _stream: RawStream,
        _function: HostFunction,
        _data: *mut c_void,
    ) -> Result<()> {
        Err(missing("BackendDevice::launch_host_function"))
    }

    /// Loads a module (`cuModuleLoadData`).
    fn load_module(&self, _image: ModuleImage<'_>) -> Result<RawModule> {
        Err(missing("BackendDevice::load_module"))
    }

    /// Unloads a module whose kernels are not pending.
    unsafe fn unload_module(&self, _module: RawModule) -> Result<()> {
        Err(missing("BackendDevice::unload_module"))
    }

    /// Looks up a kernel by name, which is not empty. The kernel lives as long as its module. An unknown name is
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
    unsafe fn module_kernel(&self, _module: RawModule, _name: &CStr) -> Result<RawKernel> {
        Err(missing("BackendDevice::module_kernel"))
    }

    /// Enqueues a kernel. Number and types of the arguments match the kernel's parameters; no argument is a
    /// [`Buffer`](KernelArg::Buffer) or has 0 bytes. [`KernelArg::Value`] is valid until the call returns.
    unsafe fn launch_kernel(
        &self,
        _stream: RawStream,
        _kernel: RawKernel,
        _config: &LaunchConfig,
        _args: &[KernelArg<'_>],
    ) -> Result<()> {
        Err(missing("BackendDevice::launch_kernel"))
    }

    /// Begins to capture work enqueued on a stream (`cuStreamBeginCapture`, relaxed). The stream is idle. Until
    /// [`BackendDevice::end_capture`] only copies, fills, kernels, word operations and semaphore operations are
    /// enqueued on it.
    unsafe fn begin_capture(&self, _stream: RawStream) -> Result<()> {
        Err(missing("BackendDevice::begin_capture"))
    }

    /// Returns the node captured last (`cuStreamGetCaptureInfo`): a batch of signals or waits. It lives as long as the
    /// graph.
    unsafe fn last_captured(&self, _stream: RawStream) -> Result<RawGraphNode> {
        Err(missing("BackendDevice::last_captured"))
    }

    /// Ends the capture, also if it fails, and instantiates the graph (`cuStreamEndCapture`, `cuGraphInstantiate`).
    unsafe fn end_capture(&self, _stream: RawStream) -> Result<RawGraph> {
        Err(missing("BackendDevice::end_capture"))
    }

    /// Replaces a captured batch of signals by one of the same length, for later launches
    /// (`cuGraphExecExternalSemaphoresSignalNodeSetParams`). No other thread uses the graph during the call.
    unsafe fn set_captured_signals(&self, _: RawGraph, _: RawGraphNode, _signals: &[RawSignal]) -> Result<()> {
        Err(missing("BackendDevice::set_captured_signals"))
    }

    /// Replaces a captured batch of waits, as [`BackendDevice::set_captured_signals`]
    /// (`cuGraphExecExternalSemaphoresWaitNodeSetParams`).
    unsafe fn set_captured_waits(&self, _: RawGraph, _: RawGraphNode, _waits: &[RawWait]) -> Result<()> {
        Err(missing("BackendDevice::set_captured_waits"))
    }

    /// Enqueues a graph (`cuGraphLaunch`). No other thread uses the graph during the call. The objects that the graph
    /// uses are live until the launch has completed.
    unsafe fn launch_graph(&self, _stream: RawStream, _graph: RawGraph) -> Result<()> {
        Err(missing("BackendDevice::launch_graph"))
    }

    /// Destroys a graph (`cuGraphExecDestroy`).
    unsafe fn destroy_graph(&self, _graph: RawGraph) -> Result<()> {
        Err(missing("BackendDevice::destroy_graph"))
    }
}
