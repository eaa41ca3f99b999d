//! HIP backend: AMD's runtime, found and loaded at run time.
//!
//! ```no_run
//! use gpu_interop_core::{Backend, Device, MemoryImport, Result};
//! use gpu_interop_hip::HipBackend;
//!
//! /// Fills what another API has exported.
//! fn clear(exported: MemoryImport, size: u64) -> Result<()> {
//!     let backend = HipBackend::load()?;
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
//! * The crate links no library: a binary with it starts without ROCm, and the error of loading lists the paths tried.
//! * It supports HIP 5, 6 and 7, whose structs differ: descriptors of HIP 6 are valid for all, and the properties of a device
//!   have the layout of the function that the runtime has.
//! * A missing function makes one feature unsupported, not the whole backend.
//! * Every call preserves the calling thread's current device.
//! * The runtime never closes a file descriptor. It receives a duplicate, which this crate closes.
//! * Functions that HIP declares but does not implement are rejected before the runtime is called. On Linux these are
//!   all external semaphores (the functions abort the process, or succeed without effect); on Windows exportable memory
//!   (`hipMemCreate` rejects Win32 handles); on both, semaphores in graphs (they are not captured but run at once).
//! * Images are mapped if the runtime has the functions. On Linux no version up to 7.2 has them.
//! * On Linux a requested size larger than the dma-buf is an error instead of a later GPU fault. On Windows neither
//!   this crate nor the runtime can check the size, so the caller's size is trusted.
//! * A runtime of HIP 8 or later is used if its functions, the numbers of its attributes and the layout of its properties are
//!   those of HIP 7, and rejected otherwise.
//!
//! # Differences from CUDA
//! * Devices have no UUID: HIP's UUID differs from that of every other API. Devices are matched by PCI address, on
//!   Windows by LUID.
//! * The runtime reports rejected memory imports as "out of memory" and rejected semaphore imports as "not supported".
//!   This crate returns `ImportRejected` for both.
//! * HIP 6.1 and 6.2 open Direct3D 12 fences as another kind, and the runtime on ROCr lacks that kind. After "not
//!   supported" a fence is imported as an opaque semaphore. This was not tested on Windows with AMD's runtime.
//! * The first query of a stream after new work returns "not ready" although the work has completed, unless an event or
//!   a host function is behind it: the runtime enqueues a marker then (`hipStreamQuery`; HIP 5.2 to 7.2). Events are
//!   queried exactly.
//! * A mipmap level is an object that keeps the image's memory alive. It is queried once and destroyed before its image
//!   (`hipArrayDestroy`).
//! * On Windows a word that a stream writes does not release another stream that waits for it (rocm-systems#11605).
//!   Bridged timelines therefore write words with host functions; applications must not rely on their own stream
//!   writes.
//! * Image copies are not captured in graphs: they return `Unsupported` on a capturing stream.
//! * Kernels are code objects for one architecture or family;
//!   [`BackendDevice::architecture`](gpu_interop_core::BackendDevice::architecture) names that of the device.
//! * An import is mapped once, as a whole, and mappings are ranges of it: runtimes keep one entry per returned address,
//!   so the first `hipFree` of two mappings with the same address would free both, and HIP 5.2 returns the import's
//!   first address for every range. The mapping is freed when the import is destroyed, after the work enqueued through
//!   this library that uses it.
//! * `hipFree` of a mapping waits for the streams of device 0, whatever device owns the memory. Work that other code
//!   enqueued on another device must therefore have completed before; and while a stream of device 0 waits, freeing
//!   another device's memory blocks the calling thread.
//! * Before HIP 5.5 `hipFree` of a mapping aborts the process: it is not called, and mappings are freed with their
//!   import.
//!
//! # Streams
//! * The runtime maps all streams of a device to a few in-order hardware queues (`GPU_MAX_HW_QUEUES`, 4). A stream that
//!   waits on the device blocks all others of its queue. On Linux, streams of [`Device::create_stream`] therefore never
//!   share a queue with each other: the first three (one less than the number of queues) are ordinary non-blocking
//!   streams, and every further one has its own hardware queue (`hipExtStreamCreateWithCUMask` with all compute units).
//!   On Windows, and where the runtime lacks that function, all are ordinary streams, which share queues.
//! * A dropped stream with its own queue is kept for reuse until the device is closed. It takes the memory of a queue,
//!   and the runtime synchronises it with the *null stream*: work that another library enqueues there waits for the
//!   stream, and on HIP 5.2 the enqueueing thread waits. If the application or PyTorch uses the null stream, use at
//!   most three streams, or start the process with `GPU_MAX_HW_QUEUES=32`, so that 31 are ordinary.
//! * Streams of the application ([`Device::stream_from_raw`]) keep the queues that the runtime assigned: a wait on one
//!   may block others of the application. Start the process with more queues if several of them wait.
//!
//! [`Device::create_stream`]: gpu_interop_core::Device::create_stream
//! [`Device::stream_from_raw`]: gpu_interop_core::Device::stream_from_raw
//!
//! # Measured with AMD's runtimes
//! HIP 5.2.3, 5.7.1, 6.4.3 and 7.2.4, unmodified, on an emulated kernel driver:
//! * Copies and fills accept addresses of mappings, also in 5.2.
//! * 7.2 never frees an import that was mapped, whatever is freed (fixed by rocm-systems#3528): import once and keep
//!   the import. Since 5.5 each mapping adds a reference to the import; this crate maps an import once.
//! * 5.2 fails to fill ranges within one 8-byte word that do not start at it, and every 32nd fill of a stream blocks
//!   the calling thread. Before 5.7 this crate implements byte fills as copies (13 for 1 MiB). Fills with four
//!   different bytes use the driver's function and block.
//! * Word operations and, in 5.2, kernels are captured incorrectly: both are rejected in graphs.
//! * Two launches of one graph on two streams run concurrently; this crate makes the later one wait for the earlier.
//! * HIP 6 may still use reserved addresses after the work that used them has completed, and `hipMemAddressFree` then
//!   dereferences a null pointer (6.4.3): this crate frees them only after a host function has run.
//! * On 7.2, threads that concurrently create and destroy streams with their own hardware queue hang: this crate keeps
//!   such streams for reuse.
//! * While another thread captures a graph in global mode, 5.7 returns 900 for queries of streams regardless of the
//!   calling thread's mode; the other versions respect the mode. This crate queries events instead.
//! * Enqueueing calls may block the calling thread behind an unsatisfied wait: copies of pageable memory at once
//!   (except copies from the host in 6.4 and 7.2), in 5.2 the 31st copy of pinned memory, in all versions after some
//!   thousand operations, when the hardware queue is full. Signal before enqueueing much work behind a wait, or signal
//!   from another thread, and copy from pinned memory.
//! * In 5.2 a page fault of the GPU aborts the process; in 7.2 calls return an error. On a busy machine, 5.2 misses
//!   some faults: its thread for events spins without asking the kernel driver, and the work stays pending. Wait with
//!   a time limit ([`Stream::synchronize_timeout`](gpu_interop_core::Stream::synchronize_timeout)).
//!
//! The emulation does not cover caches, page tables, timing and the instruction set of a GPU.
//!
//! # Batches
//! * HIP 5 takes one semaphore per call: larger batches of signals or waits return `Unsupported`, and nothing is
//!   enqueued.
//!
//! The environment variable `GPU_INTEROP_HIP_LIBRARY` can name the runtime's file.

#![doc(html_root_url = "../")]

mod capabilities;
mod code_object;
mod image;
mod import;
mod memory;
mod properties;
mod queues;
mod sys;
mod vendor;

/// AMD's runtime.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hip {}

gpu_interop_driver::vendor_backend! {
    /// Loaded and initialised AMD runtime, HIP 5 to 7. HIP 4.2 is accepted but untested, and has no external memory,
    /// which HIP 4.3 introduced.
    #[doc(alias = "hipInit")]
    pub struct HipBackend(Hip);
}
