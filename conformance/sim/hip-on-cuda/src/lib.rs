//! HIP's C interface on NVIDIA's driver: what a caller of HIP does, as on Linux, reaches a real GPU.
//!
//! `GPU_INTEROP_HIP_LIBRARY` names this library to the HIP backend, which reports that it is a simulator. `libcuda.so.1` does
//! the work, or the library that `GPU_INTEROP_SIM_CUDA_LIBRARY` names. The device is called "... (HIP on CUDA)".
//!
//! # What is HIP's here
//! Everything that the runtime decides by itself ([`gpu_interop_sim_abi::hip`]): the structs of HIP 6 (with
//! `GPU_INTEROP_SIM_HIP_LAYOUT=5` those of HIP 5), the current device of each thread, the codes, the refusals. A descriptor is never
//! closed, and every import that fails has run out of memory. External semaphores are imported by nobody; signalling and
//! waiting for them succeeds and does nothing. Mapped images have no function. A module is a code object of
//! `gpu-interop-kernels` for the architecture that the device claims; PTX of the same source runs in its place.
//!
//! # What is CUDA's
//! * `hipStreamWaitValueGte` compares as `*ptr >= value` in HIP. CUDA compares whether `*ptr` is at most half the
//!   numbers ahead of `value`, wrapping around: the same as long as the two are less than 2^31 (2^63) apart.
//! * Masks that leave bits out do not exist: they are `hipErrorNotSupported`.
//! * Allocations of every sort are coherent, and addresses of pinned memory are the same for host and device.
//! * Memory that is not CUDA's cannot be imported, dma-bufs among it.
//!
//! CUDA's contexts are this library's own business: the primary context of a device is retained by the first call that
//! needs it and kept, as HIP keeps its own, until the process ends. What was current on a thread before a call is so after
//! it.
//!
//! The faults and settings of [`gpu_interop_sim_abi::settings`] apply to the functions here, by their names.
//!
//! Needs CUDA 11.7 or later.
#![cfg(target_os = "linux")]

pub mod code;
pub mod context;
pub mod copy;
pub mod cuda;
pub mod device;
pub mod external;
pub mod graph;
pub mod memory;
pub mod module;
pub mod order;
pub mod physical;
