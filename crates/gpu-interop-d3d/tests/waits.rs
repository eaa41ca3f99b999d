//! Fences and keyed mutexes: values, waits, and the ends of waits. The devices are simulators.
#![cfg(windows)]
#![allow(clippy::expect_used, clippy::panic)]

mod simulated;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gpu_interop_core::handle::Win32Object;
use gpu_interop_core::{ErrorKind, ExporterTimeline, SemaphoreHandle, SemaphoreHandleKind};
use gpu_interop_d3d::d3d11::{self, D3d11Interop, ExportableResource};
use gpu_interop_d3d::d3d12::{D3d12Interop, ExportableFence};
use gpu_interop_d3d::{BindFlags, Sharing};
use simulated::{Behavior11, Behavior12, Device11, Device12};

const SOON: Duration = Duration::from_millis(20);
const LONG: Duration = Duration::from_secs(20);

fn fence12(initial: u64) -> (ExportableFence, Arc<Device12>) {
    let (device, state) = Device12::new(Behavior12::default());
    let interop = D3d12Interop::new(&device).expect("one node");
    (ExportableFence::new(&interop, initial).expect("a fence"), state)
}

fn fence11(initial: u64) -> (d3d11::ExportableFence, Arc<Device11>) {
    let (device, state) = Device11::new(Behavior11::default());
    let interop = D3d11Interop::new(&device).expect("a device");
    (d3d11::ExportableFence::new(&interop, initial).expect("a fence"), state)
}

#[test]
fn a_fence_goes_up_and_wakes_who_waits() {
    let (fence, _) = fence12(5);
    assert_eq!(fence.value().expect("a value"), 5);
    fence.wait(5, Duration::ZERO).expect("reached");
    fence.signal(7).expect("above");
    assert_eq!(fence.value().expect("a value"), 7);
    for value in [7, 6, 0, u64::MAX] {
        assert_eq!(fence.signal(value).expect_err("not above").kind(), ErrorKind::InvalidArgument, "{value}");
    }
    assert_eq!(fence.wait(u64::MAX, Duration::ZERO).expect_err("never").kind(), ErrorKind::InvalidArgument);
    assert_eq!(fence.value().expect("a value"), 7);

    let start = Instant::now();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| fence.wait(9, LONG));
        std::thread::sleep(SOON);
        // A smaller value does not end the wait.
        fence.signal(8).expect("above");
        std::thread::sleep(SOON);
        assert!(!waits.is_finished());
        fence.signal(10).expect("above");
        waits.join().expect("no panic").expect("reached");
    });
    assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
}

/// As in another process: the two share only the handle.
#[test]
fn a_fence_that_was_opened_is_the_same() {
    let (fence, _) = fence12(3);
    let SemaphoreHandle::D3d12Fence(Win32Object::Handle(handle)) = fence.export().expect("a handle") else {
        panic!("an NT handle to a fence");
    };
    let (device, _) = Device12::new(Behavior12::default());
    let interop = D3d12Interop::new(&device).expect("one node");
    let opened = ExportableFence::from_raw(&interop, interop.open_fence(&handle).expect("a fence"));
    drop(handle);
    assert_eq!(opened.value().expect("a value"), 3);
    for (waits, signals, value) in [(&fence, &opened, 4), (&opened, &fence, 5)] {
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| waits.wait(value, LONG));
            std::thread::sleep(SOON);
            assert!(!waits.is_finished());
            signals.signal(value).expect("above");
            waits.join().expect("no panic").expect("reached");
        });
    }
    assert_eq!((fence.value().expect("a value"), opened.value().expect("a value")), (5, 5));
    assert_eq!(opened.signal(5).expect_err("not above").kind(), ErrorKind::InvalidArgument);
    opened.export().expect("a handle of its own");
}

#[test]
fn a_wait_ends_in_time_and_may_be_repeated() {
    let (fence, state) = fence12(0);
    let start = Instant::now();
    let error = fence.wait(1, SOON).expect_err("no signal");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(start.elapsed() >= SOON && start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    assert!(error.to_string().contains("value: 1") && error.to_string().contains("present: 0"), "{error}");
    // The second wait reuses the event of the first.
    assert_eq!(fence.wait(1, SOON).expect_err("no signal").kind(), ErrorKind::Timeout);
    assert_eq!(state.fences()[0].waiting(), 1);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| fence.wait(1, LONG));
        std::thread::sleep(SOON);
        fence.signal(1).expect("above");
        waits.join().expect("no panic").expect("reached");
    });
}

#[test]
fn many_threads_wait_for_one_value() {
    let (fence, _) = fence12(0);
    let _ = fence.wait(3, Duration::from_millis(1)).expect_err("leaves an event behind");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(|| fence.wait(3, LONG))).collect();
        std::thread::sleep(SOON);
        fence.signal(3).expect("above");
        for thread in threads {
            thread.join().expect("no panic").expect("reached");
        }
    });
}

#[test]
fn a_lost_device_is_a_typed_error_and_ends_waits() {
    let (fence, state) = fence12(0);
    let start = Instant::now();
    let error = std::thread::scope(|scope| {
        let waits = scope.spawn(|| fence.wait(1, LONG));
        std::thread::sleep(SOON);
        state.lose();
        waits.join().expect("no panic").expect_err("lost, not reached")
    });
    assert!(start.elapsed() < LONG / 2);
    for error in [error, fence.value().expect_err("lost"), fence.signal(2).expect_err("lost")] {
        assert_eq!(error.kind(), ErrorKind::DeviceLost);
        assert!(error.message().contains("device is lost"), "{error}");
        let code = error.code().expect("the reason");
        assert_eq!(code.name.as_deref(), Some("DXGI_ERROR_DEVICE_HUNG"));
        assert!(error.device().is_some(), "{error}");
    }
    let waiter = fence.waiter().expect("a waiter");
    assert_eq!(waiter.wait_any(&[(&fence, 1)], LONG).expect_err("lost").kind(), ErrorKind::DeviceLost);

    let (fence, state) = fence11(0);
    state.lost.store(true, Ordering::SeqCst);
    state.fences()[0].set(u64::MAX);
    let error = fence.value().expect_err("lost");
    assert_eq!(error.code().and_then(|code| code.name.clone()).as_deref(), Some("DXGI_ERROR_DEVICE_REMOVED"));
}

#[test]
fn both_fences_are_timelines_of_exporters() {
    let ((newer, _), (older, state)) = (fence12(1), fence11(1));
    let timelines: [&dyn ExporterTimeline; 2] = [&newer, &older];
    let kinds = timelines.map(|timeline| timeline.handle_kind().expect("can be exported"));
    assert_eq!(kinds, [SemaphoreHandleKind::D3d12Fence, SemaphoreHandleKind::D3d11Fence]);
    for (timeline, kind) in timelines.into_iter().zip(kinds) {
        assert_eq!(timeline.value().expect("a value"), 1);
        assert_eq!(timeline.export().expect("a request").handle().kind(), kind);
        let method =
            if kind == kinds[0] { "ID3D12Fence::SetEventOnCompletion" } else { "ID3D11Fence::SetEventOnCompletion" };
        let error = timeline.wait(2, SOON).expect_err("no signal");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Timeout, method));
        let error = timeline.wait(u64::MAX, SOON).expect_err("never");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, "ExportableFence::wait"));
    }
    timelines[0].signal(2).expect("above");
    timelines[0].wait(2, Duration::ZERO).expect("reached");
    // Direct3D 11 has no such function.
    assert_eq!(timelines[1].signal(2).expect_err("not by the host").kind(), ErrorKind::Unsupported);
    state.fences()[0].set(2);
    timelines[1].wait(2, Duration::ZERO).expect("reached");
}

#[test]
fn a_waiter_waits_for_any_of_many_fences() {
    let (device, state) = Device12::new(Behavior12::default());
    let interop = D3d12Interop::new(&device).expect("one node");
    let fences: Vec<_> = (0..100).map(|_| ExportableFence::new(&interop, 0).expect("a fence")).collect();
    let (older, older_state) = fence11(0);
    let waiter = fences[0].waiter().expect("a waiter");
    let mut waits: Vec<(&dyn ExporterTimeline, u64)> =
        fences.iter().map(|fence| (fence as &dyn ExporterTimeline, 3)).collect();
    waits.push((&older, 3));
    assert!(waits.iter().all(|(timeline, _)| waiter.serves(*timeline)));

    let start = Instant::now();
    waiter.wait_any(&waits, SOON).expect("no failure");
    assert!(start.elapsed() >= SOON, "nothing was reached");
    // Any of them ends the wait, also the hundredth and the Direct3D 11 one; earlier signals do not.
    for wake in 0..2 {
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let start = Instant::now();
                waiter.wait_any(&waits, LONG).map(|()| start.elapsed())
            });
            std::thread::sleep(SOON);
            if wake == 0 {
                fences[99].signal(3).expect("above");
            } else {
                older_state.fences()[0].set(3);
            }
            let took = waiting.join().expect("no panic").expect("no failure");
            assert!(took < LONG / 2, "{took:?}");
        });
        // Reached already, so it returns at once.
        waiter.wait_any(&waits, LONG).expect("no failure");
        waits.remove(if wake == 0 { 99 } else { waits.len() - 1 });
    }
    // Each fence got one registration, in any number of waits.
    assert!(state.fences().iter().take(99).all(|fence| fence.waiting() == 1));
}

#[test]
fn a_waiter_asks_each_fence_once_and_keeps_none_for_ever() {
    const SHORT: Duration = Duration::from_millis(1);
    let (device, state) = Device12::new(Behavior12::default());
    let interop = D3d12Interop::new(&device).expect("one node");
    let make = || ExportableFence::new(&interop, 0).expect("a fence");
    let (first, second) = (make(), make());
    let waiter = first.waiter().expect("a waiter");
    for _ in 0..20 {
        waiter.wait_any(&[(&first, 5)], SHORT).expect("no failure");
        waiter.wait_any(&[(&second, 1)], SHORT).expect("no failure");
    }
    let waiting: Vec<usize> = state.fences().iter().map(|fence| fence.waiting()).collect();
    assert_eq!(waiting, [1, 1], "calls for the two alternated");
    // An earlier registration still ends a repeated wait.
    std::thread::scope(|scope| {
        let start = Instant::now();
        let waiting = scope.spawn(|| waiter.wait_any(&[(&second, 1)], LONG));
        std::thread::sleep(SOON);
        second.signal(1).expect("above");
        waiting.join().expect("no panic").expect("no failure");
        assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    });
    // Only the waiter has the first fence, and no wait uses it.
    drop(first);
    for _ in 0..200 {
        waiter.wait_any(&[(&second, 2)], SHORT).expect("no failure");
    }
    assert_eq!(state.fences().len(), 1, "an unused fence is kept");
    // A reached fence is released at once.
    let third = make();
    waiter.wait_any(&[(&third, 1)], SHORT).expect("no failure");
    third.signal(1).expect("above");
    drop(third);
    assert_eq!(state.fences().len(), 2);
    waiter.wait_any(&[(&second, 2)], SHORT).expect("no failure");
    assert_eq!(state.fences().len(), 1, "a fence is kept that was reached");
}

#[test]
fn an_interruption_ends_the_present_wait_or_the_next() {
    let (fence, _) = fence12(0);
    let waiter = fence.waiter().expect("a waiter");
    let start = Instant::now();
    waiter.interrupt();
    waiter.wait_any(&[(&fence, 1)], LONG).expect("no failure");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| waiter.wait_any(&[], LONG));
        std::thread::sleep(SOON);
        waiter.interrupt();
        waiting.join().expect("no panic").expect("no failure");
    });
    assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    // The waiter saw both.
    let start = Instant::now();
    waiter.wait_any(&[(&fence, 1)], SOON).expect("no failure");
    assert!(start.elapsed() >= SOON);
}

fn mutex() -> (d3d11::KeyedMutex, Arc<Device11>) {
    let (device, state) = Device11::new(Behavior11::default());
    let interop = D3d11Interop::new(&device).expect("a device");
    let sharing = Sharing::NtHandleKeyedMutex;
    let buffer = ExportableResource::buffer(&interop, 16, BindFlags::VERTEX_BUFFER, sharing).expect("a buffer");
    (buffer.keyed_mutex().expect("a mutex"), state)
}

/// The simulator's mutex may be used by any thread.
fn acquire(mutex: &d3d11::KeyedMutex, key: u64, timeout: Option<Duration>) -> gpu_interop_core::Result<()> {
    // SAFETY: no context of the simulator's device is used by another thread.
    unsafe { mutex.acquire(key, timeout) }
}

fn release(mutex: &d3d11::KeyedMutex, key: u64) -> gpu_interop_core::Result<()> {
    // SAFETY: as in `acquire`.
    unsafe { mutex.release(key) }
}

#[test]
fn a_keyed_mutex_is_acquired_with_the_key_it_was_released_with() {
    let (mutex, state) = mutex();
    acquire(&mutex, 0, Some(Duration::ZERO)).expect("a new one is released with 0");
    let start = Instant::now();
    let error = acquire(&mutex, 0, Some(SOON)).expect_err("acquired already");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Timeout, "IDXGIKeyedMutex::AcquireSync"));
    assert!(start.elapsed() >= SOON && start.elapsed() < LONG / 2, "{:?}", start.elapsed());
    assert!(error.to_string().contains("WAIT_TIMEOUT (258)") && error.to_string().contains("key: 0"), "{error}");
    release(&mutex, 1).expect("acquired");
    assert_eq!(acquire(&mutex, 2, Some(Duration::ZERO)).expect_err("another key").kind(), ErrorKind::Timeout);

    // An infinite wait ends with the release by the other side.
    let other = state.mutex();
    assert_eq!(other.acquire(1, 0).0, 0);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| acquire(&mutex, 3, None));
        std::thread::sleep(SOON);
        assert!(!waiting.is_finished());
        assert_eq!(other.release(3).0, 0);
        waiting.join().expect("no panic").expect("acquired");
    });
    release(&mutex, 0).expect("acquired");
    let error = release(&mutex, 0).expect_err("not acquired");
    assert_eq!(error.kind(), ErrorKind::Driver);
    assert!(error.to_string().contains("DXGI_ERROR_INVALID_CALL"), "{error}");
}

#[test]
fn an_abandoned_keyed_mutex_is_not_taken_for_acquired() {
    let (mutex, state) = mutex();
    let other = state.mutex();
    assert_eq!(other.acquire(0, 0).0, 0);
    let error = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| acquire(&mutex, 1, Some(LONG)));
        std::thread::sleep(SOON);
        other.abandon();
        waiting.join().expect("no panic").expect_err("abandoned")
    });
    assert_eq!(error.kind(), ErrorKind::Driver);
    let code = error.code().expect("a code");
    assert_eq!((code.value, code.name.as_deref()), (0x80, Some("WAIT_ABANDONED")));
}
