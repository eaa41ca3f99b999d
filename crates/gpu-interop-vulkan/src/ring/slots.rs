//! The frames of a ring: objects and progress of each, and the free ones.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use gpu_interop_core::sync::{lock, unpoisoned};
use gpu_interop_core::{Error, ErrorKind, Result, Timeline};

use super::memory::FrameMemory;
use crate::interop::VulkanInterop;
use crate::pending::{PATIENCE, free_later, must_not_wait};
use crate::ring::FrameSide;
use crate::semaphore::OwnedSemaphore;

/// Time of polling without a pause: pauses are longer than short frames.
const SPINNING: Duration = Duration::from_micros(200);

/// Pause between two polls of a value, after this time. `vkWaitSemaphores` of NVIDIA's driver looks at a timeline that
/// another API signals every 10 ms only.
pub(super) fn pause(elapsed: Duration) -> Option<Duration> {
    const SHORTEST: Duration = Duration::from_micros(20);
    const LONGEST: Duration = Duration::from_micros(500);
    (elapsed >= SPINNING).then(|| (elapsed / 16).clamp(SHORTEST, LONGEST))
}

/// A frame of the ring: its memory, and its timeline.
///
/// Each half of a frame waits for the value of the one before it and signals the next. Sides, queues and streams may
/// change from half to half: each signal follows all earlier ones, so a single counter for both directions cannot be
/// overtaken.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) memory: FrameMemory,
    pub(super) timeline: Timeline,
    pub(super) semaphore: OwnedSemaphore,
    /// The value that the last enqueued half signals. Changed by the holder of the frame only.
    last: AtomicU64,
    /// The value that Vulkan's last submitted half signals.
    last_of_vulkan: AtomicU64,
    /// End of the waits of all drops; set by the first one.
    deadline: Arc<OnceLock<Instant>>,
}

impl Part {
    pub(super) fn new(
        memory: FrameMemory,
        (semaphore, timeline): (OwnedSemaphore, Timeline),
        deadline: Arc<OnceLock<Instant>>,
    ) -> Self {
        let (last, last_of_vulkan) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { memory, timeline, semaphore, last, last_of_vulkan, deadline }
    }

    /// The value that the last enqueued half signals.
    pub(super) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Records that a half of this side was enqueued, which signals the next value.
    pub(super) fn advance(&self, side: FrameSide) {
        let value = self.last() + 1;
        self.last.store(value, Ordering::Relaxed);
        if side == FrameSide::Vulkan {
            self.last_of_vulkan.store(value, Ordering::Relaxed);
        }
    }

    /// `true` if all enqueued halves have completed.
    pub(super) fn is_done(&self) -> Result<bool> {
        Ok(self.timeline.value()? >= self.last())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.semaphore.interop().is_forked() {
            return;
        }
        // Mapped buffers wait for their streams, and submissions of a `HeadlessContext` keep their objects.
        let value = if self.memory.has_arrays() { self.last() } else { self.last_of_vulkan.load(Ordering::Relaxed) };
        let remains = Remains { memory: std::mem::take(&mut self.memory), semaphore: self.semaphore.clone(), value };
        if must_not_wait(self.semaphore.interop()) && remains.are_pending() {
            free_later(remains, Remains::free);
        } else {
            let deadline = self.deadline.get_or_init(|| Instant::now() + PATIENCE);
            remains.free(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

/// Objects of a dropped frame.
struct Remains {
    // Fields drop in this order.
    memory: FrameMemory,
    semaphore: OwnedSemaphore,
    /// The value at which their work has completed.
    value: u64,
}

impl Remains {
    fn are_pending(&self) -> bool {
        self.semaphore.value().is_ok_and(|value| value < self.value)
    }

    /// Frees the objects once their work has completed, and leaks them if that takes longer than `timeout`.
    fn free(mut self, timeout: Duration) {
        match self.semaphore.wait(self.value, timeout) {
            // Vulkan's loss ends its work, and not that of streams, which may use arrays.
            Err(error) if error.kind() != ErrorKind::DeviceLost || self.memory.has_arrays() => {
                tracing::error!(%error, "work of a frame never completed; the frame's objects are leaked");
                self.memory.leak();
                std::mem::forget(self.semaphore);
            }
            _ => {}
        }
    }
}

/// All frames of a ring.
#[derive(Debug)]
pub(super) struct Slots {
    interop: VulkanInterop,
    pub(super) parts: Vec<Arc<Part>>,
    state: Mutex<State>,
    /// Notified when a frame is returned.
    returned: Condvar,
}

#[derive(Debug)]
struct State {
    /// In the order of their return.
    free: VecDeque<Arc<Part>>,
    /// Number of frames whose work can no longer signal their end.
    lost: usize,
    /// Why the first of them was lost.
    failure: Option<Error>,
    /// Number of frames acquired so far.
    acquired: u64,
}

const ACQUIRE: &str = "FrameRing::acquire";

impl Slots {
    pub(super) fn new(interop: VulkanInterop, parts: Vec<Arc<Part>>) -> Self {
        let state = State { free: parts.iter().cloned().collect(), lost: 0, failure: None, acquired: 0 };
        Self { interop, parts, state: Mutex::new(state), returned: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is valid after every step, so a poisoned lock is usable.
        lock(&self.state)
    }

    /// Takes the free frame that was returned first among those without pending work, and its number.
    pub(super) fn take(&self, timeout: Duration) -> Result<(Arc<Part>, u64)> {
        self.interop.check_process(ACQUIRE)?;
        let start = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(part) = state.take_done()? {
                state.acquired += 1;
                return Ok((part, state.acquired - 1));
            }
            if state.lost == self.parts.len() {
                return Err(self.all_lost(&state));
            }
            let elapsed = start.elapsed();
            let left = timeout.saturating_sub(elapsed);
            if left.is_zero() {
                return Err(self.timed_out(&state, timeout));
            }
            let pause = if state.free.is_empty() { Some(left) } else { pause(elapsed).map(|pause| pause.min(left)) };
            state = match pause {
                Some(pause) => unpoisoned(self.returned.wait_timeout(state, pause)).0,
                None => {
                    drop(state);
                    std::hint::spin_loop();
                    self.lock()
                }
            };
        }
    }

    /// Returns a frame; a lost one, with the reason, is not used again.
    pub(super) fn put(&self, part: Arc<Part>, failure: Option<Error>) {
        if self.interop.is_forked() {
            // The lock may be held by a thread that does not exist in this process.
            std::mem::forget(part);
            return;
        }
        let mut state = self.lock();
        match failure {
            None => state.free.push_back(part),
            Some(failure) => {
                state.lost += 1;
                state.failure.get_or_insert(failure);
            }
        }
        drop(state);
        // All: which of the waiting threads can continue depends on the frame's work.
        self.returned.notify_all();
    }

    fn timed_out(&self, state: &State, timeout: Duration) -> Error {
        let pending = state.free.len();
        let held = self.parts.len() - pending - state.lost;
        let message = if pending == 0 {
            "the application holds every frame of the ring; drop one once its work is enqueued, or create the ring with more \
             frames"
        } else {
            "work of the returned frames is pending; acquire again, or find the work that does not complete"
        };
        let mut error = Error::new(ErrorKind::Timeout, ACQUIRE, message)
            .with_device(self.interop.identity())
            .with_context("timeout", format_args!("{timeout:?}"))
            .with_context("frames held", held)
            .with_context("frames pending", pending);
        for part in &state.free {
            let at = part.timeline.value().map_or_else(|error| error.kind().to_string(), |value| value.to_string());
            let (index, last) = (part.memory.index(), part.last());
            error = error.with_context("pending", format_args!("index {index} at value {at} of {last}"));
        }
        if state.lost > 0 { error.with_context("frames lost", state.lost) } else { error }
    }

    fn all_lost(&self, state: &State) -> Error {
        let failure = state.failure.as_ref();
        let kind = failure.map_or(ErrorKind::Cancelled, Error::kind);
        let message = "every frame of the ring is lost, because streams could not signal the end of their work; create \
                       another ring, after a lost device in a new process";
        let error = Error::new(kind, ACQUIRE, message).with_device(self.interop.identity());
        match failure {
            Some(failure) => error.with_context("first failure", failure),
            None => error,
        }
    }
}

impl State {
    /// Takes the first free frame without pending work.
    fn take_done(&mut self) -> Result<Option<Arc<Part>>> {
        for (place, part) in self.free.iter().enumerate() {
            if part.is_done()? {
                return Ok(self.free.remove(place));
            }
        }
        Ok(None)
    }
}
