//! What a bridge has been told and has not done yet.

use std::sync::Arc;

use super::side::{Side, release};
use super::words::{Ticket, Words};
use crate::error::{Error, ErrorKind};
use crate::object::StreamFaults;
use crate::timeline::ExporterTimeline;

/// Something for the bridge to carry.
#[derive(Debug)]
pub(crate) enum Request {
    /// Reach the ticket once the timeline has reached `value`: a stream waits for it.
    Wait { side: Arc<Side>, value: u64, ticket: Ticket, faults: Arc<StreamFaults> },
    /// Raise the timeline to `value` once a stream has reached the ticket. `told`: somebody will say so.
    Signal { side: Arc<Side>, value: u64, ticket: Ticket, faults: Arc<StreamFaults>, notified: bool },
}

#[derive(Debug)]
struct Wait {
    value: u64,
    ticket: Ticket,
    faults: Arc<StreamFaults>,
}

#[derive(Debug)]
struct Signal {
    side: Arc<Side>,
    value: u64,
    ticket: Ticket,
    faults: Arc<StreamFaults>,
    notified: bool,
    /// The ticket is.
    reached: bool,
}

/// The waits for one timeline.
#[derive(Debug)]
struct Group {
    side: Arc<Side>,
    waits: Vec<Wait>,
}

/// Everything outstanding.
#[derive(Debug, Default)]
pub(super) struct Pending {
    groups: Vec<Group>,
    /// In the order in which they were enqueued.
    signals: Vec<Signal>,
    /// Whatever waits is let go.
    cancelled: bool,
}

impl Pending {
    pub(super) fn add(&mut self, request: Request) {
        match request {
            Request::Signal { side, value, ticket, faults, notified } => {
                self.signals.push(Signal { side, value, ticket, faults, notified, reached: false });
            }
            Request::Wait { side, value, ticket, faults } => {
                let wait = Wait { value, ticket, faults };
                match self.groups.iter_mut().find(|group| Arc::ptr_eq(&group.side, &side)) {
                    Some(group) => group.waits.push(wait),
                    None => self.groups.push(Group { side, waits: vec![wait] }),
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.signals.is_empty()
    }

    /// Whether a word must be looked at, because nobody says when a stream writes it.
    pub(super) fn is_polled(&self) -> bool {
        self.signals.iter().any(|signal| !signal.notified)
    }

    /// Whether there is a process that may end unnoticed.
    pub(super) fn is_watched(&self) -> bool {
        self.groups.iter().any(|group| group.side.is_watched())
    }

    /// Carries what can be carried now; whether that was anything.
    pub(super) fn settle(&mut self, words: &Words) -> bool {
        // Signals first: a wait may be for one of them.
        let signalled = self.settle_signals(words);
        self.settle_waits(words) || signalled
    }

    fn settle_signals(&mut self, words: &Words) -> bool {
        let before = self.signals.len();
        // The last first: a stream writes its words in order, so whoever has seen one finds those before. The other way about
        // a later signal might be carried before an earlier one, and overtake it.
        self.signals.iter_mut().rev().for_each(|signal| signal.reached = signal.ticket.is_reached());
        for signal in self.signals.extract_if(.., |signal| signal.reached) {
            // Asked after the word was read.
            if !words.discards_signals() {
                match signal.side.raise(signal.value) {
                    Ok(true) => {}
                    Ok(false) => signal.faults.report(overtaken(signal.value)),
                    // The timeline has failed, now or before.
                    Err(error) => signal.faults.report_timeline(&signal.side, &error),
                }
            }
            words.put(signal.ticket);
            release(signal.side);
        }
        if let Some(error) = words.lost() {
            for signal in self.signals.drain(..) {
                signal.side.fail(error);
                signal.faults.report_timeline(&signal.side, error);
                // Nobody knows what a lost device still writes.
                words.retire(signal.ticket);
                release(signal.side);
            }
        }
        self.signals.len() < before
    }

    fn settle_waits(&mut self, words: &Words) -> bool {
        let mut settled = false;
        for group in &mut self.groups {
            let value = group.side.value();
            let is_over = |wait: &mut Wait| self.cancelled || value.as_ref().map_or(true, |value| *value >= wait.value);
            for wait in group.waits.extract_if(.., is_over) {
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
        self.groups.extract_if(.., |group| group.waits.is_empty()).for_each(|group| release(group.side));
        settled
    }

    /// Fails the timelines whose process has ended.
    pub(super) fn check_processes(&self) {
        for group in &self.groups {
            group.side.check_process();
        }
    }

    /// From now on everything that waits is let go, with an error. What streams have signalled before is carried, and
    /// nothing after: what they do without their data is worth nothing, nor is what streams do that wait for them by events.
    pub(super) fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Each timeline with the smallest value that somebody waits for.
    pub(super) fn wanted(&self) -> Vec<(&dyn ExporterTimeline, u64)> {
        let smallest = |group: &Group| group.waits.iter().map(|wait| wait.value).min();
        self.groups.iter().filter_map(|group| Some((&*group.side.exporter, smallest(group)?))).collect()
    }
}

fn overtaken(value: u64) -> Error {
    let message = "the timeline was as far already when the stream came to raise it: whoever waits for this value went on too \
                   early; use one timeline a direction";
    Error::new(ErrorKind::Overtaken, "Stream::signal_timeline", message).with_context("value", value)
}

fn closed() -> Error {
    Error::new(
        ErrorKind::Cancelled,
        "Stream::wait_timeline",
        "the device was closed while a stream waited for a timeline",
    )
}
