//! CUDA backend: NVIDIA's driver, found and loaded at run time.
//!
//! ```no_run
//! use gpu_interop_core::{Backend, Device, MemoryImport, Result};
//! use gpu_interop_cuda::CudaBackend;
//!
//! /// Fills what another API has exported.
//! fn clear(exported: MemoryImport, size: u64) -> Result<()> {
//!     let backend = CudaBackend::load()?;
//!     println!("{} devices", backend.devices()?.len());
//!     let device = Device::open(&backend, 0)?;
//!     let buffer = device.import_memory(exported)?.map_buffer(0..size)?;
//!     let stream = device.create_stream()?;
//!     stream.fill(&buffer, 0)?;
//!     stream.synchronize()
//! }
//! ```
//!
//! # Guarantees
//! * The crate links no library: a binary with it starts without a driver, and the error of loading lists the paths
//!   tried.
//! * A missing function makes one feature unsupported, not the whole backend.
//! * Every call preserves the calling thread's current context. Work runs in the device's primary context, which the
//!   CUDA runtime, cudarc and most libraries use.
//! * Signals and waits on a stream do not ask for the current context: the driver (measured with 580) takes it from the
//!   stream. On the default streams (handles 0, 1 and 2), and where the driver refuses, the call is made with the
//!   primary context current.
//! * The driver receives duplicates of file descriptors. It closes them on success, and on failure depending on the
//!   error; in every case each duplicate is closed exactly once.
//! * A semaphore signal follows the earlier fills of its stream. NVIDIA's driver by itself lets a signal overtake a
//!   small fill: of about 2,500 pairs of `cuMemsetD8Async` (32 to 4,096 bytes) and `cuSignalExternalSemaphoresAsync`,
//!   measured with driver 580 on an H200, a waiting stream observed one in the wrong order. The first signal after a
//!   fill of less than 32 KiB is therefore preceded by a barrier (`cuStreamBatchMemOp`, or a host function if that is
//!   unsupported).
//!
//! # Requirements on the caller
//! * An application that fills memory on a borrowed stream by calling the driver directly enqueues such a barrier
//!   itself: this crate cannot detect that fill.
//! * Borrowed streams belong to the device's primary context.
//!
//! The environment variable `GPU_INTEROP_CUDA_LIBRARY` can name the driver's file.

#![doc(html_root_url = "../")]

mod capabilities;
mod image;
mod start;
mod sys;
mod vendor;

/// NVIDIA's driver.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cuda {}

gpu_interop_driver::vendor_backend! {
    /// Loaded and initialised NVIDIA driver, CUDA 7.0 or later.
    #[doc(alias = "cuInit")]
    pub struct CudaBackend(Cuda);
}
