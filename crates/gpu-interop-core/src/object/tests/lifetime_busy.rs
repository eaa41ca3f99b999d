//! Objects dropped while work that uses them is pending: freed later, never too early.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::lifetime::{drop_in_order, orders};
use super::prepared_batch::Form;
use super::recorder::{Call, Recorder};
use super::{SIZE, binary, import, mapped, open};
use crate::backend::RawStream;
use crate::callback::without_driver_calls;
use crate::error::ErrorKind;
use crate::kernel::{KernelArg, LaunchConfig, ModuleImage};
use crate::object::{Device, MappedBuffer, Stream};

const LONG: Duration = Duration::from_secs(9);

pub(super) fn held_stream(recorder: &Recorder, device: &Device) -> Stream {
    let stream = device.create_stream().expect("stream");
    recorder.hold(stream.as_raw());
    stream
}

/// A mapping used by pending work of `stream`.
fn busy_buffer(device: &Device, stream: &Stream) -> MappedBuffer {
    let buffer = mapped(device);
    stream.fill(&buffer, 1).expect("fill");
    buffer
}

/// Drops one object of each type while pending work of `stream` uses it.
fn drop_one_of_each(device: &Device, stream: &Stream, form: Form) -> usize {
    let buffer = busy_buffer(device, stream);
    let (semaphore, signalled) = (binary(device), binary(device));
    form.wait(stream, &[(&semaphore, 0)]).expect("wait");
    form.signal(stream, &[(&signalled, 0)]).expect("signal");
    let exportable = device.allocate_exportable(64).expect("allocate");
    stream.copy(&exportable, buffer.slice(..4096).expect("slice")).expect("copy");
    let module = device.load_module(ModuleImage::Builtin).expect("load");
    let kernel = module.kernel(c"touch").expect("kernel");
    // SAFETY: the recorder runs nothing.
    unsafe { stream.launch(&kernel, &LaunchConfig::linear(1), &[]) }.expect("launch");
    drop((kernel, module));
    exportable.close().expect("deferred");
    semaphore.close().expect("deferred");
    signalled.close().expect("deferred");
    buffer.close().expect("deferred");
    6
}

/// Collect points of a device. A stream created by one is returned, because its drop collects as well.
type CollectPoint = (&'static str, fn(&Device, &Stream) -> Option<Stream>);

const COLLECT_POINTS: [CollectPoint; 4] = [
    ("another release", |device, _| {
        drop(import(device));
        None
    }),
    ("create_stream", |device, _| Some(device.create_stream().expect("stream"))),
    ("synchronize", |_, stream| {
        stream.synchronize().expect("synchronize");
        None
    }),
    ("synchronize_timeout", |_, stream| {
        stream.synchronize_timeout(Duration::from_secs(9)).expect("synchronize");
        None
    }),
];

#[test]
fn busy_objects_are_freed_at_the_next_collect_point_after_the_work() {
    for ((name, collect), form) in COLLECT_POINTS.iter().flat_map(|point| Form::BOTH.map(|form| (point, form))) {
        let (recorder, device) = open();
        let (stream, other) = (held_stream(&recorder, &device), device.create_stream().expect("stream"));
        let live = recorder.live();
        let objects = drop_one_of_each(&device, &stream, form);
        assert_eq!(recorder.frees(), [], "{name}: too early");
        let mut kept = vec![collect(&device, &other)];
        let early = recorder.frees().len();
        assert!(early <= 1, "{name}: only what the collect point itself made");
        recorder.finish(stream.as_raw());
        assert_eq!(recorder.frees().len(), early, "{name}: nothing frees in the background");
        kept.push(collect(&device, &other));
        assert_eq!(recorder.frees().len(), objects + 2 * early, "{name}: {:#?}", recorder.frees());
        drop(kept);
        assert_eq!(recorder.live(), live, "{name}: events are destroyed as well");
    }
}

#[test]
fn later_work_does_not_keep_unused_objects() {
    let (recorder, device) = open();
    let stream = held_stream(&recorder, &device);
    let (early, late) = (busy_buffer(&device, &stream), mapped(&device));
    drop(early);
    recorder.finish(stream.as_raw());
    stream.fill(&late, 2).expect("fill");
    device.create_event().expect("no collect point");
    assert_eq!(recorder.frees(), []);
    drop(late);
    let frees = recorder.frees();
    assert!(matches!(frees[..], [Call::FreeBuffer(_), Call::DestroyMemory(_)]), "only the early ones: {frees:#?}");
    recorder.finish(stream.as_raw());
}

#[test]
fn an_object_waits_for_all_its_streams() {
    for order in orders(3) {
        let (recorder, device) = open();
        let streams: Vec<Stream> = (0..3).map(|_| held_stream(&recorder, &device)).collect();
        let buffer = mapped(&device);
        for stream in &streams {
            stream.fill(&buffer, 1).expect("fill");
        }
        drop(buffer);
        for (finished, index) in order.iter().enumerate() {
            assert_eq!(recorder.frees().len(), 0, "{order:?}: after {finished} of 3");
            recorder.finish(streams[*index].as_raw());
            drop(device.create_event());
            device.inner.lifetimes.collect(&*device.inner.raw);
        }
        assert_eq!(recorder.frees().len(), 2, "{order:?}");
    }
}

/// An idle mapping of busy memory is freed first; the memory waits for the busy mapping.
#[test]
fn memory_waits_for_a_busy_mapping_that_is_already_gone() {
    let (recorder, device) = open();
    let stream = held_stream(&recorder, &device);
    let memory = import(&device);
    let (busy, idle) = (memory.map_buffer(..).expect("map"), memory.map_buffer(0..8).expect("map"));
    stream.fill(&busy, 1).expect("fill");
    let idle_raw = idle.as_raw();
    drop(busy);
    drop(memory);
    drop(idle);
    assert_eq!(recorder.frees(), [Call::FreeBuffer(idle_raw)]);
    recorder.finish(stream.as_raw());
    stream.synchronize().expect("synchronize");
    assert_eq!(recorder.frees().len(), 3);
}

#[test]
fn every_drop_order_is_safe_while_busy() {
    for order in orders(4) {
        for keep_device in [false, true] {
            let (recorder, device) = open();
            let kept = keep_device.then(|| device.clone());
            let (stream, memory) = (held_stream(&recorder, &device), import(&device));
            let buffer = memory.map_buffer(..).expect("map");
            stream.fill(&buffer, 1).expect("fill");
            let raw = stream.as_raw();
            let objects: Vec<Box<dyn Any>> =
                vec![Box::new(device), Box::new(stream), Box::new(memory), Box::new(buffer)];
            drop_in_order(objects, &order);
            if let Some(device) = kept {
                assert_eq!(recorder.frees(), [], "{order:?}");
                recorder.finish(raw);
                drop(device.create_stream().expect("stream"));
                assert!(!recorder.calls().contains(&Call::CancelPendingWork));
                assert_eq!(recorder.live(), 0, "{order:?}");
            } else {
                assert!(recorder.calls().contains(&Call::CancelPendingWork), "{order:?}");
                assert_eq!(recorder.live(), 0, "{order:?}: the last drop drains");
            }
        }
    }
}

#[test]
fn a_device_without_pending_work_cancels_nothing() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    drop(busy_buffer(&device, &stream));
    drop((stream, device));
    assert!(!recorder.calls().contains(&Call::CancelPendingWork));
}

/// The last drop must return even if the work never completes; the objects are leaked.
#[test]
fn work_that_never_ends_leaks_its_objects() {
    let (recorder, device) = open();
    recorder.expect_leaks();
    recorder.cannot_cancel();
    let stream = held_stream(&recorder, &device);
    drop(busy_buffer(&device, &stream));
    drop(stream);
    let start = Instant::now();
    drop(device);
    assert!(start.elapsed() < Duration::from_secs(20), "bounded");
    assert_eq!(recorder.frees(), []);
    assert!(recorder.calls().contains(&Call::CancelPendingWork));
}

#[test]
fn a_busy_stream_is_destroyed_later() {
    let (recorder, device) = open();
    let stream = held_stream(&recorder, &device);
    let (buffer, raw) = (busy_buffer(&device, &stream), stream.as_raw());
    stream.close().expect("deferred");
    assert_eq!(recorder.frees(), []);
    // The stream still has its slot, so the buffer is found to be busy.
    let other = device.create_stream().expect("stream");
    drop(buffer);
    assert_eq!(recorder.frees(), []);
    recorder.finish(raw);
    other.synchronize().expect("synchronize");
    let frees = recorder.frees();
    assert_eq!(frees.len(), 3);
    assert!(frees.contains(&Call::DestroyStream(raw)), "{frees:#?}");
}

/// Slots 3 and 67 share a bit. The object waits for either.
#[test]
fn more_than_64_streams_are_as_safe() {
    for (used, held) in [(3, 3), (67, 67), (3, 67), (67, 3), (69, 69), (0, 64)] {
        let (recorder, device) = open();
        let streams: Vec<Stream> = (0..70).map(|_| device.create_stream().expect("stream")).collect();
        let (buffer, other) = (mapped(&device), mapped(&device));
        recorder.hold(streams[held].as_raw());
        streams[held].fill(&other, 1).expect("fill");
        streams[used].fill(&buffer, 1).expect("fill");
        drop(buffer);
        // A shared bit makes the object wait, which is conservative.
        assert_eq!(recorder.frees(), [], "used on {used}, {held} is busy");
        recorder.finish(streams[held].as_raw());
        streams[1].synchronize().expect("synchronize");
        assert_eq!(recorder.frees().len(), 2, "used on {used}, {held} is busy");
    }
}

#[test]
fn all_of_70_busy_streams_are_waited_for() {
    let (recorder, device) = open();
    let streams: Vec<Stream> = (0..70).map(|_| held_stream(&recorder, &device)).collect();
    let buffer = mapped(&device);
    streams.iter().for_each(|stream| stream.fill(&buffer, 1).expect("fill"));
    drop(buffer);
    let raws: Vec<RawStream> = streams.iter().map(Stream::as_raw).collect();
    drop(streams);
    let collect = || device.inner.lifetimes.collect(&*device.inner.raw);
    for (index, raw) in raws.iter().enumerate() {
        let freed = |call: &Call| matches!(call, Call::FreeBuffer(_) | Call::DestroyMemory(_));
        assert!(!recorder.frees().iter().any(freed), "after {index} of 70");
        recorder.finish(*raw);
        collect();
    }
    assert_eq!(recorder.frees().len(), 72);
    assert_eq!(recorder.live(), 0);
}

/// After one failed query an event is queried instead, and for an event its stream.
#[test]
fn one_failed_query_frees_nothing_in_use() {
    for (before, after) in [("QueryStream", None), ("QueryStream", Some("QueryEvent")), ("CreateEvent", None)] {
        let (recorder, device) = open();
        let stream = held_stream(&recorder, &device);
        let buffer = busy_buffer(&device, &stream);
        recorder.fail_next(before, ErrorKind::Driver);
        buffer.close().expect("deferred");
        after.iter().for_each(|call| recorder.fail_next(call, ErrorKind::Driver));
        device.collect();
        assert_eq!(recorder.frees(), [], "{before}, {after:?}: too early");
        recorder.finish(stream.as_raw());
        device.collect();
        assert_eq!(recorder.frees().len(), 2, "{before}, {after:?}: {:#?}", recorder.frees());
    }
}

/// Only a lost device proves that no work runs; other errors do not, however many there are.
#[test]
fn only_a_lost_device_error_proves_completion() {
    for kind in [ErrorKind::Driver, ErrorKind::OutOfMemory] {
        let (recorder, device) = open();
        let stream = held_stream(&recorder, &device);
        let buffer = busy_buffer(&device, &stream);
        // At the drop: a query of the stream and a record of an event. Then one query for each collection.
        for call in ["QueryStream", "CreateEvent", "QueryStream", "QueryStream", "QueryStream"] {
            recorder.fail_next(call, kind);
        }
        drop(buffer);
        (0..3).for_each(|_| device.collect());
        assert_eq!(recorder.frees(), [], "{kind}");
        recorder.finish(stream.as_raw());
        (0..2).for_each(|_| device.collect());
        assert_eq!(recorder.frees().len(), 2, "{kind}");
    }
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let buffer = mapped(&device);
    stream.fill(&buffer, 1).expect("fill");
    for call in ["QueryStream", "CreateEvent"] {
        recorder.fail_next(call, ErrorKind::DeviceLost);
    }
    drop(buffer);
    assert_eq!(recorder.frees().len(), 2, "the device is lost");
}

/// A call that borrows the caller's memory returns once its copy has completed, not when a query fails.
#[test]
fn a_failed_read_returns_only_after_its_copy() {
    for kind in [ErrorKind::Driver, ErrorKind::OutOfMemory] {
        let (recorder, device) = open();
        let stream = held_stream(&recorder, &device);
        let buffer = mapped(&device);
        for call in ["SynchronizeStream", "QueryStream", "CreateEvent", "QueryStream", "QueryStream", "CreateEvent"] {
            recorder.fail_next(call, kind);
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| {
                let found = stream.read(&buffer, &mut vec![0; usize::try_from(SIZE).expect("a size")]);
                (found.expect_err("injected failure").kind(), done.load(Ordering::SeqCst))
            });
            while !recorder.calls().iter().any(|call| matches!(call, Call::CopyToHost { .. })) {
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_millis(30));
            done.store(true, Ordering::SeqCst);
            recorder.finish(stream.as_raw());
            assert_eq!(reads.join().expect("no panic"), (kind, true), "returned while its copy was pending");
        });
    }
}

/// Buffer arguments and `Stream::keep` keep a mapping alive.
#[test]
fn a_buffer_argument_lives_until_the_kernel_has_completed() {
    for (kept, how) in [(true, "argument"), (true, "keep"), (false, "address")] {
        let (recorder, device) = open();
        let stream = held_stream(&recorder, &device);
        let (buffer, other) = (mapped(&device), mapped(&open().1));
        let module = device.load_module(ModuleImage::Builtin).expect("module");
        let kernel = module.kernel(c"kernel").expect("kernel");
        let launch = |arg: KernelArg<'_>| {
            // SAFETY: the recorder runs nothing.
            unsafe { stream.launch(&kernel, &LaunchConfig::linear(1), &[arg, KernelArg::U32(7)]) }
        };
        let address = KernelArg::Ptr(buffer.as_raw());
        launch(if how == "argument" { KernelArg::from(&buffer) } else { address }).expect("launches");
        if how == "keep" {
            stream.keep(&buffer).expect("keeps");
        }
        for error in [launch(KernelArg::from(&other)).err(), stream.keep(&other).err()] {
            assert_eq!(error.expect("of another device").kind(), ErrorKind::InvalidArgument);
        }
        let launched =
            |call: &Call| matches!(call, Call::LaunchKernel { args, .. } if args[0] == format!("{address:?}"));
        assert!(recorder.calls().iter().any(launched), "{how}: backends take addresses");
        drop(buffer);
        let freed = recorder.frees().iter().any(|call| matches!(call, Call::FreeBuffer(_)));
        assert_eq!(freed, !kept, "{how}");
        recorder.finish(stream.as_raw());
        device.collect();
        assert!(recorder.frees().iter().any(|call| matches!(call, Call::FreeBuffer(_))), "{how}");
    }
}

/// Host functions that drop objects take no lock that is held during a driver call.
#[test]
fn host_functions_drop_objects_during_a_driver_call() {
    let (recorder, device) = open();
    let device = Arc::new(device);
    let (busy, used) = (device.create_stream().expect("stream"), mapped(&device));
    recorder.hold(busy.as_raw());
    busy.fill(&used, 1).expect("fills");
    without_driver_calls(|| drop(used));
    let (inside, entered) = channel();
    let (go_on, released) = channel::<()>();
    recorder.before_record(move || {
        let _ = inside.send(());
        let _ = released.recv_timeout(LONG);
    });
    std::thread::scope(|scope| {
        let collects = scope.spawn(|| device.collect());
        entered.recv_timeout(LONG).expect("an event is recorded behind the busy stream");
        let (done, dropped) = channel();
        let other = import(&device);
        scope.spawn(move || {
            without_driver_calls(|| drop(other));
            let _ = done.send(());
        });
        let in_time = dropped.recv_timeout(LONG / 2);
        let _ = go_on.send(());
        collects.join().expect("collects");
        assert_eq!(in_time, Ok(()), "the host function waits for the thread that calls the driver");
    });
    recorder.finish(busy.as_raw());
}

/// The driver may block in a free. The free must not block calls of other threads.
#[test]
fn no_lock_is_held_over_a_free() {
    for retired in [false, true] {
        let (recorder, device) = open();
        let stream = device.create_stream().expect("stream");
        recorder.hold(stream.as_raw());
        let (memory, other) = (import(&device), mapped(&device));
        let buffer = memory.map_buffer(..).expect("map");
        if retired {
            stream.fill(&buffer, 1).expect("fill");
        }
        let (done, is_done) = channel();
        let outside = device.clone();
        recorder.before_free_buffer(move || {
            let thread = std::thread::spawn(move || {
                drop((outside.create_stream().expect("stream"), outside.create_event().expect("event")));
                drop((other, import(&outside)));
                outside.collect();
                drop(memory);
                done.send(()).expect("the test listens");
            });
            let ended = is_done.recv_timeout(LONG);
            assert_ne!(ended, Err(RecvTimeoutError::Timeout), "another thread waits for this free");
            thread.join().expect("no panic");
        });
        drop(buffer);
        if retired {
            recorder.finish(stream.as_raw());
            device.collect();
        }
        // The memory was dropped while its mapping was being freed, and is freed, too.
        let frees = recorder.frees();
        assert!(matches!(frees.last(), Some(Call::DestroyMemory(_))), "{frees:#?}");
        assert_eq!(frees.iter().filter(|call| matches!(call, Call::DestroyMemory(_))).count(), 3, "{frees:#?}");
        recorder.finish(stream.as_raw());
    }
}

#[test]
fn a_lent_stream_keeps_its_owner_until_its_work_has_run() {
    let (recorder, device) = open();
    let raw = recorder.application_stream();
    let owner = Arc::new("the application's");
    let watched: Weak<&str> = Arc::downgrade(&owner);
    recorder.hold(raw);
    // SAFETY: the application's stream lives as long as the recorder.
    let stream = unsafe { device.stream_from_raw_with_owner(raw, owner) }.expect("the application's");
    let buffer = mapped(&device);
    stream.fill(&buffer, 1).expect("fill");
    drop(stream);
    device.collect();
    assert!(watched.upgrade().is_some(), "work is pending");
    recorder.finish(raw);
    assert!(watched.upgrade().is_some(), "nothing is freed in the background");
    device.collect();
    assert!(watched.upgrade().is_none(), "the owner is still alive");
    assert_eq!(buffer.size(), SIZE);
    assert_eq!(recorder.frees(), []);
}
