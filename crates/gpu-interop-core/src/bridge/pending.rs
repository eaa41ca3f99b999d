//! Pending requests of a bridge.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::StreamFaults;
use super::pace::{Notice, Plan};
use super::side::BridgedTimeline;
use super::words::{Ticket, Words};
use crate::error::{Error, ErrorKind};
use crate::sync::Instant;
use crate::timeline::ExporterTimeline;

/// A value to transfer between a stream and a timeline.
#[derive(Debug)]
pub(crate) enum Request {
    /// Signal the ticket, for which a stream waits, once the timeline has reached `value`.
    Wait { side: Arc<BridgedTimeline>, value: u64, ticket: Ticket, faults: Arc<StreamFaults> },
    /// Raise the timeline to `value` once a stream has signalled the ticket. `notified`: a host function wakes the
    /// bridge.
    Signal { side: Arc<BridgedTimeline>, value: u64, ticket: Ticket, faults: Arc<StreamFaults>, notified: bool },
}

impl Request {
    /// Identifies the stream.
    pub(super) fn stream(&self) -> &Arc<StreamFaults> {
        match self {
            Self::Wait { faults, .. } | Self::Signal { faults, .. } => faults,
        }
    }
}

#[derive(Debug)]
struct Wait {
    /// As in [`Signal`].
    position: u64,
    value: u64,
    ticket: Ticket,
    faults: Arc<StreamFaults>,
}

/// A signal of a stream that the bridge has not transferred.
#[derive(Debug)]
struct Signal {
    /// Position among all requests, in the order in which they were added.
    position: u64,
    side: Arc<BridgedTimeline>,
    value: u64,
    ticket: Ticket,
    faults: Arc<StreamFaults>,
    notified: bool,
}

/// Requests of one stream.
#[derive(Debug)]
struct Queue {
    /// Identifies the stream.
    stream: Arc<StreamFaults>,
    /// Signals, in the order in which they were added.
    signals: VecDeque<Signal>,
    /// Positions of its waits.
    waits: BTreeSet<u64>,
    /// Time when one of its signals or waits last completed, or its first signal was added. The oldest signal is expected
    /// after that, by the forecast.
    since: Instant,
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.signals.is_empty() && self.waits.is_empty()
    }

    /// `true` if a wait precedes the oldest signal.
    fn is_blocked(&self) -> bool {
        let position = |signal: &Signal| signal.position;
        self.waits.first().is_some_and(|first| self.signals.front().is_none_or(|signal| *first < position(signal)))
    }
}

/// Waits for one timeline, by value.
#[derive(Debug)]
struct Group {
    side: Arc<BridgedTimeline>,
    waits: BTreeMap<u64, Vec<Wait>>,
    /// Time of the last value. The next one is expected after that, by the forecast.
    since: Instant,
}

/// All pending requests.
///
/// A query of a timeline costs as much for ten thousand waits as for one: only the smallest value is compared. A query of a
/// stream's words reads the oldest one only, because a stream writes its words in order.
#[derive(Debug)]
pub(super) struct Pending {
    groups: Vec<Group>,
    queues: Vec<Queue>,
    /// Number of requests added so far.
    added: u64,
    /// All waits are released.
    cancelled: bool,
    /// Time of the last look at the requests.
    looked: Instant,
    /// How late a short sleep is expected to end.
    lateness: Duration,
}

impl Default for Pending {
    fn default() -> Self {
        let (groups, queues, looked) = (Vec::new(), Vec::new(), Instant::now());
        Self { groups, queues, added: 0, cancelled: false, looked, lateness: Duration::ZERO }
    }
}

impl Pending {
    pub(super) fn add(&mut self, request: Request) {
        self.added += 1;
        let (position, now) = (self.added, Instant::now());
        let stream = request.stream();
        let queue = match self.queues.iter_mut().position(|queue| Arc::ptr_eq(&queue.stream, stream)) {
            Some(index) => &mut self.queues[index],
            None => {
                let (stream, signals, waits) = (stream.clone(), VecDeque::new(), BTreeSet::new());
                self.queues.push(Queue { stream, signals, waits, since: now });
                let last = self.queues.len() - 1;
                &mut self.queues[last]
            }
        };
        match request {
            Request::Signal { side, value, ticket, faults, notified } => {
                if queue.signals.is_empty() {
                    queue.since = now;
                }
                queue.signals.push_back(Signal { position, side, value, ticket, faults, notified });
            }
            Request::Wait { side, value, ticket, faults } => {
                queue.waits.insert(position);
                let wait = Wait { position, value, ticket, faults };
                match self.groups.iter_mut().find(|group| Arc::ptr_eq(&group.side, &side)) {
                    Some(group) => group.waits.entry(value).or_default().push(wait),
                    None => self.groups.push(Group { side, waits: BTreeMap::from([(value, vec![wait])]), since: now }),
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.queues.is_empty()
    }

    /// Plans the next look at the requests; short sleeps end late by `lateness`.
    pub(super) fn plan(&mut self, lateness: Duration) -> Plan {
        self.lateness = lateness;
        let mut plan = Plan::new(lateness, self.is_watched());
        for queue in &self.queues {
            let Some(signal) = queue.signals.front() else { continue };
            let notice = match signal.notified {
                true => Notice::Wake,
                false if queue.is_blocked() => Notice::Later,
                false => Notice::Poll,
            };
            plan.add(self.looked.duration_since(queue.since), &queue.stream.forecast, notice);
        }
        for group in &self.groups {
            plan.add(self.looked.duration_since(group.since), &group.side.forecast, Notice::Wake);
        }
        plan
    }

    /// The streams that wait: their later requests need no look before one of these waits has ended.
    pub(super) fn blocked(&self) -> impl Iterator<Item = &Arc<StreamFaults>> {
        self.queues.iter().filter(|queue| !queue.waits.is_empty()).map(|queue| &queue.stream)
    }

    /// `true` if a process must be watched.
    pub(super) fn is_watched(&self) -> bool {
        self.groups.iter().any(|group| group.side.is_watched())
    }

    /// Completes the requests that are ready; returns `true` if there were any. With `all`, every word is read: two threads
    /// that signal on one stream at once may have added their requests in another order than the stream's.
    pub(super) fn settle(&mut self, words: &Words, all: bool) -> bool {
        let now = Instant::now();
        // Signals first: a wait may depend on one of them.
        let signalled = self.settle_signals(words, all, now);
        let ended = self.settle_waits(words, now);
        self.queues.retain(|queue| !queue.is_empty());
        self.looked = now;
        ended || signalled
    }

    /// Removes the signals whose words have been written, oldest first.
    fn reached(&mut self, all: bool, now: Instant) -> Vec<Signal> {
        let mut reached: Vec<Signal> = Vec::new();
        // Streams may be ordered by events: if a word is written, those of earlier signals of other streams are, too, but
        // may have been read before. All words are read again until none is new, so that no later signal overtakes them.
        loop {
            let before = reached.len();
            for queue in &mut self.queues {
                let was_blocked = queue.is_blocked();
                let Queue { stream, signals: queue, since, .. } = queue;
                let mut first = !was_blocked;
                while queue.front().is_some_and(|signal| signal.ticket.is_reached()) {
                    reached.extend(queue.pop_front());
                    if std::mem::take(&mut first) {
                        let lower = self.looked.duration_since(*since);
                        stream.forecast.observe(lower, now.duration_since(*since), self.lateness);
                    }
                    *since = now;
                }
                if all {
                    let mut index = 0;
                    while let Some(signal) = queue.get(index) {
                        if signal.ticket.is_reached() {
                            reached.extend(queue.remove(index));
                        } else {
                            index += 1;
                        }
                    }
                }
            }
            if reached.len() == before {
                break;
            }
        }
        reached.sort_unstable_by_key(|signal| signal.position);
        reached
    }

    fn settle_signals(&mut self, words: &Words, all: bool, now: Instant) -> bool {
        // Signals that are about to fail or to be discarded are looked at once more.
        let reached = self.reached(all || self.cancelled || words.lost().is_some(), now);
        let mut settled = !reached.is_empty();
        for signal in reached {
            // After the word was read: signals are discarded before the waits of streams are released, so that a word
            // which a released stream has written is not transferred.
            if !words.discards_signals() {
                match signal.side.raise(signal.value) {
                    Ok(true) => {}
                    Ok(false) => signal.faults.report(overtaken(signal.value)),
                    // The timeline failed now or before.
                    Err(error) => signal.faults.report_timeline(&signal.side, &error),
                }
            }
            words.put(signal.ticket);
        }
        if let Some(error) = words.lost() {
            for signal in self.queues.iter_mut().flat_map(|queue| queue.signals.drain(..)) {
                signal.side.fail(error);
                signal.faults.report_timeline(&signal.side, error);
                // A lost device may still write the word.
                words.retire(signal.ticket);
                settled = true;
            }
        }
        settled
    }

    fn settle_waits(&mut self, words: &Words, now: Instant) -> bool {
        let mut settled = false;
        for group in &mut self.groups {
            let value = group.side.value();
            if let Err(error) = &value {
                // Also if the timeline's value decreased. The waits end without having reached theirs.
                group.side.fail(error);
            }
            let is_over = |wanted: u64| self.cancelled || value.as_ref().map_or(true, |value| *value >= wanted);
            let mut observes = value.is_ok() && !self.cancelled;
            while let Some(first) = group.waits.first_entry().filter(|first| is_over(*first.key())) {
                if std::mem::take(&mut observes) {
                    let lower = self.looked.duration_since(group.since);
                    group.side.forecast.observe(lower, now.duration_since(group.since), self.lateness);
                }
                group.since = now;
                for wait in first.remove() {
                    match &value {
                        Ok(value) if *value >= wait.value => {}
                        Ok(_) => {
                            words.discard_signals();
                            wait.faults.report(closed());
                        }
                        Err(error) => wait.faults.report_timeline(&group.side, error),
                    }
                    wait.ticket.reach();
                    words.put(wait.ticket);
                    if let Some(queue) = self.queues.iter_mut().find(|queue| Arc::ptr_eq(&queue.stream, &wait.faults)) {
                        queue.waits.remove(&wait.position);
                        queue.since = now;
                    }
                    settled = true;
                }
            }
        }
        self.groups.retain(|group| !group.waits.is_empty());
        settled
    }

    /// Fails the timelines whose watched process has ended.
    pub(super) fn check_processes(&self) {
        for group in &self.groups {
            group.side.check_process();
        }
    }

    /// Releases all current and later waits with an error. Signals completed before are transferred; later ones are
    /// discarded, because the released streams, and streams that wait for them by events, run without their data.
    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Each timeline with the smallest value that is waited for.
    pub(super) fn wanted(&self) -> Vec<(&dyn ExporterTimeline, u64)> {
        let smallest = |group: &Group| group.waits.first_key_value().map(|(value, _)| *value);
        self.groups.iter().filter_map(|group| Some((&**group.side.exporter, smallest(group)?))).collect()
    }
}

fn overtaken(value: u64) -> Error {
    let message = "the timeline had passed this value before the stream signalled it, so waits for the value ended too \
                   early; use one timeline for each direction";
    Error::new(ErrorKind::Overtaken, "Stream::signal_timeline", message).with_context("value", value)
}

fn closed() -> Error {
    Error::new(
        ErrorKind::Cancelled,
        "Stream::wait_timeline",
        "the device was closed while a stream waited for a timeline",
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::backend::{DevicePtr, SignalMemory};
    use crate::bridge::words::RemoteTicket;
    use crate::error::Result;
    use crate::sync::{AtomicU64, Mutex, unpoisoned};

    /// A timeline that records its signals and counts its queries.
    #[derive(Debug, Default)]
    struct Counter {
        value: AtomicU64,
        queries: AtomicUsize,
        signals: Mutex<Vec<u64>>,
    }

    impl ExporterTimeline for Counter {
        fn value(&self) -> Result<u64> {
            self.queries.fetch_add(1, Ordering::Relaxed);
            Ok(self.value.load(Ordering::Acquire))
        }

        fn signal(&self, value: u64) -> Result<()> {
            self.value.store(value, Ordering::Release);
            unpoisoned(self.signals.lock()).push(value);
            Ok(())
        }

        fn wait(&self, _value: u64, _timeout: Duration) -> Result<()> {
            Err(Error::new(ErrorKind::Timeout, "Counter::wait", "not used"))
        }
    }

    /// Words, a timeline, and the streams that signal it.
    struct World {
        words: Words,
        counter: Arc<Counter>,
        side: Arc<BridgedTimeline>,
        pending: Pending,
    }

    impl World {
        fn new() -> Self {
            let counter = Arc::new(Counter::default());
            let side = Arc::new(BridgedTimeline::new(counter.clone(), 0));
            Self { words: Words::default(), counter, side, pending: Pending::default() }
        }

        fn take(&self) -> Ticket {
            let memory = || {
                let words = Vec::leak(vec![0_u64; 512]);
                Ok(SignalMemory { host: NonNull::from(words).cast(), ptr: DevicePtr::new(4096), size: 4096 })
            };
            self.words.take(memory).expect("a word")
        }

        /// Adds a signal of a stream. Returns the stream's end of its ticket.
        fn signal(&mut self, stream: &Arc<StreamFaults>, value: u64) -> RemoteTicket {
            let ticket = self.take();
            let remote = ticket.remote();
            let (side, faults) = (self.side.clone(), stream.clone());
            self.pending.add(Request::Signal { side, value, ticket, faults, notified: false });
            remote
        }

        fn settle(&mut self, all: bool) -> bool {
            self.pending.settle(&self.words, all)
        }

        fn signals(&self) -> Vec<u64> {
            unpoisoned(self.counter.signals.lock()).clone()
        }
    }

    #[test]
    fn signals_of_two_streams_are_transferred_in_the_order_of_their_calls() {
        let mut world = World::new();
        // Compared by address, so an odd number of streams covers both orders of two addresses.
        let streams: [Arc<StreamFaults>; 3] = std::array::from_fn(|_| Arc::default());
        let tickets: Vec<_> =
            (1..=30).zip(streams.iter().cycle()).map(|(value, stream)| world.signal(stream, value)).collect();
        assert!(!world.settle(false), "nothing was written");
        tickets.iter().for_each(|ticket| ticket.reach());
        assert!(world.settle(false));
        assert_eq!(world.signals(), (1..=30).collect::<Vec<_>>());
        assert!(world.pending.is_empty(), "nothing is left to look at");
        assert!(streams.iter().all(|stream| stream.take().is_ok()), "none was overtaken");
    }

    #[test]
    fn a_signal_behind_one_that_is_not_written_needs_a_read_of_all_words() {
        let mut world = World::new();
        let stream = Arc::<StreamFaults>::default();
        // Two threads: the stream writes the second first, because its call was first to enqueue.
        let (late, early) = (world.signal(&stream, 2), world.signal(&stream, 1));
        early.reach();
        assert!(!world.settle(false), "only the oldest request of a stream is read");
        assert!(world.settle(true));
        assert_eq!(world.signals(), [1]);
        late.reach();
        assert!(world.settle(false));
        assert_eq!((world.signals(), world.pending.is_empty()), (vec![1, 2], true));
    }

    #[test]
    fn ten_thousand_waits_cost_one_query_and_end_by_value() {
        let mut world = World::new();
        let stream = Arc::<StreamFaults>::default();
        // Values in another order than that of the calls.
        let tickets: Vec<_> = (0..10_000_u64)
            .map(|index| {
                let (value, ticket) = (index * 7_919 % 10_000 + 1, world.take());
                let remote = ticket.remote();
                let (side, faults) = (world.side.clone(), stream.clone());
                world.pending.add(Request::Wait { side, value, ticket, faults });
                (value, remote)
            })
            .collect();
        for value in [0, 1, 2, 5_000, 9_999] {
            world.counter.value.store(value, Ordering::Release);
            let before = world.counter.queries.load(Ordering::Relaxed);
            assert_eq!(world.settle(false), value > 0);
            assert!(world.counter.queries.load(Ordering::Relaxed) - before <= 2, "one query, and one to confirm");
            assert_eq!(world.pending.wanted()[0].1, value + 1);
            assert!(tickets.iter().all(|(wanted, ticket)| ticket.is_reached() == (*wanted <= value)), "at {value}");
        }
        world.counter.value.store(10_000, Ordering::Release);
        assert!(world.settle(false) && world.pending.is_empty());
        assert_eq!(world.words.in_use(), 0);
    }
}
