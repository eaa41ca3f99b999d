//! Host waits for several fences at once.

use std::any::Any;
use std::sync::Mutex;
use std::time::Duration;

use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ExporterTimeline, Result, TimelineWaiter};

use crate::event::Event;
use crate::fence::Fence;
use crate::{d3d11, d3d12};

fn fence(timeline: &dyn ExporterTimeline) -> Option<&Fence> {
    let timeline: &dyn Any = timeline;
    let newer = || timeline.downcast_ref().map(d3d12::ExportableFence::fence);
    timeline.downcast_ref().map(d3d11::ExportableFence::fence).or_else(newer)
}

/// Waits for fences of any device of this process. All fences, and `interrupt`, signal one event.
#[derive(Debug)]
pub(crate) struct Waiter {
    event: Event,
    registrations: Mutex<Vec<Registration>>,
}

/// A registration of the event with a fence, so that the same value is not registered twice. Keeps the fence alive,
/// because a later fence could reuse its address.
#[derive(Debug)]
struct Registration {
    fence: Fence,
    value: u64,
    /// Number of calls since the last one that waited for this value.
    idle: u32,
}

/// Number of calls after which an unused registration is removed. Large enough that calls which alternate between
/// fences seldom register twice; small enough that unused fences are released soon.
const IDLE_CALLS: u32 = 100;

impl Registration {
    /// Reports whether to keep the registration. A fence that reached the value, or failed, does not signal the event
    /// again.
    fn is_active(&self) -> bool {
        self.idle == 0 || (self.idle < IDLE_CALLS && self.fence.value().is_ok_and(|present| present < self.value))
    }
}

impl Waiter {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { event: Event::new()?, registrations: Mutex::default() })
    }
}

impl TimelineWaiter for Waiter {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        fence(timeline).is_some()
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        let mut registrations = lock(&self.registrations);
        registrations.iter_mut().for_each(|registration| registration.idle = registration.idle.saturating_add(1));
        for &(timeline, value) in waits {
            let foreign = || Error::invalid("TimelineWaiter::wait_any", "the timeline is not a Direct3D fence");
            let fence = fence(timeline).ok_or_else(foreign)?;
            if fence.value()? >= value {
                return Ok(());
            }
            if let Some(known) = registrations
                .iter_mut()
                .find(|registration| registration.value == value && registration.fence.is_same(fence))
            {
                known.idle = 0;
                continue;
            }
            fence.notify(value, &self.event)?;
            registrations.push(Registration { fence: fence.clone(), value, idle: 0 });
        }
        registrations.retain(Registration::is_active);
        drop(registrations);
        // A registration of an earlier call may have signalled the event; an early return is allowed.
        self.event.wait(timeout).map(drop)
    }

    fn interrupt(&self) {
        self.event.set();
    }
}
