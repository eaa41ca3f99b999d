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

/// The number of live objects of each kind.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Live {
    /// Imported memory.
    pub imports: u64,
    /// Mapped ranges of imported memory.
    pub mappings: u64,
    /// Mapped images, and levels that outlive theirs.
    pub arrays: u64,
    /// Imported semaphores.
    pub semaphores: u64,
    /// Streams, without the default stream.
    pub streams: u64,
    /// Events.
    pub events: u64,
    /// Modules.
    pub modules: u64,
    /// Allocations that cannot be exported.
    pub allocations: u64,
    /// Exportable memory, with one descriptor each.
    pub descriptors: u64,
    /// Reserved ranges of addresses.
    pub reservations: u64,
    /// References to primary contexts.
    pub contexts: u64,
    /// Surfaces.
    pub surfaces: u64,
    /// Textures.
    pub textures: u64,
    /// Graphs, captured and executable.
    pub graphs: u64,
}

impl Live {
    /// The current numbers.
    #[must_use]
    pub fn now() -> Self {
        let (mappings, allocations) = memory::live();
        Self {
            imports: IMPORTED.len() as u64,
            mappings,
            arrays: array::live(),
            semaphores: SEMAPHORES.len() as u64,
            streams: STREAMS.len() as u64,
            events: EVENTS.len() as u64,
            modules: MODULES.len() as u64,
            allocations,
            descriptors: PHYSICAL.len() as u64,
            reservations: RESERVED.len() as u64,
            contexts: device::retained(),
            surfaces: SURFACES.len() as u64,
            textures: TEXTURES.len() as u64,
            graphs: (GRAPHS.len() + READY.len()) as u64,
        }
    }

    /// The total.
    #[must_use]
    pub fn total(&self) -> u64 {
        let Self { imports, mappings, arrays, semaphores, streams, events, modules, .. } = *self;
        let Self { allocations, descriptors, reservations, contexts, surfaces, textures, graphs, .. } = *self;
        imports
            + mappings
            + arrays
            + semaphores
            + streams
            + events
            + modules
            + allocations
            + descriptors
            + reservations
            + contexts
            + surfaces
            + textures
            + graphs
    }
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
