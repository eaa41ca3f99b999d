//! A hardware queue: its ring, its doorbell, and how its thread waits.
//!
//! Memory changes without notification, so a wait spins first, then sleeps for increasing times. A doorbell is plain
//! memory, so one thread polls all doorbells and wakes sleeping queues.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::lock;
use crate::memory::{Memory, PageFault};
use crate::queue::spawn;

/// Packet format of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Aql,
    Sdma,
}

/// Reason why a queue stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is destroyed.
    Destroyed,
    PageFault(PageFault),
    /// A packet or a kernel that cannot be executed.
    Invalid(String),
    /// Injected fault: the packet never ends.
    Hang,
    /// Injected fault: the GPU is reset.
    Reset,
}

impl From<PageFault> for Stop {
    fn from(fault: PageFault) -> Self {
        Self::PageFault(fault)
    }
}

/// A hardware queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) id: u32,
    pub(crate) gpu: usize,
    pub(super) kind: Kind,
    pub(super) ring: AtomicU64,
    pub(super) ring_size: AtomicU64,
    pub(super) read_pointer: u64,
    pub(crate) write_pointer: u64,
    pub(super) doorbell: &'static AtomicU64,
    pub(super) stop: AtomicBool,
    /// The runtime set its share of time to 0.
    pub(super) paused: AtomicBool,
    /// It has stopped and executes no more packets.
    pub(super) dead: AtomicBool,
    /// Last doorbell value seen by the thread while it sleeps; `None` while it is awake.
    pub(super) asleep: Mutex<Option<u64>>,
    pub(super) awake: Condvar,
}

/// Time that a queue's thread polls for packets before it relies on the doorbell thread.
const ATTENTIVE: Duration = Duration::from_millis(2);

impl Queue {
    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Stops the queue.
    pub(crate) fn kill(&self) {
        self.dead.store(true, Ordering::Release);
        self.wake();
    }

    /// `true` if the thread must abandon its current packet.
    pub(crate) fn ended(&self) -> bool {
        self.stopped() || self.dead.load(Ordering::Acquire)
    }

    pub(super) fn ring(&self) -> (u64, u64) {
        (self.ring.load(Ordering::Acquire), self.ring_size.load(Ordering::Acquire))
    }

    fn asleep(&self) -> MutexGuard<'_, Option<u64>> {
        lock(&self.asleep)
    }

    /// Waits until `ready` returns something.
    pub(super) fn wait<T>(&self, mut ready: impl FnMut() -> Result<Option<T>, Stop>) -> Result<T, Stop> {
        let mut backoff = Backoff::new();
        loop {
            if self.ended() {
                return Err(Stop::Destroyed);
            }
            if !self.paused.load(Ordering::Acquire)
                && let Some(found) = ready()?
            {
                return Ok(found);
            }
            backoff.pause();
        }
    }

    /// Waits until a condition of a kernel holds.
    pub(crate) fn wait_until(&self, mut holds: impl FnMut() -> Result<bool, Stop>) -> Result<(), Stop> {
        self.wait(|| Ok(holds()?.then_some(())))
    }

    /// Waits for a packet: as [`wait`](Self::wait), but after a while sleeps until the doorbell changes.
    pub(super) fn wait_for_packet<T>(&self, mut ready: impl FnMut() -> Result<Option<T>, Stop>) -> Result<T, Stop> {
        let mut backoff = Backoff::new();
        loop {
            let doorbell = self.doorbell.load(Ordering::Acquire);
            if self.ended() {
                return Err(Stop::Destroyed);
            }
            if !self.paused.load(Ordering::Acquire)
                && let Some(found) = ready()?
            {
                return Ok(found);
            }
            if backoff.waited() < ATTENTIVE {
                backoff.pause();
                continue;
            }
            // The doorbell was read before the last check for packets, so a packet written since then changes it.
            self.sleep(doorbell);
            backoff.reset();
        }
    }

    fn sleep(&self, doorbell: u64) {
        let mut asleep = self.asleep();
        *asleep = Some(doorbell);
        while asleep.is_some() && !self.ended() {
            asleep = self.awake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        *asleep = None;
    }

    /// Wakes the thread if the doorbell rang since it fell asleep, and returns whether it did.
    pub(super) fn wake_if_rung(&self) -> bool {
        let mut asleep = self.asleep();
        let rung = asleep.is_some_and(|known| self.doorbell.load(Ordering::Acquire) != known);
        if rung {
            *asleep = None;
            self.awake.notify_all();
        }
        rung
    }

    pub(super) fn wake(&self) {
        *self.asleep() = None;
        self.awake.notify_all();
    }

    /// The signal that receives the error code of an AQL queue: the pointers are fields of the runtime's `amd_queue_t`.
    pub(crate) fn error_signal(&self, memory: &Memory) -> Option<u64> {
        use crate::abi::aql::queue::{INACTIVE_SIGNAL, READ_INDEX};
        let known = self.kind == Kind::Aql && self.read_pointer == self.write_pointer + READ_INDEX;
        let signal = memory.read_u64(self.gpu, self.write_pointer + INACTIVE_SIGNAL).ok()?;
        (known && signal != 0).then_some(signal)
    }
}

/// The state of one wait.
#[derive(Debug)]
pub(crate) struct Backoff {
    since: Instant,
    rounds: u32,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), rounds: 0 }
    }

    /// Resets the wait after progress.
    pub(crate) fn reset(&mut self) {
        *self = Self::new();
    }

    /// Time without progress.
    pub(crate) fn waited(&self) -> Duration {
        self.since.elapsed()
    }

    /// Waits for a step.
    pub(crate) fn pause(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds < 64 {
            std::hint::spin_loop();
            return;
        }
        match backoff_pause(self.waited()) {
            None => std::thread::yield_now(),
            Some(pause) => std::thread::sleep(pause),
        }
    }
}

/// Sleep time after waiting for this long; `None` means no sleep.
fn backoff_pause(waited: Duration) -> Option<Duration> {
    let micros = Duration::from_micros;
    match waited {
        short if short < micros(20) => None,
        short if short < micros(2_000) => Some(micros(20)),
        medium if medium < micros(50_000) => Some(micros(60)),
        long if long < micros(250_000) => Some(micros(200)),
        _ => Some(micros(1000)),
    }
}

type Watched = Arc<Mutex<Vec<Weak<Queue>>>>;

#[derive(Debug, Default)]
pub(crate) struct Poller(OnceLock<Watched>);

impl Poller {
    /// Adds a queue to the polled ones. The first one starts the thread.
    pub(super) fn add(&self, queue: &Arc<Queue>) -> crate::abi::Result<()> {
        let mut started = Ok(());
        let watched = self.0.get_or_init(|| {
            let watched = Watched::default();
            let mine = Arc::clone(&watched);
            started = spawn("amdgpu-doorbells".to_owned(), move || poll_doorbells(&mine)).map(drop);
            watched
        });
        started?;
        let mut queues = lock(watched);
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(queue));
        Ok(())
    }
}

fn poll_doorbells(watched: &Watched) {
    let mut last = Instant::now();
    loop {
        let queues: Vec<_> = {
            let queues = lock(watched);
            queues.iter().filter_map(Weak::upgrade).collect()
        };
        for queue in &queues {
            if queue.wake_if_rung() {
                last = Instant::now();
            }
        }
        drop(queues);
        std::thread::sleep(poll_pause(last.elapsed()));
    }
}

/// Sleep time after no doorbell rang for this long.
fn poll_pause(quiet: Duration) -> Duration {
    let micros = Duration::from_micros;
    match quiet {
        short if short < micros(10_000) => micros(50),
        medium if medium < micros(200_000) => micros(150),
        _ => micros(300),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_have_a_limit() {
        let pauses =
            [1, 100, 10_000, 1_000_000, 100_000_000].map(|micros| backoff_pause(Duration::from_micros(micros)));
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert_eq!((pauses[0], pauses[4]), (None, Some(Duration::from_millis(1))));
    }
}
