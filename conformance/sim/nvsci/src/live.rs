//! Live objects, for leak checks.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use gpu_interop_sim_abi::report;

use crate::buffer::{BUFFER_LISTS, BUFFER_MODULES, BUFFERS};
use crate::sync::{CONTEXTS, FENCES, SYNC_LISTS, SYNC_MODULES, SYNCS};

/// The number of objects of each kind, and of buffers and objects imported by drivers.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    buffer_modules: u64,
    buffer_lists: u64,
    buffers: u64,
    sync_modules: u64,
    sync_lists: u64,
    syncs: u64,
    fences: u64,
    wait_contexts: u64,
    imports: u64,
}

/// Imports of drivers.
pub(crate) static IMPORTS: AtomicU64 = AtomicU64::new(0);

impl Live {
    fn now() -> Self {
        Self {
            buffer_modules: BUFFER_MODULES.len() as u64,
            buffer_lists: BUFFER_LISTS.len() as u64,
            buffers: BUFFERS.len() as u64,
            sync_modules: SYNC_MODULES.len() as u64,
            sync_lists: SYNC_LISTS.len() as u64,
            syncs: SYNCS.len() as u64,
            fences: FENCES.len() as u64,
            wait_contexts: CONTEXTS.len() as u64,
            imports: IMPORTS.load(Ordering::SeqCst),
        }
    }

    fn total(&self) -> u64 {
        let Self { buffer_modules, buffer_lists, buffers, sync_modules, sync_lists, syncs, fences, .. } = *self;
        let Self { wait_contexts, imports, .. } = *self;
        buffer_modules + buffer_lists + buffers + sync_modules + sync_lists + syncs + fences + wait_contexts + imports
    }
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
