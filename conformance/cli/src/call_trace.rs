//! Traces driver calls in a file that outlives the calling process.
//!
//! The scenario's process writes each call to an unnamed file that its parent shares, before the call and
//! after it. After a crash the parent reads the newest calls, and which of them did not return.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write;
use std::fs::File;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use gpu_interop::sync::lock;
use gpu_interop_conformance::system::{BorrowedOsHandle, OsHandle, nameless_file};
use gpu_interop_conformance::{Verdict, system};
use gpu_interop_driver::DRIVER_CALL;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The number of slots in the file: calls that are kept.
const SLOTS: usize = 200;
/// Size of a slot, bytes. Unused bytes are 0.
const SLOT_SIZE: usize = 1024;
/// Maximum length of a text in a call, so that the call fits into its slot.
const MAX_TEXT: usize = 300;

/// Functions that only make a device current around each call: kept while they run, and if they fail.
const CONTEXT_SWITCHES: [&str; 3] = ["cuCtxPushCurrent", "cuCtxPopCurrent", "hipSetDevice"];

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Slot {
    /// The index of the scenario in its process, from 0.
    scenario: usize,
    /// The number of calls before that scenario.
    before: u64,
    call: Call,
}

/// The file of calls.
#[derive(Debug)]
pub(crate) struct CallFile(File);

impl CallFile {
    pub(crate) fn new() -> Verdict<Self> {
        let file = nameless_file("conformance calls")?;
        file.set_len((SLOTS * SLOT_SIZE) as u64)?;
        Ok(Self(file))
    }

    pub(crate) fn duplicate(&self) -> Verdict<Self> {
        Ok(Self(self.0.try_clone()?))
    }

    /// The handle to send to another process.
    pub(crate) fn handle(&self) -> BorrowedOsHandle<'_> {
        system::borrow(&self.0)
    }

    /// The newest calls since the start of a scenario, in order.
    pub(crate) fn trace(&self, scenario: usize) -> Verdict<CallTrace> {
        let mut bytes = vec![0; SLOTS * SLOT_SIZE];
        system::read_at(&self.0, &mut bytes, 0)?;
        // A half-written slot of a killed process is skipped.
        let read = |slot: &[u8]| serde_json::from_slice::<Slot>(slot.split(|byte| *byte == 0).next()?).ok();
        let mut kept: Vec<Slot> =
            bytes.chunks(SLOT_SIZE).filter_map(read).filter(|kept| kept.scenario >= scenario).collect();
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

/// The recording of this process, if any.
static RECORDING: Mutex<Option<Recording>> = Mutex::new(None);

fn recording() -> MutexGuard<'static, Option<Recording>> {
    lock(&RECORDING)
}

/// Starts to write this process's calls to a file.
pub(crate) fn record_to(file: CallFile) {
    *recording() = Some(Recording::new(file));
}

/// Marks the start of the next scenario.
pub(crate) fn next_scenario() {
    if let Some(recording) = &mut *recording() {
        recording.scenario += 1;
        recording.before = recording.count;
        recording.start = Instant::now();
    }
}

/// Stops recording: later calls belong to no scenario.
pub(crate) fn stop() {
    *recording() = None;
}

#[derive(Debug)]
struct Recording {
    file: CallFile,
    /// Calls that have not returned, by the number in their events, with their slots, which are not reused.
    running: HashMap<u64, (usize, Slot)>,
    next: usize,
    count: u64,
    before: u64,
    scenario: usize,
    start: Instant,
}

impl Recording {
    fn new(file: CallFile) -> Self {
        Self { file, running: HashMap::new(), next: 0, count: 0, before: 0, scenario: 0, start: Instant::now() }
    }

    fn begins(&mut self, event: Fields) {
        self.count += 1;
        // None if all slots have running calls.
        let is_free = |slot: &usize| !self.running.values().any(|(running, _)| running == slot);
        let Some(slot) = (0..SLOTS).map(|step| (self.next + step) % SLOTS).find(is_free) else { return };
        self.next = (slot + 1) % SLOTS;
        let call = Call {
            number: self.count,
            thread: system::thread_id(),
            function: event.function,
            arguments: event.arguments,
            began_us: u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX),
            returned: None,
        };
        let kept = Slot { scenario: self.scenario, before: self.before, call };
        self.write(slot, &kept);
        self.running.insert(event.call, (slot, kept));
    }

    fn returns(&mut self, event: Fields, code: u64) {
        let Some((slot, mut kept)) = self.running.remove(&event.call) else { return };
        if code == 0 && CONTEXT_SWITCHES.contains(&kept.call.function.as_str()) {
            let _ = system::write_at(&self.file.0, &[0; SLOT_SIZE], (slot * SLOT_SIZE) as u64);
            if self.next == (slot + 1) % SLOTS {
                self.next = slot;
            }
            return;
        }
        let code = u32::try_from(code).unwrap_or(u32::MAX);
        kept.call.returned = Some(Returned { code, made: event.made, duration_ns: event.nanoseconds });
        self.write(slot, &kept);
    }

    /// Write errors are ignored: tracing is best effort.
    fn write(&self, slot: usize, kept: &Slot) {
        let mut bytes = serde_json::to_vec(kept).unwrap_or_default();
        if bytes.len() < SLOT_SIZE {
            bytes.resize(SLOT_SIZE, 0);
            let _ = system::write_at(&self.file.0, &bytes, (slot * SLOT_SIZE) as u64);
        }
    }
}

/// The `tracing` layer that [`record_to`] needs.
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

/// The fields of a [`DRIVER_CALL`] event.
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
            self.function = value.chars().take(MAX_TEXT / 4).collect();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let text = match field.name() {
            "arguments" => &mut self.arguments,
            "made" => &mut self.made,
            _ => return,
        };
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{value:?}");
        // The text has numbers only, so it is ASCII.
        if text.len() > MAX_TEXT {
            *text = text.chars().take(MAX_TEXT).chain(" [...]".chars()).collect();
        }
    }
}

/// The newest driver calls of a scenario. Only the library's calls: neither those of an
/// exporter nor those of the scenario's other processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTrace {
    /// The number of calls that are not listed: older ones, and those that only make a device current.
    pub left_out: u64,
    /// The calls in the order of their start. Empty for a backend without a driver.
    pub newest: Vec<Call>,
}

/// A driver call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Call {
    /// The call's number in its process, from 1.
    pub number: u64,
    /// The calling thread's id.
    pub thread: i32,
    /// The function's name in the vendor's documentation.
    pub function: String,
    /// The arguments: pointers and 64-bit values in hexadecimal, others in decimal, the contents of descriptors and
    /// batches.
    pub arguments: String,
    /// The start of the call, microseconds after that of the scenario.
    pub began_us: u64,
    /// The result; absent if the call did not return before the scenario's end: it crashed or was still blocked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub returned: Option<Returned>,
}

/// The result of a driver call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Returned {
    /// The code: a `CUresult` or `hipError_t`.
    pub code: u32,
    /// Output values: handles, addresses, numbers.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub made: String,
    /// The call's duration, nanoseconds.
    pub duration_ns: u64,
}

impl CallTrace {
    /// The trace as text: a heading, and one line a call.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let first = match (self.left_out, self.newest.len()) {
            (0, 0) => "no function of a driver was called".into(),
            (0, count) => format!("the {count} driver calls, with microseconds and thread:"),
            (left_out, count) => {
                format!(
                    "the newest {count} driver calls ({left_out} left out: older ones, and those that make a device current), with microseconds and thread:"
                )
            }
        };
        std::iter::once(first).chain(self.newest.iter().map(ToString::to_string))
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, thread, function, arguments, began_us, returned } = self;
        write!(f, "{number:>6} {began_us:>9} {thread:>7} {function}({arguments})")?;
        match returned {
            None => f.write_str(" DID NOT RETURN"),
            Some(Returned { code, made, duration_ns }) => {
                write!(f, " = {code}")?;
                if !made.is_empty() {
                    write!(f, " -> {made}")?;
                }
                write!(f, " ({:.1?})", Duration::from_nanos(*duration_ns))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(recording: &mut Recording, call: u64) {
        let arguments = format!("{call}, {}", "0x7fffffffffff, ".repeat(64).chars().take(MAX_TEXT).collect::<String>());
        recording.begins(Fields { call, function: "f".repeat(75), arguments, ..Fields::default() });
    }

    fn returns(recording: &mut Recording, call: u64) {
        recording
            .returns(Fields { call, made: "0x7fffffffffff".into(), nanoseconds: u64::MAX, ..Fields::default() }, 700);
    }

    /// A recording of this test only; [`RECORDING`] is shared by the process.
    fn new() -> Recording {
        Recording::new(CallFile::new().expect("a file"))
    }

    #[test]
    fn the_newest_are_kept_and_the_rest_is_counted() {
        let mut recording = new();
        for call in 0..(SLOTS as u64) + 50 {
            begins(&mut recording, call);
            returns(&mut recording, call);
        }
        let trace = recording.file.trace(0).expect("readable");
        assert_eq!((trace.left_out, trace.newest.len()), (50, SLOTS));
        assert!(trace.newest.iter().map(|call| call.number).eq(51..=250));
        assert!(trace.newest.iter().all(|call| call.returned.as_ref().is_some_and(|returned| returned.code == 700)));
    }

    #[test]
    fn a_call_that_runs_stays_however_many_come_after_it() {
        let mut recording = new();
        begins(&mut recording, 7);
        for call in 100..1100 {
            begins(&mut recording, call);
            returns(&mut recording, call);
        }
        let trace = recording.file.trace(0).expect("readable");
        assert_eq!((trace.left_out, trace.newest.len()), (1001 - SLOTS as u64, SLOTS));
        let running: Vec<u64> =
            trace.newest.iter().filter(|call| call.returned.is_none()).map(|call| call.number).collect();
        assert_eq!(running, [1]);
        // More calls run at once than the file has slots.
        for call in 2000..2500 {
            begins(&mut recording, call);
        }
        let trace = recording.file.trace(0).expect("readable");
        assert!(trace.newest.iter().all(|call| call.returned.is_none()) && trace.newest.len() == SLOTS);
    }

    #[test]
    fn what_makes_a_device_current_takes_no_place_unless_it_fails() {
        let mut recording = new();
        let fields = |call| Fields { call, function: CONTEXT_SWITCHES[0].into(), ..Fields::default() };
        for call in 0..1000 {
            recording.begins(fields(2 * call));
            recording.returns(fields(2 * call), 0);
            begins(&mut recording, 2 * call + 1);
            returns(&mut recording, 2 * call + 1);
        }
        recording.begins(fields(3000));
        recording.returns(fields(3000), 4);
        recording.begins(fields(3001));
        let trace = recording.file.trace(0).expect("readable");
        assert_eq!((trace.left_out, trace.newest.len()), (2002 - SLOTS as u64, SLOTS));
        let numbers = (1605..2000).step_by(2).map(|number| number + 1).chain([2001, 2002]);
        assert!(trace.newest.iter().map(|call| call.number).eq(numbers), "{trace:?}");
        assert!(trace.newest[SLOTS - 1].returned.is_none());
    }

    #[test]
    fn calls_are_those_of_one_scenario_and_what_comes_after() {
        let mut recording = new();
        for (scenario, call) in [(0, 1), (0, 2), (1, 3), (2, 4)] {
            if scenario > recording.scenario {
                (recording.scenario, recording.before) = (scenario, recording.count);
            }
            begins(&mut recording, call);
        }
        let numbers = |scenario| {
            let trace = recording.file.trace(scenario).expect("readable");
            assert_eq!(trace.left_out, 0);
            trace.newest.iter().map(|call| call.number).collect::<Vec<_>>()
        };
        assert_eq!([0, 1, 2, 3].map(numbers), [vec![1, 2, 3, 4], vec![3, 4], vec![4], vec![]]);
    }
}
