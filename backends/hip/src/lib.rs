//! The HIP backend: AMD's runtime, looked for and loaded at run time.
//!
//! # What this crate promises
//! * It links nothing: a binary with this crate starts without ROCm, and says which paths were tried.
//! * It works with HIP 5, 6 and 7, whose structs differ; the version that the runtime says it is decides.
//! * A function that a runtime lacks makes one feature unsupported, not the whole backend.
//! * The calling thread's current device is the same after every call as before.
//! * The runtime never closes a descriptor, whether it imports it or not. It gets a duplicate, which is closed once.
//! * What HIP declares but does not do is refused before the runtime is called. On Linux that is every external
//!   semaphore (the functions abort the process, or succeed and do nothing); on Windows memory that can be exported
//!   (`hipMemCreate` refuses Win32 handles); on both semaphores in graphs (they are not recorded, but run at once).
//! * Images are mapped where the runtime has the functions for it. On Linux no version up to 7.2 has.
//! * On Linux memory that is larger in the request than its dma-buf is an error, and not a fault of the GPU later. On
//!   Windows neither this crate nor the runtime compares the size with the real one: it is the caller's word.
//! * A runtime of HIP 8 or later is not used: its structs are not known.
//!
//! # What differs from CUDA
//! * A device has no UUID here: HIP's is a number that no other API knows. Devices are matched by PCI address, on Windows
//!   by LUID.
//! * The runtime reports refused imports of memory as "out of memory", and those of semaphores as "not supported". Here
//!   they are `ImportRejected`.
//! * HIP 6.1 and 6.2 open Direct3D 12's fences as another kind, and the runtime on ROCr has no such kind. A fence that is
//!   "not supported" is imported once more as an opaque semaphore. This was not tried on Windows with AMD's runtime.
//! * A level of an image is an object of its own, which keeps the image's memory. It is asked for once, and ends before its
//!   image (`hipArrayDestroy`).
//! * On Windows a word that a stream writes does not release another stream that waits for it (rocm-systems#11605). So
//!   bridged timelines have a function of the host write it; what the application enqueues itself it must not rely on.
//! * Copies of images are not recorded in graphs: they are `Unsupported` on a stream that records.
//! * Kernels are code objects, each for one architecture or family:
//!   [`BackendDevice::architecture`](gpu_interop_core::BackendDevice::architecture) names the device's.
//! * An import is mapped once, as a whole, and mappings are ranges of that: runtimes keep one entry for each address
//!   that they gave, so that of two mappings which begin at the same one the first `hipFree` would end both; HIP 5.2
//!   gives the import's first address whatever the range. It is freed when the import ends, once the work that was
//!   enqueued here and uses it has run.
//! * `hipFree` of a mapping waits for the streams of device 0, whatever device the memory is of. So work that something else
//!   enqueued on another device must have run before; and while a stream of device 0 waits, the free of another device's
//!   memory blocks its thread.
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
