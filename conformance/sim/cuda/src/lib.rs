//! A simulator of NVIDIA's driver: CUDA's C interface on the CPU's memory.
//!
//! `GPU_INTEROP_CUDA_LIBRARY` names it to the CUDA backend, which reports that it is a simulator. It misbehaves as driver
//! 580.159.04 was measured to: it takes handles of the wrong sort and sizes of any size, closes a descriptor on some
//! failures and not on others, maps dedicated allocations from their first byte only, lets timelines go backwards and signals overtake small fills, and dies of a second
//! destruction. `gpu_interop_sim_device::settings` lists what the environment changes.
#![cfg(any(target_os = "linux", windows))]

pub mod array;
mod capture;
pub mod code;
pub mod context;
pub mod copy;
pub mod driver;
pub mod external;
pub mod graph;
mod handle;
pub mod module;
pub mod nvsci;
pub mod order;
pub mod physical;

pub(crate) use gpu_interop_sim_device::work::address;
pub use gpu_interop_sim_device::work::give;
