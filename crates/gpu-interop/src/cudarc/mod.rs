//! Shares contexts, streams and memory between the crate [`cudarc`] and this crate.
//!
//! An application that computes with cudarc keeps its context, streams and kernels:
//! * [`device()`] converts a context of cudarc to a [`Device`](crate::Device).
//! * [`SharedStream`] is a stream of cudarc and a [`Stream`](crate::Stream).
//! * [`SharedSlice`] passes imported memory to kernels and copies of cudarc. It also passes a `CudaSlice` to streams of
//!   this crate.
//! * [`context_for`] opens a context of cudarc on the device that exported the memory.
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
//!     // Both libraries use one stream: this fill ...
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
//! application selects cudarc's bindings by one of cudarc's features `cuda-11040` to `cuda-13040`. Without such a
//! feature, cudarc uses the version of an installed toolkit, or its newest bindings. This module is not available with
//! cudarc's features `dynamic-linking` and `static-linking`, because it loads the driver at run time.
//!
//! # A machine without a driver
//! cudarc panics in its first call if it finds no driver, and in the first call of a function that the driver lacks. An
//! application that calls [`context_for`] or [`context_of`] before any function of cudarc does not panic. Both
//! functions load the driver through this crate first, and check that cudarc also finds it. They return
//! [`DriverNotFound`](crate::ErrorKind::DriverNotFound) or [`DriverTooOld`](crate::ErrorKind::DriverTooOld).
//!
//! # Order of work
//! * Work of both libraries on one stream runs in the order of its calls.
//! * cudarc orders *its own* work on several streams by events of each slice. It does not track work that methods of
//!   this crate enqueue, and it does not order two [`SharedSlice`]s of one buffer. Before another stream of cudarc uses
//!   memory that such work wrote, call the `join(stream.cudarc())` of that stream.
//! * The exporter's accesses are ordered by semaphores and timelines, as everywhere in this crate.
//!
//! # Contracts of unsafe calls
//! This module calls `unsafe` functions of the library. The table lists what enforces their contracts.
//!
//! | call | enforced by |
//! |---|---|
//! | `Device::check_raw_stream` | [`SharedStream::new`]: `check_same` compares the contexts, and the `Arc` keeps the stream |
//! | `Device::stream_from_raw_with_owner` | the same; `check_raw_stream` rejects the per-thread default stream and a capture; later captures are excluded by the safety section of [`SharedStream::new`]; the owner, `Arc<CudaStream>`, contains no object of this crate |
//! | `Device::borrow_memory` | [`SharedSlice::borrowed`]: `check_same` compares the contexts, the slice is passed by value and kept as the owner, and both streams are synchronised before |
//!
//! # cuda-core
//! NVIDIA's crate `cuda-core` needs headers of CUDA to build. [Its page of the guide](crate::guide::cuda_core) has an adapter
//! to copy.
//!
//! # cubecl and burn
//! cubecl 0.11 (burn 0.22) allocates its buffers itself and does not expose its streams, so it imports neither. It
//! returns the address of a buffer, and a resource that pins the buffer. The application copies on the device between
//! this buffer and an import, and synchronises both libraries on the host:
//!
//! ```ignore
//! use cubecl_runtime::runtime::Runtime;
//!
//! fn to_cubecl(client: &cubecl::client::Client, handle: Handle, imported: &MappedBuffer, stream: &Stream) -> Result<()> {
//!     let resource = client.get_resource::<<cubecl::cuda::CudaRuntime as Runtime>::Server>(handle)?;
//!     let (address, size) = (resource.resource().ptr, resource.resource().size);
//!     cubecl::future::block_on(client.sync())?; // cubecl's earlier work
//!     // SAFETY: the resource pins the allocation, and cubecl uses it again only after this function.
//!     let tensor = unsafe { device.borrow_memory(DevicePtr::new(address), size, Arc::new(Mutex::new(resource))) }?;
//!     stream.copy(tensor.slice(..imported.size())?, imported)?;
//!     stream.synchronize() // before cubecl's later work
//! }
//! ```
//!
//! `device` is the stream's device, from `device_for(vulkan.identity())`. Both libraries use the primary context. To
//! use imported memory as a tensor without the copy, `cubecl-cuda` would need:
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
