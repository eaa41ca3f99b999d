//! The symbol by which a simulator identifies itself, so that no report made with one passes for a driver's.

use std::sync::atomic::{AtomicI32, Ordering};

/// The work is done by the CPU.
const CPU: i32 = 1;
/// The work is done by a GPU.
const GPU: i32 = 2;

/// Backends look for this symbol in what they have loaded, report that it is there, and read, once the driver is
/// initialised, what sort of device does the work: 1 for the CPU, 2 for a GPU.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that backends look for")]
pub static gpu_interop_simulated: AtomicI32 = AtomicI32::new(CPU);

/// Says that a GPU does the work. Without this, it is the CPU.
pub fn works_on_gpu() {
    gpu_interop_simulated.store(GPU, Ordering::SeqCst);
}
