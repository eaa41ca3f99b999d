//! Drivers whose frees wait for streams, and streams that wait for a later signal of the same thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::prepared_batch::Form;
use super::recorder::{Call, Recorder, gpu};
use super::{binary, import, mapped, open, open_on, timeline};
use crate::backend::WaitCondition;
use crate::kernel::ModuleImage;
use crate::object::{Device, MappedBuffer, Stream, WaitBatch};

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

/// Drops a buffer with its memory, a semaphore, an exportable allocation and a module, none used by a stream.
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
    for how in ["semaphore", "batch", "prepared", "prepared batch", "graph"] {
        let (recorder, device) = open();
        recorder.frees_wait_for_streams();
        let (stream, word) = (device.create_stream().expect("stream"), mapped(&device));
        let (one, two) = (binary(&device), binary(&device));
        let graph = device.record(|stream| stream.fill(&word, 7)).expect("records");
        recorder.hold(stream.as_raw());
        match how {
            "semaphore" => stream.wait(&[one.wait()]).expect("waits"),
            "batch" => stream.wait(&[one.wait(), two.wait()]).expect("waits"),
            "prepared" => stream.wait_prepared(&WaitBatch::new([&one]).expect("a batch")).expect("waits"),
            "prepared batch" => stream.wait_prepared(&WaitBatch::new([&one, &two]).expect("a batch")).expect("waits"),
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
        // Each stream's wait is satisfied while the other's is pending.
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

/// One thread enqueues a wait, drops an object, and satisfies the wait. The next wait frees the object.
#[test]
fn the_next_wait_frees_retained_objects_if_none_is_pending() {
    type Wait<'a> = (&'a str, &'a dyn Fn(&Stream));
    let (recorder, device, stream, word) = waiting();
    let semaphore = timeline(&device);
    let waits: [Wait<'_>; 3] = [
        ("word", &|stream| wait(stream, &word)),
        ("semaphore", &|stream| Form::Plain.wait(stream, &[(&semaphore, 1)]).expect("waits")),
        ("prepared", &|stream| Form::Prepared.wait(stream, &[(&semaphore, 1)]).expect("waits")),
    ];
    let live = recorder.live();
    for (name, next) in waits {
        for _ in 0..200 {
            drop(import(&device));
            recorder.finish(stream.as_raw());
            recorder.hold(stream.as_raw());
            next(&stream);
            assert_eq!(recorder.live(), live, "{name}: the object is retained");
        }
    }
    recorder.finish(stream.as_raw());
}

/// While a wait of another device on the same hardware is always pending, the number of retained objects is bounded,
/// too. A collection leaves fewer than 64 (`MAX_RETIRED` in `Lifetimes::blocks`), and drops collect again at twice that number.
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
    assert!(kept <= 2 * 64, "{kept} objects are retained");
    first.finish(stream.as_raw());
    device.collect();
    assert_eq!(second.live(), live, "all are freed once no wait is pending");
}

/// Drops never block on a wait that only this thread can satisfy.
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
    const ROUNDS: usize = 10;
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
    for _ in 0..ROUNDS {
        std::thread::scope(|scope| {
            scope.spawn(drop_some);
            scope.spawn(drop_some);
        });
        recorder.forget_calls();
    }
    assert_eq!(retained.into_inner(), 0, "of {} objects, with {} streams", ROUNDS * 1000, streams.len());
}

/// A free waits for the streams of every `Device` on the GPU.
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
