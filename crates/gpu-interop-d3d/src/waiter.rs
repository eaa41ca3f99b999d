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
    asked: Mutex<Vec<Asked>>,
}

/// What will signal the event, so that no fence is asked for the same value twice. Keeps the fence: the address of one
/// that is gone could become another's.
#[derive(Debug)]
struct Asked {
    fence: Fence,
    value: u64,
    /// How many calls there were since one waited for it.
    idle: u32,
}

/// For how many calls something is kept that none of them waits for: so rarely is a fence asked twice, however calls for
/// different fences alternate, and no longer is one kept that nobody waits for any more.
const IDLE_CALLS: u32 = 100;

impl Asked {
    /// Whether it may be waited for once more: what is reached, or failed, signals the event no more.
    fn lasts(&self) -> bool {
        self.idle == 0 || (self.idle < IDLE_CALLS && self.fence.value().is_ok_and(|present| present < self.value))
    }
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
        asked.iter_mut().for_each(|asked| asked.idle = asked.idle.saturating_add(1));
        for &(timeline, value) in waits {
            let foreign = || Error::invalid("TimelineWaiter::wait_any", "the timeline is no fence of Direct3D");
            let fence = fence(timeline).ok_or_else(foreign)?;
            if fence.value()? >= value {
                return Ok(());
            }
            if let Some(known) = asked.iter_mut().find(|asked| asked.value == value && asked.fence.is(fence)) {
                known.idle = 0;
                continue;
            }
            fence.notify(value, &self.event)?;
            asked.push(Asked { fence: fence.clone(), value, idle: 0 });
        }
        asked.retain(Asked::lasts);
        drop(asked);
        // It may have been signalled for what was waited for before; then this returns sooner, as it may.
        self.event.wait(timeout).map(drop)
    }

    fn interrupt(&self) {
        self.event.set();
    }
}
