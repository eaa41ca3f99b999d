//! Objects keep their parents alive and are freed exactly once; idle ones immediately.

use super::recorder::{Call, Recorder};
use super::{assert_error, binary, import, mapped, open};
use crate::array::{ArrayFormat, ArrayShape, ChannelType, MipmappedArrayDesc};
use crate::backend::RawStream;
use crate::error::{ErrorKind, Result};
use crate::kernel::{LaunchConfig, ModuleImage};
use crate::object::{Device, ExternalMemory, MappedMipmappedArray};

fn image(memory: &ExternalMemory) -> MappedMipmappedArray {
    let format = ArrayFormat::new(ChannelType::Float32, 1).expect("one channel");
    memory.map_mipmapped_array(&MipmappedArrayDesc::new(ArrayShape::D1 { width: 16 }, format)).expect("map")
}

/// All orders of the numbers below `count`.
pub(super) fn orders(count: usize) -> Vec<Vec<usize>> {
    (0..count).fold(vec![Vec::new()], |orders, next| {
        let insert = |order: Vec<usize>| {
            (0..=order.len()).map(move |at| {
                let mut longer = order.clone();
                longer.insert(at, next);
                longer
            })
        };
        orders.into_iter().flat_map(insert).collect()
    })
}

/// Drops objects of any type in the given order.
pub(super) fn drop_in_order(objects: Vec<Box<dyn std::any::Any>>, order: &[usize]) {
    let mut objects: Vec<_> = objects.into_iter().map(Some).collect();
    for index in order {
        drop(objects[*index].take());
    }
}

fn position(recorder: &Recorder, call: &Call) -> usize {
    let calls = recorder.calls();
    assert_eq!(calls.iter().filter(|made| *made == call).count(), 1, "{call:?} exactly once: {calls:#?}");
    calls.iter().position(|made| made == call).expect("counted")
}

#[test]
fn memory_ends_after_its_last_mapping_in_every_drop_order() {
    for order in orders(5) {
        let (recorder, device) = open();
        let stream = device.create_stream().expect("stream");
        let memory = import(&device);
        let (buffer, second, raw) =
            (memory.map_buffer(..).expect("map"), memory.map_buffer(1..2).expect("map"), memory.as_raw());
        stream.fill(&buffer, 1).expect("fill");
        let mappings = [Call::FreeBuffer(buffer.as_raw()), Call::FreeBuffer(second.as_raw())];
        let stream_call = Call::DestroyStream(stream.as_raw());
        drop_in_order(
            vec![Box::new(device), Box::new(stream), Box::new(memory), Box::new(buffer), Box::new(second)],
            &order,
        );
        let end = position(&recorder, &Call::DestroyMemory(raw));
        for mapping in mappings {
            assert!(position(&recorder, &mapping) < end, "{order:?}");
        }
        position(&recorder, &stream_call);
        assert_eq!(recorder.live(), 0, "{order:?}");
    }
}

#[test]
fn memory_ends_after_its_images_in_every_drop_order() {
    for order in orders(4) {
        let (recorder, device) = open();
        let memory = import(&device);
        let (array, buffer, raw) = (image(&memory), memory.map_buffer(..).expect("map"), memory.as_raw());
        let freed = Call::FreeMipmappedArray(array.as_raw());
        drop_in_order(vec![Box::new(device), Box::new(memory), Box::new(array), Box::new(buffer)], &order);
        assert!(position(&recorder, &freed) < position(&recorder, &Call::DestroyMemory(raw)), "{order:?}");
        assert_eq!(recorder.live(), 0, "{order:?}");
    }
}

/// The device is dropped first; its objects keep it open.
#[test]
fn objects_keep_their_device() {
    let (recorder, device) = open();
    let memory = import(&device);
    let stream = device.create_stream().expect("stream");
    drop(device);
    let buffer = memory.map_buffer(..).expect("map");
    drop(memory);
    stream.fill(&buffer, 7).expect("fill");
    stream.synchronize().expect("synchronize");
    drop(buffer);
    drop(stream);
    assert_eq!(recorder.live(), 0);
}

#[test]
fn closed_memory_is_destroyed_with_its_last_mapping() {
    let (recorder, device) = open();
    let memory = import(&device);
    let (first, second, raw) = (memory.map_buffer(..).expect("map"), image(&memory), memory.as_raw());
    recorder.forget_calls();
    memory.close().expect("close");
    assert_eq!(recorder.calls(), [], "mappings live");
    let (first_raw, second_raw) = (first.as_raw(), second.as_raw());
    first.close().expect("close");
    second.close().expect("close");
    let expected = [Call::FreeBuffer(first_raw), Call::FreeMipmappedArray(second_raw), Call::DestroyMemory(raw)];
    assert_eq!(recorder.calls(), expected);
}

/// Closes of one object of each type, with the resulting call.
type Closing = (&'static str, fn(&Device) -> Result<()>);

const CLOSINGS: [Closing; 6] = [
    ("DestroyMemory", |device| import(device).close()),
    ("FreeBuffer", |device| mapped(device).close()),
    ("FreeMipmappedArray", |device| image(&import(device)).close()),
    ("DestroySemaphore", |device| binary(device).close()),
    ("DestroyExportable", |device| device.allocate_exportable(1)?.close()),
    ("DestroyStream", |device| device.create_stream()?.close()),
];

#[test]
fn close_returns_the_drivers_error_once() {
    for (call, close) in CLOSINGS {
        let (recorder, device) = open();
        recorder.fail_next(call, ErrorKind::Driver);
        let error = close(&device).expect_err(call);
        assert_error(&error, ErrorKind::Driver, "drvInjectedFailure", &["DRV_INJECTED (-7)"]);
        let tries = recorder.frees().iter().filter(|made| format!("{made:?}").starts_with(call)).count();
        assert_eq!(tries, 1, "{call}: drop must not try again");
        close(&device).expect("the next one");
    }
}

#[test]
fn dropping_ignores_the_drivers_error() {
    type Dropping = (&'static str, fn(&Device));
    let drops: [Dropping; 8] = [
        ("DestroyMemory", |device| drop(import(device))),
        ("FreeBuffer", |device| drop(mapped(device))),
        ("FreeMipmappedArray", |device| drop(image(&import(device)))),
        ("DestroySemaphore", |device| drop(binary(device))),
        ("DestroyExportable", |device| drop(device.allocate_exportable(1))),
        ("DestroyStream", |device| drop(device.create_stream())),
        ("UnloadModule", |device| drop(device.load_module(ModuleImage::Builtin))),
        ("DestroyEvent", |device| drop(device.create_event())),
    ];
    for (call, drop_one) in drops {
        let (recorder, device) = open();
        recorder.fail_next(call, ErrorKind::Driver);
        drop_one(&device);
        drop(device);
        let tries = recorder.calls().iter().filter(|made| format!("{made:?}").starts_with(call)).count();
        assert_eq!(tries, 1, "{call}");
    }
}

/// The used stream is queried; it is idle, so no event is recorded.
#[test]
fn idle_objects_are_freed_immediately_without_an_event() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let (buffer, semaphore) = (mapped(&device), binary(&device));
    let exportable = device.allocate_exportable(64).expect("allocate");
    stream.fill(&buffer, 1).expect("fill");
    stream.fill(&exportable, 1).expect("fill");
    stream.signal(&[semaphore.signal()]).expect("signal");
    recorder.forget_calls();
    let (buffer_raw, semaphore_raw) = (buffer.as_raw(), semaphore.as_raw());
    drop(buffer);
    drop(semaphore);
    drop(exportable);
    let calls = recorder.calls();
    let frees = recorder.frees();
    assert_eq!(frees[0], Call::FreeBuffer(buffer_raw));
    assert!(matches!(frees[1], Call::DestroyMemory(_)));
    assert_eq!(frees[2], Call::DestroySemaphore(semaphore_raw));
    assert!(matches!(frees[3], Call::DestroyExportable(_)));
    assert!(calls.iter().all(|call| call.frees() || *call == Call::QueryStream(stream.as_raw())), "{calls:#?}");
}

/// Unused objects are freed without a query.
#[test]
fn unused_objects_query_no_stream() {
    let (recorder, device) = open();
    let stream = device.create_stream().expect("stream");
    let (busy, memory) = (mapped(&device), import(&device));
    recorder.hold(stream.as_raw());
    stream.fill(&busy, 1).expect("fill");
    recorder.forget_calls();
    let raw = memory.as_raw();
    drop(memory);
    assert_eq!(recorder.calls(), [Call::DestroyMemory(raw)]);
    recorder.finish(stream.as_raw());
}

#[test]
fn a_kernel_keeps_its_module_loaded() {
    let (recorder, device) = open();
    let module = device.load_module(ModuleImage::Builtin).expect("load");
    let raw = module.as_raw();
    let kernel = module.kernel(c"touch").expect("kernel");
    let clone = kernel.clone();
    drop(module);
    drop(kernel);
    assert_eq!(recorder.frees(), []);
    let stream = device.create_stream().expect("stream");
    // SAFETY: the recorder runs nothing.
    unsafe { stream.launch(&clone, &LaunchConfig::linear(1), &[]) }.expect("launch");
    drop(clone);
    assert_eq!(recorder.frees(), [Call::UnloadModule(raw)]);
}

#[test]
fn the_per_thread_default_stream_is_refused() {
    let (recorder, device) = open();
    // SAFETY: an error is expected.
    let error = unsafe { device.stream_from_raw(RawStream::new(2)) }.expect_err("another stream on each thread");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("per-thread default stream"), "{error}");
    assert_eq!(recorder.frees(), []);
}

#[test]
fn an_application_stream_is_never_destroyed() {
    for busy in [false, true] {
        let (recorder, device) = open();
        let raw = recorder.application_stream();
        // SAFETY: the application's stream lives as long as the recorder.
        let stream = unsafe { device.stream_from_raw(raw) }.expect("the application's");
        assert_eq!(stream.as_raw(), raw);
        let buffer = mapped(&device);
        if busy {
            recorder.hold(raw);
        }
        stream.fill(&buffer, 1).expect("fill");
        stream.close().expect("close");
        assert_eq!(recorder.frees(), []);
        drop(buffer);
        drop(device);
        let frees = recorder.frees();
        assert!(matches!(frees[..], [Call::FreeBuffer(_), Call::DestroyMemory(_)]), "{frees:#?}");
    }
}

/// The driver lets a free wait for a kernel or a host function.
#[test]
fn a_drop_lasts_as_long_as_the_drivers_free() {
    const LONG: std::time::Duration = std::time::Duration::from_millis(300);
    let (recorder, device) = open();
    let (stream, unused) = (device.create_stream().expect("stream"), mapped(&device));
    stream.launch_host_function(|| ()).expect("enqueues");
    recorder.before_free_buffer(|| std::thread::sleep(LONG));
    let start = std::time::Instant::now();
    drop(unused);
    assert!(start.elapsed() >= LONG, "documented as Freeing, in the crate documentation");
    recorder.finish(stream.as_raw());
}

#[test]
fn slots_of_streams_are_reused() {
    let (recorder, device) = open();
    let buffer = mapped(&device);
    for _ in 0..200 {
        let stream = device.create_stream().expect("stream");
        stream.fill(&buffer, 1).expect("fill");
    }
    recorder.forget_calls();
    // With a new slot for each stream, bits would be shared by now, and the second stream would be queried
    // unnecessarily.
    let first = device.create_stream().expect("stream");
    let _second = device.create_stream().expect("stream");
    buffer.close().expect("close");
    let calls = recorder.calls();
    let queries: Vec<_> = calls.iter().filter(|call| matches!(call, Call::QueryStream(_))).collect();
    assert!(
        !queries.is_empty() && queries.iter().all(|call| **call == Call::QueryStream(first.as_raw())),
        "{calls:#?}"
    );
}
