//! Contexts, streams and memory of the crate [`cudarc`] beside the objects of this crate.
//!
//! An application that computes with cudarc keeps its context, streams and kernels. [`device()`] is its context as a
//! [`Device`](crate::Device), [`SharedStream`] its stream as a [`Stream`](crate::Stream), and [`SharedSlice`] is
//! imported memory as an argument of its kernels and copies, or one of its `CudaSlice`s as an operand of the streams of
//! this crate. [`context_for`] goes the other way: from the device that exported the memory to a context.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use gpu_interop::cudarc::{SharedSlice, SharedStream, context_for};
//! use gpu_interop::{DeviceIdentity, MemoryImport};
//!
//! fn sum(exporter: &DeviceIdentity, exported: MemoryImport) -> Result<u32, Box<dyn std::error::Error>> {
//!     let (device, context) = context_for(exporter)?;
//!     // SAFETY: this application captures no graphs.
//!     let stream = unsafe { SharedStream::new(&device, context.new_stream()?) }?;
//!     let buffer = Arc::new(device.import_memory(exported)?.map_buffer(..)?);
//!     let words = SharedSlice::<u32>::mapped(&stream, buffer, ..)?;
//!     // The stream is both libraries': this wait, ...
//!     stream.fill_u32(words.operand()?.slice(..4)?, 7)?;
//!     // ... and this copy run in order. A kernel takes `.arg(&words)` or `.arg(&mut words)`.
//!     let seen = stream.cudarc().clone_dtoh(&words)?;
//!     stream.synchronize()?;
//!     Ok(seen.iter().sum())
//! }
//! ```
//!
//! `examples/cudarc_stream.rs` runs a kernel of cudarc on memory of Vulkan, ordered by a timeline.
//!
//! # Versions
//! One major version of this crate works with one minor version of cudarc, now 0.19, which [`cudarc`] re-exports. The
//! application selects cudarc's bindings by one of its features `cuda-11040` to `cuda-13040`; without one, cudarc takes
//! the version of an installed toolkit, or its newest. The driver is loaded at run time: cudarc's features
//! `dynamic-linking` and `static-linking` exclude this module.
//!
//! # A machine without a driver
//! cudarc panics in its first call if it finds no driver, and in the first call of a function that the driver lacks.
//! [`context_for`] and [`context_of`] load the driver through this crate first, and check that cudarc finds it, too:
//! they return [`DriverNotFound`](crate::ErrorKind::DriverNotFound) or
//! [`DriverTooOld`](crate::ErrorKind::DriverTooOld). An application that calls them before anything of cudarc does not
//! panic.
//!
//! # Order of work
//! * Work of both libraries on one stream runs in the order of its calls.
//! * cudarc orders *its own* work on several streams by events of each slice. It does not see work that methods of this
//!   crate enqueue, and two [`SharedSlice`]s of one buffer do not see each other. Before another stream of cudarc uses
//!   what such work wrote, call its `join(stream.cudarc())`.
//! * The exporter's accesses are ordered by semaphores and timelines, as everywhere in this crate.
//!
//! # Contracts of unsafe calls
//! What this module passes to the `unsafe` functions of the library, and what enforces their contracts.
//!
//! | call | enforced by |
//! |---|---|
//! | `Device::check_raw_stream` | [`SharedStream::new`]: `check_same` compares the contexts, and the `Arc` keeps the stream |
//! | `Device::stream_from_raw_with_owner` | the same; `check_raw_stream` refuses the per-thread default stream and a capture; later captures are excluded by the safety section of [`SharedStream::new`]; the owner, `Arc<CudaStream>`, contains no object of this crate |
//! | `Device::borrow_memory` | [`SharedSlice::borrowed`]: `check_same` compares the contexts, the slice is passed by value and kept as the owner, and both streams are synchronised before |
//!
//! # cubecl and burn
//! cubecl 0.11 (burn 0.22) allocates its buffers itself and does not expose its streams: it imports neither. It does
//! return the address of a buffer, which keeps its place meanwhile. Memory is then copied on the device between that
//! buffer and an import, and the host synchronises both sides:
//!
//! ```ignore
//! use cubecl_runtime::runtime::Runtime;
//!
//! fn to_cubecl(client: &cubecl::client::Client, handle: Handle, imported: &MappedBuffer, stream: &Stream) -> Result<()> {
//!     let resource = client.get_resource::<<cubecl::cuda::CudaRuntime as Runtime>::Server>(handle)?;
//!     let (address, size) = (resource.resource().ptr, resource.resource().size);
//!     cubecl::future::block_on(client.sync())?; // cubecl's earlier work
//!     // SAFETY: the resource keeps the allocation in its place, and cubecl uses it again after this function only.
//!     let tensor = unsafe { device.borrow_memory(DevicePtr::new(address), size, Arc::new(Mutex::new(resource))) }?;
//!     stream.copy(tensor.slice(..imported.size())?, imported)?;
//!     stream.synchronize() // before cubecl's later work
//! }
//! ```
//!
//! `device` is the stream's, from `device_for(vulkan.identity())`; both libraries use the primary context. For imported
//! memory as a tensor, without the copy, `cubecl-cuda` would need:
//!
//! ```text
//! enum AllocationKind { Async, Sync, Empty, External }  // GpuStorage::perform_deallocations drops the owner of `External`
//! impl GpuStorage { unsafe fn register(&mut self, ptr: CUdeviceptr, size: u64, owner: Box<dyn Any + Send>) -> StorageHandle }
//! impl Client { unsafe fn register_external(&self, ptr: u64, size: u64, owner: Box<dyn Any + Send>) -> Handle }
//! impl Client { fn with_stream<R: Send>(&self, f: impl FnOnce(CUstream) -> R + Send) -> R }  // on the server's thread
//! ```

mod context;
mod slice;
mod stream;
mod sys;

pub use ::cudarc;
pub use context::{context_for, context_of, device};
pub use slice::{AnyBits, SharedSlice};
pub use stream::SharedStream;
