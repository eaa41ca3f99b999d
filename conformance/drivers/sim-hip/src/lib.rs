//! A library that plays AMD's HIP runtime: HIP's C interface on the CPU's memory.
//!
//! `GPU_INTEROP_HIP_LIBRARY` names it to the HIP backend, which reports that it is a stand-in. It does what the runtime's
//! source was read to do: it never closes a descriptor, it answers "out of memory" to every import that fails, it maps as
//! much as it is told, and of external semaphores it has on Linux functions that do nothing, or end the process, on Windows
//! those that work. Mapped images it has on Windows only, too: elsewhere their functions are not found. `gpu_interop_sim::settings` lists what the environment changes.
#![cfg(any(target_os = "linux", windows))]

#[cfg(windows)]
pub mod array;
mod capture;
pub mod copy;
pub mod device;
pub mod external;
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

pub(crate) use gpu_interop_sim::work::{address, give};
