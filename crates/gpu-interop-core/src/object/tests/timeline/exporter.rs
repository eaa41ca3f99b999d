//! Mock exporter with injected failures.

use std::any::TypeId;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::PollingWaiter;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::SemaphoreHandleKind;
use crate::import::SemaphoreImport;
use crate::object::tests::exported::{self, TIMELINE, semaphore_request};
use crate::sync::lock;
use crate::timeline::{ExporterTimeline, TimelineWaiter};

/// Behaviour of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Behaviour {
    #[default]
    Normal,
    Fails,
    Panics,
    /// Signals are overtaken by another signal.
    Late,
    /// Signals are rejected, because pending work may signal a greater value first.
    Pending,
}

#[derive(Default)]
struct State {
    value: u64,
    /// The default is no limit.
    max_difference: Option<u64>,
    behaviour: Behaviour,
    /// Value set after the next read.
    after_read: Option<u64>,
    /// Values signalled through the trait.
    signals: Vec<u64>,
    exports: usize,
    /// Number of live waiters.
    waiters: usize,
    on_drop: Option<Box<dyn FnOnce() + Send>>,
    on_signal: Option<Box<dyn FnOnce() + Send>>,
}

/// The test's view of a timeline.
#[derive(Clone, Default)]
pub(super) struct Exporter {
    state: Arc<(Mutex<State>, Condvar)>,
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

/// The timeline passed to the library.
#[derive(Debug)]
pub(super) struct Exported {
    exporter: Exporter,
    kind: Option<SemaphoreHandleKind>,
}

impl Exporter {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state.0)
    }

    /// A timeline that cannot be exported.
    pub(super) fn private(&self) -> Arc<dyn ExporterTimeline> {
        Arc::new(Exported { exporter: self.clone(), kind: None })
    }

    /// A timeline that can be exported.
    pub(super) fn exportable(&self) -> Arc<dyn ExporterTimeline> {
        Arc::new(Exported { exporter: self.clone(), kind: Some(TIMELINE) })
    }

    /// The exporter's own signal.
    pub(super) fn set(&self, value: u64) {
        self.lock().value = value;
        self.state.1.notify_all();
    }

    /// The exporter's own signal, directly after the library's next read of the value.
    #[cfg(target_os = "linux")]
    pub(super) fn set_after_read(&self, value: u64) {
        self.lock().after_read = Some(value);
    }

    pub(super) fn value(&self) -> u64 {
        self.lock().value
    }

    /// Waits for the library's signal.
    #[track_caller]
    pub(super) fn expect(&self, value: u64) {
        let state = self.lock();
        let waited = self.state.1.wait_timeout_while(state, Duration::from_secs(20), |state| state.value < value);
        assert_eq!(waited.expect("lock").0.value, value);
    }

    pub(super) fn set_behaviour(&self, behaviour: Behaviour) {
        self.lock().behaviour = behaviour;
    }

    pub(super) fn set_max_difference(&self, difference: u64) {
        self.lock().max_difference = Some(difference);
    }

    pub(super) fn signals(&self) -> Vec<u64> {
        self.lock().signals.clone()
    }

    pub(super) fn exports(&self) -> usize {
        self.lock().exports
    }

    pub(super) fn waiters(&self) -> usize {
        self.lock().waiters
    }

    /// Runs `hook` on the thread that signals next, before it does.
    pub(super) fn on_signal(&self, hook: impl FnOnce() + Send + 'static) {
        self.lock().on_signal = Some(Box::new(hook));
    }

    /// Runs `hook` when the library drops its timeline.
    pub(super) fn on_drop(&self, hook: impl FnOnce() + Send + 'static) {
        self.lock().on_drop = Some(Box::new(hook));
    }
}

/// Returns the failure of a behaviour.
fn inject(behaviour: Behaviour) -> Result<()> {
    match behaviour {
        Behaviour::Normal | Behaviour::Late | Behaviour::Pending => Ok(()),
        Behaviour::Fails => Err(Error::new(ErrorKind::Driver, "vkGetSemaphoreCounterValue", "the device is lost")),
        Behaviour::Panics => panic!("injected by the test"),
    }
}

impl ExporterTimeline for Exported {
    fn value(&self) -> Result<u64> {
        let (behaviour, value) = {
            let mut state = self.exporter.lock();
            let value = state.value;
            state.value = state.after_read.take().unwrap_or(value);
            (state.behaviour, value)
        };
        inject(behaviour).map(|()| value)
    }

    fn signal(&self, value: u64) -> Result<()> {
        let hook = self.exporter.lock().on_signal.take();
        if let Some(hook) = hook {
            hook();
        }
        let mut state = self.exporter.lock();
        if state.behaviour == Behaviour::Late {
            state.value = state.value.max(value);
            self.exporter.state.1.notify_all();
        }
        if state.behaviour == Behaviour::Pending {
            return Err(Error::new(
                ErrorKind::Overtaken,
                "Exported::signal",
                "pending work may signal a greater value",
            ));
        }
        if value <= state.value {
            return Err(Error::invalid("Exported::signal", "a timeline only grows"));
        }
        state.value = value;
        state.signals.push(value);
        self.exporter.state.1.notify_all();
        Ok(())
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        let waited = self.exporter.state.1.wait_timeout_while(self.exporter.lock(), timeout, |s| s.value < value);
        match waited.expect("lock").1.timed_out() {
            true => Err(Error::new(ErrorKind::Timeout, "Exported::wait", "the value was not reached in time")),
            false => Ok(()),
        }
    }

    fn max_difference(&self) -> u64 {
        self.exporter.lock().max_difference.unwrap_or(u64::MAX)
    }

    fn handle_kind(&self) -> Option<SemaphoreHandleKind> {
        self.kind
    }

    fn export(&self) -> Result<SemaphoreImport> {
        self.exporter.lock().exports += 1;
        Ok(semaphore_request(exported::timeline("timeline")))
    }

    fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
        self.exporter.lock().waiters += 1;
        Ok(Box::new(Waiter { exporter: self.exporter.clone(), polling: PollingWaiter::new(TypeId::of::<Self>()) }))
    }
}

#[derive(Debug)]
struct Waiter {
    exporter: Exporter,
    polling: PollingWaiter,
}

impl TimelineWaiter for Waiter {
    fn serves(&self, timeline: &dyn ExporterTimeline) -> bool {
        self.polling.serves(timeline)
    }

    fn wait_any(&self, waits: &[(&dyn ExporterTimeline, u64)], timeout: Duration) -> Result<()> {
        self.polling.wait_any(waits, timeout)
    }

    fn interrupt(&self) {
        self.polling.interrupt();
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        // Long enough to detect a thread that does not wait for it.
        std::thread::sleep(Duration::from_millis(5));
        self.exporter.lock().waiters -= 1;
    }
}

impl Drop for Exported {
    fn drop(&mut self) {
        let hook = self.exporter.lock().on_drop.take();
        if let Some(hook) = hook {
            hook();
        }
    }
}
