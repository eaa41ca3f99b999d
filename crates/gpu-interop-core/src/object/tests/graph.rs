//! Graphs: recording, lifetime of recorded objects, and rejected operations.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use super::recorder::{Call, Recorder, gpu};
use super::{assert_error, assert_invalid, binary, import, mapped, open, open_on, timeline};
use crate::backend::WaitCondition;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{LaunchConfig, ModuleImage};
use crate::object::{Device, ExternalSemaphore, Graph, Stream};
use crate::semaphore_ops::SignalParams;

/// Calls relevant to a test.
fn calls(recorder: &Recorder) -> Vec<Call> {
    let is_query = |call: &Call| matches!(call, Call::QueryStream(_) | Call::CreateEvent | Call::QueryEvent(_));
    recorder.calls().into_iter().filter(|call| !is_query(call)).collect()
}

fn signals_one(device: &Device, semaphore: &ExternalSemaphore, value: u64) -> Graph {
    device.record(|stream| stream.signal(&[semaphore.signal_value(value)])).expect("record")
}

#[test]
fn recorded_work_is_launched_and_the_graph_destroyed() {
    let (recorder, device) = open();
    let (stream, buffer) = (device.create_stream().expect("stream"), mapped(&device));
    recorder.forget_calls();
    let graph = device.record(|stream| stream.fill(&buffer, 7)).expect("record");
    let raw = graph.as_raw();
    graph.launch(&stream).expect("launch");
    graph.launch(&stream).expect("launch");
    graph.close().expect("close");
    match calls(&recorder)[..] {
        [
            Call::CreateStream,
            Call::BeginCapture(recording),
            Call::FillU8 { stream: filled, value: 7, .. },
            Call::EndCapture(ended),
            Call::DestroyStream(destroyed),
            Call::LaunchGraph(on, first),
            Call::LaunchGraph(again, second),
            Call::DestroyGraph(gone),
        ] => {
            assert_eq!([filled, ended, destroyed], [recording; 3]);
            assert_eq!(([on, again], [first, second, gone]), ([stream.as_raw(); 2], [raw; 3]));
        }
        ref other => panic!("{other:#?}"),
    }
}

/// The driver returns the node of the last recorded operation, which must be the signal.
#[test]
fn other_threads_record_nothing_while_a_signal_is_recorded() {
    let (recorder, device) = open();
    let (buffer, semaphore) = (mapped(&device), timeline(&device));
    let ((begin, has_begun), (fill, is_filled)) = (mpsc::channel(), mpsc::channel());
    recorder.before_signal(move || {
        begin.send(()).expect("the other thread listens");
        // Bounded: the other thread is expected to block.
        is_filled.recv_timeout(Duration::from_millis(100)).expect_err("another thread records");
    });
    let recorded = device.record(|stream| {
        std::thread::scope(|scope| {
            let buffer = &buffer;
            let other = scope.spawn(move || {
                has_begun.recv().expect("a signal is recorded");
                let filled = stream.fill(buffer, 7);
                let _ = fill.send(());
                filled
            });
            stream.signal(&[semaphore.signal_value(1)])?;
            other.join().expect("no panic")
        })
    });
    recorded.expect("record");
}

/// Records one object of each type that a graph can use, and drops it.
fn record_everything(device: &Device) -> Graph {
    let (buffer, exportable) = (mapped(device), device.allocate_exportable(64).expect("allocate"));
    let (signal, wait) = (binary(device), timeline(device));
    let kernel = device.load_module(ModuleImage::Builtin).expect("load").kernel(c"touch").expect("kernel");
    let record = |stream: &Stream| -> Result<()> {
        stream.wait(&[wait.wait_value(3)])?;
        stream.copy(&exportable, buffer.slice(..4096)?)?;
        stream.wait_value_u32(buffer.slice(..4)?, 1, WaitCondition::Equal)?;
        stream.write_value_u64(buffer.slice(8..16)?, 1)?;
        // SAFETY: the recorder runs nothing.
        unsafe { stream.launch(&kernel, &LaunchConfig::linear(1), &[]) }?;
        stream.signal(&[signal.signal()])
    };
    device.record(record).expect("record")
}

/// The recorder fails the test if an object is freed before the graph, or before a launch that uses it has completed.
#[test]
fn recorded_objects_live_as_long_as_the_graph() {
    let (recorder, device) = open();
    let live = recorder.live();
    let graph = record_everything(&device);
    assert_eq!(recorder.frees().len(), 1, "only the stream that recorded: {:#?}", recorder.frees());
    let stream = device.create_stream().expect("stream");
    recorder.hold(stream.as_raw());
    graph.launch(&stream).expect("launch");
    drop(graph);
    device.collect();
    assert_eq!(recorder.frees().len(), 1, "the launch is pending");
    recorder.finish(stream.as_raw());
    drop(stream);
    device.collect();
    device.collect();
    assert_eq!(recorder.live(), live, "{:#?}", recorder.frees());
}

#[test]
fn a_graph_that_was_never_launched_frees_its_objects() {
    let (recorder, device) = open();
    let live = recorder.live();
    drop(record_everything(&device));
    device.collect();
    assert_eq!(recorder.live(), live);
}

/// Objects of a destroyed graph do not wait for the next graph, which may reuse its slot.
#[test]
fn destroyed_graphs_keep_no_objects() {
    let (recorder, device) = open();
    let live = recorder.live();
    let mut kept = Vec::new();
    for _ in 0..200 {
        drop(record_everything(&device));
        kept.push(record_everything(&device));
        kept.truncate(1);
    }
    drop(kept);
    device.collect();
    assert_eq!(recorder.live(), live);
}

#[test]
fn unrecordable_operations_are_rejected_before_the_backend() {
    let (recorder, device) = open();
    let (buffer, event) = (mapped(&device), device.create_event().expect("event"));
    let nothing = device.record(|_| Ok(())).expect("record");
    let recorded = device.record(|stream| {
        let rejected = |operation: &str, work: &dyn Fn() -> Result<()>| {
            assert_invalid(&recorder, operation, &["records a graph"], work);
        };
        rejected("Stream::synchronize", &|| stream.synchronize());
        rejected("Stream::synchronize_timeout", &|| stream.synchronize_timeout(Duration::ZERO));
        rejected("Stream::is_idle", &|| stream.is_idle().map(drop));
        rejected("Stream::record", &|| stream.record(&event));
        rejected("Stream::wait_event", &|| stream.wait_event(&event));
        rejected("Stream::read", &|| stream.read(buffer.slice(..1)?, &mut [0]));
        rejected("Stream::write", &|| stream.write(buffer.slice(..1)?, &[0]));
        rejected("Stream::launch_host_function", &|| stream.launch_host_function(|| ()));
        rejected("Graph::launch", &|| nothing.launch(stream));
        Ok(())
    });
    drop(recorded.expect("rejected operations leave the recording intact"));
    assert!(!calls(&recorder).iter().any(|call| matches!(call, Call::LaunchGraph(..))));
}

#[test]
fn a_recording_that_fails_or_panics_leaves_nothing() {
    let (recorder, device) = open();
    let (buffer, live) = (mapped(&device), recorder.live());
    let failed = device.record(|stream| {
        stream.fill(&buffer, 1)?;
        Err(Error::invalid("test", "on purpose"))
    });
    assert_eq!(failed.expect_err("on purpose").message(), "on purpose");
    let panicked = || device.record(|_| std::panic::resume_unwind(Box::new("on purpose")));
    assert!(catch_unwind(AssertUnwindSafe(panicked)).is_err());
    assert_eq!(recorder.live(), live);
    for call in ["BeginCapture", "EndCapture", "CreateStream"] {
        recorder.fail_next(call, ErrorKind::Driver);
        let error = device.record(|stream| stream.fill(&buffer, 1)).expect_err(call);
        assert_error(&error, ErrorKind::Driver, "drvInjectedFailure", &["DRV_INJECTED"]);
        assert_eq!(recorder.live(), live, "{call}");
    }
    buffer.close().expect("close");
}

/// Otherwise a relaunch would lower the counter, which drivers do not report.
#[test]
fn a_launch_that_would_not_raise_a_timeline_is_rejected() {
    let (recorder, device) = open();
    let (stream, semaphore) = (device.create_stream().expect("stream"), timeline(&device));
    let graph = signals_one(&device, &semaphore, 5);
    stream.signal(&[semaphore.signal_value(4)]).expect("recording a value does not signal it");
    graph.launch(&stream).expect("the first");
    assert_invalid(&recorder, "Graph::launch", &["value: 5", "already signalled: 5"], || graph.launch(&stream));
    assert_invalid(&recorder, "Stream::signal", &["already signalled: 5"], || {
        stream.signal(&[semaphore.signal_value(5)])
    });
    recorder.forget_calls();
    graph.set_signals(0, &[semaphore.signal_value(6)]).expect("another value");
    match &recorder.calls()[..] {
        [Call::SetCapturedSignals(raw, _, signals)] => {
            assert_eq!(*raw, graph.as_raw());
            assert_eq!((signals[0].semaphore, signals[0].params), (semaphore.as_raw(), SignalParams::Value(6)));
        }
        other => panic!("{other:#?}"),
    }
    recorder.fail_next("LaunchGraph", ErrorKind::Driver);
    graph.launch(&stream).expect_err("injected failure");
    graph.launch(&stream).expect("a failed launch has signalled nothing");
}

/// A timeline signalled twice in a rejected launch keeps its value.
#[test]
fn a_rejected_launch_changes_no_value() {
    let (_recorder, device) = open();
    let (stream, semaphore) = (device.create_stream().expect("stream"), timeline(&device));
    let graph = device.record(|stream| {
        stream.signal(&[semaphore.signal_value(5), semaphore.signal_value(7)])?;
        stream.signal(&[semaphore.signal_value(6)])
    });
    let graph = graph.expect("record");
    graph.launch(&stream).expect_err("6 after 7");
    stream.signal(&[semaphore.signal_value(1)]).expect("nothing was signalled");
}

#[test]
fn batches_are_replaced_only_by_batches_of_equal_length_and_payload() {
    let (recorder, device) = open();
    let (_other_recorder, other) = open_on(Recorder::new(gpu(2)));
    let (semaphore, foreign, plain) = (timeline(&device), timeline(&other), binary(&device));
    let graph = device.record(|stream| {
        stream.wait(&[semaphore.wait_value(1)])?;
        stream.signal(&[semaphore.signal_value(2)])
    });
    let graph = graph.expect("record");
    assert_eq!((graph.signals(), graph.waits()), (1, 1));
    let set = |words: &[&str], signals: &[_], waits: &[_], index| {
        assert_invalid(&recorder, "Graph::set_signals", words, || graph.set_signals(index, signals));
        assert_invalid(&recorder, "Graph::set_waits", words, || graph.set_waits(index, waits));
    };
    let value = (semaphore.signal_value(9), semaphore.wait_value(9));
    set(&["does not have this batch", "batch: 1", "batches: 1"], &[value.0], &[value.1], 1);
    set(&["cannot change its length", "recorded: 1", "given: 0"], &[], &[], 0);
    set(&["cannot change its length", "given: 2"], &[value.0; 2], &[value.1; 2], 0);
    set(&["another device", "card 2"], &[foreign.signal_value(9)], &[foreign.wait_value(9)], 0);
    set(&["Binary", "Timeline"], &[plain.signal_value(9)], &[plain.wait_value(9)], 0);
    graph.set_waits(0, &[value.1]).expect("its like");
}

/// A replacement semaphore is kept alive like the recorded ones.
#[test]
fn a_graph_keeps_replacement_semaphores() {
    let (recorder, device) = open();
    let (first, second) = (timeline(&device), timeline(&device));
    let graph = signals_one(&device, &first, 1);
    graph.set_signals(0, &[second.signal_value(1)]).expect("set");
    let frees = recorder.frees().len();
    drop((first, second));
    assert_eq!(recorder.frees().len(), frees);
    drop(graph);
    device.collect();
    assert_eq!(recorder.frees().len(), frees + 3);
}

#[test]
fn graphs_of_another_device_are_rejected() {
    let (recorder, device) = open();
    let (_other_recorder, other) = open_on(Recorder::new(gpu(2)));
    let (stream, graph) = (device.create_stream().expect("stream"), other.record(|_| Ok(())).expect("record"));
    let both = ["graph", "another device", "card 1", "card 2"];
    assert_invalid(&recorder, "Graph::launch", &both, || graph.launch(&stream));
}

/// Objects are imported and freed while a graph is recorded, including recorded ones.
#[test]
fn the_device_is_usable_while_a_graph_is_recorded() {
    let (recorder, device) = open();
    let graph = device.record(|stream| {
        let buffer = import(&device).map_buffer(..)?;
        stream.fill(&buffer, 1)?;
        let other = device.create_stream()?;
        let unused = mapped(&device);
        other.fill(&unused, 2)?;
        other.synchronize()?;
        drop(unused);
        assert!(
            recorder.frees().iter().any(|call| matches!(call, Call::FreeBuffer(_))),
            "objects that no graph uses are freed"
        );
        Ok(())
    });
    drop(graph.expect("record"));
}
