//! Timelines of hand-overs.

use std::sync::Arc;

use crate::timeline::TimelineInner;

/// A timeline that hand-overs use one after the other.
///
/// Its values alternate: odd ones are signalled by wgpu's queue, even ones by a stream. wgpu's queue waits for each
/// even value before the lane is reused, so that its signal of the next odd value, and with it every later signal of a
/// stream, is behind. A single counter for both directions, and for any stream, therefore suffices.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) timeline: Arc<TimelineInner>,
    /// The last value used, even.
    pub(crate) value: u64,
}

impl Lane {
    pub(crate) fn new(timeline: Arc<TimelineInner>) -> Self {
        Self { timeline, value: 0 }
    }
}
