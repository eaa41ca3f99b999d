//! The CUDA backend: NVIDIA's driver, looked for and loaded at run time.
//!
//! # What this crate promises
//! * It links nothing: a binary with this crate starts without a driver, and says which paths were tried.
//! * A function that a driver lacks makes one feature unsupported, not the whole backend.
//! * The calling thread's current context is the same after every call as before. Work runs in the device's primary
//!   context, the one that CUDA's runtime, cudarc and most libraries use.
//! * The driver gets duplicates of descriptors. It closes them on success and, on failure, closes them or not depending
//!   on the error; either way nothing is leaked and nothing is closed twice.
//! * A signal of a semaphore comes after the fills of its stream. NVIDIA's driver alone lets it overtake a small one: of
//!   some 2,500 pairs of `cuMemsetD8Async` (32 to 4,096 bytes) and `cuSignalExternalSemaphoresAsync`, measured with driver
//!   580 on an H200, one was seen in the wrong order by a stream that had waited. So the first signal after a fill of
//!   less than 32 KiB has a barrier in front (`cuStreamBatchMemOp`, or a host function where there is none).
//!
//! # What the caller must do
//! * Whoever fills memory on a lent stream by calling the driver directly needs such a barrier too: this crate does not
//!   know of that fill.
//! * Streams lent from elsewhere must belong to the device's primary context.
//!
//! The file of the driver can be named with the environment variable `GPU_INTEROP_CUDA_LIBRARY`.

mod array;
mod capabilities;
mod image;
mod sys;
mod vendor;

gpu_interop_driver::vendor_backend! {
    /// NVIDIA's driver, CUDA 7.0 or later, loaded and initialised.
    pub struct CudaBackend(vendor::Cuda);
}
