//! The NvSci side of gpu-interop: buffers and synchronisation objects that NVIDIA's embedded systems (DRIVE, Jetson) share
//! between the GPU, the CPU and their other engines.
//!
//! [`NvSci::load`] finds both libraries at run time, so a binary starts without them. Buffers and objects are made as
//! NVIDIA's programming guide has it ("NVIDIA Software Communication Interface Interoperability"): every user says what it
//! needs in an attribute list, the lists are reconciled, an object is allocated, and a device imports it.
//!
//! ```no_run,ignore-windows
//! use std::time::Duration;
//!
//! use gpu_interop_core::{Backend, Device, NvSciSyncUse};
//! use gpu_interop_nvsci::{
//!     BufferAttributeList, BufferAttributes, GpuAttributes, MemSync, NvSci, SyncAttributeList, SyncOptions,
//! };
//!
//! # fn run(device: Device) -> Result<(), Box<dyn std::error::Error>> {
//! let nv_sci = NvSci::load()?;
//! // A buffer that the CPU and this GPU use.
//! let gpu = GpuAttributes::new(device.identity().uuid.ok_or("a GPU without a UUID")?);
//! let attributes = BufferAttributes::raw(1 << 20).cpu_access(true).gpu(gpu);
//! let list = BufferAttributeList::new(&nv_sci.open_buffers()?, &attributes)?;
//! let buffer = BufferAttributeList::reconcile(&[&list])?.allocate()?;
//! let mapped = device.import_memory(buffer.import_request())?.map_buffer(..)?;
//!
//! // What the GPU signals and the CPU waits for.
//! let syncs = nv_sci.open_syncs()?;
//! let options = SyncOptions::default();
//! let signaller = SyncAttributeList::for_device(&syncs, &device, NvSciSyncUse::SIGNAL, options)?;
//! let waiter = SyncAttributeList::for_cpu(&syncs, NvSciSyncUse::WAIT, options)?;
//! let object = SyncAttributeList::reconcile(&[&signaller, &waiter])?.allocate()?.import(&device)?;
//!
//! let (stream, mut fence) = (device.create_stream()?, syncs.fence());
//! stream.fill(&mapped, 0xab)?;
//! object.signal(&stream, &mut fence, MemSync::Synchronize)?;
//! syncs.cpu_wait_context()?.wait(&fence, Duration::from_secs(5))?;
//! let mut bytes = [0; 16];
//! buffer.read(0, &mut bytes)?;
//! assert_eq!(bytes, [0xab; 16]);
//! # Ok(())
//! # }
//! ```
//!
//! # What this crate promises
//! * It links nothing. A missing library is a typed error with every path tried.
//! * **Objects free themselves**, each once: lists and objects before their module, fences by clearing them. Neither an
//!   NvSciBuf nor an NvSciSync object is freed before the driver has ended its last import, whatever is dropped first.
//! * **Bad requests are typed errors** before a library or driver sees them: lists of two modules, or of which none
//!   names a size; a GPU that no list names, also where none names any
//!   ([`ErrorKind::DeviceMismatch`](gpu_interop_core::ErrorKind::DeviceMismatch)); more mip levels than one, writes to what
//!   may only be read, waits for a fence that nothing has filled, fences in graphs; a signal or wait of a device or the CPU
//!   that no attribute list of its own asked for; a fence with a value that the object cannot hold. Lists that do not go
//!   together are [`ErrorKind::ReconciliationFailed`](gpu_interop_core::ErrorKind::ReconciliationFailed), with the attributes
//!   in which they differ. The library's own conflict list is freed and never read, as NVIDIA's guides ask.
//! * Attributes that an older library does not know are unknown (`None`), not an error.
//! * Every call that can fail is an event of `tracing`, as those of CUDA's driver are.
//!
//! # What the caller must do
//! * Order the accesses of CPU and GPU, with fences or by waiting for the stream.
//! * Ask to signal and to wait in the attribute list of the device or CPU that will do it:
//!   [`SyncAttributeList::for_device`], [`SyncAttributeList::for_cpu`].
//! * Leave [`MemSync::Skip`] alone unless [`needs_memsync`](gpu_interop_core::NvSciBufGpu::needs_memsync) says that memory
//!   stays coherent without.
//!
//! # What was not seen
//! No machine with these libraries was at hand. Numbers, layouts and signatures are those of NVIDIA's public headers
//! (`nvscibuf.h` 2.0 to 2.11, `nvscisync.h` 2.0 to 2.8, `nvscierror.h`); the tests run on a simulator that was written from
//! the same documents. Not in any of them, and assumed here:
//! * that `NvSciBufObjGetCpuPtr` maps as many bytes as the reconciled size, as NVIDIA's samples use it;
//! * that no library deviates from its header.
//!
//! # Threads and blocking
//! Every object may be used from every thread. Only [`CpuWaitContext::wait`] blocks, and it has a time limit.
//!
//! # Platforms
//! Linux. Elsewhere the crate is empty: there are no such libraries (QNX's are not supported).
#![cfg(target_os = "linux")]

mod buffer;
mod error;
mod library;
mod list;
mod module;
mod sync;
mod sys;

pub use buffer::{
    Buffer, BufferAttributeList, BufferAttributes, BufferModule, BufferProperties, ColorFormat, GpuAttributes,
    ImageAttributes, ImageLayout, Permission, Plane, PlaneAttributes, ReconciledBufferAttributes,
};
pub use library::{NVSCIBUF_VARIABLE, NVSCISYNC_VARIABLE, NvSci};
pub use sync::{
    CpuWaitContext, Fence, ImportedSync, MemSync, ReconciledSyncAttributes, SyncAttributeList, SyncModule, SyncObject,
    SyncOptions,
};
