//! The symbol by which a simulator identifies itself, so that reports made with one are marked.

use std::sync::atomic::{AtomicI32, Ordering};

/// The work is done by the CPU.
const CPU: i32 = 1;
/// The work is done by a GPU.
const GPU: i32 = 2;

/// Backends look up this symbol in the loaded library, report it, and after initialisation read the kind of device that
/// does the work: 1 for the CPU, 2 for a GPU.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that backends look up")]
pub static gpu_interop_simulated: AtomicI32 = AtomicI32::new(CPU);

/// Declares that a GPU does the work. The default is the CPU.
pub fn works_on_gpu() {
    gpu_interop_simulated.store(GPU, Ordering::SeqCst);
}
