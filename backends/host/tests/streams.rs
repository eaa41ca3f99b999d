//! Interaction of threads, events and drops on the host backend's streams.

#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use gpu_interop_core::{Device, DevicePtr, ErrorKind, ExternalSemaphore, KernelArg, LaunchConfig, ModuleImage};
use gpu_interop_host::{HostBackend, HostSemaphore};

const LONG: Duration = Duration::from_secs(10);

fn open() -> Device {
    Device::open(&HostBackend::new(), 0).expect("the host backend always opens")
}

fn timeline(device: &Device) -> (HostSemaphore, ExternalSemaphore) {
    let peer = HostSemaphore::timeline(0).expect("create");
    let imported = device.import_semaphore(peer.import_request().expect("export")).expect("import");
    (peer, imported)
}

#[test]
fn a_fresh_stream_is_idle() {
    let device = open();
    for _ in 0..50 {
        assert!(device.create_stream().expect("stream").is_idle().expect("query"));
    }
}

#[test]
fn an_event_recorded_again_elsewhere_does_not_satisfy_an_earlier_wait() {
    let device = open();
    let (peer, semaphore) = timeline(&device);
    let stream = || device.create_stream().expect("stream");
    let (first, second, waiting) = (stream(), stream(), stream());
    let event = device.create_event().expect("event");
    first.wait(&[semaphore.wait_value(1)]).expect("wait");
    first.record(&event).expect("record");
    waiting.wait_event(&event).expect("wait");
    let ran = Arc::new(AtomicBool::new(false));
    let flag = ran.clone();
    waiting.launch_host_function(move || flag.store(true, Ordering::SeqCst)).expect("launch");
    second.record(&event).expect("record again");
    second.synchronize().expect("idle");
    std::thread::sleep(Duration::from_millis(150));
    assert!(!ran.load(Ordering::SeqCst), "the wait refers to the first stream's record");
    peer.signal_value(1).expect("signal");
    waiting.synchronize_timeout(LONG).expect("the first stream reached its record");
    assert!(ran.load(Ordering::SeqCst));
}

#[test]
fn recording_and_waiting_from_two_threads_does_not_deadlock_a_stream() {
    let device = open();
    let (stream, event) = (device.create_stream().expect("stream"), device.create_event().expect("event"));
    std::thread::scope(|scope| {
        for record in [true, false] {
            let (stream, event) = (&stream, &event);
            scope.spawn(move || {
                let end = Instant::now() + Duration::from_millis(500);
                while Instant::now() < end {
                    if record { stream.record(event) } else { stream.wait_event(event) }.expect("enqueue");
                    std::thread::yield_now();
                }
            });
        }
    });
    stream.synchronize_timeout(LONG).expect("no wait precedes its record");
}

#[test]
fn work_without_waits_runs_after_all_objects_are_dropped() {
    for _ in 0..20 {
        let device = open();
        let (peer, semaphore) = timeline(&device);
        let memory = device.allocate_exportable(1 << 20).expect("memory");
        let stream = device.create_stream().expect("stream");
        for _ in 0..20 {
            stream.fill(&memory, 3).expect("fill");
        }
        stream.signal(&[semaphore.signal_value(1)]).expect("signal");
        drop((stream, memory, semaphore, device));
        peer.wait_value(1, LONG).expect("the enqueued signal runs");
    }
}

#[test]
fn the_last_objects_may_be_dropped_in_a_host_function() {
    let device = open();
    let stream = Arc::new(device.create_stream().expect("stream"));
    let (last_stream, last_device) = (stream.clone(), device.clone());
    let (go, wait) = mpsc::channel::<()>();
    let (report, taken) = mpsc::channel();
    stream
        .launch_host_function(move || {
            let _ = wait.recv();
            let start = Instant::now();
            drop(last_stream);
            drop(last_device);
            let _ = report.send(start.elapsed());
        })
        .expect("launch");
    drop(stream);
    drop(device);
    go.send(()).expect("the function waits");
    let taken = taken.recv_timeout(LONG).expect("the function ends");
    assert!(taken < Duration::from_millis(900), "dropping took {taken:?}: it waited for its own stream");
}

/// No thread of the device exists in the child, which would wait for it without end.
#[test]
#[cfg(target_os = "linux")]
fn a_forked_process_gets_errors() {
    let device = open();
    let stream = device.create_stream().expect("stream");
    let memory = device.allocate_exportable(4096).expect("memory");
    // SAFETY: the child only calls methods that fail, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends a child that waits.
        unsafe { libc::alarm(10) };
        let mut bytes = [0; 4096];
        let results = [
            stream.read(&memory, &mut bytes),
            stream.write(&memory, &bytes),
            stream.is_idle().map(drop),
            stream.synchronize(),
            stream.synchronize_timeout(LONG),
        ];
        let is_error =
            |result: &gpu_interop_core::Result<()>| matches!(result, Err(error) if error.kind() == ErrorKind::System);
        let code = results.iter().position(|result| !is_error(result)).map_or(0, |place| 1 + place);
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::try_from(code).unwrap_or(100)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just created.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child waited: {status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "the place of a call without an error, from 1");
    stream.synchronize().expect("the parent goes on");
}

#[test]
fn an_unknown_kernel_is_an_invalid_argument() {
    let module = open().load_module(ModuleImage::Builtin).expect("load");
    for (name, operation, words) in [
        (c"no_such_kernel", "HostBackend::module_kernel", "has no kernel of this name"),
        (c"", "Module::kernel", "is empty"),
    ] {
        let error = module.kernel(name).expect_err("no such kernel");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, operation), "{error}");
        assert!(error.message().contains(words) && error.device().is_some(), "{error}");
    }
}

/// A parameter of a kernel, with padding behind its first field.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C)]
struct Scale {
    step: i16,
    factor: f64,
}

#[test]
fn kernels_take_scalars_and_structs_by_value() {
    let (sender, taken) = mpsc::channel();
    let backend = HostBackend::builder().kernel(c"scale".to_owned(), move |call| {
        // SAFETY: the launch below passes a `Scale`.
        let scale = unsafe { call.value::<Scale>(1) }?;
        // SAFETY: a `u32` is rejected for its size.
        let other = unsafe { call.value::<u32>(1) }.expect_err("another size");
        let scalars = (call.i8(0)?, call.u16(2)?, call.f64(3)?, call.i64(4)?);
        let _ = sender.send((scale, scalars, call.arguments(), other));
        call.u32(4).map(drop)
    });
    let device = Device::open(&backend.build(), 0).expect("open");
    let stream = device.create_stream().expect("stream");
    let kernel = device.load_module(ModuleImage::Builtin).expect("load").kernel(c"scale").expect("kernel");
    let scale = Scale { step: -3, factor: 0.25 };
    let launch = |scale: Scale| {
        let args = [
            KernelArg::I8(-1),
            KernelArg::by_value(&scale),
            KernelArg::U16(40_000),
            KernelArg::F64(1e300),
            KernelArg::I64(i64::MIN),
        ];
        // SAFETY: the arguments are those that the kernel takes.
        unsafe { stream.launch(&kernel, &LaunchConfig::linear(1), &args) }
    };
    launch(scale).expect("launch");
    let error = stream.synchronize_timeout(LONG).expect_err("argument 4 is signed");
    assert!(error.to_string().contains("`scale`: argument 4 is an i64, not a u32"), "{error}");
    let (found, scalars, count, other) = taken.recv_timeout(LONG).expect("it ran");
    assert_eq!((found, scalars, count), (scale, (-1, 40_000, 1e300, i64::MIN), 5));
    assert!(other.contains("argument 1 differs in size or alignment from u32 (4 bytes, aligned to 4)"), "{other}");

    #[repr(align(64))]
    #[derive(Clone, Copy)]
    struct Aligned(#[allow(dead_code, reason = "never read")] u8);
    // SAFETY: nothing is launched.
    let error = unsafe { stream.launch(&kernel, &LaunchConfig::linear(1), &[KernelArg::by_value(&Aligned(0))]) };
    assert!(error.expect_err("no kernel takes it").to_string().contains("alignment: 64"));
}

/// Panic payload that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped");
    }
}

#[test]
fn a_stream_continues_after_a_kernel_panics() {
    let backend = HostBackend::builder().kernel(c"bomb".to_owned(), |_| std::panic::resume_unwind(Box::new(Bomb)));
    let device = Device::open(&backend.build(), 0).expect("open");
    let stream = device.create_stream().expect("stream");
    let kernel = device.load_module(ModuleImage::Builtin).expect("load").kernel(c"bomb").expect("kernel");
    // SAFETY: the kernel takes no arguments.
    unsafe { stream.launch(&kernel, &LaunchConfig::linear(1), &[]) }.expect("launch");
    let error = stream.synchronize_timeout(LONG).expect_err("it panicked");
    assert_eq!(error.kind(), ErrorKind::Driver, "{error}");
    let ran = Arc::new(AtomicBool::new(false));
    let flag = ran.clone();
    stream.launch_host_function(move || flag.store(true, Ordering::SeqCst)).expect("launch");
    stream.synchronize_timeout(LONG).expect("the failure was reported once");
    assert!(ran.load(Ordering::SeqCst), "the stream continues");
}

#[test]
fn memory_of_the_application_is_copied_both_ways() {
    let device = open();
    let stream = device.create_stream().expect("stream");
    let words: Arc<[AtomicU32]> = (0..64).map(AtomicU32::new).collect();
    let ptr = DevicePtr::new(words.as_ptr().expose_provenance() as u64);
    // SAFETY: `words` keeps the 256 bytes allocated, which are accessed atomically, and here only when the stream is
    // idle.
    let borrowed = unsafe { device.borrow_memory(ptr, 256, Arc::new(words.clone())) }.expect("a range");
    let memory = device.allocate_exportable(256).expect("allocate");
    let shared = memory.slice(..256).expect("a range");
    stream.copy(shared, &borrowed).expect("copy to shared memory");
    stream.fill_u32(shared.slice(..128).expect("half"), 7).expect("fill");
    stream.copy(&borrowed, shared).expect("copy back");
    drop(borrowed);
    stream.synchronize().expect("idle");
    let found: Vec<u32> = words.iter().map(|word| word.load(Ordering::SeqCst)).collect();
    assert_eq!(found, [7; 32].into_iter().chain(32..64).collect::<Vec<_>>());
}

/// A host function that waits for its own stream would wait for itself.
#[test]
fn a_host_function_cannot_wait_for_streams() {
    let device = open();
    let stream = Arc::new(device.create_stream().expect("a stream"));
    let (own, buffer) = (stream.clone(), device.allocate_exportable(4096).expect("memory"));
    let (send, seen) = mpsc::channel();
    let waits = move || {
        send.send(own.synchronize_timeout(Duration::ZERO)).expect("received");
        // The others have no timeout.
        if own.synchronize_timeout(Duration::ZERO).is_err_and(|error| error.kind() == ErrorKind::InvalidArgument) {
            send.send(own.synchronize()).expect("received");
            send.send(own.read(&buffer, &mut [0; 4096])).expect("received");
            send.send(own.write(&buffer, &[0; 4096])).expect("received");
        }
    };
    stream.launch_host_function(waits).expect("launches");
    for _ in 0..4 {
        let waited = seen.recv_timeout(LONG).expect("the function has called it");
        let error = waited.expect_err("the wait would never end");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains("host function"), "{error}");
    }
    stream.synchronize().expect("the stream works");
}
