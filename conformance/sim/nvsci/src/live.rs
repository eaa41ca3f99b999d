//! Live objects, for leak checks.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu_interop_sim_abi::report;

use crate::buffer::{BUFFER_LISTS, BUFFER_MODULES, BUFFERS};
use crate::sync::{CONTEXTS, FENCES, SYNC_LISTS, SYNC_MODULES, SYNCS};

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
    /// What the CPU waits with.
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
