//! Pending requests of a bridge.

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

#[derive(Debug)]
struct Signal {
    side: Arc<Side>,
    value: u64,
    ticket: Ticket,
    faults: Arc<StreamFaults>,
    notified: bool,
    /// The stream has signalled the ticket.
    reached: bool,
}

/// Waits for one timeline.
#[derive(Debug)]
struct Group {
    side: Arc<Side>,
    waits: Vec<Wait>,
}

/// All pending requests.
#[derive(Debug, Default)]
pub(super) struct Pending {
    groups: Vec<Group>,
    /// In enqueue order.
    signals: Vec<Signal>,
    /// All waits are released.
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

    /// `true` if a word must be polled, because its stream does not wake the bridge.
    pub(super) fn is_polled(&self) -> bool {
        self.signals.iter().any(|signal| !signal.notified)
    }

    /// `true` if a process must be watched.
    pub(super) fn is_watched(&self) -> bool {
        self.groups.iter().any(|group| group.side.is_watched())
    }

    /// Completes the requests that are ready; returns whether there were any.
    pub(super) fn settle(&mut self, words: &Words) -> bool {
        // Signals first: a wait may depend on one of them.
        let signalled = self.settle_signals(words);
        self.settle_waits(words) || signalled
    }

    fn settle_signals(&mut self, words: &Words) -> bool {
        let before = self.signals.len();
        // Newest first: a stream writes its words in order, so once one is observed the earlier ones are, too. In the
        // other direction a later signal could be transferred before an earlier one and overtake it.
        self.signals.iter_mut().rev().for_each(|signal| signal.reached = signal.ticket.is_reached());
        for signal in self.signals.extract_if(.., |signal| signal.reached) {
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
            for signal in self.signals.drain(..) {
                signal.side.fail(error);
                signal.faults.report_timeline(&signal.side, error);
                // A lost device may still write the word.
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
        let smallest = |group: &Group| group.waits.iter().map(|wait| wait.value).min();
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
