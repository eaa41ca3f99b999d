//! The host backend: a reference implementation of gpu-interop on CPU memory, with no driver behind it.
//!
//! It imports memory that a CPU renderer exported (lavapipe and SwiftShader export memfds), any other memfd, and
//! memory of its own; on Windows any file mapping, by handle or by name. Its streams are threads, its semaphores words
//! in shared memory. Applications run and test their interop code with it on machines without a GPU. It is no simulator
//! of a vendor's driver: what works here may be refused there, and reports name it.
//!
//! # What this crate promises
//! * Descriptors and handles of an import request are never closed: the import keeps a duplicate.
//! * Streams are asynchronous and independent of each other: one thread each.
//! * Semaphores work between processes, and a wait that a peer never answers can be bounded or cancelled; a peer
//!   that is killed leaves them usable. On Windows a waiter hears of another process's signal up to a millisecond late.
//! * Enqueuing a signal or wait allocates nothing once the stream's queue has grown to its working size.
//!
//! * Another process cannot truncate memory that is mapped here, after which an access would raise `SIGBUS`. On Linux an
//!   import seals the file with `F_SEAL_SHRINK`, which lasts as long as the file, and rejects a file that cannot be
//!   sealed. Memory exported by this crate and by lavapipe is sealed already. SwiftShader's cannot be sealed: the
//!   requests of `gpu-interop-vulkan` promise for it, and who receives a descriptor from another process promises with
//!   [`MemoryImport::trusted_peer`](gpu_interop_core::MemoryImport::trusted_peer).
//! * Streams, and other processes, may access the same bytes at the same time: copies and fills are atomic accesses. A
//!   byte that is read meanwhile has the old or the new value.
//!
//! # What the caller must do
//! * Register kernels ([`HostBackendBuilder::kernel`]) that touch only the memory they are given.
//!
//! Linux and Windows.

mod argument;
mod backend;
mod device;
mod event;
mod exporter_header;
mod graph;
mod imported;
mod kernel;
mod mapping;
mod op;
mod semaphore;
mod shared_semaphore;
mod stream;
mod sys;
mod timeline;

pub use backend::{HostBackend, HostBackendBuilder};
pub use exporter_header::ExporterHeader;
pub use kernel::{HostKernel, KernelCall};
pub use semaphore::HostSemaphore;
