//! Prepared batches of semaphores.

use std::ptr::NonNull;
use std::sync::Arc;

use super::exported::semaphore_request;
use super::recorder::Call;
use super::{assert_error, assert_invalid, binary, open, timeline};
use crate::backend::{RawSignal, RawWait};
use crate::error::ErrorKind;
use crate::handle::{NvSciSyncObject, SemaphoreHandle};
use crate::object::{ExternalSemaphore, SignalBatch, WaitBatch};
use crate::semaphore_ops::{SignalParams, WaitParams};

const SIGNAL: &str = "Stream::signal_prepared";

#[test]
fn the_backend_gets_the_values_that_were_set_last() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let (one, two) = (binary(&device), timeline(&device));
    let (mut signals, mut waits) =
        (SignalBatch::new([&one, &two]).expect("signals"), WaitBatch::new([&two, &one]).expect("waits"));
    for value in [3, 4, 90] {
        recorder.forget_calls();
        signals.set(1, value).expect("a timeline");
        waits.set(0, value + 1).expect("a timeline");
        stream.signal_prepared(&mut signals).expect("signal");
        stream.wait_prepared(&waits).expect("wait");
        let signal = |semaphore: &ExternalSemaphore, params| RawSignal { semaphore: semaphore.as_raw(), params };
        let wait = |semaphore: &ExternalSemaphore, params| RawWait { semaphore: semaphore.as_raw(), params };
        let expected = [
            Call::SignalSemaphores(
                stream.as_raw(),
                vec![signal(&one, SignalParams::Binary), signal(&two, SignalParams::Value(value))],
            ),
            Call::WaitSemaphores(
                stream.as_raw(),
                vec![wait(&two, WaitParams::Value(value + 1)), wait(&one, WaitParams::Binary)],
            ),
        ];
        assert_eq!(recorder.calls(), expected);
    }
}

/// In order, past binary semaphores, and all or none.
#[test]
fn values_are_set_together() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let (one, two, three) = (timeline(&device), binary(&device), timeline(&device));
    let params = |calls: Vec<Call>| -> Vec<SignalParams> {
        let signals = |call| if let Call::SignalSemaphores(_, signals) = call { signals } else { Vec::new() };
        calls.into_iter().flat_map(signals).map(|signal| signal.params).collect()
    };
    let mut mixed = SignalBatch::new([&one, &two, &three]).expect("signals");
    mixed.set_all(&[5, 6]).expect("two timelines");
    for values in [&[][..], &[7], &[7, 8, 9]] {
        assert_invalid(&recorder, "SignalBatch::set_all", &["each of its timelines", "timelines: 2"], || {
            mixed.set_all(values)
        });
    }
    stream.signal_prepared(&mut mixed).expect("signal");
    assert_eq!(params(recorder.calls()), [SignalParams::Value(5), SignalParams::Binary, SignalParams::Value(6)]);
    recorder.forget_calls();
    let mut timelines = SignalBatch::new([&one, &three]).expect("signals");
    timelines.set_all(&[10, 11]).expect("two timelines");
    stream.signal_prepared(&mut timelines).expect("signal");
    assert_eq!(params(recorder.calls()), [SignalParams::Value(10), SignalParams::Value(11)]);
    let mut waits = WaitBatch::new([&two, &three]).expect("waits");
    waits.set_all(&[3]).expect("a timeline");
    assert_invalid(&recorder, "WaitBatch::set_all", &["values: 2"], || waits.set_all(&[3, 4]));
}

/// A value that does not increase is rejected, and the values of the semaphores before it are restored.
#[test]
fn timeline_values_increase_across_both_kinds_of_batches() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let (one, two) = (timeline(&device), timeline(&device));
    let mut batch = SignalBatch::new([&one, &two]).expect("signals");
    assert_invalid(&recorder, SIGNAL, &["only grows", "value: 0"], || stream.signal_prepared(&mut batch));
    batch.set(0, 5).expect("a timeline");
    stream.signal(&[two.signal_value(7)]).expect("signal");
    batch.set(1, 7).expect("a timeline");
    assert_invalid(&recorder, SIGNAL, &["already signalled: 7"], || stream.signal_prepared(&mut batch));
    batch.set(1, 3).expect("a timeline");
    assert_invalid(&recorder, SIGNAL, &["already signalled: 7"], || stream.signal_prepared(&mut batch));
    stream.signal(&[one.signal_value(1)]).expect("the value of the failed batch was not kept");
    stream.signal(&[two.signal_value(6)]).expect_err("nor the smaller one");
    batch.set(1, 8).expect("a timeline");
    recorder.fail_next("SignalSemaphores", ErrorKind::Driver);
    let failed = stream.signal_prepared(&mut batch).expect_err("the driver's error");
    assert_eq!(failed.kind(), ErrorKind::Driver);
    stream.signal(&[one.signal_value(2)]).expect("a value that the driver refused was not kept");
    stream.signal_prepared(&mut batch).expect("signal");
    assert_invalid(&recorder, SIGNAL, &["already signalled: 5"], || stream.signal_prepared(&mut batch));
}

/// The values of a semaphore that is in a batch twice grow in order, and are restored in reverse order.
#[test]
fn a_semaphore_may_be_in_a_batch_twice() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let one = timeline(&device);
    let mut batch = SignalBatch::new([&one, &one]).expect("signals");
    batch.set_all(&[10, 11]).expect("two values");
    stream.signal_prepared(&mut batch).expect("signal");
    batch.set_all(&[20, 15]).expect("two values");
    assert_invalid(&recorder, SIGNAL, &["already signalled: 20"], || stream.signal_prepared(&mut batch));
    stream.signal(&[one.signal_value(12)]).expect("neither value was kept");
}

#[test]
fn invalid_batches_are_rejected() {
    let (recorder, device) = open();
    let (_, other) = open();
    let (one, two, foreign) = (binary(&device), timeline(&device), timeline(&other));
    // SAFETY: the object is never dereferenced.
    let sync = unsafe { NvSciSyncObject::from_raw(NonNull::dangling()) };
    let sync = device.import_semaphore(semaphore_request(SemaphoreHandle::NvSciSync(sync))).expect("import");
    let empty = SignalBatch::<&ExternalSemaphore>::new([]).map(drop).expect_err("no semaphores");
    assert_eq!(empty.kind(), ErrorKind::InvalidArgument);
    assert!(empty.message().contains("empty"), "{empty}");
    assert_invalid(&recorder, "SignalBatch::new", &["one device", "index: 1"], || SignalBatch::new([&two, &foreign]));
    assert_invalid(&recorder, "WaitBatch::new", &["one device", "index: 1"], || WaitBatch::new([&two, &foreign]));
    assert_invalid(&recorder, "WaitBatch::new", &["timelines only", "index: 2"], || {
        WaitBatch::new([&two, &one, &sync])
    });
    let (mut signals, mut waits) =
        (SignalBatch::new([&one, &two]).expect("signals"), WaitBatch::new([&one, &two]).expect("waits"));
    for index in [0, 2, usize::MAX] {
        assert_invalid(&recorder, "SignalBatch::set", &["no timeline", "index"], || signals.set(index, 1));
        assert_invalid(&recorder, "WaitBatch::set", &["no timeline", "index"], || waits.set(index, 1));
    }
    let stream = other.create_stream().expect("stream");
    signals.set(1, 1).expect("a timeline");
    for (operation, failed) in
        [(SIGNAL, stream.signal_prepared(&mut signals)), ("Stream::wait_prepared", stream.wait_prepared(&waits))]
    {
        let error = failed.expect_err("another device");
        assert_error(&error, ErrorKind::InvalidArgument, operation, &["another device"]);
    }
}

/// A batch that shares its semaphores keeps them.
#[test]
fn shared_semaphores_live_as_long_as_the_batch() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let semaphore = Arc::new(timeline(&device));
    let mut batch = SignalBatch::new([semaphore.clone()]).expect("signals");
    let raw = semaphore.as_raw();
    drop(semaphore);
    batch.set(0, 1).expect("a timeline");
    stream.signal_prepared(&mut batch).expect("signal");
    let destroyed = || recorder.calls().contains(&Call::DestroySemaphore(raw));
    assert!(!destroyed());
    drop(batch);
    device.collect();
    assert!(destroyed());
}
