//! The NvSci side of gpu-interop: buffers and synchronisation objects that NVIDIA's embedded systems (DRIVE, Jetson)
//! share between the GPU, the CPU and their other engines.
//!
//! [`NvSci::load`] finds both libraries at run time, so a binary starts without them. Buffers and objects are created
//! as NVIDIA's programming guide describes ("NVIDIA Software Communication Interface Interoperability"): every user
//! states its requirements in an attribute list, the lists are reconciled, an object is allocated, and a device imports
//! it.
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
//! // An object that the GPU signals and the CPU waits for.
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
//! # Guarantees
//! * The crate links neither library. A missing library is a typed error with every path tried.
//! * **Objects are freed automatically**, each once: lists and objects before their module, fences by clearing them. An
//!   NvSciBuf or NvSciSync object is freed only after the driver has ended its last import, in any drop order.
//! * **Invalid requests are typed errors** before a library or driver receives them: lists of two modules, or lists
//!   none of which sets a size; a GPU that no list names, also if no list names any
//!   ([`ErrorKind::DeviceMismatch`](gpu_interop_core::ErrorKind::DeviceMismatch)); more than one mip level; writes to
//!   read-only objects; waits for a cleared fence; fences in graphs; a signal or wait by a device or the CPU that none
//!   of its attribute lists requested; a fence with a value that the object cannot hold. Incompatible lists are
//!   [`ErrorKind::ReconciliationFailed`](gpu_interop_core::ErrorKind::ReconciliationFailed), with the attributes in
//!   which they differ. The library's own conflict list is freed and never read, as NVIDIA's guides require.
//! * Attributes unknown to an older library are `None`, not an error.
//! * Every call that can fail emits a `tracing` event, as in the CUDA backend.
//!
//! # Requirements on the caller
//! * Order the accesses of CPU and GPU, with fences or by waiting for the stream.
//! * Request signals and waits in the attribute list of the device or CPU that performs them:
//!   [`SyncAttributeList::for_device`], [`SyncAttributeList::for_cpu`].
//! * Use [`MemSync::Skip`] only if [`needs_memsync`](gpu_interop_core::NvSciBufGpu::needs_memsync) states that memory
//!   stays coherent without the synchronisation.
//!
//! # Not verified
//! The crate has not been tested with NVIDIA's libraries. Numbers, layouts and signatures are those of NVIDIA's public
//! headers (`nvscibuf.h` 2.0 to 2.11, `nvscisync.h` 2.0 to 2.8, `nvscierror.h`); the tests use a simulator written from
//! the same documents. Two assumptions are not documented:
//! * `NvSciBufObjGetCpuPtr` maps as many bytes as the reconciled size, as NVIDIA's samples assume;
//! * no library deviates from its header.
//!
//! # Threads and blocking
//! Objects may be used from any thread. Only [`CpuWaitContext::wait`] blocks, and it has a timeout.
//!
//! # Platforms
//! Linux. On other systems the crate is empty, because they lack the libraries. QNX's libraries are not supported.

#![doc(html_root_url = "../")]
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
