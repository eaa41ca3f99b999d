//! A GPU on the CPU: the common part of the simulators of drivers.
//!
//! `sim-cuda` and `sim-hip` are libraries with the C interfaces of the vendors' drivers, so that the real backends run
//! without a GPU, with real exporters. Device memory is this process's memory, exported memory is memory files (file
//! mappings on Windows), and streams are queues with a thread each. They have the measured behaviour of the real
//! drivers, including faults, which [`settings`] lists. They verify a backend's calls and its use of the results, not a
//! driver.
//!
//! The structs of the interfaces come from bindings that other projects generated from the vendors' headers, because
//! this project's own declarations are under test.
//!
//! Linux and Windows only.

#![doc(html_root_url = "../")]
#![cfg(any(target_os = "linux", windows))]

pub mod array;
pub mod device;
pub mod graph;
pub mod kernel;
pub mod memory;
pub mod physical;
pub mod semaphore;
pub mod stream;
pub mod system;
pub mod work;

#[cfg(target_os = "linux")]
pub use gpu_interop_sim_abi::descriptor;
pub use gpu_interop_sim_abi::{code, entries, faults, kernels_of_ptx, lock, nvsci, objects, report, settings};

pub use crate::system::die;
