//! A library that plays both NvSciBuf and NvSciSync, in one process: memory is memory files, primitives are counters.
//!
//! `GPU_INTEROP_NVSCIBUF_LIBRARY` and `GPU_INTEROP_NVSCISYNC_LIBRARY` name it to `gpu-interop-nvsci`, which reports that it is
//! a stand-in. `sim-cuda` finds it by the first of these variables, as NVIDIA's driver finds the libraries that it is linked
//! with, and reaches what is behind an object by [`interface`].
//!
//! Written from NVIDIA's public headers (`nvscibuf.h` 2.11, `nvscisync.h` 2.8, `nvscierror.h`), not from the declarations of
//! `gpu-interop-nvsci`: those are what is tested. Where the headers say "panics", it prints why and aborts; so whatever is
//! freed twice, or used after it was freed, or freed while a driver has it imported, ends the process. It grants what the
//! headers say that is granted by default. It aligns rows to 64 bytes and planes to 4 rows, as the stand-ins for the drivers
//! lay images out.
//!
//! `SIM_FAIL`, `SIM_LATENCY` and `SIM_REPORT` of `gpu_interop_stand_in::settings` are obeyed. `SIM_NVSCI` is a list, separated
//! by commas: `flush` (the CPU's caches need flushing), `old` (attributes that came after version 2.0 are unknown),
//! `incompatible` (of another major version), `memsync` (every GPU's cache must be kept coherent), `conflict_code`
//! (lists in conflict are answered with another code than the usual, and all the same with what they differ in), `leak_list`,
//! `leak_object` and `leak_fence` (every twentieth is not freed when it should be: for a test of what counts them),
//! `skip_waits_1`, `skip_waits_2` and so on (streams do not wait for the object that is allocated first, or second).
#![cfg(target_os = "linux")]

pub mod attributes;
pub mod buffer;
pub mod interface;
pub mod live;
pub mod reconcile;
pub mod sync;
pub mod sync_reconcile;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu_interop_stand_in::settings;

/// `NvSciError`.
mod error {
    pub(crate) const NOT_PERMITTED: u32 = 0x21;
    pub(crate) const BAD_PARAMETER: u32 = 0x100;
    pub(crate) const OVERFLOW: u32 = 0x103;
    pub(crate) const INSUFFICIENT_MEMORY: u32 = 0x30;
    pub(crate) const RESOURCE_ERROR: u32 = 0x32;
    pub(crate) const TIMEOUT: u32 = 0x200;
    pub(crate) const RECONCILIATION_FAILED: u32 = 0x0001_0100;
    pub(crate) const CLEARED_FENCE: u32 = 0x0200_0002;
}

/// `NvSciBufAttrKeyValuePair`, and its twin of NvSciSync.
#[repr(C)]
#[derive(Debug)]
pub struct Pair {
    key: i32,
    value: *const c_void,
    len: usize,
}

/// "Panics", as the headers say.
fn panics(why: &str) -> ! {
    eprintln!("sim-nvsci: {why}");
    std::process::abort()
}

/// Whether `SIM_NVSCI` asks for this.
fn asked_for(what: &str) -> bool {
    settings::text("SIM_NVSCI").is_some_and(|text| text.split(',').any(|word| word == what))
}

/// Whether this one is to be leaked.
fn leaks(what: &str) -> bool {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    asked_for(what) && COUNT.fetch_add(1, Ordering::SeqCst) % 20 == 19
}

/// Writes an output parameter.
///
/// # Safety
/// `target` is NULL or valid.
unsafe fn give<T>(target: *mut T, value: T) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    unsafe { gpu_interop_stand_in::give(target, value) }.map_err(|_| error::BAD_PARAMETER)
}

/// Exports functions that return nothing. They are counted, and cannot fail.
macro_rules! voids {
    ($( fn $name:ident($argument:ident: $type:ty) $body:block )*) => { $(
        #[doc = concat!("Plays `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the header asks for.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the header's name")]
        pub unsafe extern "C" fn $name($argument: $type) {
            let _ = gpu_interop_stand_in::faults::strike(stringify!($name), false);
            $body
        }
    )* };
}
pub(crate) use voids;
