//! Live objects, for leak checks.

use std::sync::Once;

use crate::array::{self, SURFACES, TEXTURES};
use crate::event::EVENTS;
use crate::graph::{GRAPHS, READY};
use crate::kernel::MODULES;
use crate::memory::{self, IMPORTED};
use crate::physical::{PHYSICAL, RESERVED};
use crate::semaphore::SEMAPHORES;
use crate::stream::STREAMS;
use crate::{device, report};

gpu_interop_sim_abi::live! {
    /// Imported memory.
    imports: IMPORTED.len() as u64,
    /// Mapped ranges of imported memory.
    mappings: memory::live().0,
    /// Mapped images, and levels that outlive theirs.
    arrays: array::live(),
    /// Imported semaphores.
    semaphores: SEMAPHORES.len() as u64,
    /// Streams, without the default stream.
    streams: STREAMS.len() as u64,
    /// Events.
    events: EVENTS.len() as u64,
    /// Modules.
    modules: MODULES.len() as u64,
    /// Allocations that cannot be exported.
    allocations: memory::live().1,
    /// Exportable memory, with one descriptor each.
    descriptors: PHYSICAL.len() as u64,
    /// Reserved ranges of addresses.
    reservations: RESERVED.len() as u64,
    /// References to primary contexts.
    contexts: device::retained(),
    /// Surfaces.
    surfaces: SURFACES.len() as u64,
    /// Textures.
    textures: TEXTURES.len() as u64,
    /// Graphs, captured and executable.
    graphs: (GRAPHS.len() + READY.len()) as u64,
}

/// The number of live objects of all kinds. Writes the number of each kind if `each` is not NULL.
///
/// # Safety
/// `each` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_live(each: *mut Live) -> u64 {
    let live = Live::now();
    if !each.is_null() {
        // SAFETY: the caller's promise.
        unsafe { each.write(live) };
    }
    live.total()
}

/// Registers a report at the end of the process to the file that `GPU_INTEROP_SIM_REPORT` names, if it is set.
pub fn report_at_exit() {
    static ONCE: Once = Once::new();
    extern "C" fn tell() {
        let live = Live::now();
        report::add(|process| format!("{} alive at the end of {process}: {live:?}", live.total()));
    }
    ONCE.call_once(|| report::at_exit(tell));
}
