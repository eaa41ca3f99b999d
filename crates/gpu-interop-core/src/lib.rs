//! Vendor-neutral core of gpu-interop: handles, import requests, validation, safe objects and the backend traits.
//!
//! An application exports memory and semaphores from one GPU API (Vulkan, Direct3D, OpenGL, NvSci) or another process
//! and imports them into a compute API through a [`Device`] of a [`Backend`]. This crate contains the handles, the
//! import requests, the safe objects, all validation, and the traits that a backend implements. It links no vendor
//! library and calls no driver. Applications depend on `gpu-interop`, which re-exports it.
//!
//! # Guarantees
//! * **Handles are owned.** An import takes its handle by value. On success the import owns the handle; on failure the
//!   [`ImportError`] returns the request, with its handle open. Two NvSci types are borrowed instead: an object without
//!   an owner ([`NvSciBufObject::from_raw`](handle::NvSciBufObject::from_raw)) and a fence.
//! * **Invalid requests never reach a driver.** A size of 0, a range past the end, a handle kind of another operating
//!   system, a descriptor that cannot be GPU memory, an object of another device, semaphore parameters of the wrong
//!   type and a decreasing timeline value are typed errors. Drivers have crashed on some of these.
//! * **Nothing is freed too early.** A mapping keeps its import alive, and an import its device. An object that is
//!   dropped while work that uses it is pending on a [`Stream`] is freed once that work has completed.
//! * **`Drop` of an object never panics.** It catches panics of application code that it calls: an exporter's timeline,
//!   an owner, a subscriber of `tracing`. A failing free is reported through `tracing`; `close` returns the error. A
//!   panic of such code, or of a host function, ends no thread of this crate.
//! * **`Drop` does not wait for a stream's wait to be satisfied.** The exception is the last object of a device: its
//!   drop waits for pending work for 1 second, cancels waits, and waits for at most another second. A driver's free may
//!   also wait for running work, such as a kernel or a host function: see [Freeing](#freeing).
//! * **Signals and waits do not allocate** for batches of up to 8; prepared batches ([`SignalBatch`], [`WaitBatch`])
//!   of any size do not.
//! * All objects are `Send` and `Sync`.
//!
//! # Obligations of the caller
//! * Describe a raw handle correctly when building a [`MemoryImport`] or [`SemaphoreImport`]: the API and type of its
//!   object, the size and the dedicated flag of the allocation. Drivers cannot check this, and a wrong description is
//!   undefined behaviour, so [`MemoryImport::new`] and [`SemaphoreImport::new`] are `unsafe`. The exporters of
//!   gpu-interop build requests with a safe method, `import_request`.
//! * Order the accesses of the two APIs: with a [`Timeline`], with semaphores, or by waiting on the host. Unordered
//!   accesses read torn data.
//! * Use raw values ([`DevicePtr`], `as_raw`) only while the object that returned them lives.
//!
//! [`rules`] lists every rule of the vendors' references and how the library enforces it.
//!
//! # Timelines
//! A [`Timeline`] is one counter that the streams of a device share with the exporting API. It works with every driver.
//! Drivers that import the exporter's timeline semaphores use them natively. With other drivers, such as HIP on Linux,
//! a host thread transfers the values ([`TimelineStrategy`]). An [`ExternalSemaphore`] is one semaphore object of the
//! driver.
//!
//! # Graphs
//! [`Device::record`] captures the work enqueued on a stream, and [`Graph::launch`] runs it with one driver call.
//! Signals and waits of an [`ExternalSemaphore`] are part of a graph if the driver supports it. [`Graph::set_signals`]
//! changes their timeline values between launches. A [`Timeline`] cannot be captured: enqueue its waits before the
//! launch and its signals after it. An application that captures graphs with its own bindings must not use this crate's
//! objects on the capturing stream: see [`Device::stream_from_raw`].
//!
//! # Threads and blocking
//! Work on a [`Stream`] is asynchronous unless the method documents that it blocks. Semaphore operations, copies and
//! fills run in stream order.
//!
//! # Freeing
//! CUDA and HIP wait for all streams of the GPU before they free a mapping or unload a module. With CUDA, such a free
//! also blocks most calls of other threads. If any stream runs a kernel or host function of 20 seconds, a drop
//! therefore blocks for 20 seconds; [`Stream::synchronize_timeout`] before the drop bounds the wait.
//!
//! An *external wait* of a stream waits for a word in memory or a semaphore of another API. While one is pending, a
//! free could deadlock: the thread that drops an object may be the thread that must satisfy the wait. Objects dropped
//! during an external wait are therefore retained. A later drop, stream creation, synchronisation or
//! [`Device::collect`] frees them once no stream of the GPU has an external wait pending.
//!
//! At most 64 objects are retained. With 64 retained objects, as with continuous frames in flight, the next drop frees
//! one object whose waits at the time of its own drop have been satisfied. This drop blocks until the current waits are
//! satisfied. If your thread must itself signal a pending wait, drop at most 64 objects before it does, or the drop
//! deadlocks. A thread that signals each wait before it enqueues the next wait has no such limit: enqueuing a wait
//! frees the retained objects if no wait is pending. This crate does not track waits enqueued by other libraries.
//!
//! Only memory, mappings, arrays, surfaces, textures, semaphores and modules are retained. Any number of ranges of a
//! mapping ([`MappedRange`], such as the buffers of a `SharedHeap` of `gpu-interop-vulkan`), borrowed memory, events,
//! streams and graphs may be dropped, because their free does not wait. If their own work is pending, these objects
//! count among the 64 when a memory, mapping or
//! other object of the retained kinds is dropped.
//!
//! # Forking
//! No driver works in a forked child process if the parent has used it. Start the child without a fork, or fork before
//! the first use. Dropping an object of the parent in the child has no effect. Every other use of such an object that
//! needs the driver or the exporter returns [`ErrorKind::System`], even if it would only enqueue work.
//!
//! # Other libraries
//! Another library of the process may reset a device (`cudaDeviceReset`, `hipDeviceReset`). The reset destroys the
//! objects of all libraries. Objects opened before the reset return [`ErrorKind::DeviceLost`], and dropping them frees
//! nothing. Addresses and handles taken from these objects are invalid. Opening the device again works.

#![doc(html_root_url = "../")]

#[macro_use]
mod macros;
#[macro_use]
mod callback;

pub mod array;
pub mod backend;
mod bridge;
pub mod capability;
mod error;
pub mod format;
pub mod handle;
mod identity;
mod import;
mod kernel;
mod mapping;
mod nv_sci;
mod object;
mod process;
mod raw;
#[doc = include_str!("rules.md")]
pub mod rules {}
mod semaphore_ops;
#[doc(hidden)]
pub mod sync;
mod sys;
mod texture;
mod timeline;

pub use array::{ArrayFormat, ArrayShape, ArrayUsage, ChannelType, MipmappedArrayDesc};
pub use backend::{Backend, BackendDevice, BackendInfo, DevicePtr, WaitCondition};
#[doc(hidden)]
pub use callback::caught;
pub use callback::in_host_function;
pub use capability::{Capabilities, Feature, Support};
#[doc(hidden)]
pub use error::with_names;
pub use error::{DriverCode, Error, ErrorKind, ImportError, LoadAttempt, Mismatch, Result};
pub use format::{ChannelOrder, ColorEncoding, MappedPlanes, PlaneLayout, VideoFormat};
pub use handle::{MemoryHandle, MemoryHandleKind, SemaphoreHandle, SemaphoreHandleKind, SemaphorePayload};
pub use identity::{DeviceIdentity, DeviceKind, IdentityMatch, Luid, ParseIdentityError, PciAddress, Uuid};
pub use import::{MemoryImport, SemaphoreImport};
#[doc(hidden)]
pub use import::{check_buffer, exceeds_memory};
pub use kernel::{BinaryImage, ByValue, KernelArg, LaunchConfig, ModuleImage};
pub use mapping::{HostMapping, byte_range};
pub use nv_sci::{NvSciBufGpu, NvSciBufProperties, NvSciSyncUse};
pub use object::{
    ArrayRegion, BorrowedMemory, BufferSlice, Device, Event, ExportableMemory, ExternalMemory, ExternalSemaphore,
    Graph, Kernel, MappedBuffer, MappedMipmappedArray, MappedRange, Module, PitchedTexels, SemaphoreRef,
    SemaphoreSignal, SemaphoreWait, SignalBatch, Stream, Surface, Texture, Timeline, WaitBatch,
};
#[doc(hidden)]
pub use process::{FORKED, FirstUse, ProcessMark};
pub use semaphore_ops::{SignalParams, WaitParams};
pub use texture::{AddressMode, FilterMode, ReadMode, TextureDesc};
pub use timeline::{ExporterTimeline, PollingWaiter, TIMELINE_VARIABLE, TimelineStrategy, TimelineWaiter};
