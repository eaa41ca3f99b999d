//! Letting streams go that wait for a timeline of their driver which failed.
//!
//! The host raises the timeline to the last value that a stream waits for. That is not all: a stream's own signal sets the
//! value whatever it is, and drivers let it go backwards (CUDA does). So the signals that were enqueued before take the
//! timeline back again, one after the other, and what waits behind them would wait for ever. A thread raises it again
//! until all that was enqueued has run.

use std::sync::Arc;
use std::time::Duration;

use super::device::DeviceInner;
use super::host_function::without_driver_calls;
use super::lifetime::Lifetimes;
use crate::backend::BackendDevice;
use crate::bridge::{Side, release};
use crate::error::Result;
use crate::sync::{Mutex, lock, sleep};

/// What keeps a failed timeline where it was raised to.
#[derive(Debug, Default)]
pub(super) struct Raiser {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The streams that the thread has not asked yet, one bit a slot.
    streams: u64,
    running: bool,
}

/// The pauses between two looks: they double while nothing happens.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(4);

impl Raiser {
    /// Raises the failed timeline, and keeps it there until each of `streams` was seen idle, the device is closed or the
    /// exporter fails.
    ///
    /// # Errors
    /// What the exporter answers; [`ErrorKind::System`](crate::ErrorKind::System) if the process may have no more threads.
    pub(super) fn start(self: &Arc<Self>, side: &Arc<Side>, device: &DeviceInner, streams: u64) -> Result<()> {
        side.release_waits()?;
        let mut state = lock(&self.state);
        state.streams |= streams;
        if state.running || state.streams == 0 {
            return Ok(());
        }
        let (this, side) = (self.clone(), side.clone());
        let (lifetimes, raw) = (device.lifetimes.clone(), device.raw.clone());
        device.lifetimes.raisers.spawn("gpu-interop let go", move || {
            this.run(&side, &lifetimes, &*raw);
            // Its destructor is the application's, and may close the device, which waits for this thread.
            without_driver_calls(move || release(side));
        })?;
        state.running = true;
        Ok(())
    }

    fn run(&self, side: &Side, lifetimes: &Lifetimes, device: &dyn BackendDevice) {
        let mut streams = 0;
        let mut pause = SHORTEST;
        loop {
            streams |= std::mem::take(&mut lock(&self.state).streams);
            // Asked before the timeline is raised: those that are idle take it back no more.
            streams = lifetimes.busy(device, streams);
            let raised = side.release_waits();
            let mut state = lock(&self.state);
            match raised {
                Ok(_) if streams | state.streams == 0 => {
                    state.running = false;
                    return;
                }
                Ok(raised) => pause = if raised { SHORTEST } else { (pause * 2).min(LONGEST) },
                Err(error) => {
                    tracing::error!(%error, "streams that wait for a failed timeline could not be let go");
                    // For whoever abandons the timeline once more.
                    *state = State { streams: streams | state.streams, running: false };
                    return;
                }
            }
            drop(state);
            sleep(pause);
        }
    }
}
