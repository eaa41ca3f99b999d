//! A simulator of NVIDIA's driver: CUDA's C interface on the CPU's memory.
//!
//! `GPU_INTEROP_CUDA_LIBRARY` names it to the CUDA backend, which reports that it is a simulator. It has the measured
//! defects of driver 580.159.04: it accepts handles of the wrong kind and any size, closes a descriptor on some
//! failures and not on others, maps dedicated allocations from their first byte only, lets timelines decrease and
//! signals overtake small fills, and crashes on a second destruction. `gpu_interop_sim_device::settings` lists the
//! settings of the environment.

#![doc(html_root_url = "../")]
#![cfg(any(target_os = "linux", windows))]

pub mod code;
pub mod driver;
pub mod external;
pub mod graph;
pub mod memory;
pub mod nvsci;
pub mod stream;

pub(crate) use gpu_interop_sim_device::work::address;
pub use gpu_interop_sim_device::work::give;
