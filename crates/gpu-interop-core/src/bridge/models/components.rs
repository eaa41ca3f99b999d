//! Components of the bridge that threads share without its worker.

use std::sync::Arc;

use loom::thread;

use super::exporter::Mock;
use super::{Exporter, Item, Memory, check};
use crate::bridge::StreamFaults;
use crate::bridge::pending::{Pending, Request};
use crate::bridge::side::BridgedTimeline;
use crate::bridge::words::{Ticket, Words};
use crate::error::{Error, ErrorKind};
use crate::timeline::ExporterTimeline;

/// Words taken and returned concurrently have one user at a time, and only grow.
#[test]
fn words_have_one_user_at_a_time() {
    check(3, || {
        let words = Arc::new(Words::default());
        let user = |words: &Words| {
            for _ in 0..2 {
                let ticket = words.take(|| Ok(Memory::new(1).signal_memory())).expect("a word");
                assert!(!ticket.is_reached(), "the ticket of another user");
                ticket.reach();
                words.put(ticket);
            }
        };
        let shared = words.clone();
        let thread = thread::spawn(move || user(&shared));
        user(&words);
        thread.join().expect("join");
        assert_eq!(words.in_use(), 0);
    });
}

/// Two bridges of a device: one releases a wait because the device is closed, the other transfers signals. A signal
/// behind the released wait is discarded, also if another stream made it after an event.
#[test]
fn signals_behind_a_cancelled_wait_are_discarded() {
    check(3, || {
        let (words, memory) = (Arc::new(Words::default()), Memory::new(2));
        let take = || words.take(|| Ok(memory.signal_memory())).expect("a word");
        let (waited, written) = (take(), take());
        let item = |ticket: &Ticket| Item { word: memory.word(ticket.ptr()), number: ticket.number() };
        let (wait, signal) = (item(&waited), item(&written));
        let [waited_for, signalled] = [Exporter::new().timeline(), Exporter::new().timeline()];
        let request = |timeline: &Arc<Mock>| {
            (Arc::new(BridgedTimeline::new(timeline.clone(), 0)), Arc::<StreamFaults>::default())
        };
        let (mut first, mut second) = (Pending::default(), Pending::default());
        let (side, faults) = request(&waited_for);
        first.add(Request::Wait { side, value: 1, ticket: waited, faults });
        let (side, faults) = request(&signalled);
        second.add(Request::Signal { side, value: 1, ticket: written, faults, notified: false });
        let shared = words.clone();
        let thread = thread::spawn(move || {
            first.cancel();
            assert!(first.settle(&shared, true), "the wait is not released");
            // The stream.
            wait.wait();
            signal.write();
        });
        second.settle(&words, false);
        thread.join().expect("join");
        second.settle(&words, false);
        assert!(second.is_empty(), "the word was written");
        assert_eq!((signalled.value().expect("has one"), words.in_use()), (0, 0));
    });
}

/// A native wait concurrent with the release fails, or the timeline is raised to its value.
#[test]
fn a_wait_concurrent_with_the_release_fails_or_is_covered() {
    check(3, || {
        let mock = Exporter::new().timeline();
        let side = Arc::new(BridgedTimeline::new(mock.clone(), 0));
        let failing = side.clone();
        let thread = thread::spawn(move || {
            failing.fail(&Error::new(ErrorKind::Cancelled, "Timeline::abandon", "no signal will come"));
            failing.release_waits().expect("raises it");
        });
        // The second observes the value recorded by the first, or does not.
        let streams = [1, 2].map(|value| {
            let side = side.clone();
            thread::spawn(move || if side.begin_wait(value).is_ok() { value } else { 0 })
        });
        let waited = streams.map(|stream| stream.join().expect("join"));
        thread.join().expect("join");
        let value = mock.value().expect("has one");
        assert!(waited.iter().all(|waited| *waited <= value), "{waited:?} waited, but it is {value}");
    });
}
