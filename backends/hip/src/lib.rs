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
//! * Before HIP 5.5 `hipFree` does not know mappings, and aborts the process: it is not called for them, and they end with
//!   their import.
//!
//! # Streams
//! * The runtime maps all streams of a device to a few hardware queues (`GPU_MAX_HW_QUEUES`, 4), each in order. A stream
//!   that waits on the device holds back all others of its queue. So streams made here ([`Device::create_stream`]) never
//!   share a queue with each other: the first three (one less than there are queues) are ordinary, non-blocking streams,
//!   and every further one has a hardware queue of its own (`hipExtStreamCreateWithCUMask`, all units).
//! * Such a stream is kept when it is dropped, for the next one, until the device is closed. It costs a queue's memory, and
//!   the runtime orders it with the *null stream*: what another library enqueues there waits for the stream, and on HIP 5.2
//!   the enqueueing thread does. If the application, or PyTorch, uses the null stream, keep to three streams, or start the
//!   process with `GPU_MAX_HW_QUEUES=32`, so that 31 are ordinary.
//! * Streams of the application ([`Device::stream_from_raw`]) stay where the runtime put them: a wait on one may hold back
//!   others of the application. Start the process with more queues if several of them wait.
//!
//! [`Device::create_stream`]: gpu_interop_core::Device::create_stream
//! [`Device::stream_from_raw`]: gpu_interop_core::Device::stream_from_raw
//!
//! # Seen with AMD's own runtimes
//! HIP 5.2.3, 5.7.1, 6.4.3 and 7.2.4, unmodified, on an emulated kernel driver:
//! * Copies and fills take the addresses of mappings, in 5.2 too.
//! * 7.2 never gives back an import that was mapped, whatever is freed (rocm-systems#3528 mends it): import once, and keep
//!   the import. Since 5.5 a mapping is one reference more to the import, and an import is mapped once here.
//! * 5.2 fills no range that begins and ends within the same 8 bytes and does not begin with them, and its 32nd fill of a
//!   stream blocks the calling thread: before 5.7 fills with a byte are copies here, of which a large one takes some
//!   (twelve for 1 MiB). Fills with four different bytes are not, and block.
//! * Words and, in 5.2, kernels are not recorded in graphs as they should be: both are refused there.
//! * Two launches of one graph on two streams run at once; here the later one waits for the earlier.
//! * HIP 6 may still use reserved addresses after the work that used them has run, and `hipMemAddressFree` then follows a
//!   null pointer (6.4.3): here they are given back only behind a function of the host, and kept until then.
//! * Threads of 7.2 that make and destroy streams with a hardware queue of their own at the same time hang: here such
//!   streams are kept for the next one.
//! * While another thread records a graph in global mode, 5.7 answers 900 to questions about streams whatever the calling
//!   thread's mode is; the other versions heed it. Events are asked instead.
//! * Calls that enqueue may block the calling thread behind a wait that is not met: copies of pageable memory at once (but
//!   not those from the host in 6.4 and 7.2), in 5.2 the 31st copy of pinned memory, in all those
//!   after some thousand, when the hardware queue is full. So signal what is waited for before much is enqueued
//!   behind the wait, or from another thread, and copy from pinned memory.
//!
//! What this does not show: caches, page tables, timing and the instruction set of a GPU.
//!
//! # Batches
//! * HIP 5 takes one semaphore a call: a greater batch of signals or waits is `Unsupported` with it, and nothing of it
//!   is enqueued.
//!
//! The file of the runtime can be named with the environment variable `GPU_INTEROP_HIP_LIBRARY`.

mod array;
mod capabilities;
mod code_object;
mod image;
mod import;
mod memory;
mod properties;
mod queues;
mod sys;
mod vendor;

gpu_interop_driver::vendor_backend! {
    /// AMD's runtime, HIP 5 or later, loaded and initialised. HIP 4.2 loads too, and has less: external memory came
    /// with HIP 4.3. It was never tried.
    pub struct HipBackend(vendor::Hip);
}
