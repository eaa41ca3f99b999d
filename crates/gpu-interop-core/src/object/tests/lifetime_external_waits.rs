//! Drivers whose frees wait for streams, and streams that wait for a later signal of the same thread.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::recorder::{Call, Recorder, gpu};
use super::{SIZE, binary, import, mapped, open, open_on};
use crate::backend::WaitCondition;
use crate::kernel::ModuleImage;
use crate::object::without_driver_calls;
use crate::object::{Device, MappedBuffer, Stream};

const LONG: Duration = Duration::from_secs(9);

/// A device whose frees wait for streams, and a stream blocked by a wait for a word.
fn waiting() -> (Arc<Recorder>, Device, Stream, MappedBuffer) {
    let (recorder, device) = open();
    recorder.frees_wait_for_streams();
    let (stream, word) = (device.create_stream().expect("stream"), mapped(&device));
    recorder.hold(stream.as_raw());
    wait(&stream, &word);
    (recorder, device, stream, word)
}

fn wait(stream: &Stream, word: &MappedBuffer) {
    stream.wait_value_u32(word.slice(..4).expect("a word"), 1, WaitCondition::Equal).expect("waits");
}

/// Drops one object of each type whose free waits. None is used by a stream.
fn drop_one_of_each(device: &Device) -> usize {
    let (buffer, semaphore) = (mapped(device), binary(device));
    let exportable = device.allocate_exportable(64).expect("allocate");
    let module = device.load_module(ModuleImage::Builtin).expect("load");
    drop((buffer, semaphore, exportable, module));
    // The buffer's memory, too.
    5
}

#[test]
fn objects_dropped_during_an_external_wait_are_freed_after_it() {
    let (recorder, device, stream, word) = waiting();
    let count = drop_one_of_each(&device);
    drop(device.create_event().expect("event"));
    drop(device.create_stream().expect("a stream, which collects"));
    let early: Vec<Call> =
        recorder.frees().into_iter().filter(|call| !matches!(call, Call::DestroyStream(_))).collect();
    assert_eq!(early, [], "the driver would wait for the stream");
    recorder.finish(stream.as_raw());
    device.collect();
    assert_eq!(recorder.frees().len(), 1 + count, "{:#?}", recorder.frees());
    // Work without external waits retains no unused objects.
    stream.fill(&word, 1).expect("fills");
    drop_one_of_each(&device);
    assert_eq!(recorder.frees().len(), 1 + 2 * count);
    recorder.finish(stream.as_raw());
}

#[test]
fn semaphore_waits_and_graphs_are_external_waits() {
    for how in ["semaphore", "batch", "graph"] {
        let (recorder, device) = open();
        recorder.frees_wait_for_streams();
        let (stream, word) = (device.create_stream().expect("stream"), mapped(&device));
        let (one, two) = (binary(&device), binary(&device));
        let graph = device.record(|stream| stream.fill(&word, 7)).expect("records");
        recorder.hold(stream.as_raw());
        match how {
            "semaphore" => stream.wait(&[one.wait()]).expect("waits"),
            "batch" => stream.wait(&[one.wait(), two.wait()]).expect("waits"),
            _ => graph.launch(&stream).expect("launches"),
        }
        let before = recorder.frees().len();
        drop(import(&device));
        assert_eq!(recorder.frees().len(), before, "{how}");
        recorder.finish(stream.as_raw());
        device.collect();
        assert_eq!(recorder.frees().len(), before + 1, "{how}");
    }
}

/// With continuous frames a wait is always pending, and the number of retained objects is bounded nevertheless.
#[test]
fn retained_objects_are_bounded_while_waits_are_satisfied() {
    let (recorder, device, stream, word) = waiting();
    let (second, other) = (device.create_stream().expect("stream"), device.create_stream().expect("stream"));
    recorder.hold(second.as_raw());
    wait(&second, &word);
    let live = recorder.live();
    for frame in 0..500 {
        drop(import(&device));
        // The wait is satisfied after the next one was enqueued.
        let next = if frame % 2 == 0 { &stream } else { &second };
        recorder.finish(next.as_raw());
        recorder.hold(next.as_raw());
        wait(next, &word);
        other.synchronize().expect("idle; collects");
    }
    recorder.finish(second.as_raw());
    let kept = recorder.live() - live;
    assert!((32..=80).contains(&kept), "{kept} objects are retained");
    recorder.finish(stream.as_raw());
    device.collect();
    assert!(recorder.live() <= live, "all are freed once no wait is pending");
}

/// One thread enqueues a wait, drops an object, and satisfies the wait. No object is retained after the next wait.
#[test]
fn the_next_wait_frees_retained_objects_if_none_is_pending() {
    let (recorder, device, stream, word) = waiting();
    let live = recorder.live();
    for _ in 0..500 {
        drop(import(&device));
        recorder.finish(stream.as_raw());
        recorder.hold(stream.as_raw());
        wait(&stream, &word);
        assert!(recorder.live() <= live + 1, "{} objects are retained", recorder.live() - live);
    }
    recorder.finish(stream.as_raw());
}

/// Two devices on the same hardware, both always busy: the number of retained objects is bounded, too.
#[test]
fn retained_objects_are_bounded_beside_another_busy_device() {
    let open = || {
        let recorder = Recorder::new(gpu(0x53));
        recorder.frees_wait_for_streams();
        open_on(recorder)
    };
    let ((first, neighbour), (second, device)) = (open(), open());
    let (stream, word) = (neighbour.create_stream().expect("stream"), mapped(&neighbour));
    first.hold(stream.as_raw());
    wait(&stream, &word);
    let live = second.live();
    for _ in 0..500 {
        drop(import(&device));
        first.finish(stream.as_raw());
        first.hold(stream.as_raw());
        wait(&stream, &word);
    }
    let kept = second.live() - live;
    assert!(kept <= 130, "{kept} objects are retained");
    // A closed device is ignored.
    first.finish(stream.as_raw());
    drop((word, stream, neighbour));
    device.collect();
    assert_eq!(second.live(), live);
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
        let in_time = dropped.recv_timeout(Duration::from_secs(2));
        let _ = go_on.send(());
        collects.join().expect("collects");
        assert_eq!(in_time, Ok(()), "the host function waits for the thread that calls the driver");
    });
    recorder.finish(busy.as_raw());
}

/// Only this thread could satisfy the wait, however many objects it drops before.
#[test]
fn no_drop_blocks_forever() {
    let (recorder, device, stream, _word) = waiting();
    let before = recorder.frees().len();
    for _ in 0..500 {
        drop(import(&device));
        device.collect();
    }
    assert_eq!(recorder.frees().len(), before);
    recorder.finish(stream.as_raw());
    device.collect();
    assert_eq!(recorder.frees().len(), before + 500);
}

/// A thread that queries a stream without waits is no reason to retain the objects of another thread.
#[test]
fn concurrent_drops_without_waits_are_freed_at_once() {
    let (recorder, device) = open();
    recorder.frees_wait_for_streams();
    let streams: Vec<Stream> = (0..48).map(|_| device.create_stream().expect("stream")).collect();
    let retained = AtomicUsize::new(0);
    let drop_some = || {
        for _ in 0..500 {
            let memory = import(&device);
            let freed = Call::DestroyMemory(memory.as_raw());
            drop(memory);
            retained.fetch_add(usize::from(!recorder.frees().contains(&freed)), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(drop_some);
        scope.spawn(drop_some);
    });
    assert_eq!(retained.into_inner(), 0, "of 1000 objects, with {} streams", streams.len());
}

/// A driver waits for the streams of its GPU, of all `Device`s.
#[test]
fn streams_of_all_devices_on_the_same_hardware_count() {
    // Unique to this test: others run concurrently.
    let open = |number| {
        let recorder = Recorder::new(gpu(number));
        recorder.frees_wait_for_streams();
        open_on(recorder)
    };
    let ((first, waits), (second, frees), (third, elsewhere)) = (open(0x51), open(0x51), open(0x52));
    let (stream, word) = (waits.create_stream().expect("stream"), mapped(&waits));
    first.hold(stream.as_raw());
    wait(&stream, &word);
    drop((import(&frees), import(&elsewhere)));
    assert_eq!((second.frees().len(), third.frees().len()), (0, 1));
    first.finish(stream.as_raw());
    frees.collect();
    assert_eq!(second.frees().len(), 1);
}

/// The driver may block in a free; calls of other threads must not block meanwhile.
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
        if retired {
            drop(buffer);
            recorder.finish(stream.as_raw());
            device.collect();
        } else {
            drop(buffer);
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
    let stream = unsafe { device.stream_from_raw_with_owner(raw, owner) };
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
