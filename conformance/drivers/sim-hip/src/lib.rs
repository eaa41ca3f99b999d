//! A library that plays AMD's HIP runtime: HIP's C interface on the CPU's memory, as on Linux.
//!
//! `GPU_INTEROP_HIP_LIBRARY` names it to the HIP backend, which reports that it is a stand-in. It does what the runtime's
//! source was read to do: it never closes a descriptor, it answers "out of memory" to every import that fails, it maps as
//! much as it is told, and of external semaphores it has functions that do nothing, or end the process. It has no mapped
//! images: `dlsym` does not find their functions. `gpu_interop_sim::settings` lists what the environment changes.
#![cfg(target_os = "linux")]

pub mod copy;
pub mod device;
pub mod external;
pub mod graph;
pub mod module;
pub mod order;
pub mod physical;

pub(crate) use gpu_interop_sim::work::{address, give};
