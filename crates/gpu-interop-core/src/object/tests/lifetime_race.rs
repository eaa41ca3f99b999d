//! Order of frees while work completes, calls fail and other threads free objects concurrently.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use super::lifetime_busy::held_stream;
use super::recorder::Call;
use super::{SIZE, binary, import, mapped, opaque, open};
use crate::error::ErrorKind;
use crate::object::Stream;

/// Work completes between any two queries. The recorder fails the test if memory is freed before its mapping, or an
/// object while it is in use.
#[test]
fn work_may_complete_between_any_two_queries() {
    for queries in 1..16 {
        let (recorder, device) = open();
        let streams = [held_stream(&recorder, &device), held_stream(&recorder, &device)];
        let memory = import(&device);
        let (first, second) = (memory.map_buffer(..).expect("map"), memory.map_buffer(8..16).expect("map"));
        streams.iter().for_each(|stream| stream.fill(&first, 1).expect("fill"));
        streams[1].fill(&second, 1).expect("fill");
        recorder.finish_after_queries(queries);
        drop(second);
        drop(memory);
        drop(first);
        for _ in 0..4 {
            device.inner.lifetimes.collect(&*device.inner.raw);
        }
        recorder.finish_all();
    }
}

/// A thread frees the mapping, inside the backend, while another drops the memory.
#[test]
fn memory_waits_for_a_mapping_that_another_thread_is_freeing() {
    for drop_while_freeing in [false, true] {
        let (recorder, device) = open();
        let stream = held_stream(&recorder, &device);
        let memory = import(&device);
        let buffer = memory.map_buffer(..).expect("map");
        stream.fill(&buffer, 1).expect("fill");
        drop(buffer);
        let mut memory = Some(memory);
        if !drop_while_freeing {
            // Retired as well: then another thread's collection must not overtake.
            memory = None;
        }
        recorder.finish(stream.as_raw());
        let (freeing, is_freeing) = mpsc::channel();
        let (done, is_done) = mpsc::channel();
        recorder.before_free_buffer(move || {
            freeing.send(()).expect("the test listens");
            // A bounded wait: the other thread is expected to block until this one has finished.
            let _ = is_done.recv_timeout(Duration::from_millis(100));
        });
        std::thread::scope(|scope| {
            scope.spawn(|| stream.synchronize().expect("synchronize"));
            is_freeing.recv().expect("the mapping is being freed");
            drop(memory.take());
            device.inner.lifetimes.collect(&*device.inner.raw);
            let _ = done.send(());
        });
        let frees = recorder.frees();
        assert!(matches!(frees[..], [Call::FreeBuffer(_), Call::DestroyMemory(_)]), "{frees:#?}");
    }
}

/// While one thread frees the mapping, another frees all that is retired besides, and drops the memory.
#[test]
fn memory_waits_for_a_mapping_after_the_end_of_another_collection() {
    let (recorder, device) = open();
    let [first, second] = [held_stream(&recorder, &device), held_stream(&recorder, &device)];
    let memory = import(&device);
    let buffer = memory.map_buffer(..).expect("map");
    first.fill(&buffer, 1).expect("fill");
    drop(buffer);
    recorder.finish(first.as_raw());
    let (other, other_recorder) = (device.clone(), recorder.clone());
    recorder.before_free_buffer(move || {
        let ends = std::thread::spawn(move || {
            let semaphore = binary(&other);
            second.signal(&[semaphore.signal()]).expect("signal");
            drop(semaphore);
            other_recorder.finish(second.as_raw());
            other.collect();
            assert!(matches!(other_recorder.frees()[..], [Call::DestroySemaphore(_)]));
            drop(memory);
            assert_eq!(other_recorder.frees().len(), 1, "the memory has a mapping");
            second
        });
        drop(ends.join().expect("no panic"));
    });
    first.synchronize().expect("synchronize");
    let frees = recorder.frees();
    assert!(
        matches!(
            frees[..],
            [Call::DestroySemaphore(_), Call::DestroyStream(_), Call::FreeBuffer(_), Call::DestroyMemory(_)]
        ),
        "{frees:#?}"
    );
}

/// Without an event the completion of the work is unknown. No object in use may be freed, nor memory before its
/// mapping.
#[test]
fn a_failing_event_frees_nothing_too_early() {
    for call in ["CreateEvent", "RecordEvent"] {
        for failures in 1..3 {
            let (recorder, device) = open();
            recorder.expect_leaks();
            let stream = held_stream(&recorder, &device);
            let (buffer, semaphore) = (mapped(&device), binary(&device));
            stream.fill(&buffer, 1).expect("fill");
            stream.signal(&[semaphore.signal()]).expect("signal");
            (0..failures).for_each(|_| recorder.fail_next(call, ErrorKind::OutOfMemory));
            drop(buffer);
            drop(semaphore);
            assert_eq!(recorder.frees(), [], "{call}");
            recorder.finish(stream.as_raw());
            stream.synchronize().expect("synchronize");
        }
    }
}

/// `close` returns the error of the free; a drop logs it.
#[test]
fn a_failing_event_leaves_no_event_behind() {
    let (recorder, device) = open();
    recorder.expect_leaks();
    let streams = [held_stream(&recorder, &device), held_stream(&recorder, &device)];
    let semaphore = binary(&device);
    streams.iter().for_each(|stream| stream.signal(&[semaphore.signal()]).expect("signal"));
    recorder.fail_next("RecordEvent", ErrorKind::OutOfMemory);
    drop(semaphore);
    streams.iter().for_each(|stream| recorder.finish(stream.as_raw()));
    streams[0].synchronize().expect("synchronize");
    let calls = recorder.calls();
    let count = |wanted: fn(&Call) -> bool| calls.iter().filter(|call| wanted(call)).count();
    let created = count(|call| matches!(call, Call::CreateEvent));
    let destroyed = count(|call| matches!(call, Call::DestroyEvent(_)));
    assert_eq!(created, destroyed, "{calls:#?}");
}

/// Many threads map, use and drop ranges of the same imports while another completes work.
#[test]
fn many_threads_free_each_object_once_and_in_order() {
    let (recorder, device) = open();
    let streams: Arc<[Stream]> = (0..4).map(|_| held_stream(&recorder, &device)).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4_usize)
            .map(|worker| {
                let (streams, device) = (streams.clone(), &device);
                scope.spawn(move || {
                    for round in 0..300 {
                        let memory = device.import_memory(opaque(SIZE)).expect("import");
                        let (first, second) =
                            (memory.map_buffer(..).expect("map"), memory.map_buffer(0..4).expect("map"));
                        streams[worker].fill(&first, 1).expect("fill");
                        streams[(worker + round) % 4].fill(&second, 1).expect("fill");
                        if round % 2 == 0 {
                            drop((memory, first, second))
                        } else {
                            drop((second, first, memory))
                        }
                        if round % 16 == 0 {
                            streams[worker].synchronize().expect("synchronize");
                        }
                    }
                })
            })
            .collect();
        while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
            streams.iter().for_each(|stream| recorder.finish(stream.as_raw()));
            std::thread::yield_now();
        }
    });
    streams.iter().for_each(|stream| stream.synchronize().expect("synchronize"));
    drop(streams);
    device.inner.lifetimes.collect(&*device.inner.raw);
    assert_eq!(recorder.live(), 0);
    let frees = recorder.frees();
    assert_eq!(frees.iter().filter(|call| matches!(call, Call::DestroyMemory(_))).count(), 1200);
    assert_eq!(frees.iter().filter(|call| matches!(call, Call::FreeBuffer(_))).count(), 2400);
}
