//! Imports memory and semaphores exported by Vulkan into CUDA, HIP or the CPU through one API, selected at run time.
//!
//! The example `fill`: Vulkan allocates a buffer, the compute device writes it, and Vulkan reads it. It needs a Vulkan
//! driver, of a GPU or of the CPU.
//!
#![cfg_attr(feature = "vulkan", doc = "```no_run")]
#![cfg_attr(not(feature = "vulkan"), doc = "```ignore")]
#![doc = include_str!("../examples/fill.rs")]
//! ```
//!
//! The [`guide`] begins with what each line does. [`guide::troubleshooting`] lists symptoms with their causes.
//!
//! # Map
//! | you want to | item |
//! |---|---|
//! | open the device that exported the memory | [`device_for`] |
//! | choose a backend without an exporter, or list the backends | [`load`], [`select`], [`available`] |
//! | open a device by its number or identity | [`Device::open`], [`Device::open_matching`] |
//! | ask what a device supports | [`Device::capabilities`], [`Feature`] |
//! | import memory of another API or process | [`Device::import_memory`], with a [`MemoryImport`] |
//! | get the address of the memory | [`ExternalMemory::map_buffer`], [`MappedBuffer::as_raw`] |
//! | access an image with optimal tiling | [`ExternalMemory::map_mipmapped_array`], then [`Surface`] or [`Texture`] |
//! | copy, fill, read and write | [`Stream::copy`], [`Stream::fill`], [`Stream::read`], [`Stream::write`] |
//! | copy texels | [`Stream::copy_from_array`], [`Stream::copy_to_array`] |
//! | run a kernel | [`Device::load_module`], [`Stream::launch`] |
//! | run a Rust function as a kernel on the CPU | `host::HostBackendBuilder::kernel`, `device_for_with_host` |
//! | use a stream of the application's own bindings | [`Device::stream_from_raw_with_owner`] |
//! | order the work of both sides by one counter | [`Timeline`], [`Stream::signal_timeline`], [`Stream::wait_timeline`] |
//! | use one semaphore object of the exporter | [`Device::import_semaphore`], [`Stream::signal`], [`Stream::wait`] |
//! | repeat work with one driver call | [`Device::record`], [`Graph`] |
//! | wait with a time limit | [`Stream::synchronize_timeout`], [`Timeline::wait`] |
//! | allocate on the compute side, for import by the other | [`Device::allocate_exportable`] |
//! | read why something failed | [`Error`], [`ErrorKind`] |
//! | write a backend | [`backend`] |
#![cfg_attr(feature = "vulkan", doc = "| export a buffer of Vulkan | [`vulkan::ExportableBuffer`] |")]
#![cfg_attr(feature = "vulkan", doc = "| export an image of Vulkan | [`vulkan::ExportableImage`] |")]
#![cfg_attr(feature = "vulkan", doc = "| export a picture of a video | [`vulkan::ExportableVideo`] |")]
#![cfg_attr(
    all(feature = "vulkan", unix),
    doc = "| take dma-bufs of cameras, decoders and compositors (Wayland, PipeWire, VA-API) | [`vulkan::ImportedPicture`]; on a compute device [`vulkan::PictureFeed`]; in wgpu the crate `gpu-interop-wgpu` |"
)]
#![cfg_attr(feature = "vulkan", doc = "| share the application's own Vulkan device | [`vulkan::VulkanInterop`] |")]
#![cfg_attr(feature = "vulkan", doc = "| share a timeline with Vulkan | [`vulkan::shared_timeline`] |")]
#![cfg_attr(feature = "vulkan", doc = "| transfer ownership | [`vulkan::OwnershipTransfer`] |")]
#![cfg_attr(feature = "vulkan", doc = "| have several frames in flight | [`vulkan::FrameRing`] |")]
#![cfg_attr(feature = "vulkan", doc = "| share many small buffers | [`vulkan::SharedHeap`] |")]
//!
//! The name of a function or type of CUDA, HIP, Vulkan or OpenGL in the search field above finds the item that replaces it.
//!
//! | crate | contents |
//! |---|---|
//! | `gpu_interop` | the selection of backends, and everything that an application needs from the crates below |
//! | `gpu_interop_core` | handles, requests, objects, errors: re-exported here |
//! | `gpu_interop_cuda`, `gpu_interop_hip`, `gpu_interop_host` | backends: the modules `cuda`, `hip`, `host` |
//! | `gpu_interop_vulkan`, `gpu_interop_d3d`, `gpu_interop_nvsci` | exporters: the modules `vulkan`, `d3d`, `nvsci` |
//! | `gpu_interop_gl` | the importer OpenGL: the module `gl` |
//! | `gpu_interop_wgpu` | the adapter for applications on wgpu, which depend on it instead of this crate |
//! | `gpu_interop_capi` | the adapter for C and C++ |
//! | `gpu_interop_conformance` | the suite that verifies a driver or a backend |
//!
//! # Choosing a device
//! [`device_for`] opens the device that exported the memory, on the backend that supports it. [`load`] and [`select`]
//! choose a backend without an exporter. [`device_for`] and [`load`] follow the environment variable `GPU_INTEROP_BACKEND`
//! (`cuda`, `hip`, `host`, or `auto`, the default); [`select`] takes its argument instead. `auto` selects the first backend that has a *device*; the CPU comes
//! last, and [`Selection::passed_over`] lists why the others were not used, so that the CPU never replaces a GPU
//! silently.
//!
//! # Features
//! | feature | what it adds | needs at run time |
//! |---|---|---|
//! | `cuda` (default) | the `cuda` module: NVIDIA GPUs | NVIDIA's driver, loaded at first use |
//! | `cudarc` | the `cudarc` module: contexts, streams and memory of the crate `cudarc` | NVIDIA's driver, loaded at first use |
//! | `hip` (default) | the `hip` module: AMD GPUs | AMD's ROCm runtime or Windows driver, loaded at first use |
//! | `host` (default) | the `host` module: CPU memory, threads and futexes | nothing |
//! | `d3d` (default) | the `d3d` module: the exporting side of Direct3D 11 and 12; on other systems than Windows only its conversions | Windows 10 |
//! | `vulkan` (default) | the `vulkan` module: the exporting side | a Vulkan loader, loaded at first use |
//! | `gl` | the `gl` module: OpenGL, which imports Vulkan's exports | the application's own OpenGL context |
//! | `serde` | `Serialize` and `Deserialize` of identities, capabilities, formats and configurations | nothing |
//! | `nvsci` | the `nvsci` module, on Linux: NvSciBuf and NvSciSync of NVIDIA's embedded systems; not run on hardware | `libnvscibuf.so` and `libnvscisync.so`, loaded at first use |
//!
//! No feature links a driver or needs a toolkit to build.
//!
//! # Tracing
//! The library reports failures that it cannot return, such as those in `Drop`, through
//! [`tracing`](https://docs.rs/tracing). At level `TRACE` with the target `gpu_interop::driver_call` it also emits one
//! event before and one after each call of a CUDA or HIP function: with `tracing_subscriber`'s `EnvFilter`,
//! `RUST_LOG=gpu_interop::driver_call=trace`. If a driver crashes or hangs, the last call without a second event is the
//! cause. The host backend calls no driver. Without a subscriber this costs one relaxed load per driver call.
//!
//! # Contract
//! The front page of `gpu_interop_core`, whose items are re-exported here, states the guarantees of the objects and the
//! requirements on the caller. In short: imports own their handles, a failed import returns the handle, invalid
//! requests are typed errors before any driver call, and the caller orders the accesses of the two APIs.

#![doc(html_root_url = "../")]

mod candidate;
#[cfg(feature = "cudarc")]
pub mod cudarc;
pub mod guide;
mod selection;

pub use gpu_interop_core::{
    AddressMode, ArrayFormat, ArrayRegion, ArrayShape, ArrayUsage, Backend, BackendDevice, BackendInfo, BinaryImage,
    BorrowedMemory, BufferSlice, ByValue, Capabilities, ChannelOrder, ChannelType, ColorEncoding, Device,
    DeviceIdentity, DeviceKind, DevicePtr, DriverCode, Error, ErrorKind, Event, ExportableMemory, ExporterTimeline,
    ExternalMemory, ExternalSemaphore, Feature, FilterMode, Graph, HostMapping, IdentityMatch, ImportError, Kernel,
    KernelArg, LaunchConfig, LoadAttempt, Luid, MappedBuffer, MappedMipmappedArray, MappedPlanes, MappedRange,
    MemoryHandle, MemoryHandleKind, MemoryImport, MipmappedArrayDesc, Mismatch, Module, ModuleImage, NvSciBufGpu,
    NvSciBufProperties, NvSciSyncUse, ParseIdentityError, PciAddress, PitchedTexels, PlaneLayout, PollingWaiter,
    ReadMode, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport, SemaphorePayload, SemaphoreRef,
    SemaphoreSignal, SemaphoreWait, SignalBatch, SignalParams, Stream, Support, Surface, TIMELINE_VARIABLE, Texture,
    TextureDesc, Timeline, TimelineStrategy, TimelineWaiter, Uuid, VideoFormat, WaitBatch, WaitCondition, WaitParams,
    byte_range, in_host_function,
};
// Links to the core's pages. Copies of them would link to its source files by paths that are right at the top level only.
#[doc(no_inline)]
#[doc(hidden)]
pub use gpu_interop_core::sync;
pub use gpu_interop_core::{array, backend, capability, format, handle, rules};
#[cfg(feature = "cuda")]
pub use gpu_interop_cuda as cuda;
#[cfg(feature = "d3d")]
pub use gpu_interop_d3d as d3d;
#[cfg(feature = "gl")]
pub use gpu_interop_gl as gl;
#[cfg(feature = "hip")]
pub use gpu_interop_hip as hip;
#[cfg(feature = "host")]
pub use gpu_interop_host as host;
#[cfg(all(feature = "nvsci", target_os = "linux"))]
pub use gpu_interop_nvsci as nvsci;
#[cfg(feature = "vulkan")]
pub use gpu_interop_vulkan as vulkan;
#[cfg(feature = "host")]
pub use selection::device_for_with_host;
pub use selection::{BACKEND_VARIABLE, BackendChoice, BackendName, Selection, available, device_for, load, select};
