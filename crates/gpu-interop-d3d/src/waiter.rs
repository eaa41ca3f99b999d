//! Waiting for several fences at once.

use std::any::Any;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gpu_interop_core::{Error, ExporterTimeline, Result, TimelineWaiter};

use crate::event::Event;
use crate::fence::Fence;
use crate::{d3d11, d3d12};

/// The fence of a timeline of this crate.
fn fence(timeline: &dyn ExporterTimeline) -> Option<&Fence> {
    let timeline: &dyn Any = timeline;
    let newer = || timeline.downcast_ref().map(d3d12::ExportableFence::fence);
    timeline.downcast_ref().map(d3d11::ExportableFence::fence).or_else(newer)
}

/// Waits for fences of any device of this process: all of them signal one event, and so does an interruption.
#[derive(Debug)]
pub(crate) struct Waiter {
    event: Event,
    /// What will signal the event, so that no fence is asked for the same value twice. Keeps the fences: the address of
    /// one that is gone could become another's.
    asked: Mutex<Vec<(Fence, u64)>>,
}

impl Waiter {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { event: Event::new()?, asked: Mutex::default() })
    }
}

impl TimelineWaiter for Waiter {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        fence(timeline).is_some()
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let mut still = Vec::with_capacity(waits.len());
        for &(timeline, value) in waits {
            let foreign = || Error::invalid("TimelineWaiter::wait_any", "the timeline is no fence of Direct3D");
            let fence = fence(timeline).ok_or_else(foreign)?;
            if fence.value()? >= value {
                return Ok(());
            }
            if !asked.iter().any(|(of, at)| of.is(fence) && *at == value) {
                fence.notify(value, &self.event)?;
                asked.push((fence.clone(), value));
            }
            still.push((fence, value));
        }
        asked.retain(|(of, at)| still.iter().any(|(fence, value)| of.is(fence) && at == value));
        drop(asked);
        // It may have been signalled for what was waited for before; then this returns sooner, as it may.
        self.event.wait(timeout).map(drop)
    }

    fn interrupt(&self) {
        self.event.set();
    }
}
