//! Releases streams blocked on a failed native timeline.
//!
//! The host raises the timeline to the greatest value that a stream waits for. Signals enqueued earlier on streams then
//! set the timeline to smaller values (CUDA allows that), and waits behind them would block forever. A thread therefore
//! raises the timeline repeatedly until all enqueued work has completed.

use std::sync::Arc;
use std::time::Duration;

use super::device_state::DeviceInner;
use super::lifetime::Lifetimes;
use crate::backend::BackendDevice;
use crate::bridge::Side;
use crate::callback::without_driver_calls;
use crate::error::{ErrorKind, Result};
use crate::sync::{Mutex, sleep, unpoisoned};

/// Thread that keeps a failed timeline raised.
#[derive(Debug, Default)]
pub(super) struct Raiser {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Streams not queried yet, one bit for each slot.
    streams: u64,
    running: bool,
}

/// Shortest pause between two queries; pauses double while nothing changes.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(4);

impl Raiser {
    /// Raises the failed timeline and keeps it raised until all `streams` are idle, the device is closed or the
    /// exporter fails.
    ///
    /// # Errors
    /// Errors of the exporter; [`ErrorKind::System`] if the process cannot start another thread. After
    /// [`ErrorKind::Overtaken`] the thread runs.
    pub(super) fn start(self: &Arc<Self>, side: &Arc<Side>, device: &DeviceInner, streams: u64) -> Result<()> {
        let released = side.release_waits().map(drop);
        // Overtaken: the thread tries again.
        if let Err(error) = &released
            && error.kind() != ErrorKind::Overtaken
        {
            return released;
        }
        let mut state = unpoisoned(self.state.lock());
        state.streams |= streams;
        if state.running || state.streams == 0 {
            return released;
        }
        let (this, side) = (self.clone(), side.clone());
        let (lifetimes, raw) = (device.lifetimes.clone(), device.raw.clone());
        device.lifetimes.raisers.spawn("gpu-interop raiser", move || {
            this.run(&side, &lifetimes, &*raw);
            // The destructor is application code and may close the device, which waits for this thread.
            without_driver_calls(move || drop(side));
        })?;
        state.running = true;
        released
    }

    fn run(&self, side: &Side, lifetimes: &Lifetimes, device: &dyn BackendDevice) {
        let mut streams = 0;
        let mut pause = SHORTEST;
        loop {
            streams |= std::mem::take(&mut unpoisoned(self.state.lock()).streams);
            // Queried before the timeline is raised: idle streams no longer lower it.
            streams = lifetimes.busy(device, streams);
            let raised = match side.release_waits() {
                Err(error) if error.kind() == ErrorKind::Overtaken => Ok(false),
                raised => raised,
            };
            let mut state = unpoisoned(self.state.lock());
            match raised {
                Ok(_) if streams | state.streams == 0 => {
                    state.running = false;
                    return;
                }
                Ok(raised) => pause = if raised { SHORTEST } else { (pause * 2).min(LONGEST) },
                Err(error) => {
                    // For the next call of `start`.
                    *state = State { streams: streams | state.streams, running: false };
                    drop(state);
                    log!(error, %error, "streams blocked on a failed timeline could not be released");
                    return;
                }
            }
            drop(state);
            sleep(pause);
        }
    }
}
