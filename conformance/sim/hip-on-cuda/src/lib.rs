//! HIP's C interface on NVIDIA's driver: the calls of a HIP application, as on Linux, reach a real GPU.
//!
//! `GPU_INTEROP_HIP_LIBRARY` names this library to the HIP backend, which reports that it is a simulator.
//! `libcuda.so.1` does the work, or the library that `GPU_INTEROP_SIM_CUDA_LIBRARY` names. The device is called "...
//! (HIP on CUDA)".
//!
//! # HIP's behaviour
//! Simulated is all behaviour of the runtime that does not depend on the device ([`gpu_interop_sim_abi::hip`]): the
//! structs of HIP 6 (with `GPU_INTEROP_SIM_HIP_LAYOUT=5` those of HIP 5), the current device of each thread, the codes,
//! the rejected calls. Descriptors are never closed, and every failed import reports "out of memory". External
//! semaphores cannot be imported; signals and waits succeed without effect. Mapped images are not supported. A module
//! is a code object for the architecture that the device reports; PTX of the same source runs in its place, which has
//! kernels of the same names: that of `gpu-interop-kernels`, or of a file that `GPU_INTEROP_SIM_PTX` names.
//!
//! # CUDA's behaviour
//! * `hipStreamWaitValueGte` compares as `*ptr >= value` in HIP. CUDA compares whether `*ptr` is at most half the
//!   numbers ahead of `value`, wrapping around: the same as long as the two are less than 2^31 (2^63) apart.
//! * Masks that clear bits are not supported: `hipErrorNotSupported`.
//! * Allocations of all kinds are coherent, and addresses of pinned memory are the same for host and device.
//! * Only CUDA's memory can be imported; dma-bufs cannot.
//!
//! This library manages CUDA's contexts: the first call that needs a device's primary context retains it, and it is
//! kept until the process ends, as HIP keeps its own. Each call restores the thread's current context.
//!
//! The faults and settings of [`gpu_interop_sim_abi::settings`] apply to the functions of this library, by their names.
//!
//! Needs CUDA 11.7 or later.

#![cfg(target_os = "linux")]

pub mod cuda;
pub mod device;
pub mod external;
pub mod memory;
pub mod module;
pub mod stream;
