//! The HIP backend: AMD's runtime, looked for and loaded at run time.
//!
//! # What this crate promises
//! * It links nothing: a binary with this crate starts without ROCm, and says which paths were tried.
//! * It works with HIP 5, 6 and 7, whose structs differ; the version that the runtime says it is decides.
//! * A function that a runtime lacks makes one feature unsupported, not the whole backend.
//! * The calling thread's current device is the same after every call as before.
//! * The runtime never closes a descriptor, whether it imports it or not. It gets a duplicate, which is closed once.
//! * What HIP declares but does not do is refused before the runtime is called. On Linux that is every external
//!   semaphore (the functions abort the process, or succeed and do nothing) and every mapped image,
//!   on Windows memory that can be exported (`hipMemCreate` refuses Win32 handles).
//! * Memory that is larger in the request than its dma-buf is an error, and not a fault of the GPU later.
//!
//! # What differs from CUDA
//! * A device has no UUID here: HIP's is a number that no other API knows. Devices are matched by PCI address, on Windows
//!   by LUID.
//! * The runtime reports most refused imports as "out of memory". Here they are `ImportRejected`.
//! * Kernels are code objects, each for one architecture or family:
//!   [`BackendDevice::architecture`](gpu_interop_core::BackendDevice::architecture) names the device's.
//! * An import is mapped once, as a whole, and mappings are ranges of that: runtimes keep one entry for each address
//!   that they gave, so that of two mappings which begin at the same one the first `hipFree` would end both; HIP 5.2
//!   gives the import's first address whatever the range. It is freed after its last mapping, which waits for the
//!   device to be idle.
//! * Before HIP 5.6 `hipFree` does not know mappings: it is not called for them, and they end with their import.
//!
//! # What is not known
//! * Whether copies and fills take the addresses of mappings before HIP 5.6: the table in which they look addresses up
//!   is the one that `hipFree` looks into. Kernels take any address. No GPU with such a runtime was at hand.
//! * Since when a runtime that is asked for a part of an import answers with its address: 5.2 does not, 6.0 does.
//!   Nothing depends on it.
//!
//! # Batches
//! * HIP 5 takes one semaphore a call: a greater batch of signals or waits is `Unsupported` with it, and nothing of it
//!   is enqueued.
//!
//! The file of the runtime can be named with the environment variable `GPU_INTEROP_HIP_LIBRARY`.

mod array;
mod capabilities;
mod image;
mod import;
mod properties;
mod signal_memory;
mod sys;
mod vendor;

gpu_interop_driver::vendor_backend! {
    /// AMD's runtime, HIP 5 or later, loaded and initialised. HIP 4.2 loads too, and has less: external memory came
    /// with HIP 4.3. It was never tried.
    pub struct HipBackend(vendor::Hip);
}
