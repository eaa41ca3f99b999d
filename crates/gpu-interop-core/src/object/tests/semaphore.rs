//! Signals and waits: batches, parameters and timeline values.

use super::exported::semaphore_request;
use std::ptr::NonNull;
use std::time::Duration;

use super::prepared_batch::Form;
use super::recorder::{Call, Recorder, gpu};
use super::{assert_error, assert_invalid, binary, open, open_on, timeline};
use crate::backend::{BackendDevice, RawSignal, RawWait};
use crate::error::ErrorKind;
use crate::handle::{NvSciFence, NvSciSyncObject, SemaphoreHandle, SemaphoreHandleKind, SemaphorePayload};
use crate::object::{Device, ExternalSemaphore, SemaphoreSignal, SemaphoreWait};
use crate::semaphore_ops::{SignalParams, WaitParams};

const SIGNAL: &str = "Stream::signal";
const WAIT: &str = "Stream::wait";

fn sci() -> NvSciSyncObject {
    // SAFETY: these tests never dereference the object.
    unsafe { NvSciSyncObject::from_raw(NonNull::dangling()) }
}

fn fence() -> NvSciFence {
    // SAFETY: as above.
    unsafe { NvSciFence::from_raw(NonNull::dangling()) }
}

/// One semaphore of each payload. Keyed mutexes cannot be imported on every system, so the test builds that object
/// directly.
fn one_of_each(recorder: &Recorder, device: &Device) -> [ExternalSemaphore; 4] {
    let request = semaphore_request(SemaphoreHandle::NvSciSync(sci()));
    // SAFETY: the request is valid.
    let raw = unsafe { recorder.import_semaphore(&request) }.expect("import");
    let mutex = ExternalSemaphore::new(device.inner.clone(), raw, SemaphoreHandleKind::D3d11KeyedMutex, None);
    [binary(device), timeline(device), mutex, device.import_semaphore(request).expect("import")]
}

fn signals() -> [SignalParams; 4] {
    let sync = SignalParams::NvSciSync { fence: fence(), skip_memsync: true };
    [SignalParams::Binary, SignalParams::Value(7), SignalParams::Key(7), sync]
}

fn waits() -> [WaitParams; 4] {
    let sync = WaitParams::NvSciSync { fence: fence(), skip_memsync: false };
    let key = WaitParams::Key { key: 7, timeout: Some(Duration::from_millis(5)) };
    [WaitParams::Binary, WaitParams::Value(7), key, sync]
}

#[test]
fn only_parameters_of_the_payload_are_accepted() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    for (index, semaphore) in one_of_each(&recorder, &device).iter().enumerate() {
        let kind = semaphore.handle_kind();
        let payload = format!("{:?}", kind.payload());
        for (other, (signal, wait)) in signals().into_iter().zip(waits()).enumerate() {
            if index == other {
                recorder.forget_calls();
                stream.signal(&[semaphore.signal_with(signal)]).expect("the right parameters");
                stream.wait(&[semaphore.wait_with(wait)]).expect("the right parameters");
                let raw = semaphore.as_raw();
                assert_eq!(
                    recorder.calls(),
                    [
                        Call::SignalSemaphores(stream.as_raw(), vec![RawSignal { semaphore: raw, params: signal }]),
                        Call::WaitSemaphores(stream.as_raw(), vec![RawWait { semaphore: raw, params: wait }]),
                    ]
                );
            } else {
                let words = [payload.clone(), format!("{:?}", signal.payload()), kind.to_string()];
                let words = words.each_ref().map(String::as_str);
                assert_invalid(&recorder, SIGNAL, &words, || stream.signal(&[semaphore.signal_with(signal)]));
                assert_invalid(&recorder, WAIT, &words, || stream.wait(&[semaphore.wait_with(wait)]));
            }
        }
    }
}

#[test]
fn shorthands_create_the_named_parameters() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let [binary, timeline, mutex, _] = one_of_each(&recorder, &device);
    recorder.forget_calls();
    stream.signal(&[binary.signal(), timeline.signal_value(1 << 40), mutex.release_key(3)]).expect("signal");
    stream.wait(&[binary.wait(), timeline.wait_value(1 << 41), mutex.acquire_key(4, None)]).expect("wait");
    let raw = [binary.as_raw(), timeline.as_raw(), mutex.as_raw()];
    let signals = [SignalParams::Binary, SignalParams::Value(1 << 40), SignalParams::Key(3)];
    let waits = [WaitParams::Binary, WaitParams::Value(1 << 41), WaitParams::Key { key: 4, timeout: None }];
    let signals = raw.into_iter().zip(signals).map(|(semaphore, params)| RawSignal { semaphore, params }).collect();
    let waits = raw.into_iter().zip(waits).map(|(semaphore, params)| RawWait { semaphore, params }).collect();
    assert_eq!(
        recorder.calls(),
        [Call::SignalSemaphores(stream.as_raw(), signals), Call::WaitSemaphores(stream.as_raw(), waits)]
    );
}

#[test]
fn batches_of_every_size_are_one_call_in_order() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    for count in [1_u64, 2, 7, 8, 9, 32] {
        let semaphores: Vec<_> =
            (0..count).map(|n| if n % 3 == 1 { binary(&device) } else { timeline(&device) }).collect();
        let is_timeline = |s: &ExternalSemaphore| s.handle_kind().payload() == SemaphorePayload::Timeline;
        let signals: Vec<SemaphoreSignal<'_>> = semaphores
            .iter()
            .zip(100..)
            .map(|(s, value)| if is_timeline(s) { s.signal_value(value) } else { s.signal() })
            .collect();
        let waits: Vec<SemaphoreWait<'_>> = semaphores
            .iter()
            .zip(200..)
            .map(|(s, value)| if is_timeline(s) { s.wait_value(value) } else { s.wait() })
            .collect();
        recorder.forget_calls();
        stream.signal(&signals).expect("signal");
        stream.wait(&waits).expect("wait");
        let signal = |(s, value): (&ExternalSemaphore, u64)| RawSignal {
            semaphore: s.as_raw(),
            params: if is_timeline(s) { SignalParams::Value(value) } else { SignalParams::Binary },
        };
        let wait = |(s, value): (&ExternalSemaphore, u64)| RawWait {
            semaphore: s.as_raw(),
            params: if is_timeline(s) { WaitParams::Value(value) } else { WaitParams::Binary },
        };
        assert_eq!(
            recorder.calls(),
            [
                Call::SignalSemaphores(stream.as_raw(), semaphores.iter().zip(100..).map(signal).collect()),
                Call::WaitSemaphores(stream.as_raw(), semaphores.iter().zip(200..).map(wait).collect()),
            ],
            "a batch of {count}"
        );
    }
}

#[test]
fn empty_batches_are_rejected() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    assert_invalid(&recorder, SIGNAL, &["the batch is empty"], || stream.signal(&[]));
    assert_invalid(&recorder, WAIT, &["the batch is empty"], || stream.wait(&[]));
}

#[test]
fn semaphores_of_another_device_are_rejected_and_the_batch_with_them() {
    let (recorder, device) = open();
    let (_other_recorder, other) = open_on(Recorder::new(gpu(2)));
    let stream = device.create_stream().expect("stream");
    let (own, foreign) = (timeline(&device), timeline(&other));
    let words = ["another device", "card 2", "card 1"];
    let signals = [own.signal_value(1), foreign.signal_value(1)];
    assert_invalid(&recorder, SIGNAL, &words, || stream.signal(&signals));
    let (form, alone) = (Form::Prepared, [(&foreign, 1)]);
    assert_invalid(&recorder, form.signal_name(), &words, || form.signal(&stream, &alone));
    assert_invalid(&recorder, form.wait_name(), &words, || form.wait(&stream, &alone));
    assert_invalid(&recorder, WAIT, &words, || stream.wait(&[own.wait_value(1), foreign.wait_value(1)]));
    stream.signal(&[own.signal_value(1)]).expect("the rejected batch did not use up its value");
}

#[test]
fn a_timeline_only_grows() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let other_stream = device.create_stream().expect("stream");
    let timeline = timeline(&device);
    let rejected = |value: u64, last: u64| {
        let words = [format!("value: {value}"), format!("already signalled: {last}")];
        let words = words.each_ref().map(String::as_str);
        for form in Form::BOTH {
            let signal = || form.signal(&other_stream, &[(&timeline, value)]);
            assert_invalid(&recorder, form.signal_name(), &words, signal);
        }
    };
    rejected(0, 0);
    stream.signal(&[timeline.signal_value(10)]).expect("10");
    rejected(10, 10);
    rejected(9, 10);
    rejected(0, 10);
    stream.signal(&[timeline.signal_value(11)]).expect("11");
    stream.signal(&[timeline.signal_value(u64::MAX)]).expect("the greatest value");
    rejected(u64::MAX, u64::MAX);
    // A wait for a past value is valid and ends at once.
    stream.wait(&[timeline.wait_value(1), timeline.wait_value(1), timeline.wait_value(0)]).expect("wait");
}

#[test]
fn a_rejected_batch_uses_up_no_value() {
    for form in Form::BOTH {
        let (recorder, device) = open();
        let stream = device.create_stream().expect("stream");
        let (a, b) = (timeline(&device), timeline(&device));
        form.signal(&stream, &[(&a, 1), (&b, 5)]).expect("start");
        for last in [(&a, 3), (&a, 2), (&b, 5)] {
            let batch = [(&a, 2), (&b, 6), (&a, 3), last];
            let words = ["value: ", "already signalled: "];
            assert_invalid(&recorder, form.signal_name(), &words, || form.signal(&stream, &batch));
        }
        form.signal(&stream, &[(&a, 2), (&b, 6), (&a, 3)]).expect("growing values of one timeline in one batch");
    }
}

#[test]
fn the_same_value_twice_in_one_batch_is_rejected() {
    for form in Form::BOTH {
        let (recorder, device) = open();
        let stream = device.create_stream().expect("stream");
        let timeline = timeline(&device);
        for second in [4, 3] {
            let words = [&*format!("value: {second}"), "already signalled: 4"];
            let signal = || form.signal(&stream, &[(&timeline, 4), (&timeline, second)]);
            assert_invalid(&recorder, form.signal_name(), &words, signal);
        }
        form.signal(&stream, &[(&timeline, 1), (&timeline, 4)]).expect("nothing was used up");
    }
}

#[test]
fn a_failed_signal_can_be_repeated() {
    for form in Form::BOTH {
        let (recorder, device) = open();
        let stream = device.create_stream().expect("stream");
        let (a, b, c) = (timeline(&device), binary(&device), timeline(&device));
        let batch = [(&a, 2), (&b, 0), (&c, 9), (&a, 3)];
        form.signal(&stream, &[(&a, 1)]).expect("signal");
        for count in [1, 4] {
            recorder.fail_next("SignalSemaphores", ErrorKind::Driver);
            let error = form.signal(&stream, &batch[..count]).expect_err("injected failure");
            assert_error(&error, ErrorKind::Driver, "drvInjectedFailure", &["DRV_INJECTED"]);
        }
        let rejected = |semaphore, value: u64| {
            let words = [&*format!("already signalled: {value}")];
            let signal = || form.signal(&stream, &[(semaphore, value)]);
            assert_invalid(&recorder, form.signal_name(), &words, signal);
        };
        rejected(&a, 1);
        form.signal(&stream, &batch).expect("the same values again");
        rejected(&a, 3);
        rejected(&c, 9);
    }
}

#[test]
fn a_failed_wait_reports_the_driver() {
    for form in Form::BOTH {
        let (recorder, device) = open();
        let stream = device.create_stream().expect("stream");
        let timeline = timeline(&device);
        recorder.fail_next("WaitSemaphores", ErrorKind::Driver);
        let error = form.wait(&stream, &[(&timeline, 1)]).expect_err("injected failure");
        assert_error(&error, ErrorKind::Driver, "drvInjectedFailure", &["DRV_INJECTED"]);
        form.wait(&stream, &[(&timeline, 1)]).expect("the second try");
    }
}

/// Of threads that signal the same value one after another, exactly the first succeeds. Concurrent signals may both
/// succeed: the application must order them.
#[test]
fn each_value_is_signalled_once_from_many_threads() {
    let (recorder, device) = open();
    let timeline = timeline(&device);
    let streams: Vec<_> = (0..4).map(|_| device.create_stream().expect("stream")).collect();
    recorder.forget_calls();
    let turn = std::sync::Mutex::new(());
    let accepted: usize = std::thread::scope(|scope| {
        let signal = |stream| {
            let (timeline, turn) = (&timeline, &turn);
            let signal_one = move |value: &u64| {
                let _turn = turn.lock().expect("no thread panicked");
                crate::Stream::signal(stream, &[timeline.signal_value(*value)]).is_ok()
            };
            scope.spawn(move || (1..=200).filter(signal_one).count())
        };
        streams.iter().map(signal).collect::<Vec<_>>().into_iter().map(|t| t.join().expect("thread")).sum()
    });
    let mut values: Vec<u64> = recorder
        .calls()
        .iter()
        .filter_map(|call| match call {
            Call::SignalSemaphores(_, signals) => match signals[0].params {
                SignalParams::Value(value) => Some(value),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(values.len(), accepted);
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), accepted, "no value twice");
    assert_eq!(accepted, 200, "the first signal of each value succeeds");
}
