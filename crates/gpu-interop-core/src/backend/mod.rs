//! The layer that a backend implements: thin, unsafe, without policy.
//!
//! # Contract
//! A [`BackendDevice`] method maps to one or two driver calls and nothing else. The safe objects of this crate
//! are its caller and promise, so that no backend has to check it again:
//!
//! * every raw value came from the same device, is live, and is freed exactly once;
//! * ranges lie inside the memory they belong to, sizes and counts are not 0, batches are not empty;
//! * handle kinds and features are ones that [`Capabilities`] declares supported;
//! * nothing is freed while work that uses it is pending on a stream.
//!
//! In return a backend promises:
//!
//! * it never takes the handle of an import request; whatever its driver does to descriptors, it does to a
//!   duplicate ([`LentFd`](crate::handle::LentFd)), and after a failure no duplicate is left open;
//! * on an error nothing was created, enqueued or freed;
//! * errors carry the driver's function name and code; the caller adds backend, device and sizes;
//! * all methods may be called from any thread, and leave the calling thread's current context as it was.

pub mod bytes;
mod raw;
mod types;

use std::ffi::{CStr, c_void};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use raw::{
    DevicePtr, RawAllocation, RawArray, RawEvent, RawGraph, RawGraphNode, RawKernel, RawMemory, RawMipmappedArray,
    RawModule, RawSemaphore, RawStream, RawSurface, RawTexture,
};

pub use types::{
    ArrayCopy, ArrayCopySide, ExportableAllocation, HostFunction, RawSignal, RawWait, SignalMemory, TextureSource,
    WaitCondition,
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

/// What a backend is and which driver it found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(
    transform = simulated_or_former_name,
    extend("anyOf" = [
        { "required": ["simulated"] },
        { "required": ["stand_in"], "properties": { "stand_in": { "type": "boolean" } } },
    ]),
))]
pub struct BackendInfo {
    /// The backend's name: `cuda`, `hip`, `host`, or a third party's.
    pub name: String,
    /// The driver's version as its vendor writes it.
    pub driver: String,
    /// The library file in use, if there is one.
    pub library: Option<PathBuf>,
    /// Whether the driver is a simulator, a shim, a fake or a mock, and not a vendor's. Reports say so.
    #[serde(alias = "stand_in")]
    pub simulated: bool,
}

/// Has the schema accept reports of earlier versions too, which have `stand_in` for `simulated`.
#[cfg(feature = "schemars")]
fn simulated_or_former_name(schema: &mut schemars::Schema) {
    if let Some(required) = schema.get_mut("required").and_then(|names| names.as_array_mut()) {
        required.retain(|name| name != "simulated");
    }
}

/// A loaded driver.
pub trait Backend: Send + Sync + fmt::Debug {
    /// What this backend is.
    fn info(&self) -> &BackendInfo;

    /// The identity of every device, in the driver's order.
    ///
    /// # Errors
    /// What the driver answers when it is asked how many there are; no device at all is an empty list, not an error. A
    /// device that does not answer is in the list by a name that says so, with nothing to compare it by, and opening it
    /// is the error: one that is broken hides no other.
    fn devices(&self) -> Result<Vec<DeviceIdentity>>;

    /// Opens the device at `ordinal` in [`Backend::devices`].
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`](crate::ErrorKind::NoDevice) if there is no such device; else the driver's answer.
    fn open(&self, ordinal: usize) -> Result<Arc<dyn BackendDevice>>;
}

fn missing(operation: &'static str) -> Error {
    Error::unsupported(operation, "the backend does not implement it")
}

/// One device of a driver. See the [module documentation](self) for the contract of every method.
///
/// The methods with a default body may be left out by a backend that lacks them; its capabilities must then not
/// declare them.
///
/// # Safety of the unsafe methods
/// The caller keeps the promises of the [module documentation](self); each method names what goes beyond them.
///
/// # Safety
/// Safe objects rely on what an implementation returns:
/// * [`allocate_signal_memory`](Self::allocate_signal_memory) gives memory of the host that is live, aligned to 8 bytes and as
///   large as it says until [`free_signal_memory`](Self::free_signal_memory), accessed by atomics only;
/// * [`query_stream`](Self::query_stream), [`query_event`](Self::query_event) and
///   [`synchronize_stream`](Self::synchronize_stream) answer that work has run only when it has, and an error of kind
///   [`DeviceLost`](crate::ErrorKind::DeviceLost) only when nothing runs any more;
/// * what is imported, mapped or allocated is as large as was asked for, and stays until it is freed;
/// * imports keep the request's handle open, and neither close nor keep it themselves;
/// * [`export_allocation`](Self::export_allocation) gives a new handle of that very allocation, which keeps its memory and is
///   what its variant names;
/// * host functions run once, and copies touch the ranges that they are given and no others.
///
/// ```compile_fail,E0200
/// # use gpu_interop_core::BackendDevice;
/// #[derive(Debug)]
/// struct Mine;
/// impl BackendDevice for Mine {} // `unsafe impl` is what it takes
/// ```
#[allow(clippy::missing_safety_doc, clippy::missing_errors_doc)] // Said once, above.
pub unsafe trait BackendDevice: Send + Sync + fmt::Debug {
    /// Which device this is.
    fn identity(&self) -> &DeviceIdentity;

    /// What it can do. The same answer at every call.
    fn capabilities(&self) -> &Capabilities;

    /// The architecture that compiled images must be built for, as its vendor writes it (`gfx90a:sramecc+:xnack-`);
    /// `None` if the driver translates code for its devices itself, or does not say.
    fn architecture(&self) -> Option<&str> {
        None
    }

    /// Whether freeing memory or a module waits for all streams of the device, as `hipFree` does. Then the safe objects do
    /// not call [`destroy_memory`](Self::destroy_memory), [`destroy_exportable`](Self::destroy_exportable) and
    /// [`unload_module`](Self::unload_module) while a stream waits for a timeline over a bridge: the calling thread may be
    /// the one that is to signal it.
    fn frees_wait_for_streams(&self) -> bool {
        false
    }

    /// Gives up on enqueued work that waits for something, where the driver can: the device is being closed and
    /// nothing will be enqueued any more. Does not block.
    ///
    /// Beyond the contract: the caller is the only one that uses this device.
    unsafe fn cancel_pending_work(&self) {}

    /// Imports memory (`cuImportExternalMemory`, `hipImportExternalMemory`). The request keeps its handle.
    unsafe fn import_memory(&self, request: &MemoryImport) -> Result<RawMemory>;

    /// Ends an import (`cuDestroyExternalMemory`). Its mappings are gone by now.
    unsafe fn destroy_memory(&self, memory: RawMemory) -> Result<()>;

    /// Maps a range as a linear buffer (`cuExternalMemoryGetMappedBuffer`). Offset and size are in bytes.
    unsafe fn map_buffer(&self, memory: RawMemory, offset: u64, size: u64) -> Result<DevicePtr>;

    /// Unmaps what [`BackendDevice::map_buffer`] returned for this memory (`cuMemFree`, `hipFree`). Other mappings may
    /// begin at the same address, and stay.
    unsafe fn free_buffer(&self, memory: RawMemory, buffer: DevicePtr) -> Result<()>;

    /// Maps an image (`cuExternalMemoryGetMappedMipmappedArray`).
    unsafe fn map_mipmapped_array(&self, _memory: RawMemory, _desc: &MipmappedArrayDesc) -> Result<RawMipmappedArray> {
        Err(missing("BackendDevice::map_mipmapped_array"))
    }

    /// One level of a mipmapped array (`cuMipmappedArrayGetLevel`). Owned by the mipmapped array.
    unsafe fn mipmapped_array_level(&self, _array: RawMipmappedArray, _level: u32) -> Result<RawArray> {
        Err(missing("BackendDevice::mipmapped_array_level"))
    }

    /// Unmaps an image (`cuMipmappedArrayDestroy`).
    unsafe fn free_mipmapped_array(&self, _array: RawMipmappedArray) -> Result<()> {
        Err(missing("BackendDevice::free_mipmapped_array"))
    }

    /// Makes a surface of an array that was mapped for it (`cuSurfObjectCreate`).
    unsafe fn create_surface(&self, _array: RawArray) -> Result<RawSurface> {
        Err(missing("BackendDevice::create_surface"))
    }

    /// Destroys a surface (`cuSurfObjectDestroy`).
    unsafe fn destroy_surface(&self, _surface: RawSurface) -> Result<()> {
        Err(missing("BackendDevice::destroy_surface"))
    }

    /// Makes a texture (`cuTexObjectCreate`). The description fits the array's format.
    unsafe fn create_texture(&self, _source: TextureSource, _desc: &TextureDesc) -> Result<RawTexture> {
        Err(missing("BackendDevice::create_texture"))
    }

    /// Destroys a texture (`cuTexObjectDestroy`).
    unsafe fn destroy_texture(&self, _texture: RawTexture) -> Result<()> {
        Err(missing("BackendDevice::destroy_texture"))
    }

    /// Allocates memory that can be exported, of at least `size` bytes.
    fn create_exportable(&self, _size: u64) -> Result<ExportableAllocation> {
        Err(missing("BackendDevice::create_exportable"))
    }

    /// Exports an allocation. Each call gives a new handle.
    unsafe fn export_allocation(&self, _allocation: &ExportableAllocation) -> Result<MemoryHandle> {
        Err(missing("BackendDevice::export_allocation"))
    }

    /// Frees an allocation. Handles exported from it stay valid.
    unsafe fn destroy_exportable(&self, _allocation: &ExportableAllocation) -> Result<()> {
        Err(missing("BackendDevice::destroy_exportable"))
    }

    /// Imports a semaphore (`cuImportExternalSemaphore`). The request keeps its handle.
    unsafe fn import_semaphore(&self, _request: &SemaphoreImport) -> Result<RawSemaphore> {
        Err(missing("BackendDevice::import_semaphore"))
    }

    /// Ends a semaphore's import (`cuDestroyExternalSemaphore`).
    unsafe fn destroy_semaphore(&self, _semaphore: RawSemaphore) -> Result<()> {
        Err(missing("BackendDevice::destroy_semaphore"))
    }

    /// Fills an NvSciSync attribute list (`cuDeviceGetNvSciSyncAttributes`). At least one use is named.
    ///
    /// Beyond the contract: the list is valid, and used by nobody else during the call.
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

    /// Creates a stream that does not synchronise with the default stream.
    fn create_stream(&self) -> Result<RawStream>;

    /// Destroys a stream. Work already enqueued still runs.
    unsafe fn destroy_stream(&self, stream: RawStream) -> Result<()>;

    /// Blocks until everything enqueued has run, and reports what failed since the last call.
    unsafe fn synchronize_stream(&self, stream: RawStream) -> Result<()>;

    /// Reports what failed since the last report, without blocking; the caller found the stream idle. Only for
    /// backends whose [`BackendDevice::query_stream`] does not report it.
    unsafe fn take_stream_failure(&self, _stream: RawStream) -> Result<()> {
        Ok(())
    }

    /// Whether everything enqueued has run. Does not block, and does not take the failure that a synchronisation
    /// reports. What may pass is `Ok(false)`. After an error the caller asks in another way ([`BackendDevice::query_event`],
    /// and there this), and takes the work for pending, unless both say
    /// [`DeviceLost`](crate::ErrorKind::DeviceLost).
    unsafe fn query_stream(&self, stream: RawStream) -> Result<bool>;

    /// Creates an event without timing.
    fn create_event(&self) -> Result<RawEvent>;

    /// Destroys an event. Unlike other objects it may still be pending, as in both vendors' APIs.
    unsafe fn destroy_event(&self, event: RawEvent) -> Result<()>;

    /// Records an event after everything enqueued so far.
    unsafe fn record_event(&self, event: RawEvent, stream: RawStream) -> Result<()>;

    /// Whether everything before the event's last record has run; `true` if it was never recorded. Errors as for
    /// [`BackendDevice::query_stream`].
    unsafe fn query_event(&self, event: RawEvent) -> Result<bool>;

    /// Makes a stream wait for an event's last record.
    unsafe fn wait_event(&self, stream: RawStream, event: RawEvent) -> Result<()>;

    /// Enqueues a copy between device addresses, `size` in bytes. The ranges do not overlap.
    unsafe fn copy(&self, stream: RawStream, dst: DevicePtr, src: DevicePtr, size: u64) -> Result<()>;

    /// Enqueues a copy to host memory that stays valid until it has run.
    unsafe fn copy_to_host(&self, stream: RawStream, dst: *mut u8, src: DevicePtr, size: u64) -> Result<()>;

    /// Enqueues a copy from host memory that stays valid until it has run.
    unsafe fn copy_from_host(&self, stream: RawStream, dst: DevicePtr, src: *const u8, size: u64) -> Result<()>;

    /// Enqueues a copy that has an array on at least one side (`cuMemcpy3DAsync`). Both sides hold the extent; host
    /// memory stays valid until the copy has run.
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

    /// The 64-bit twin of [`BackendDevice::write_value_u32`].
    unsafe fn write_value_u64(&self, _stream: RawStream, _word: DevicePtr, _value: u64) -> Result<()> {
        Err(missing("BackendDevice::write_value_u64"))
    }

    /// Allocates memory for words that streams wait for and write ([`BackendDevice::wait_value_u64`] and its kin) while
    /// the host writes and reads them (`cuMemHostAlloc`, `hipExtMallocWithFlags`). All of it is 0. As much as one
    /// allocation gives cheaply: a page, or a single word.
    fn allocate_signal_memory(&self) -> Result<SignalMemory> {
        Err(missing("BackendDevice::allocate_signal_memory"))
    }

    /// Frees signal memory; no stream waits for it or writes it any more.
    unsafe fn free_signal_memory(&self, _memory: SignalMemory) -> Result<()> {
        Err(missing("BackendDevice::free_signal_memory"))
    }

    /// Enqueues a call of `function(data)` (`cuLaunchHostFunc`). After `Ok` it is called exactly once, unless the
    /// device is torn down first; after `Err`, never. It does not unwind.
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

    /// Unloads a module; none of its kernels is pending.
    unsafe fn unload_module(&self, _module: RawModule) -> Result<()> {
        Err(missing("BackendDevice::unload_module"))
    }

    /// Looks a kernel up by name, which is not empty. It lives as long as its module. If there is none, the error is
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
    unsafe fn module_kernel(&self, _module: RawModule, _name: &CStr) -> Result<RawKernel> {
        Err(missing("BackendDevice::module_kernel"))
    }

    /// Enqueues a kernel. The arguments have the number and types that the kernel takes; none is a
    /// [`Buffer`](KernelArg::Buffer), none is of 0 bytes, and a value lives for this call only.
    unsafe fn launch_kernel(
        &self,
        _stream: RawStream,
        _kernel: RawKernel,
        _config: &LaunchConfig,
        _args: &[KernelArg<'_>],
    ) -> Result<()> {
        Err(missing("BackendDevice::launch_kernel"))
    }

    /// Begins to record what is enqueued on a stream instead of running it (`cuStreamBeginCapture`, relaxed). The stream
    /// is idle, and until [`BackendDevice::end_capture`] it is given copies, fills, kernels, words and semaphores only.
    unsafe fn begin_capture(&self, _stream: RawStream) -> Result<()> {
        Err(missing("BackendDevice::begin_capture"))
    }

    /// What was recorded last (`cuStreamGetCaptureInfo`): a batch of signals or waits. Lives as long as the graph.
    unsafe fn last_captured(&self, _stream: RawStream) -> Result<RawGraphNode> {
        Err(missing("BackendDevice::last_captured"))
    }

    /// Ends the recording, also with an error, and makes a graph of it that can be launched (`cuStreamEndCapture`,
    /// `cuGraphInstantiate`).
    unsafe fn end_capture(&self, _stream: RawStream) -> Result<RawGraph> {
        Err(missing("BackendDevice::end_capture"))
    }

    /// Replaces a batch of signals by another of the same length, for later launches
    /// (`cuGraphExecExternalSemaphoresSignalNodeSetParams`). No other thread uses the graph meanwhile.
    unsafe fn set_captured_signals(&self, _: RawGraph, _: RawGraphNode, _signals: &[RawSignal]) -> Result<()> {
        Err(missing("BackendDevice::set_captured_signals"))
    }

    /// The twin of [`BackendDevice::set_captured_signals`] for waits.
    unsafe fn set_captured_waits(&self, _: RawGraph, _: RawGraphNode, _waits: &[RawWait]) -> Result<()> {
        Err(missing("BackendDevice::set_captured_waits"))
    }

    /// Enqueues a graph (`cuGraphLaunch`). No other thread uses the graph meanwhile; what it uses is live until it has
    /// run.
    unsafe fn launch_graph(&self, _stream: RawStream, _graph: RawGraph) -> Result<()> {
        Err(missing("BackendDevice::launch_graph"))
    }

    /// Destroys a graph (`cuGraphExecDestroy`).
    unsafe fn destroy_graph(&self, _graph: RawGraph) -> Result<()> {
        Err(missing("BackendDevice::destroy_graph"))
    }
}
