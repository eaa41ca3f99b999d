//! Timelines of wgpu's queue and streams.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use gpu_interop::{Error, Result, Timeline, TimelineStrategy};

use crate::interop::Graphics;
use crate::native::Native;
use crate::native::objects::NativeTimeline;
use crate::reached::{Reached, Watcher};

/// The longest wait of the host for a signal of a stream.
const PATIENCE: Duration = Duration::from_secs(60);

/// A timeline, and what must outlive the submissions that use it.
#[derive(Debug)]
pub(crate) struct TimelineInner {
    pub(crate) native: NativeTimeline,
    pub(crate) timeline: Arc<Timeline>,
    queue: wgpu::Queue,
    /// The greatest value that wgpu's queue signals, or the initial one. Locked from the staging of a signal to the
    /// submission that takes it: a submission must not signal a timeline twice.
    signalled: Mutex<u64>,
}

impl TimelineInner {
    pub(crate) fn new(native: NativeTimeline, timeline: Timeline, queue: wgpu::Queue, initial: u64) -> Self {
        Self { native, timeline: Arc::new(timeline), queue, signalled: Mutex::new(initial) }
    }

    /// Makes the next submission of wgpu and all later ones wait for `value`.
    ///
    /// With Vulkan, its signal must have been submitted: each submission of wgpu waits for a binary semaphore of the
    /// one before it, and all that a binary semaphore depends on must have been submitted
    /// (VUID-vkQueueSubmit-pWaitSemaphores-03238). A signal that a stream enqueued counts if the compute driver signals
    /// the semaphore itself. One that the host transfers does not: then the host waits here until it has.
    ///
    /// # Errors
    /// The failure of the timeline; `Timeout`; `InvalidArgument` for a value that is too far from the current one.
    pub(crate) fn stage_wait(&self, graphics: &Graphics, value: u64) -> Result<()> {
        if !graphics.native.waits_before_signals() && self.timeline.strategy() != TimelineStrategy::Native {
            self.timeline.wait(value, PATIENCE)?;
        }
        graphics.native.stage_wait(&graphics.queue, &self.native, value)
    }

    /// Fails for a value that wgpu's queue could not signal now.
    ///
    /// # Errors
    /// As [`signal_from_queue`](Self::signal_from_queue).
    pub(crate) fn check_signal(&self, operation: &'static str, value: u64) -> Result<()> {
        self.begin_signal(operation, value).map(drop)
    }

    /// Signals `value` behind every submission so far.
    ///
    /// # Errors
    /// `InvalidArgument` if the value is not above those that the timeline has reached and the queue signals, or is too
    /// far from the current one, or if another thread signals the timeline; the failure of the timeline; `DeviceLost`.
    pub(crate) fn signal_from_queue(&self, operation: &'static str, graphics: &Graphics, value: u64) -> Result<()> {
        let mut signalled = self.begin_signal(operation, value)?;
        graphics.native.signal(&graphics.queue, &self.native, value)?;
        *signalled = value;
        Ok(())
    }

    /// Checks `value`, and keeps other signals of wgpu's queue out.
    fn begin_signal(&self, operation: &'static str, value: u64) -> Result<MutexGuard<'_, u64>> {
        // Not `lock`: wgpu calls functions of the application while it submits, and those could wait for this thread.
        let signalled = match self.signalled.try_lock() {
            Ok(signalled) => signalled,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let message = "another thread signals this timeline at the same time; order the signals";
                return Err(Error::invalid(operation, message).with_context("value", value));
            }
        };
        // Streams and the host signal it, too.
        let current = self.timeline.value()?;
        let last = current.max(*signalled);
        if value <= last {
            let error = Error::invalid(operation, "a timeline only grows; signal a greater value");
            return Err(error.with_context("value", value).with_context("already signalled", last));
        }
        let most = self.timeline.exporter().max_difference();
        if value - current > most {
            let message =
                "the value is too far from the timeline's current value for this device; count in smaller steps";
            return Err(Error::invalid(operation, message)
                .with_context("value", value)
                .with_context("current", current)
                .with_context("greatest difference", most));
        }
        Ok(signalled)
    }
}

impl Drop for TimelineInner {
    fn drop(&mut self) {
        Native::unstage(&self.queue, &self.native);
        // Submissions of wgpu may still wait for it or signal it.
        let native = self.native.clone();
        self.queue.on_submitted_work_done(move || drop(native));
    }
}

/// A counter that wgpu's queue, streams of the compute device and the host signal and wait for. Created by
/// [`Interop::create_timeline`](crate::Interop::create_timeline). Clones are the same timeline.
///
/// wgpu's queue uses it through [`Interop::submit_with`](crate::Interop::submit_with), streams and the host through
/// [`timeline`](Self::timeline). As with every [`Timeline`], use one for each direction if more than one frame is in
/// flight.
#[derive(Debug, Clone)]
pub struct SharedTimeline {
    inner: Arc<TimelineInner>,
    watcher: Arc<Watcher>,
    interop: u64,
}

impl SharedTimeline {
    pub(crate) fn new(inner: Arc<TimelineInner>, watcher: Arc<Watcher>, interop: u64) -> Self {
        Self { inner, watcher, interop }
    }

    /// The timeline for streams (`stream.wait_timeline(timeline.timeline(), value)`) and the host.
    #[must_use]
    pub fn timeline(&self) -> &Timeline {
        &self.inner.timeline
    }

    /// A future of the time when the timeline is at least `value`.
    pub fn reached(&self, value: u64) -> Reached {
        Reached::new(self.inner.timeline.clone(), value, self.watcher.clone())
    }

    /// The current value.
    ///
    /// # Errors
    /// As [`Timeline::value`].
    pub fn value(&self) -> Result<u64> {
        self.inner.timeline.value()
    }

    pub(crate) fn inner(&self) -> &TimelineInner {
        &self.inner
    }

    pub(crate) fn interop(&self) -> u64 {
        self.interop
    }
}

/// A timeline that hand-overs use one after the other.
///
/// Its values alternate: odd ones are signalled by wgpu's queue, even ones by a stream. wgpu's queue waits for each
/// even value before this is reused, so that its signal of the next odd value, and with it every later signal of a
/// stream, is behind. A single counter for both directions, and for any stream, therefore suffices.
#[derive(Debug)]
pub(crate) struct HandOverTimeline {
    pub(crate) timeline: Arc<TimelineInner>,
    /// The last value used, even.
    pub(crate) value: u64,
}

impl HandOverTimeline {
    pub(crate) fn new(timeline: Arc<TimelineInner>) -> Self {
        Self { timeline, value: 0 }
    }
}
