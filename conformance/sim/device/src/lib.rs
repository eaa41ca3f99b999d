//! A GPU that is the CPU: the part that the simulators of drivers share.
//!
//! `sim-cuda` and `sim-hip` are libraries with the C interfaces of the vendors' drivers, so that the real backends run
//! without a GPU, against real exporters. Device memory is this process's memory, exported memory is memory files, on
//! Windows file mappings, and streams are queues with a thread each. They behave as the real drivers were measured to, faults included, which
//! [`settings`] lists. They prove what a backend asks of a driver and does with its answers, not what a driver does.
//!
//! The structs of the interfaces come from bindings that others generated from the vendors' headers, not from this
//! project's own declarations: those are what is tested.
//!
//! Linux and Windows only.
#![cfg(any(target_os = "linux", windows))]

pub mod array;
pub mod capture_mode;
pub mod device;
pub mod driver;
pub mod event;
pub mod graph;
pub mod host_function;
pub mod in_use;
pub mod kernel;
pub mod live;
pub mod memory;
pub mod physical;
pub mod semaphore;
pub mod stream;
pub mod system;
pub mod word;
pub mod work;

#[cfg(target_os = "linux")]
pub use gpu_interop_sim_abi::descriptor;
pub use gpu_interop_sim_abi::{code, entries, lost, nvsci, objects, report, settings};
pub use system::die;
