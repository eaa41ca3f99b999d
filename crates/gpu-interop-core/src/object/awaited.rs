//! Timelines that a stream waits for, for the error of a timeout.

use std::fmt::{self, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use smallvec::SmallVec;

use crate::bridge::Side;
use crate::callback::caught;
use crate::error::Error;
use crate::sync::lock;

/// Most timelines that are remembered: those of the last waits.
const MOST: usize = 4;
/// Longest description of an exporter's timeline, bytes.
const LONGEST_NAME: usize = 80;

/// The last waits of a stream. Keeps no timeline alive, and does not allocate.
#[derive(Debug, Default)]
pub(super) struct Awaited(Mutex<SmallVec<[Wait; MOST]>>);

#[derive(Debug)]
struct Wait {
    side: Weak<Side>,
    /// The first value that is not known to be reached.
    first: u64,
    last: u64,
}

impl Awaited {
    /// Records a wait, after it was enqueued.
    pub(super) fn note(&self, side: &Arc<Side>, value: u64) {
        let mut waits = lock(&self.0);
        if let Some(wait) = waits.iter_mut().find(|wait| std::ptr::eq(wait.side.as_ptr(), Arc::as_ptr(side))) {
            if wait.first <= side.seen() {
                wait.first = value;
            }
            wait.last = value;
            return;
        }
        if waits.len() == MOST {
            waits.remove(0);
        }
        waits.push(Wait { side: Arc::downgrade(side), first: value, last: value });
    }

    /// Adds the pending waits to an error.
    pub(super) fn describe(&self, error: Error) -> Error {
        // Unlocked before exporters are called and timelines dropped.
        let waits: SmallVec<[_; MOST]> =
            lock(&self.0).iter().filter_map(|wait| Some((wait.side.upgrade()?, wait.first, wait.last))).collect();
        waits.into_iter().fold(error, |error, (side, first, last)| {
            let now = caught(|| side.exporter.value());
            let (wanted, now) = match now {
                Some(Ok(now)) if now >= first.max(last) => return error,
                Some(Ok(now)) => (if first > now { first } else { last }, now.to_string()),
                Some(Err(error)) => (first, format!("unknown ({})", error.message())),
                None => (first, "unknown (the exporter panicked)".into()),
            };
            let mut name = Bounded(String::new());
            if caught(|| write!(name, "{:?}", *side.exporter)).is_none_or(|written| written.is_err()) {
                name.0.push_str("...");
            }
            let signalled = side.last_signalled.load(Ordering::Relaxed);
            let text = format!("{}: value {wanted}; it is {now}, and was last signalled here to {signalled}", name.0);
            error.with_context("waits for", text)
        })
    }
}

/// Text that ends at its greatest length.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = LONGEST_NAME - self.0.len();
        if text.len() <= left {
            self.0.push_str(text);
            return Ok(());
        }
        let end = (0..=left).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.0.push_str(&text[..end]);
        Err(fmt::Error)
    }
}
