//! Host backend: a reference implementation of gpu-interop on CPU memory, without a driver.
//!
//! ```
//! use gpu_interop_core::{Device, Result};
//! use gpu_interop_host::HostBackend;
//!
//! fn main() -> Result<()> {
//!     let device = Device::open(&HostBackend::new(), 0)?;
//!     let exported = device.allocate_exportable(4096)?;
//!     // Imported again, as another process would.
//!     let buffer = device.import_memory(exported.import_request()?)?.map_buffer(0..4096)?;
//!     let stream = device.create_stream()?;
//!     stream.fill(exported.slice(..)?, 7)?;
//!     let mut bytes = [0; 4096];
//!     stream.read(&buffer, &mut bytes)?;
//!     assert_eq!(bytes, [7; 4096]);
//!     Ok(())
//! }
//! ```
//!
//! Applications use it to run and test their interop code on machines without a GPU. It imports memory exported by CPU
//! renderers (lavapipe and SwiftShader export memfds), any other memfd, and its own memory; on Windows any file
//! mapping, by handle or by name. Streams are threads, semaphores are words in shared memory. It does not simulate a
//! vendor's driver: code that works here may fail there.
//!
//! # Guarantees
//! * The backend never closes the descriptors and handles of an import request: the import keeps a duplicate. Their owner
//!   is the library's [`ExternalMemory`](gpu_interop_core::ExternalMemory) or `Semaphore`.
//! * Streams are asynchronous and independent of each other: one thread each.
//! * Semaphores work between processes. Waits can be bounded or cancelled, and semaphores stay usable after a peer is
//!   killed. On Windows a waiter observes another process's signal up to a millisecond late.
//! * Enqueuing a signal or wait allocates nothing once the stream's queue has grown to its working size.
//!
//! * Another process cannot truncate memory that is mapped here; an access to truncated memory would raise `SIGBUS`. On
//!   Linux an import seals the file with `F_SEAL_SHRINK`, which lasts as long as the file, and rejects files that
//!   cannot be sealed. Memory exported by this crate and by lavapipe is already sealed. SwiftShader's memory cannot be
//!   sealed: requests of `gpu-interop-vulkan` are marked with
//!   [`MemoryImport::trusted_peer`](gpu_interop_core::MemoryImport::trusted_peer), and applications that receive a file
//!   descriptor from another process can make that promise themselves.
//! * Copies and fills use atomic accesses, so streams and other processes may access the same bytes concurrently. A
//!   concurrent read of a byte returns the old or the new value.
//!
//! # Kernels
//! A kernel is a Rust function, registered by name: [`HostBackendBuilder::kernel`] has an example.
//!
//! # Requirements on the caller
//! * Registered kernels access only the memory of their arguments.
//!
//! # Platforms
//! Linux and Windows.

#![doc(html_root_url = "../")]

mod backend;
mod device;
mod imported;
mod kernel;
mod op;
mod semaphore;
mod shared_semaphore;
mod stream;
mod sys;
mod timeline;

pub use backend::{HostBackend, HostBackendBuilder};
pub use imported::ExporterHeader;
pub use kernel::{HostKernel, KernelCall};
pub use semaphore::HostSemaphore;
