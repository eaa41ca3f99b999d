//! Pending requests of a bridge.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::side::{Side, release};
use super::words::{Ticket, Words};
use crate::error::{Error, ErrorKind};
use crate::object::StreamFaults;
use crate::timeline::ExporterTimeline;

/// A value to transfer between a stream and a timeline.
#[derive(Debug)]
pub(crate) enum Request {
    /// Signal the ticket, for which a stream waits, once the timeline has reached `value`.
    Wait { side: Arc<Side>, value: u64, ticket: Ticket, faults: Arc<StreamFaults> },
    /// Raise the timeline to `value` once a stream has signalled the ticket. `notified`: a host function wakes the
    /// bridge.
    Signal { side: Arc<Side>, value: u64, ticket: Ticket, faults: Arc<StreamFaults>, notified: bool },
}

#[derive(Debug)]
struct Wait {
    value: u64,
    ticket: Ticket,
    faults: Arc<StreamFaults>,
}

/// A signal of a stream that the bridge has not transferred.
#[derive(Debug)]
struct Signal {
    /// Position among all requests, in the order in which they were added.
    position: u64,
    side: Arc<Side>,
    value: u64,
    ticket: Ticket,
    faults: Arc<StreamFaults>,
    notified: bool,
}

/// Signals of one stream, in the order in which they were added.
#[derive(Debug)]
struct Queue {
    /// Identifies the stream.
    stream: Arc<StreamFaults>,
    signals: VecDeque<Signal>,
}

/// Waits for one timeline, by value.
#[derive(Debug)]
struct Group {
    side: Arc<Side>,
    waits: BTreeMap<u64, Vec<Wait>>,
}

/// All pending requests.
///
/// A query of a timeline costs as much for ten thousand waits as for one: only the smallest value is compared. A query of a
/// stream's words reads the oldest one only, because a stream writes its words in order.
#[derive(Debug, Default)]
pub(super) struct Pending {
    groups: Vec<Group>,
    queues: Vec<Queue>,
    /// Number of signals without a host function.
    polled: usize,
    /// Number of signals added so far.
    added: u64,
    /// All waits are released.
    cancelled: bool,
}

impl Pending {
    pub(super) fn add(&mut self, request: Request) {
        match request {
            Request::Signal { side, value, ticket, faults, notified } => {
                self.added += 1;
                self.polled += usize::from(!notified);
                let stream = faults.clone();
                let signal = Signal { position: self.added, side, value, ticket, faults, notified };
                match self.queues.iter_mut().find(|queue| Arc::ptr_eq(&queue.stream, &stream)) {
                    Some(queue) => queue.signals.push_back(signal),
                    None => self.queues.push(Queue { stream, signals: VecDeque::from([signal]) }),
                }
            }
            Request::Wait { side, value, ticket, faults } => {
                let wait = Wait { value, ticket, faults };
                match self.groups.iter_mut().find(|group| Arc::ptr_eq(&group.side, &side)) {
                    Some(group) => group.waits.entry(value).or_default().push(wait),
                    None => self.groups.push(Group { side, waits: BTreeMap::from([(value, vec![wait])]) }),
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.queues.is_empty()
    }

    /// `true` if a word must be polled, because its stream does not wake the bridge.
    pub(super) fn is_polled(&self) -> bool {
        self.polled > 0
    }

    /// `true` if a process must be watched.
    pub(super) fn is_watched(&self) -> bool {
        self.groups.iter().any(|group| group.side.is_watched())
    }

    /// Completes the requests that are ready; returns `true` if there were any. With `all`, every word is read: two threads
    /// that signal on one stream at once may have added their requests in another order than the stream's.
    pub(super) fn settle(&mut self, words: &Words, all: bool) -> bool {
        // Signals first: a wait may depend on one of them.
        let signalled = self.settle_signals(words, all);
        self.settle_waits(words) || signalled
    }

    /// Removes the signals whose words have been written, oldest first.
    fn reached(&mut self, all: bool) -> Vec<Signal> {
        let mut reached: Vec<Signal> = Vec::new();
        // Streams may be ordered by events: a signal is transferred only if all words were read after its own, because an
        // earlier one of another stream would otherwise be transferred later and be overtaken.
        loop {
            let before = reached.len();
            for Queue { signals: queue, .. } in &mut self.queues {
                while queue.front().is_some_and(|signal| signal.ticket.is_reached()) {
                    reached.extend(queue.pop_front());
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
        self.queues.retain(|queue| !queue.signals.is_empty());
        reached.sort_unstable_by_key(|signal| signal.position);
        self.polled -= reached.iter().filter(|signal| !signal.notified).count();
        reached
    }

    fn settle_signals(&mut self, words: &Words, all: bool) -> bool {
        // The last look at signals that are about to fail or to be discarded.
        let reached = self.reached(all || self.cancelled || words.lost().is_some());
        let mut settled = !reached.is_empty();
        for signal in reached {
            // Checked after the word was read.
            if !words.discards_signals() {
                match signal.side.raise(signal.value) {
                    Ok(true) => {}
                    Ok(false) => signal.faults.report(overtaken(signal.value)),
                    // The timeline failed now or before.
                    Err(error) => signal.faults.report_timeline(&signal.side, &error),
                }
            }
            words.put(signal.ticket);
            release(signal.side);
        }
        if let Some(error) = words.lost() {
            self.polled = 0;
            for signal in self.queues.drain(..).flat_map(|queue| queue.signals) {
                signal.side.fail(error);
                signal.faults.report_timeline(&signal.side, error);
                // A lost device may still write the word.
                words.retire(signal.ticket);
                release(signal.side);
                settled = true;
            }
        }
        settled
    }

    fn settle_waits(&mut self, words: &Words) -> bool {
        let mut settled = false;
        for group in &mut self.groups {
            let value = group.side.value();
            let is_over = |wanted: u64| self.cancelled || value.as_ref().map_or(true, |value| *value >= wanted);
            while let Some(first) = group.waits.first_entry().filter(|first| is_over(*first.key())) {
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
                    settled = true;
                }
            }
        }
        self.groups.extract_if(.., |group| group.waits.is_empty()).for_each(|group| release(group.side));
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

    /// Drops the timelines of requests that an abandoned bridge leaves. The words stay in use.
    pub(super) fn release(self) {
        self.groups.into_iter().for_each(|group| release(group.side));
        self.queues.into_iter().flat_map(|queue| queue.signals).for_each(|signal| release(signal.side));
    }

    /// Each timeline with the smallest value that is waited for.
    pub(super) fn wanted(&self) -> Vec<(&dyn ExporterTimeline, u64)> {
        let smallest = |group: &Group| group.waits.first_key_value().map(|(value, _)| *value);
        self.groups.iter().filter_map(|group| Some((&*group.side.exporter, smallest(group)?))).collect()
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
mod tests;
