//! The library's `tracing` events, for Python's `logging`.
//!
//! An event may arrive on any thread, with or without the GIL, while the library holds locks. So it is only formatted and
//! queued there. One thread, which holds nothing else, takes the GIL and delivers.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use gpu_interop::sync::{lock, unpoisoned};
use gpu_interop::{Error, ErrorKind, Result};
use gpu_interop_core::ProcessMark;
use pyo3::prelude::*;
use pyo3::types::PyList;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use crate::error::Raise;
use crate::watcher::unless_ended;

const OPERATION: &str = "log.enable";

/// Messages that wait at most. Later ones are counted only.
const MOST: usize = 1 << 14;

/// The most verbose level that is delivered: 0 is off, 1 errors, 5 driver calls.
static LEVEL: AtomicU8 = AtomicU8::new(0);
static QUEUE: Mutex<Queue> = Mutex::new(Queue { messages: VecDeque::new(), lost: 0, delivering: false });
/// Notified when there are messages, and when all are delivered.
static CHANGED: Condvar = Condvar::new();
/// The process with the thread: in one that was forked from it, the queue's lock may be held for ever.
static PROCESS: OnceLock<ProcessMark> = OnceLock::new();

thread_local! {
    /// Set on the thread that delivers: code of Python there may call this library.
    static DELIVERS: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug)]
struct Queue {
    messages: VecDeque<Message>,
    lost: u64,
    delivering: bool,
}

impl Queue {
    fn is_idle(&self) -> bool {
        self.messages.is_empty() && self.lost == 0 && !self.delivering
    }
}

/// Level of `logging`, target, text, seconds since 1970, name of the thread.
type Message = (u8, &'static str, String, f64, String);

fn verbosity(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// Python's number of a level: 40 for errors, 5 for driver calls.
fn number(level: Level) -> u8 {
    match level {
        Level::TRACE => 5,
        other => (5 - verbosity(other)) * 10,
    }
}

fn filter() -> LevelFilter {
    match LEVEL.load(Ordering::Relaxed) {
        0 => LevelFilter::OFF,
        1 => LevelFilter::ERROR,
        2 => LevelFilter::WARN,
        3 => LevelFilter::INFO,
        4 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Message and values of an event.
#[derive(Default)]
struct Text {
    message: String,
    values: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.values, " {name}={value:?}"),
        };
    }
}

/// Subscriber that queues events.
struct Log;

impl Subscriber for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= filter()
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(filter())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let here = PROCESS.get().is_some_and(|process| process.is_this_process());
        if !here || *metadata.level() > filter() || DELIVERS.try_with(Cell::get) != Ok(false) {
            return;
        }
        let mut text = Text::default();
        event.record(&mut text);
        text.message += &text.values;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        let message = (number(*metadata.level()), metadata.target(), text.message, since.as_secs_f64(), thread);
        let mut queue = lock(&QUEUE);
        if queue.messages.len() < MOST {
            queue.messages.push_back(message)
        } else {
            queue.lost += 1
        }
        drop(queue);
        CHANGED.notify_all();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Delivers messages until the process ends.
fn run() {
    DELIVERS.set(true);
    loop {
        let (messages, lost) = {
            let mut queue = lock(&QUEUE);
            queue.delivering = false;
            CHANGED.notify_all();
            while queue.messages.is_empty() && queue.lost == 0 {
                queue = unpoisoned(CHANGED.wait(queue));
            }
            queue.delivering = true;
            (std::mem::take(&mut queue.messages), std::mem::take(&mut queue.lost))
        };
        unless_ended(|| {
            // Without an interpreter there are no loggers.
            let _delivered = Python::try_attach(|py| {
                if let Err(error) = deliver(py, messages, lost) {
                    error.write_unraisable(py, None);
                }
            });
        });
    }
}

fn deliver(py: Python<'_>, messages: VecDeque<Message>, lost: u64) -> PyResult<()> {
    let messages = PyList::new(py, messages)?;
    py.import("gpu_interop.log")?.call_method1("_deliver", (messages, lost)).map(drop)
}

/// Delivers messages up to a level of `logging`: 5 is that of driver calls. 0 turns the log off.
#[pyfunction]
pub(crate) fn _set_log(level: u8) -> PyResult<()> {
    let verbosity = match level {
        0 => 0,
        1..=5 => 5,
        6..=10 => 4,
        11..=20 => 3,
        21..=30 => 2,
        31..=40 => 1,
        _ => 0,
    };
    set(verbosity).raised()
}

fn set(verbosity: u8) -> Result<()> {
    static SUBSCRIBED: OnceLock<bool> = OnceLock::new();
    static RUNS: Mutex<bool> = Mutex::new(false);
    let mut runs = lock(&RUNS);
    if verbosity > 0 && !PROCESS.get_or_init(ProcessMark::of_this_process).is_this_process() {
        return Err(Error::new(ErrorKind::System, OPERATION, gpu_interop_core::FORKED));
    }
    if verbosity > 0 && !SUBSCRIBED.get_or_init(|| tracing::subscriber::set_global_default(Log).is_ok()) {
        let message = "the program has a subscriber of `tracing` already; use that";
        return Err(Error::new(ErrorKind::System, OPERATION, message));
    }
    if verbosity > 0 && !*runs {
        let thread = std::thread::Builder::new().name("gpu-interop logging".into());
        thread.spawn(run).map_err(|source| {
            let message = "the process cannot start the thread that delivers messages";
            Error::new(ErrorKind::System, OPERATION, message).with_source(source)
        })?;
        *runs = true;
    }
    LEVEL.store(verbosity, Ordering::Relaxed);
    tracing::callsite::rebuild_interest_cache();
    Ok(())
}

/// Waits until all messages so far are delivered, without the GIL. False after the timeout, or on the thread that delivers.
#[pyfunction]
pub(crate) fn _flush_log(py: Python<'_>, timeout: f64) -> bool {
    if DELIVERS.get() || PROCESS.get().is_some_and(|process| !process.is_this_process()) {
        return false;
    }
    let deadline = Duration::try_from_secs_f64(timeout).ok().and_then(|timeout| Instant::now().checked_add(timeout));
    py.detach(|| {
        let mut queue = lock(&QUEUE);
        while !queue.is_idle() {
            let left = deadline.map_or(Duration::ZERO, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            queue = unpoisoned(CHANGED.wait_timeout(queue, left)).0;
        }
        true
    })
}
