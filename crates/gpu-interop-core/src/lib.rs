//! The vendor-neutral half of gpu-interop.
//!
//! An application exports memory and semaphores from one GPU API (Vulkan, Direct3D, OpenGL, NvSci, another
//! process) and imports them into a compute API through a [`Device`] of some [`Backend`]. This crate has the
//! handles, the descriptors, the safe objects, all validation, and the trait that a backend implements. It
//! names no vendor API and calls no driver; applications usually depend on `gpu-interop`, which re-exports it.
//!
//! # What this crate promises
//! * **Handles are owned.** An import takes its handle by value. On success the handle belongs to the import;
//!   on failure the whole request comes back, usable, in the [`ImportError`]. Exceptions are NvSci's: an object without an
//!   owner ([`NvSciBufObject::from_raw`](handle::NvSciBufObject::from_raw)) and a fence are addresses that stay the
//!   application's.
//! * **Bad requests never reach a driver.** Sizes of 0, ranges past the end, wrong kinds for the operating
//!   system, descriptors that cannot be GPU memory, objects of another device, semaphore parameters of the wrong
//!   sort and timeline values that go backwards are typed errors. Drivers have crashed on some of these.
//! * **Nothing is freed too early.** A mapping keeps its import alive, an import its device. What is dropped while
//!   work that uses it is pending on a [`Stream`] is freed once that work has run.
//! * **`Drop` never panics and never blocks for long**: at most 2 seconds, when the last object of a device goes
//!   whose streams still wait for something. A failing free is reported through `tracing`; `close` returns it.
//! * **Signals and waits do not allocate** for batches of up to 8.
//! * Every object may be used from every thread.
//!
//! # What the caller must do
//! * Build a [`MemoryImport`] or [`SemaphoreImport`] of a bare handle from what is true of its object: the API and sort, the
//!   size and the dedicated flag of the allocation. Drivers cannot tell, and a wrong word is undefined behaviour:
//!   [`MemoryImport::new`] and [`SemaphoreImport::new`] are `unsafe`. Objects of gpu-interop's exporters give requests by
//!   safe methods, `import_request`.
//! * Order the two APIs' accesses: with a [`Timeline`], with semaphores, or by waiting on the host. Unordered access reads
//!   torn data.
//! * Keep raw values ([`DevicePtr`], `as_raw`) no longer than the object they came from.
//!
//! [`rules`] has every rule of the vendors' references, and which of them the library keeps.
//!
//! # Timelines
//! A [`Timeline`] is one counter that the streams of a device share with the exporting API. It works with every driver:
//! natively where the driver imports the exporter's timeline semaphores, and elsewhere, as with HIP on Linux, over a
//! thread of the host ([`TimelineStrategy`]). [`ExternalSemaphore`] is the driver's own semaphore, one to one.
//!
//! # Graphs
//! [`Device::record`] records what a stream is given, once, and [`Graph::launch`] runs it with one call of the driver.
//! Signals and waits of an [`ExternalSemaphore`] are part of a graph where the driver has them there; a timeline semaphore's
//! get new values from launch to launch ([`Graph::set_signals`]). A [`Timeline`] stays outside, before and behind the
//! launch. An application that records graphs with its own bindings keeps this crate's objects away from the stream that
//! records: see [`Device::stream_from_raw`].
//!
//! # Threads and blocking
//! Work on a [`Stream`] is asynchronous unless a method says that it blocks. Semaphore operations, copies and
//! fills run in stream order.
//!
//! # Freeing
//! CUDA and HIP wait for all streams of the GPU before they free a mapping or unload a module, and with CUDA most calls of
//! other threads wait meanwhile. While a stream waits for something outside, a word in memory or another API's semaphore, the
//! thread that drops an object may be the one to bring that about. So what is dropped then is kept, and goes with a later
//! drop, stream or synchronisation, or [`Device::collect`], when no stream of the GPU waits any more. At most 64
//! objects are kept so. Beyond that, as with frames in flight without end, the next drop frees one of them whose waits at the
//! time of its own drop have been satisfied; that drop blocks until the present waits have been, too. So a thread that always
//! has a wait pending which it is to meet itself must not drop more than 64 objects meanwhile. A thread that meets each wait
//! before it enqueues the next may: enqueuing a wait frees what is kept, if nothing is waited for. Waits that other libraries
//! enqueue are unknown here.
//!
//! # Forking
//! No driver goes on in a process that was forked. What was opened before the fork may be dropped there, which does nothing,
//! and synchronising a stream is an error. Open devices after the fork, or start another program.

pub mod array;
pub mod backend;
mod bridge;
pub mod capability;
mod error;
pub mod handle;
mod identity;
mod import;
mod kernel;
mod mapping;
mod nv_sci;
mod object;
mod range;
#[doc = include_str!("rules.md")]
pub mod rules {}
mod semaphore_ops;
mod sync;
#[cfg(unix)]
mod sys;
mod texel;
mod texture;
mod timeline;

pub use array::{ArrayFormat, ArrayShape, ArrayUsage, ChannelType, MipmappedArrayDesc};
pub use backend::{Backend, BackendDevice, BackendInfo, DevicePtr, WaitCondition};
pub use bridge::PollingWaiter;
pub use capability::{Capabilities, Feature, Support};
pub use error::{DriverCode, Error, ErrorKind, ImportError, LoadAttempt, Mismatch, Result};
pub use handle::{MemoryHandle, MemoryHandleKind, SemaphoreHandle, SemaphoreHandleKind, SemaphorePayload};
pub use identity::{DeviceIdentity, DeviceKind, IdentityMatch, Luid, ParseIdentityError, PciAddress, Uuid};
pub use import::{MemoryImport, SemaphoreImport};
pub use kernel::{BinaryImage, ByValue, KernelArg, LaunchConfig, ModuleImage};
pub use mapping::HostMapping;
pub use nv_sci::{NvSciBufGpu, NvSciBufProperties, NvSciSyncUse};
pub use object::{
    ArrayRegion, BufferSlice, Device, Event, ExportableMemory, ExternalMemory, ExternalSemaphore, Graph, Kernel,
    MappedBuffer, MappedMipmappedArray, Module, PitchedTexels, SemaphoreSignal, SemaphoreWait, Stream, Surface,
    Texture, Timeline,
};
pub use range::byte_range;
pub use semaphore_ops::{SignalParams, WaitParams};
pub use texel::{ChannelOrder, ColorEncoding};
pub use texture::{AddressMode, FilterMode, ReadMode, TextureDesc};
pub use timeline::{ExporterTimeline, TIMELINE_VARIABLE, TimelineStrategy, TimelineWaiter};
