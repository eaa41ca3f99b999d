//! Markers behind work. Where there is none, the runtime enqueues one at a query, and answers "not ready" even if the
//! work has completed.

use std::collections::BTreeSet;
use std::sync::Mutex;

use gpu_interop_sim_abi::lock;
use gpu_interop_sim_device::stream::Stream;

/// Streams whose last work has no marker behind it.
static UNMARKED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Records that work was enqueued on a stream.
pub(crate) fn work(here: usize, stream: &Stream) {
    if stream.recording().is_none() {
        lock(&UNMARKED).insert(here);
    }
}

/// Records a marker behind a stream's work, or the completion of that work. Returns whether there was a marker already.
pub(crate) fn mark(here: usize) -> bool {
    !lock(&UNMARKED).remove(&here)
}

/// Records the completion of all work.
pub(crate) fn mark_all() {
    lock(&UNMARKED).clear();
}
