use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use super::*;
use crate::abi::MemoryBufferDesc;

/// Subscriber that records the fields of every event.
#[derive(Debug, Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Fields>>>);

type Fields = BTreeMap<&'static str, String>;

struct FieldVisitor(Fields);

impl Visit for FieldVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.into());
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == DRIVER_CALL
    }

    fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

    fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = FieldVisitor(Fields::new());
        event.record(&mut fields);
        self.0.lock().expect("no panic").push(fields.0);
    }

    fn enter(&self, _span: &span::Id) {}

    fn exit(&self, _span: &span::Id) {}
}

fn record_events(calls: impl FnOnce()) -> Vec<Fields> {
    let recorder = Recorder::default();
    tracing::subscriber::with_default(recorder.clone(), calls);
    std::mem::take(&mut recorder.0.lock().expect("no panic"))
}

unsafe extern "system" fn map(made: *mut u64, memory: usize, _desc: *const MemoryBufferDesc) -> Status {
    // SAFETY: the test's pointer is valid.
    unsafe { made.write(0x7f00_0000_1000) };
    if memory == 5 { Status::SUCCESS } else { Status::INVALID_VALUE }
}

unsafe extern "system" fn ask(_value: *mut c_int, _attribute: c_int, _nowhere: *mut c_void) -> Status {
    Status::SUCCESS
}

type Map = unsafe extern "system" fn(*mut u64, usize, *const MemoryBufferDesc) -> Status;
type Ask = unsafe extern "system" fn(*mut c_int, c_int, *mut c_void) -> Status;

#[test]
fn a_call_emits_an_event_before_and_after() {
    let desc = MemoryBufferDesc::new(0, 4096);
    let call = |memory: usize| {
        let mut made = 0;
        // SAFETY: both pointers are valid.
        let status = unsafe { (map as Map).traced("map", (&raw mut made, memory, &raw const desc)) };
        assert_eq!((status == Status::SUCCESS, made), (memory == 5, 0x7f00_0000_1000));
    };
    let events = record_events(|| {
        call(5);
        call(6);
    });
    let field = |event: usize, name: &str| events[event].get(name).map(String::as_str);
    assert_eq!(events.len(), 4);
    for event in 0..4 {
        assert_eq!(field(event, "function"), Some("map"));
        assert_eq!(field(event, "call"), field(event / 2 * 2, "call"), "a pair has one number");
    }
    assert_ne!(field(0, "call"), field(2, "call"));
    let arguments = field(0, "arguments").expect("arguments");
    assert!(arguments.starts_with("0x") && arguments.ends_with(", 5, {offset 0, size 4096, flags 0}"), "{arguments}");
    assert_eq!((field(1, "code"), field(1, "made")), (Some("0"), Some("0x7f0000001000")));
    // Values written by a failed call are not reported.
    assert_eq!((field(3, "code"), field(3, "made")), (Some("1"), Some("")));
    assert!(field(1, "nanoseconds").is_some() && field(0, "nanoseconds").is_none());
    // A call without a subscriber.
    call(5);
}

#[test]
fn null_pointers_are_shown_and_not_read() {
    let nowhere = (std::ptr::null_mut(), -1, std::ptr::null_mut());
    // SAFETY: the function reads no pointer.
    let events = record_events(|| assert_eq!(unsafe { (ask as Ask).traced("ask", nowhere) }, Status::SUCCESS));
    assert_eq!(events[0]["arguments"], "null, -1, null");
    assert_eq!(events[1]["made"], "");
}
