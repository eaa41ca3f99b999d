//! A trace of driver calls that outlives the process that makes them.
//!
//! The process that runs scenarios writes each call to a nameless file that its parent holds too: before the call, and
//! again after it. Whatever ends that process, the parent reads the newest calls, and which of them never returned.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gpu_interop_driver::DRIVER_CALL;
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::report::{Call, CallTrace, Returned};
use gpu_interop_conformance::Verdict;
use gpu_interop_conformance::system::{self, BorrowedOsHandle, OsHandle, nameless_file};

/// How many calls are kept.
const KEPT: usize = 200;
/// Bytes of a place in the file. What is not used is 0.
const PLACE: usize = 1024;
/// The most bytes of what a call has as text, so that it fits into its place.
const TEXT: usize = 300;

/// What surrounds every call on a thread that has another device current, or none: kept only while it runs, and if it fails.
const ROUTINE: [&str; 3] = ["cuCtxPushCurrent", "cuCtxPopCurrent", "hipSetDevice"];

/// A call in its place.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    /// Which of the process's scenarios made it, from 0.
    scenario: usize,
    /// How many calls there were before that scenario.
    before: u64,
    call: Call,
}

/// The file.
#[derive(Debug)]
pub(crate) struct CallFile(File);

impl CallFile {
    pub(crate) fn new() -> Verdict<Self> {
        let file = nameless_file("conformance calls")?;
        file.set_len((KEPT * PLACE) as u64)?;
        Ok(Self(file))
    }

    pub(crate) fn duplicate(&self) -> Verdict<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// What another process is sent.
    pub(crate) fn handle(&self) -> BorrowedOsHandle<'_> {
        system::borrow(&self.0)
    }

    /// What a scenario, or whatever came after it, called: the newest, in order.
    pub(crate) fn trace(&self, scenario: usize) -> Verdict<CallTrace> {
        let mut bytes = vec![0; KEPT * PLACE];
        system::read_at(&self.0, &mut bytes, 0)?;
        // A place that was being written when the process was killed is none.
        let read = |place: &[u8]| serde_json::from_slice::<Kept>(place.split(|byte| *byte == 0).next()?).ok();
        let mut kept: Vec<Kept> =
            bytes.chunks(PLACE).filter_map(read).filter(|kept| kept.scenario >= scenario).collect();
        kept.sort_by_key(|kept| kept.call.number);
        let before = kept.iter().map(|kept| kept.before).min().unwrap_or(0);
        let last = kept.last().map_or(before, |kept| kept.call.number);
        let newest: Vec<Call> = kept.into_iter().map(|kept| kept.call).collect();
        Ok(CallTrace { left_out: (last - before).saturating_sub(newest.len() as u64), newest })
    }
}

impl From<OsHandle> for CallFile {
    fn from(file: OsHandle) -> Self {
        Self(file.into())
    }
}

/// This process's recording, if it records.
static RECORDING: Mutex<Option<Recording>> = Mutex::new(None);

fn recording() -> MutexGuard<'static, Option<Recording>> {
    RECORDING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes this process's calls to a file from now on.
pub(crate) fn record_to(file: CallFile) {
    *recording() = Some(Recording::new(file));
}

/// The next call is the next scenario's.
pub(crate) fn next_scenario() {
    if let Some(recording) = &mut *recording() {
        recording.scenario += 1;
        recording.before = recording.count;
        recording.start = Instant::now();
    }
}

/// Keeps what there is: calls from now on are no part of any scenario.
pub(crate) fn stop() {
    *recording() = None;
}

#[derive(Debug)]
struct Recording {
    file: CallFile,
    /// Calls that have not returned, by the number that their events have.
    running: HashMap<u64, (usize, Kept)>,
    /// Which places are those of running calls: they stay, however many others come after them.
    places: Places,
    next: usize,
    count: u64,
    before: u64,
    scenario: usize,
    start: Instant,
}

#[derive(Debug)]
struct Places([bool; KEPT]);

impl Default for Places {
    fn default() -> Self {
        Self([false; KEPT])
    }
}

impl Recording {
    fn new(file: CallFile) -> Self {
        let (places, next, count, before) = Default::default();
        Self { file, running: HashMap::new(), places, next, count, before, scenario: 0, start: Instant::now() }
    }

    fn begins(&mut self, event: Fields) {
        self.count += 1;
        // Nowhere, if as many calls are running.
        let Some(place) = (0..KEPT).map(|step| (self.next + step) % KEPT).find(|place| !self.places.0[*place]) else {
            return;
        };
        self.next = (place + 1) % KEPT;
        self.places.0[place] = true;
        let call = Call {
            number: self.count,
            thread: system::thread_id(),
            function: event.function,
            arguments: event.arguments,
            began_us: u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX),
            returned: None,
        };
        let kept = Kept { scenario: self.scenario, before: self.before, call };
        self.write(place, &kept);
        self.running.insert(event.call, (place, kept));
    }

    fn returns(&mut self, event: Fields, code: u64) {
        let Some((place, mut kept)) = self.running.remove(&event.call) else { return };
        self.places.0[place] = false;
        if code == 0 && ROUTINE.contains(&kept.call.function.as_str()) {
            let _ = system::write_at(&self.file.0, &[0; PLACE], (place * PLACE) as u64);
            if self.next == (place + 1) % KEPT {
                self.next = place;
            }
            return;
        }
        let code = u32::try_from(code).unwrap_or(u32::MAX);
        kept.call.returned = Some(Returned { code, made: event.made, duration_ns: event.nanoseconds });
        self.write(place, &kept);
    }

    /// A call that cannot be written is missing in a trace: no reason to fail a scenario.
    fn write(&self, place: usize, kept: &Kept) {
        let mut bytes = serde_json::to_vec(kept).unwrap_or_default();
        if bytes.len() < PLACE {
            bytes.resize(PLACE, 0);
            let _ = system::write_at(&self.file.0, &bytes, (place * PLACE) as u64);
        }
    }
}

/// What a subscriber needs so that [`record_to`] has an effect.
pub(crate) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    Recorder.with_filter(Targets::new().with_target(DRIVER_CALL, Level::TRACE))
}

struct Recorder;

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let Some(recording) = &mut *recording() {
            match fields.code {
                None => recording.begins(fields),
                Some(code) => recording.returns(fields, code),
            }
        }
    }
}

/// The fields of [`DRIVER_CALL`]'s events.
#[derive(Debug, Default)]
struct Fields {
    call: u64,
    function: String,
    arguments: String,
    code: Option<u64>,
    made: String,
    nanoseconds: u64,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "call" => self.call = value,
            "code" => self.code = Some(value),
            "nanoseconds" => self.nanoseconds = value,
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "function" {
            self.function = value.chars().take(TEXT / 4).collect();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let text = match field.name() {
            "arguments" => &mut self.arguments,
            "made" => &mut self.made,
            _ => return,
        };
        // Writing to a String does not fail.
        let _ = write!(text, "{value:?}");
        // The text is of numbers, and ASCII.
        if text.len() > TEXT {
            *text = text.chars().take(TEXT).chain(" [...]".chars()).collect();
        }
    }
}

#[cfg(test)]
mod tests;
