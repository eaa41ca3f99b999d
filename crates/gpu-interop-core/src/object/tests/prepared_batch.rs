//! Prepared batches of semaphores.

use std::ptr::NonNull;
use std::sync::Arc;

use proptest::prelude::*;

use super::exported::semaphore_request;
use super::recorder::Call;
use super::{assert_error, assert_invalid, binary, open, timeline};
use crate::backend::{RawSignal, RawWait};
use crate::error::{ErrorKind, Result};
use crate::handle::{NvSciSyncObject, SemaphoreHandle, SemaphorePayload};
use crate::object::{ExternalSemaphore, SignalBatch, Stream, WaitBatch};
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

/// All timelines, past binary semaphores.
#[test]
fn one_value_is_set_for_all() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let (one, two, three) = (timeline(&device), binary(&device), timeline(&device));
    let (mut mixed, mut plain) =
        (SignalBatch::new([&one, &two, &three]).expect("signals"), WaitBatch::new([&one, &three]).expect("waits"));
    let mut binaries = SignalBatch::new([&two]).expect("signals");
    for value in 1..6 {
        recorder.forget_calls();
        mixed.fill(value);
        plain.fill(value);
        binaries.fill(1);
        stream.signal_prepared(&mut mixed).expect("signal");
        stream.wait_prepared(&plain).expect("wait");
        stream.signal_prepared(&mut binaries).expect("a binary semaphore has no value");
        let [Call::SignalSemaphores(_, signals), Call::WaitSemaphores(_, waits), Call::SignalSemaphores(..)] =
            &recorder.calls()[..]
        else {
            panic!("{:?}", recorder.calls());
        };
        let params: Vec<_> = signals.iter().map(|signal| signal.params).collect();
        assert_eq!(params, [SignalParams::Value(value), SignalParams::Binary, SignalParams::Value(value)]);
        assert!(waits.iter().all(|wait| wait.params == WaitParams::Value(value)), "{waits:?}");
    }
    stream.signal(&[one.signal_value(5)]).expect_err("signalled already");
    stream.signal(&[three.signal_value(6)]).expect("a greater value");
    mixed.fill(6);
    assert_invalid(&recorder, SIGNAL, &["already signalled: 6"], || stream.signal_prepared(&mut mixed));
    stream.signal(&[one.signal_value(6)]).expect("nothing of the rejected batch was kept");
}

/// Signals of four timelines: by prepared batches, one of which has a timeline twice and one a single timeline, by plain
/// batches, and by graphs, some of which fail in the driver. The values that are accepted are those greater than the last ones.
#[test]
fn values_are_compared_with_the_last_ones_of_all_kinds_of_signals() {
    let op = (0_u8..12, 0_usize..12, 1_u64..4, proptest::bool::weighted(0.1));
    proptest!(|(ops in prop::collection::vec(op, 1..120))| {
        let (recorder, device) = open();
        let stream = device.create_stream().expect("stream");
        let all: [_; 4] = std::array::from_fn(|_| timeline(&device));
        let places = [&[0, 1][..], &[1, 2, 3], &[0, 0, 3], &[2]];
        let prepare = |places: &[usize]| SignalBatch::new(places.iter().map(|place| &all[*place])).expect("signals");
        let mut batches = places.map(prepare);
        let mut last = [0_u64; 4];
        for (kind, which, step, fails) in ops {
            let (place, of_batch) = (which % 4, places[which % places.len()]);
            // Mostly greater than all; sometimes not.
            let highest = last.iter().max().copied().unwrap_or(0);
            let value = if step == 3 { highest } else { highest + step };
            let changed: Vec<(usize, u64)> = match kind {
                0..4 => of_batch.iter().map(|place| (*place, value)).collect(),
                4..7 => of_batch.iter().copied().zip(value..).collect(),
                7 => vec![(place, value), ((place + 1) % 4, value)],
                8 | 9 => vec![(place, value)],
                10 => of_batch.iter().map(|place| (*place, value)).collect(),
                _ => {
                    batches[which % places.len()] = prepare(of_batch);
                    continue;
                }
            };
            let mut next = last;
            let grows = changed.iter().all(|(place, value)| *value > std::mem::replace(&mut next[*place], *value));
            if grows && fails {
                recorder.fail_next(if kind == 9 { "LaunchGraph" } else { "SignalSemaphores" }, ErrorKind::Driver);
            }
            let batch = &mut batches[which % places.len()];
            let signals: Vec<_> = changed.iter().map(|(place, value)| all[*place].signal_value(*value)).collect();
            let enqueued = match kind {
                0..4 => {
                    batch.fill(value);
                    stream.signal_prepared(batch)
                }
                4..7 => {
                    let values: Vec<u64> = changed.iter().map(|(_, value)| *value).collect();
                    batch.set_all(&values).expect("a value for each");
                    stream.signal_prepared(batch)
                }
                7 | 8 => stream.signal(&signals),
                10 => {
                    (0..of_batch.len()).for_each(|index| batch.set(index, value).expect("a timeline"));
                    stream.signal_prepared(batch)
                }
                _ => device.record(|stream| stream.signal(&signals)).expect("record").launch(&stream),
            };
            let expected = match (grows, fails) {
                (false, _) => Err(ErrorKind::InvalidArgument),
                (true, true) => Err(ErrorKind::Driver),
                (true, false) => Ok(()),
            };
            prop_assert_eq!(enqueued.map_err(|error| error.kind()), expected, "{:?} after {:?}", changed, last);
            if expected.is_ok() {
                last = next;
            }
        }
        for (semaphore, last) in all.iter().zip(last) {
            prop_assert!(stream.signal(&[semaphore.signal_value(last)]).is_err());
            prop_assert!(stream.signal(&[semaphore.signal_value(last + 1)]).is_ok());
        }
    });
}

/// The values of a batch's timelines are one while only it signals them, also the greatest value of all.
#[test]
fn one_value_is_compared_once() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let (one, two) = (timeline(&device), timeline(&device));
    let mut batch = SignalBatch::new([&one, &two]).expect("signals");
    let mut found = Vec::new();
    for value in [1, 2, 3] {
        batch.fill(value);
        stream.signal_prepared(&mut batch).expect("signal");
        found.push(batch.holds()[0]);
    }
    stream.signal(&[two.signal_value(4)]).expect("signal");
    found.push(batch.holds()[0]);
    for value in [5, 6, u64::MAX] {
        batch.fill(value);
        stream.signal_prepared(&mut batch).expect("signal");
        found.push(batch.holds()[0]);
    }
    assert_eq!(found, [false, true, true, false, false, true, true]);
    for value in [7, u64::MAX] {
        batch.fill(value);
        assert_invalid(&recorder, SIGNAL, &["only grows"], || stream.signal_prepared(&mut batch));
        stream.signal(&[one.signal_value(value)]).expect_err("the greatest value was signalled");
    }
    assert!(!batch.holds()[0]);
    drop(batch);
    stream.signal(&[two.signal_value(8)]).expect_err("the value stays without its batch");
}

/// A batch holds the values of its timelines while only it signals them, one for all or of each, and gives them back.
#[test]
fn different_values_are_compared_in_the_batch() {
    const ONE: [bool; 2] = [true, false];
    const EACH: [bool; 2] = [false, true];
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let (one, before, two) = (timeline(&device), binary(&device), timeline(&device));
    let mut batch = SignalBatch::new([&one, &before, &two]).expect("signals");
    let mut signal = |values: [u64; 2], fails: bool| {
        if values[0] == values[1] {
            batch.fill(values[0])
        } else {
            batch.set_all(&values).expect("two values")
        }
        if fails {
            recorder.fail_next("SignalSemaphores", ErrorKind::Driver);
        }
        (stream.signal_prepared(&mut batch).map_err(|error| error.kind()), batch.holds())
    };
    let (rejected, failed) = (Err(ErrorKind::InvalidArgument), Err(ErrorKind::Driver));
    assert_eq!(signal([1, 2], false), (Ok(()), [false; 2]));
    assert_eq!(signal([2, 4], false), (Ok(()), EACH));
    for wrong in [[2, 5], [3, 4], [4, 4], [1, 3]] {
        assert_eq!(signal(wrong, false), (rejected, EACH), "{wrong:?}");
    }
    assert_eq!(signal([3, 5], true), (failed, EACH));
    assert_eq!(signal([3, 5], false), (Ok(()), EACH), "a failed signal can be repeated");
    assert_eq!(signal([9, 9], true), (failed, EACH));
    assert_eq!(signal([6, 6], false), (Ok(()), ONE));
    assert_eq!(signal([7, 7], false), (Ok(()), ONE));
    for wrong in [[7, 7], [7, 8], [8, 7]] {
        assert_eq!(signal(wrong, false).0, rejected, "{wrong:?}");
    }
    assert_eq!(signal([9, 8], false), (Ok(()), EACH));
    stream.signal(&[two.signal_value(8)]).expect_err("signalled by the batch");
    stream.signal(&[two.signal_value(9)]).expect("a greater value");
    stream.signal(&[one.signal_value(9)]).expect_err("signalled by the batch");
    assert_eq!(signal([10, 9], false), (rejected, [false; 2]));
    assert_eq!(signal([10, 11], false), (Ok(()), [false; 2]));
    assert_eq!(signal([11, 12], false), (Ok(()), EACH));
    drop(batch);
    stream.signal(&[one.signal_value(11)]).expect_err("the value stays without its batch");
    stream.signal(&[one.signal_value(12)]).expect("a greater value");
}

/// A batch with one timeline needs no `fill` to have a common value, also beside a binary semaphore.
#[test]
fn the_value_of_the_only_timeline_is_compared_once() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let (before, one) = (binary(&device), timeline(&device));
    let mut batch = SignalBatch::new([&before, &one]).expect("signals");
    let mut found = Vec::new();
    for value in [1, 2, 3] {
        batch.set(1, value).expect("a timeline");
        stream.signal_prepared(&mut batch).expect("signal");
        found.push(batch.holds()[0]);
    }
    stream.signal(&[one.signal_value(4)]).expect("signal");
    found.push(batch.holds()[0]);
    for value in [5, 6, 7] {
        assert_invalid(&recorder, SIGNAL, &["only grows"], || stream.signal_prepared(&mut batch));
        batch.set_all(&[value]).expect("one timeline");
        if value == 7 {
            recorder.fail_next("SignalSemaphores", ErrorKind::Driver);
            stream.signal_prepared(&mut batch).expect_err("the driver failed");
        }
        stream.signal_prepared(&mut batch).expect("a failed signal can be repeated");
        found.push(batch.holds()[0]);
    }
    assert_eq!(found, [false, true, true, false, false, true, true]);
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
    stream.signal(&[one.signal_value(2)]).expect("a value that failed in the driver was not kept");
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
    // As if only the batch signalled it: each value is compared with the one at its place before.
    for (values, accepted) in [([12, 13], false), ([13, 14], true), ([14, 15], false), ([15, 14], false)] {
        batch.set_all(&values).expect("two values");
        assert_eq!(stream.signal_prepared(&mut batch).is_ok(), accepted, "{values:?}");
    }
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

/// How an operation is passed to the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Prepared,
}

impl Form {
    pub(super) const BOTH: [Self; 2] = [Self::Plain, Self::Prepared];

    /// Name of the operation in errors.
    pub(super) fn signal_name(self) -> &'static str {
        if self == Self::Plain { "Stream::signal" } else { "Stream::signal_prepared" }
    }

    /// As [`Form::signal_name`].
    pub(super) fn wait_name(self) -> &'static str {
        if self == Self::Plain { "Stream::wait" } else { "Stream::wait_prepared" }
    }

    /// Signals semaphores; the values of binary ones are unused.
    pub(super) fn signal(self, stream: &Stream, signals: &[(&ExternalSemaphore, u64)]) -> Result<()> {
        if self == Self::Plain {
            let plain = signals.iter().map(|(semaphore, value)| {
                if is_timeline(semaphore) { semaphore.signal_value(*value) } else { semaphore.signal() }
            });
            return stream.signal(&plain.collect::<Vec<_>>());
        }
        let mut batch = SignalBatch::new(signals.iter().map(|(semaphore, _)| *semaphore))?;
        timelines(signals).try_for_each(|(index, value)| batch.set(index, value))?;
        stream.signal_prepared(&mut batch)
    }

    /// Waits for semaphores, as [`Form::signal`].
    pub(super) fn wait(self, stream: &Stream, waits: &[(&ExternalSemaphore, u64)]) -> Result<()> {
        if self == Self::Plain {
            let plain =
                waits.iter().map(
                    |(semaphore, value)| {
                        if is_timeline(semaphore) { semaphore.wait_value(*value) } else { semaphore.wait() }
                    },
                );
            return stream.wait(&plain.collect::<Vec<_>>());
        }
        let mut batch = WaitBatch::new(waits.iter().map(|(semaphore, _)| *semaphore))?;
        timelines(waits).try_for_each(|(index, value)| batch.set(index, value))?;
        stream.wait_prepared(&batch)
    }
}

fn is_timeline(semaphore: &ExternalSemaphore) -> bool {
    semaphore.handle_kind().payload() == SemaphorePayload::Timeline
}

/// Index and value of each timeline.
fn timelines(operations: &[(&ExternalSemaphore, u64)]) -> impl Iterator<Item = (usize, u64)> {
    let timeline = |(index, (semaphore, value)): (usize, &(&ExternalSemaphore, u64))| {
        is_timeline(semaphore).then_some((index, *value))
    };
    operations.iter().enumerate().filter_map(timeline).collect::<Vec<_>>().into_iter()
}
