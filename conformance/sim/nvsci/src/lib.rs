//! A simulator of NvSciBuf and NvSciSync for one process: memory is memory files, primitives are counters.
//!
//! `GPU_INTEROP_NVSCIBUF_LIBRARY` and `GPU_INTEROP_NVSCISYNC_LIBRARY` name it to `gpu-interop-nvsci`, which reports
//! that it is a simulator. `sim-cuda` finds it by the first of these variables and accesses its objects through
//! [`interface`]; NVIDIA's driver is linked with the real libraries.
//!
//! Written from NVIDIA's public headers (`nvscibuf.h` 2.0 to 2.11, `nvscisync.h` 2.0 to 2.8, `nvscierror.h`), not from
//! the declarations of `gpu-interop-nvsci`, which are under test. Where the headers say "panics", it prints the reason
//! and aborts; so does a double free, a use after free, and a free while a driver has imported the object. It grants
//! the defaults that the headers document. It aligns rows to 64 bytes and planes to 4 rows, like the simulators of
//! drivers.
//!
//! The library supports `GPU_INTEROP_SIM_FAIL`, `GPU_INTEROP_SIM_LATENCY` and `GPU_INTEROP_SIM_REPORT` of
//! `gpu_interop_sim_abi::settings`. `GPU_INTEROP_SIM_NVSCI` is a list of words, separated by commas:
//!
//! | word | |
//! |---|---|
//! | `buf_2.N`, `sync_2.N` | NvSciBuf, or NvSciSync, of this version: later attributes are unknown. Its functions are all there; a copy of the library in which a function has another name lacks it |
//! | `incompatible` | a library that this one depends on is of a wrong version |
//! | `iso_engine` | an engine without coherent access to memory uses every buffer: where the CPU caches its accesses, its caches need flushing. Before NvSciBuf 2.8 they need that without such an engine |
//! | `always_mapped` | a buffer's CPU caches can be flushed before its pointer was asked for |
//! | `memsync` | every GPU's cache must be kept coherent |
//! | `discrete` | GPUs are discrete |
//! | `invalid_gpu_id` | the id of a buffer without a GPU is not zeros |
//! | `wide` | primitives have 64 bits instead of 32. Their effect beyond the greatest value is not documented; the process aborts |
//! | `no_common_primitive` | signaller and waiters have no type of primitive in common |
//! | `no_conflict_list` | a reconciliation that fails gives no conflict list. Otherwise it does, and a read of the list ends the process |
//! | `conflict_code` | lists of buffers in conflict get another code than the usual, with a conflict list |
//! | `imports_hold_nothing` | freeing an NvSciSync object while a driver has it imported ends the process. The real import holds a reference |
//! | `leak_list`, `leak_object`, `leak_fence` | every twentieth is not freed: for a test of the leak checks |
//! | `skip_waits_1`, `skip_waits_2`, ... | streams do not wait for the object that is allocated first, or second |
//!
//! Three checks of the application are stricter than NVIDIA's documents: a signal requires a cleared fence, a wait of a
//! stream a filled one, and a driver must end its import of a buffer before the buffer is freed. Not simulated:
//! tensors, engines other than GPUs, IPC.

#![cfg(target_os = "linux")]

pub mod attributes;
pub mod behaviour;
pub mod buffer;
pub mod interface;
pub mod reconcile;
pub mod sync;

use std::ffi::c_void;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu_interop_sim_abi::report;

use crate::buffer::{BUFFER_LISTS, BUFFER_MODULES, BUFFERS};
use crate::sync::{CONTEXTS, FENCES, SYNC_LISTS, SYNC_MODULES, SYNCS};

/// `NvSciError`.
mod error {
    pub(crate) use gpu_interop_sim_abi::nvsci::NOT_SUPPORTED;

    pub(crate) const NOT_PERMITTED: u32 = 0x21;
    pub(crate) const BAD_PARAMETER: u32 = 0x100;
    pub(crate) const OVERFLOW: u32 = 0x103;
    pub(crate) const INSUFFICIENT_MEMORY: u32 = 0x30;
    pub(crate) const RESOURCE_ERROR: u32 = 0x32;
    pub(crate) const TIMEOUT: u32 = 0x200;
    pub(crate) const RECONCILIATION_FAILED: u32 = 0x0001_0100;
    pub(crate) const UNSUPPORTED_CONFIG: u32 = 0x0200_0001;
    pub(crate) const CLEARED_FENCE: u32 = 0x0200_0002;

    /// Fails where an argument is wrong.
    pub(crate) fn reject_if(wrong: bool) -> Result<(), u32> {
        if wrong { Err(BAD_PARAMETER) } else { Ok(()) }
    }
}

/// `NvSciBufAttrKeyValuePair` and `NvSciSyncAttrKeyValuePair`.
#[repr(C)]
#[derive(Debug)]
pub struct Pair {
    key: i32,
    value: *const c_void,
    len: usize,
}

/// "Panics", in the words of the headers.
fn panics(why: &str) -> ! {
    eprintln!("sim-nvsci: {why}");
    std::process::abort()
}

/// `true` if `GPU_INTEROP_SIM_NVSCI` contains this word.
fn is_set(what: &str) -> bool {
    behaviour::Behaviour::now().has(what)
}

/// `true` if this object is to be leaked.
fn leaks(what: &str) -> bool {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    is_set(what) && COUNT.fetch_add(1, Ordering::SeqCst) % 20 == 19
}

/// Writes an output parameter.
///
/// # Safety
/// `target` is NULL or valid.
unsafe fn give<T>(target: *mut T, value: T) -> Result<(), u32> {
    // SAFETY: the caller's promise.
    unsafe { gpu_interop_sim_abi::give(target, value) }.map_err(|_| error::BAD_PARAMETER)
}

/// Exports functions that return nothing. They are counted, and cannot fail.
macro_rules! voids {
    ($( fn $name:ident($argument:ident: $type:ty) $body:block )*) => { $(
        #[doc = concat!("Simulates `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the header requires.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the header's name")]
        pub unsafe extern "C" fn $name($argument: $type) {
            let _ = gpu_interop_sim_abi::faults::strike(stringify!($name), false);
            $body
        }
    )* };
}
pub(crate) use voids;

/// Imports of drivers.
pub(crate) static IMPORTS: AtomicU64 = AtomicU64::new(0);

gpu_interop_sim_abi::live! {
    /// Modules of NvSciBuf.
    buffer_modules: BUFFER_MODULES.len() as u64,
    /// Their attribute lists.
    buffer_lists: BUFFER_LISTS.len() as u64,
    /// Buffers.
    buffers: BUFFERS.len() as u64,
    /// Modules of NvSciSync.
    sync_modules: SYNC_MODULES.len() as u64,
    /// Their attribute lists.
    sync_lists: SYNC_LISTS.len() as u64,
    /// Objects of NvSciSync.
    syncs: SYNCS.len() as u64,
    /// Fences that are not cleared.
    fences: FENCES.len() as u64,
    /// Contexts for waits of the CPU.
    wait_contexts: CONTEXTS.len() as u64,
    /// Imports of buffers and objects by drivers.
    imports: IMPORTS.load(Ordering::SeqCst),
}

/// The number of live objects of all kinds.
#[unsafe(no_mangle)]
pub extern "C" fn sim_nvsci_live() -> u64 {
    Live::now().total()
}

/// Registers a report at the end of the process to the file that `GPU_INTEROP_SIM_REPORT` names, if it is set.
pub(crate) fn report_at_exit() {
    static ONCE: Once = Once::new();
    extern "C" fn tell() {
        let live = Live::now();
        // In the format of the simulators of drivers, whose contexts may remain.
        report::add(|process| format!("{} alive at the end of {process}, NvSci: {live:?} contexts: 0,", live.total()));
    }
    ONCE.call_once(|| report::at_exit(tell));
}
