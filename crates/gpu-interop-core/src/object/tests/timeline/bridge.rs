//! Timelines over the host bridge.

use super::{Call, Exporter, LONG, assert_error, assert_invalid, bridged, bridged_timeline, open, open_without, work};
use crate::backend::{DevicePtr, WaitCondition};
use crate::capability::Feature;
use crate::error::ErrorKind;
use crate::object::Timeline;
use crate::timeline::TimelineStrategy;

/// The word that a call waits for or writes, and the value.
fn word(call: &Call) -> Option<(DevicePtr, u64)> {
    match call {
        Call::WaitValueU64(_, word, value, WaitCondition::GreaterOrEqual) | Call::WriteValueU64(_, word, value) => {
            Some((*word, *value))
        }
        Call::WaitValueU32(_, word, value, WaitCondition::GreaterOrEqual) | Call::WriteValueU32(_, word, value) => {
            Some((*word, u64::from(*value)))
        }
        _ => None,
    }
}

#[test]
fn a_stream_waits_for_a_word_until_the_exporter_signals() {
    let (recorder, exporter, timeline, stream) = bridged_timeline();
    stream.wait_timeline(&timeline, 7).expect("enqueues");
    let calls = work(&recorder);
    let [Call::AllocateSignalMemory, wait @ Call::WaitValueU64(..)] = &calls[..] else { panic!("{calls:#?}") };
    assert_eq!(word(wait).expect("reached").1, 1, "the word's first ticket, not the timeline's value");
    for value in [1, 6] {
        exporter.set(value);
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(!stream.is_idle().expect("query"), "{value} is too early");
    }
    exporter.set(7);
    stream.synchronize_timeout(LONG).expect("the value is there");
    assert_eq!(exporter.signals(), [0; 0], "waiting signals nothing");
}

#[test]
fn a_stream_signals_by_a_word_in_stream_order() {
    let (recorder, exporter, timeline, stream) = bridged_timeline();
    recorder.hold(stream.as_raw());
    stream.signal_timeline(&timeline, 3).expect("enqueues");
    stream.signal_timeline(&timeline, u64::MAX).expect("enqueues");
    let calls = work(&recorder);
    let [Call::AllocateSignalMemory, first @ Call::WriteValueU64(..), second @ Call::WriteValueU64(..)] = &calls[..]
    else {
        panic!("{calls:#?}")
    };
    assert_ne!(word(first).expect("a word").0, word(second).expect("a word").0, "both are in use");
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(exporter.value(), 0, "the stream is held");
    recorder.finish(stream.as_raw());
    exporter.expect(u64::MAX);
    assert_eq!(exporter.signals().last(), Some(&u64::MAX));
}

#[test]
fn reached_values_need_no_driver_call() {
    let (recorder, exporter, timeline, stream) = bridged_timeline();
    exporter.set(5);
    for value in [0, 4, 5] {
        stream.wait_timeline(&timeline, value).expect("reached");
    }
    assert_eq!(recorder.calls(), []);
}

#[test]
fn misuse_enqueues_nothing() {
    let (recorder, exporter, timeline, stream) = bridged_timeline();
    let (other_recorder, other) = super::open_on(super::Recorder::new(super::gpu(2)));
    let foreign = bridged(&other, &Exporter::default());
    let words = ["the timeline belongs to another device", "card 1", "card 2"];
    assert_invalid(&recorder, "Stream::wait_timeline", &words, || stream.wait_timeline(&foreign, 1));
    assert_invalid(&recorder, "Stream::signal_timeline", &words, || stream.signal_timeline(&foreign, 1));
    assert_eq!(other_recorder.calls(), []);
    let rejected = |value: u64, last: &str| {
        let words = ["only grows", &format!("value: {value}"), last];
        assert_invalid(&recorder, "Stream::signal_timeline", &words, || stream.signal_timeline(&timeline, value));
        assert_invalid(&recorder, "Timeline::signal", &words, || timeline.signal(value));
    };
    rejected(0, "already signalled: 0");
    stream.signal_timeline(&timeline, 9).expect("enqueues");
    rejected(8, "already signalled: 9");
    rejected(9, "already signalled: 9");
    exporter.expect(9);
}

#[test]
fn a_failed_wait_returns_its_word() {
    for (call, rest) in [("AllocateSignalMemory", 1), ("WaitValueU64", 2)] {
        let (recorder, exporter, timeline, stream) = bridged_timeline();
        recorder.fail_next(call, ErrorKind::Driver);
        let error = stream.wait_timeline(&timeline, 1).expect_err(call);
        assert_error(&error, ErrorKind::Driver, "drvInjectedFailure", &["DRV_INJECTED"]);
        stream.synchronize_timeout(LONG).expect("nothing was enqueued, and nothing failed");
        recorder.forget_calls();
        stream.wait_timeline(&timeline, 1).expect("only one call fails");
        let calls = work(&recorder);
        let (wait, number) = (calls.last().expect("a call"), rest);
        assert_eq!(word(wait).expect("a wait").1, number, "{call}: a word is used again, above the unused ticket");
        let allocated = calls.contains(&Call::AllocateSignalMemory);
        assert_eq!(allocated, call == "AllocateSignalMemory", "memory that is there is used");
        exporter.set(1);
        stream.synchronize_timeout(LONG).expect("the value is there");
    }
}

#[test]
fn a_signal_that_is_not_enqueued_can_be_repeated() {
    let memory_operations = [Feature::StreamMemoryOperations32, Feature::StreamMemoryOperations64];
    for (call, without) in [
        ("AllocateSignalMemory", &[][..]),
        ("WriteValueU64", &[]),
        ("WriteValueU32", &memory_operations[1..]),
        ("LaunchHostFunction", &memory_operations),
    ] {
        let (recorder, device) = open_without(without);
        let exporter = Exporter::default();
        let (timeline, stream) = (bridged(&device, &exporter), device.create_stream().expect("stream"));
        recorder.fail_next(call, ErrorKind::Driver);
        let error = stream.signal_timeline(&timeline, 4).expect_err(call);
        assert_error(&error, ErrorKind::Driver, "drvInjectedFailure", &["DRV_INJECTED"]);
        stream.signal_timeline(&timeline, 4).expect("the value is still free");
        let allocations = recorder.calls().iter().filter(|call| **call == Call::AllocateSignalMemory).count();
        assert_eq!(allocations, if call == "AllocateSignalMemory" { 2 } else { 1 }, "{call}");
        recorder.finish(stream.as_raw());
        exporter.expect(4);
        assert_eq!(exporter.signals(), [4], "{call}");
    }
}

#[test]
fn narrow_words_replace_missing_wide_ones() {
    let (recorder, device) = open_without(&[Feature::StreamMemoryOperations64]);
    let exporter = Exporter::default();
    let (timeline, stream) = (bridged(&device, &exporter), device.create_stream().expect("stream"));
    recorder.forget_calls();
    for round in 0..3 {
        let value = (u64::from(u32::MAX) << 8) + 2 * round;
        stream.wait_timeline(&timeline, value).expect("enqueues");
        stream.signal_timeline(&timeline, value + 1).expect("enqueues");
        exporter.set(value);
        stream.synchronize_timeout(LONG).expect("all has run");
        exporter.expect(value + 1);
    }
    let calls = work(&recorder);
    let narrow = |call: &&Call| matches!(call, Call::WaitValueU32(..) | Call::WriteValueU32(..));
    assert_eq!(calls.iter().filter(narrow).count(), 6, "{calls:#?}");
    assert_eq!(calls.len(), 7, "and one allocation: {calls:#?}");
}

#[test]
fn host_functions_signal_where_streams_have_no_memory_operations() {
    let (recorder, device) = open_without(&[Feature::StreamMemoryOperations32, Feature::StreamMemoryOperations64]);
    let exporter = Exporter::default();
    let (timeline, stream) = (bridged(&device, &exporter), device.create_stream().expect("stream"));
    recorder.hold(stream.as_raw());
    recorder.forget_calls();
    let error = stream.wait_timeline(&timeline, 1).expect_err("streams cannot wait");
    let words = ["wait for the value on the host first", "Timeline::wait", "value: 1"];
    assert_error(&error, ErrorKind::Unsupported, "Stream::wait_timeline", &words);
    assert_eq!(recorder.calls(), [], "nothing is enqueued");
    // As the error advises.
    exporter.set(1);
    timeline.wait(1, LONG).expect("it is there");
    stream.wait_timeline(&timeline, 1).expect("reached");
    assert_eq!(recorder.calls(), [], "nothing has to be");
    stream.signal_timeline(&timeline, 2).expect("enqueues");
    assert_eq!(work(&recorder), [Call::AllocateSignalMemory, Call::LaunchHostFunction(stream.as_raw())]);
    assert_eq!(exporter.value(), 1, "the stream is held");
    recorder.finish(stream.as_raw());
    exporter.expect(2);
}

#[test]
fn a_device_without_timeline_support_names_the_missing_feature() {
    let all = [Feature::StreamMemoryOperations32, Feature::StreamMemoryOperations64, Feature::HostFunctions];
    for without in [&[Feature::SignalMemory][..], &all] {
        let (recorder, device) = open_without(without);
        let timeline = Timeline::with_strategy(&device, Exporter::default().private(), TimelineStrategy::HostBridge);
        let error = timeline.expect_err("it cannot");
        assert_error(&error, ErrorKind::Unsupported, "Timeline::new", &["strategy: bridge"]);
        assert_eq!(recorder.calls(), []);
    }
}

#[test]
fn ten_thousand_waits_need_few_words() {
    let (recorder, exporter, timeline, stream) = bridged_timeline();
    for value in 1..=10_000 {
        stream.wait_timeline(&timeline, value).expect("enqueues");
        exporter.set(value);
        stream.synchronize_timeout(LONG).expect("the value is there");
    }
    let calls = work(&recorder);
    let allocations = calls.iter().filter(|call| **call == Call::AllocateSignalMemory).count();
    assert_eq!(allocations, 1, "one stream waits for one word at a time");
    let words: std::collections::BTreeSet<_> = calls.iter().filter_map(|call| Some(word(call)?.0.get())).collect();
    assert!(words.len() <= 4, "{} words", words.len());
    assert!(calls.iter().filter(|call| word(call).is_some()).count() > 1_000, "the values came before their waits");
}

/// Streams wait for many values at once, reached in another order.
#[test]
fn waits_of_many_streams_end_at_their_values() {
    let (recorder, device) = open();
    let exporters: [Exporter; 3] = Default::default();
    let timelines = exporters.each_ref().map(|exporter| bridged(&device, exporter));
    let streams: Vec<_> = (0..30).map(|_| device.create_stream().expect("stream")).collect();
    for (index, stream) in streams.iter().enumerate() {
        stream.wait_timeline(&timelines[index % 3], 10 - index as u64 / 3).expect("enqueues");
    }
    for value in 1..=10 {
        exporters.iter().for_each(|exporter| exporter.set(value));
        for (index, stream) in streams.iter().enumerate() {
            let wanted = 10 - index as u64 / 3;
            if wanted <= value {
                stream.synchronize_timeout(LONG).expect("the value is there");
            } else {
                assert!(!stream.is_idle().expect("query"), "{value} was enough for {wanted}");
            }
        }
    }
    let allocations = recorder.calls().iter().filter(|call| **call == Call::AllocateSignalMemory).count();
    assert_eq!(allocations, 8, "four words each");
}
