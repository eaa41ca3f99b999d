//! Host functions in stream order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::recorder::Call;
use super::{assert_error, open};
use crate::error::ErrorKind;

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn functions_run_with_their_data_in_order() {
    let (recorder, device) = open();
    let queue = device.create_stream().expect("stream");
    recorder.hold(queue.as_raw());
    let (seen, dropped) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    for number in 0..3_u64 {
        let (seen, counted) = (seen.clone(), Counted(dropped.clone()));
        let data = vec![number; 100];
        queue
            .launch_host_function(move || {
                let _counted = counted;
                seen.lock().expect("lock").push(data.iter().sum::<u64>());
            })
            .expect("launch");
    }
    assert_eq!(*seen.lock().expect("lock"), [0; 0], "the stream is held");
    recorder.finish(queue.as_raw());
    assert_eq!(*seen.lock().expect("lock"), [0, 100, 200]);
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
    assert_eq!(recorder.calls()[1..], vec![Call::LaunchHostFunction(queue.as_raw()); 3]);
    queue.synchronize().expect("nothing failed");
}

#[test]
fn a_function_that_is_not_launched_is_dropped_once() {
    let (recorder, device) = open();
    let queue = device.create_stream().expect("stream");
    let (dropped, called) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, calls) = (Counted(dropped.clone()), called.clone());
    recorder.fail_next("LaunchHostFunction", ErrorKind::Driver);
    let launched = queue.launch_host_function(move || {
        let _counted = &counted;
        calls.fetch_add(1, Ordering::Relaxed);
    });
    assert_error(&launched.expect_err("injected failure"), ErrorKind::Driver, "drvInjectedFailure", &["DRV_INJECTED"]);
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
    queue.synchronize().expect("nothing was enqueued");
    assert_eq!((dropped.load(Ordering::Relaxed), called.load(Ordering::Relaxed)), (1, 0));
}

#[test]
fn a_panic_is_reported_once_by_the_next_synchronisation() {
    let (recorder, device) = open();
    let (queue, other) = (device.create_stream().expect("stream"), device.create_stream().expect("stream"));
    let dropped = Arc::new(AtomicUsize::new(0));
    let counted = Counted(dropped.clone());
    let launched = queue.launch_host_function(move || {
        let _counted = counted;
        panic!("expected by the test");
    });
    launched.expect("launch");
    recorder.finish(queue.as_raw());
    assert_eq!(dropped.load(Ordering::Relaxed), 1, "captured data is dropped");
    other.synchronize().expect("another stream's panic");
    let error = queue.synchronize().expect_err("the panic");
    assert_error(&error, ErrorKind::HostFunctionPanicked, "Stream::synchronize", &["panicked"]);
    queue.synchronize().expect("reported once");
    queue.launch_host_function(|| ()).expect("the stream still works");
    queue.synchronize().expect("no panic");
}

/// A driver error does not hide the panic.
#[test]
fn a_panic_survives_a_failing_synchronisation() {
    let (recorder, device) = open();
    let queue = device.create_stream().expect("stream");
    queue.launch_host_function(|| std::panic::resume_unwind(Box::new("quiet"))).expect("launch");
    recorder.finish(queue.as_raw());
    recorder.fail_next("SynchronizeStream", ErrorKind::Driver);
    assert_eq!(queue.synchronize().expect_err("injected failure").kind(), ErrorKind::Driver);
    assert_eq!(queue.synchronize().expect_err("the panic").kind(), ErrorKind::HostFunctionPanicked);
    queue.synchronize().expect("reported once");
}

/// The payload of a panic may itself panic when it is dropped; that must not reach the driver's thread.
#[test]
fn a_payload_that_panics_when_dropped_is_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("must not be dropped");
        }
    }
    let (recorder, device) = open();
    let queue = device.create_stream().expect("stream");
    queue.launch_host_function(|| std::panic::resume_unwind(Box::new(Bomb))).expect("launch");
    recorder.finish(queue.as_raw());
    assert_eq!(queue.synchronize().expect_err("the panic").kind(), ErrorKind::HostFunctionPanicked);
}

/// The function may run after its stream was dropped.
#[test]
fn a_function_outlives_its_stream() {
    let (recorder, device) = open();
    let queue = device.create_stream().expect("stream");
    let raw = queue.as_raw();
    recorder.hold(raw);
    let called = Arc::new(AtomicUsize::new(0));
    let calls = called.clone();
    let count = move || {
        calls.fetch_add(1, Ordering::Relaxed);
    };
    queue.launch_host_function(count).expect("launch");
    queue.launch_host_function(|| std::panic::resume_unwind(Box::new("quiet"))).expect("launch");
    drop(queue);
    recorder.finish(raw);
    assert_eq!(called.load(Ordering::Relaxed), 1);
}
