//! A simulator of AMD's HIP runtime: HIP's C interface on the CPU's memory.
//!
//! `GPU_INTEROP_HIP_LIBRARY` names it to the HIP backend, which reports that it is a simulator. It simulates the version that
//! `GPU_INTEROP_SIM_VERSION` names, and answers as that one was recorded to on Linux, above an emulated kernel driver
//! (`conformance/tests/hip_calls_compared`): it never closes a descriptor, it answers "out of memory" to every import that
//! fails, it maps as much as it is told, and streams share hardware queues. Where the runtime follows a bad pointer, it ends
//! the process and says why. Of external semaphores it has on Linux functions that do nothing, or end the process, on
//! Windows those that work; mapped images it has on Windows only, too: elsewhere their functions are not found. What only
//! Windows has is as the runtime's source was read. `gpu_interop_sim_device::settings` lists what the environment changes.
#![cfg(any(target_os = "linux", windows))]

#[cfg(windows)]
pub mod array;
mod capture;
pub mod copy;
pub mod device;
pub mod external;
mod found;
pub mod graph;
mod handle;
mod memory;
mod missing;
pub mod module;
pub mod order;
pub mod physical;
mod queue;
#[cfg(windows)]
pub mod semaphore;
mod streams;

pub(crate) use gpu_interop_sim_device::work::{address, give};
