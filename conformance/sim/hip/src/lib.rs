//! A simulator of AMD's HIP runtime: HIP's C interface on the CPU's memory.
//!
//! `GPU_INTEROP_HIP_LIBRARY` names it to the HIP backend, which reports that it is a simulator. It simulates the
//! version that `GPU_INTEROP_SIM_VERSION` selects, as recorded on Linux with an emulated kernel driver
//! (`conformance/tests/hip_calls_compared`): it never closes a descriptor, returns "out of memory" for every failed
//! import, maps any requested size, and streams share hardware queues. If the runtime would dereference an invalid
//! pointer, the simulator aborts the process and prints the reason. External semaphores have no effect or abort the
//! process on Linux, and work on Windows; mapped images exist on Windows only, and elsewhere their functions are not
//! found. Behaviour of Windows is from the runtime's source. `gpu_interop_sim_device::settings` lists the settings of
//! the environment.

#![cfg(any(target_os = "linux", windows))]

pub mod copy;
pub mod device;
pub mod external;
pub mod graph;
mod memory;
pub mod order;
pub mod physical;
mod streams;
#[cfg(windows)]
pub mod windows;

pub(crate) use gpu_interop_sim_device::work::{address, give};

/// Aborts the process, as the runtime does or may.
pub(crate) fn die_because(what: &str) -> ! {
    eprintln!("sim-hip ends the process: {what}");
    gpu_interop_sim_device::die()
}
