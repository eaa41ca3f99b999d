//! Import memory and semaphores that Vulkan exported into CUDA, HIP or the CPU, through one API, chosen at run time.
//!
//! # Choosing a device
//! [`device_for`] opens the device that exported the memory, on whichever backend drives it. [`load`] and
//! [`select`] choose a backend without an exporter. All obey the environment variable `GPU_INTEROP_BACKEND`
//! (`cuda`, `hip`, `host`, or `auto`, the default). `auto` takes the first backend that has a *device*; the CPU comes
//! last, and [`Selection::passed_over`] says why, so that it is never a silent replacement for a GPU.
//!
//! # Features
//! | feature | what it adds | needs at run time |
//! |---|---|---|
//! | `cuda` (default) | the `cuda` module: NVIDIA GPUs | NVIDIA's driver, looked for when first used |
//! | `hip` (default) | the `hip` module: AMD GPUs | AMD's ROCm runtime or Windows driver, looked for when first used |
//! | `host` (default) | the `host` module: CPU memory, threads and futexes | nothing |
//! | `d3d` (default) | the `d3d` module: the exporting side of Direct3D 11 and 12; elsewhere than on Windows its conversions alone | Windows 10 |
//! | `vulkan` (default) | the `vulkan` module: the exporting side | a Vulkan loader, looked for when first used |
//! | `gl` | the `gl` module: OpenGL, which imports what Vulkan exported too | the application's own OpenGL context |
//! | `nvsci` | the `nvsci` module, on Linux: NvSciBuf and NvSciSync of NVIDIA's embedded systems; not run on hardware | `libnvscibuf.so` and `libnvscisync.so`, looked for when first used |
//!
//! No feature links a driver or needs a toolkit to build.
//!
//! # What it tells
//! Whatever the library cannot return as an error it tells through [`tracing`](https://docs.rs/tracing). At level `TRACE`
//! and with the target `gpu_interop::driver_call` these are all calls of CUDA's and HIP's functions too, one event before
//! each and one after it: with `tracing_subscriber`'s `EnvFilter`, `RUST_LOG=gpu_interop::driver_call=trace`. The last
//! that was not followed by its second event is the one that a driver crashed or hangs in. The host backend calls no
//! driver. While nobody subscribes, this costs a driver call one relaxed load.
//!
//! # Contract
//! What the objects promise and what the caller must do is on the front page of `gpu_interop_core`, whose items are
//! re-exported here. In short: imports own their handles, a failed import gives the handle back, bad requests are
//! typed errors before any driver sees them, and ordering the two APIs' accesses is the caller's part.

mod candidate;
mod selection;

pub use gpu_interop_core::{
    AddressMode, ArrayFormat, ArrayRegion, ArrayShape, ArrayUsage, Backend, BackendDevice, BackendInfo, BinaryImage,
    BufferSlice, ByValue, Capabilities, ChannelOrder, ChannelType, ColorEncoding, Device, DeviceIdentity, DeviceKind,
    DevicePtr, DriverCode, Error, ErrorKind, Event, ExportableMemory, ExporterTimeline, ExternalMemory,
    ExternalSemaphore, Feature, FilterMode, Graph, HostMapping, IdentityMatch, ImportError, Kernel, KernelArg,
    LaunchConfig, LoadAttempt, Luid, MappedBuffer, MappedMipmappedArray, MemoryHandle, MemoryHandleKind, MemoryImport,
    MipmappedArrayDesc, Mismatch, Module, ModuleImage, NvSciBufGpu, NvSciBufProperties, NvSciSyncUse,
    ParseIdentityError, PciAddress, PitchedTexels, PollingWaiter, ReadMode, Result, SemaphoreHandle,
    SemaphoreHandleKind, SemaphoreImport, SemaphorePayload, SemaphoreSignal, SemaphoreWait, SignalParams, Stream,
    Support, Surface, TIMELINE_VARIABLE, Texture, TextureDesc, Timeline, TimelineStrategy, TimelineWaiter, Uuid,
    WaitCondition, WaitParams, array, backend, byte_range, capability, handle, rules,
};
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
pub use selection::{BACKEND_VARIABLE, BackendChoice, BackendName, Selection, available, device_for, load, select};
