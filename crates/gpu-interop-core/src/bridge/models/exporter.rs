//! Mock exporter whose timelines and waiter implement their traits exactly.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Condvar, Mutex, unpoisoned, yield_now};
use crate::timeline::{ExporterTimeline, TimelineWaiter};

#[derive(Debug, Default)]
struct State {
    values: Vec<u64>,
    interrupted: bool,
}

#[derive(Debug, Default)]
pub(super) struct Exporter {
    state: Mutex<State>,
    changed: Condvar,
}

/// A timeline of an [`Exporter`].
#[derive(Debug)]
pub(super) struct Mock {
    exporter: Arc<Exporter>,
    index: usize,
}

impl Exporter {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A new timeline, at 0.
    pub(super) fn timeline(self: &Arc<Self>) -> Arc<Mock> {
        let mut state = unpoisoned(self.state.lock());
        state.values.push(0);
        Arc::new(Mock { exporter: self.clone(), index: state.values.len() - 1 })
    }
}

impl Mock {
    /// Blocks until the timeline has reached `value`.
    pub(super) fn wait_for(&self, value: u64) {
        let mut state = unpoisoned(self.exporter.state.lock());
        while state.values[self.index] < value {
            state = self.exporter.changed.wait(state).expect("loom poisons nothing");
        }
    }
}

impl ExporterTimeline for Mock {
    fn value(&self) -> Result<u64> {
        Ok(unpoisoned(self.exporter.state.lock()).values[self.index])
    }

    fn signal(&self, value: u64) -> Result<()> {
        let mut state = unpoisoned(self.exporter.state.lock());
        if value <= state.values[self.index] {
            return Err(Error::invalid("Mock::signal", "a timeline only grows"));
        }
        state.values[self.index] = value;
        self.exporter.changed.notify_all();
        Ok(())
    }

    fn wait(&self, _value: u64, _timeout: Duration) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "Mock::wait", "loom does not model time"))
    }

    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        Ok(Box::new(Waiter { exporter: self.exporter.clone() }))
    }
}

#[derive(Debug)]
struct Waiter {
    exporter: Arc<Exporter>,
}

impl Waiter {
    fn of<'a>(&self, timeline: &'a dyn ExporterTimeline) -> Option<&'a Mock> {
        let timeline: &dyn std::any::Any = timeline;
        timeline.downcast_ref().filter(|mock: &&Mock| Arc::ptr_eq(&mock.exporter, &self.exporter))
    }
}

impl TimelineWaiter for Waiter {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        self.of(timeline).is_some()
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        let waits: Vec<_> =
            waits.iter().map(|(timeline, value)| (self.of(*timeline).expect("served").index, *value)).collect();
        let mut state = unpoisoned(self.exporter.state.lock());
        while !state.interrupted && waits.iter().all(|(index, value)| state.values[*index] < *value) {
            // Short timeouts end at once. Long ones never do: a thread that relies on one has lost a wake-up.
            if timeout < Duration::from_secs(1) {
                drop(state);
                yield_now();
                state = unpoisoned(self.exporter.state.lock());
                break;
            }
            state = self.exporter.changed.wait(state).expect("loom poisons nothing");
        }
        state.interrupted = false;
        Ok(())
    }

    fn interrupt(&self) {
        unpoisoned(self.exporter.state.lock()).interrupted = true;
        self.exporter.changed.notify_all();
    }
}
