//! Semaphores.

use std::sync::Arc;
use std::time::Duration;

use ash::vk::{self, Handle};
use gpu_interop_core::{Error, ErrorKind, ExporterTimeline, Result, SemaphoreHandle, SemaphoreHandleKind};
use gpu_interop_test_support::request::semaphore_request;
use gpu_interop_vulkan::{ExportableSemaphore, ImportedSemaphore, OwnedSemaphore};
use rustix::io::FdFlags;

use crate::assert_calls;
use crate::driver::{Settings, calls, file, lend, start};

fn closes_on_exec(handle: &SemaphoreHandle) {
    let fd = handle.as_fd().expect("a descriptor");
    assert!(rustix::io::fcntl_getfd(fd).expect("flags").contains(FdFlags::CLOEXEC), "the descriptor is inheritable");
}

#[test]
fn exportable_semaphores() {
    let interop = start(Settings::default());
    let binary = ExportableSemaphore::binary(&interop).expect("a semaphore");
    assert_calls(&[
        "vkGetPhysicalDeviceExternalSemaphoreProperties 1000076000{type 0x1}",
        "vkCreateSemaphore 9{flags 0x0} 1000077000{types 0x1}",
    ]);
    closes_on_exec(&binary.export().expect("a descriptor"));
    assert_calls(&["vkGetSemaphoreFdKHR 1000079001{semaphore 0xe1, type 0x1}"]);
    // VK_SEMAPHORE_TYPE_TIMELINE.
    let timeline = ExportableSemaphore::timeline(&interop, 5).expect("a semaphore");
    assert_calls(&[
        "vkGetPhysicalDeviceExternalSemaphoreProperties 1000076000{type 0x1} 1000207002{semaphore type 1, initial 0}",
        "vkCreateSemaphore 9{flags 0x0} 1000077000{types 0x1} 1000207002{semaphore type 1, initial 5}",
    ]);
    closes_on_exec(&timeline.export().expect("a descriptor"));
    assert_calls(&["vkGetSemaphoreFdKHR 1000079001{semaphore 0xe2, type 0x1}"]);
    drop((binary, timeline));
    assert_calls(&["vkDestroySemaphore 0xe1", "vkDestroySemaphore 0xe2"]);
}

#[test]
fn semaphores_of_the_application_are_exported_and_not_destroyed() {
    let interop = start(Settings::default());
    let raw = vk::Semaphore::from_raw(0xe7);
    let owner = Arc::new(());
    let make = |raw| {
        // SAFETY: the fake driver only records the calls.
        let exported = unsafe { ExportableSemaphore::timeline_from_raw(&interop, raw, owner.clone()) };
        // SAFETY: as above.
        (exported, unsafe { OwnedSemaphore::timeline_from_raw(&interop, raw, owner.clone()) })
    };
    let (exported, bridged) = make(raw);
    let (exported, bridged) = (exported.expect("exportable"), bridged.expect("a timeline"));
    assert_eq!(Arc::strong_count(&owner), 3);
    assert_eq!(exported.handle_kind(), SemaphoreHandleKind::TimelineFd);
    assert_eq!((exported.semaphore().as_raw(), bridged.as_raw()), (raw, raw));
    drop(exported.import_request().expect("a request"));
    assert_calls(&[
        "vkGetPhysicalDeviceExternalSemaphoreProperties 1000076000{type 0x1} 1000207002{semaphore type 1, initial 0}",
        "vkGetSemaphoreFdKHR 1000079001{semaphore 0xe7, type 0x1}",
    ]);
    drop((exported, bridged));
    assert_eq!(Arc::strong_count(&owner), 1);
    assert_calls(&[]);
    let (exported, bridged) = make(vk::Semaphore::null());
    assert_eq!(exported.expect_err("null").kind(), ErrorKind::InvalidArgument);
    assert_eq!(bridged.expect_err("null").kind(), ErrorKind::InvalidArgument);
}

#[test]
fn unshared_semaphores() {
    let interop = start(Settings::default());
    let binary = OwnedSemaphore::binary(&interop).expect("a semaphore");
    let timeline = OwnedSemaphore::timeline(&interop, 9).expect("a semaphore");
    assert_calls(&[
        "vkCreateSemaphore 9{flags 0x0}",
        "vkCreateSemaphore 9{flags 0x0} 1000207002{semaphore type 1, initial 9}",
    ]);
    drop((binary, timeline));
}

/// Permanent imports: no `VK_SEMAPHORE_IMPORT_TEMPORARY_BIT`.
#[test]
fn imported_semaphores() {
    for (make, query, creation) in [
        (SemaphoreHandle::OpaqueFd as fn(_) -> _, "", ""),
        (
            SemaphoreHandle::TimelineFd as fn(_) -> _,
            " 1000207002{semaphore type 1, initial 0}",
            " 1000207002{semaphore type 1, initial 0}",
        ),
    ] {
        let interop = start(Settings::default());
        let fd = file(64);
        lend(&fd);
        drop(ImportedSemaphore::new(&interop, semaphore_request(make(fd))).expect("imported"));
        assert_calls(&[
            &format!("vkGetPhysicalDeviceExternalSemaphoreProperties 1000076000{{type 0x1}}{query}"),
            &format!("vkCreateSemaphore 9{{flags 0x0}}{creation}"),
            "vkImportSemaphoreFdKHR 1000079000{semaphore 0xe1, flags 0x0, type 0x1, a duplicate of the file, closed on \
             exec}",
            "vkDestroySemaphore 0xe1",
        ]);
    }
}

#[test]
fn host_signals_and_waits() {
    let interop = start(Settings::default());
    let timeline = OwnedSemaphore::timeline(&interop, 0).expect("a semaphore");
    calls();
    assert_eq!(timeline.value().expect("a value"), 0);
    timeline.signal(3).expect("increases");
    assert_calls(&[
        "vkGetSemaphoreCounterValue 0xe1",
        "vkGetSemaphoreCounterValue 0xe1",
        "vkSignalSemaphore 1000207005{semaphore 0xe1, value 3}",
    ]);
    timeline.wait(4, Duration::ZERO).expect("the fake driver reports success");
    assert_calls(&[
        "vkGetSemaphoreCounterValue 0xe1",
        "vkWaitSemaphores 1000207004{flags 0x0, semaphores [0xe1], values [4]}, 0 ns",
    ]);
}

/// The value of the fake driver's semaphores stays at 0, so that signals stay pending.
#[test]
fn signals_of_other_libraries_are_known() {
    let interop = start(Settings::default());
    let timeline = || OwnedSemaphore::timeline(&interop, 0).expect("a semaphore");
    let queue = vk::Queue::from_raw(7);
    let kind = |result: Result<()>| result.err().map(|error| error.kind());
    let fails = || Err(Error::unsupported("submit", "rejected"));
    let ordered = timeline();
    assert_eq!(kind(ordered.submit_wait(queue, 4, || Ok(()))), None);
    // A failed submission leaves nothing pending.
    assert_eq!(kind(ordered.submit_signal(queue, 3, fails)), Some(ErrorKind::Unsupported));
    assert_eq!(kind(ordered.submit_signal(queue, 5, || Ok(()))), None);
    assert_eq!(kind(ordered.signal(4)), None, "the queue waits for it");
    for value in [5, 6] {
        assert_eq!(kind(ordered.signal(value)), Some(ErrorKind::InvalidArgument), "{value}");
    }
    for value in [4, 5] {
        let submitted = ordered.submit_signal(queue, value, || panic!("submitted"));
        assert_eq!(kind(submitted), Some(ErrorKind::InvalidArgument), "{value}");
    }
    let unordered = timeline();
    assert_eq!(kind(unordered.submit_wait(queue, 4, fails)), Some(ErrorKind::Unsupported));
    assert_eq!(kind(unordered.submit_signal(queue, 5, || Ok(()))), None);
    assert_eq!(kind(unordered.signal(4)), Some(ErrorKind::Overtaken), "the queue does not wait for it");
    let far = interop.max_timeline_difference() + 1;
    let binary = OwnedSemaphore::binary(&interop).expect("a semaphore");
    for (semaphore, value) in [(&unordered, far), (&binary, 6)] {
        let submitted = semaphore.submit_signal(queue, value, || panic!("submitted"));
        assert_eq!(kind(submitted), Some(ErrorKind::InvalidArgument));
        let submitted = semaphore.submit_wait(queue, value, || panic!("submitted"));
        assert_eq!(kind(submitted), Some(ErrorKind::InvalidArgument));
    }
}

/// The first semaphore is the waiter's own, which interrupts it.
#[test]
fn waiters_wait_for_any_timeline() {
    let interop = start(Settings::default());
    let timelines = [1, 2].map(|initial| OwnedSemaphore::timeline(&interop, initial).expect("a semaphore"));
    let waiter = timelines[0].waiter().expect("a waiter");
    calls();
    waiter.wait_any(&[(&timelines[0], 7), (&timelines[1], 8)], Duration::from_micros(1)).expect("waited");
    // VK_SEMAPHORE_WAIT_ANY_BIT.
    let expected = "vkWaitSemaphores 1000207004{flags 0x1, semaphores [0xe3, 0xe1, 0xe2], values [1, 7, 8]}, 1000 ns";
    assert_calls(&[expected]);
    waiter.interrupt();
    assert_calls(&["vkGetSemaphoreCounterValue 0xe3", "vkSignalSemaphore 1000207005{semaphore 0xe3, value 1}"]);
}
