//! Failed calls: what counts as finished, what is reverted, and in which process drops call the driver.

use std::any::Any;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ash::vk::{self, Handle};
use gpu_interop_core::ErrorKind;
use gpu_interop_vulkan::{HeadlessContext, MemoryPlacement, OwnedBuffer, OwnedSemaphore, SemaphoreOp, VulkanInterop};

use crate::driver::{Settings, calls, change, context, start};

const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::TRANSFER_DST;

/// Submits a fill of a buffer, and drops all but the context.
fn abandon_fill(context: &HeadlessContext, interop: &VulkanInterop) {
    let buffer = OwnedBuffer::new(interop, 64, USAGE, MemoryPlacement::DeviceLocal).expect("a buffer");
    let work = context.submit(&[], &[], |recording| recording.fill(&buffer, 0, 64, 1)).expect("submitted");
    assert!(!work.is_finished());
}

fn any_call(name: &str) -> bool {
    calls().iter().any(|call| call.starts_with(name))
}

#[test]
fn work_is_pending_until_its_fence_says_otherwise() {
    use vk::Result as R;
    for code in [R::NOT_READY, R::ERROR_OUT_OF_HOST_MEMORY, R::ERROR_OUT_OF_DEVICE_MEMORY, R::ERROR_UNKNOWN] {
        let interop = start(Settings::default());
        let context = context(&interop);
        change(|settings| settings.fence = code);
        calls();
        abandon_fill(&context, &interop);
        assert!(!any_call("vkDestroyBuffer"), "{code}");
        // Another submission uses none of its objects, and finds it finished later.
        drop(context.submit(&[], &[], |_| Ok(())).expect("submitted"));
        let found = calls();
        assert!(found.iter().any(|call| call.starts_with("vkCreateCommandPool")), "{code}: {found:#?}");
        assert!(!found.iter().any(|call| call.starts_with("vkReset")), "{code}: {found:#?}");
        change(|settings| settings.fence = R::SUCCESS);
        context.run(|_| Ok(())).expect("runs");
        assert!(any_call("vkDestroyBuffer"), "{code}");
    }
}

/// A lost device runs nothing.
#[test]
fn only_finished_work_is_freed_with_its_context() {
    use vk::Result as R;
    for (code, is_freed) in [
        (R::NOT_READY, false),
        (R::TIMEOUT, false),
        (R::ERROR_OUT_OF_HOST_MEMORY, false),
        (R::SUCCESS, true),
        (R::ERROR_DEVICE_LOST, true),
    ] {
        let interop = start(Settings::default());
        let context = context(&interop);
        change(|settings| settings.fence = R::NOT_READY);
        abandon_fill(&context, &interop);
        change(|settings| settings.fence = code);
        drop(context);
        assert_eq!(any_call("vkDestroyBuffer"), is_freed, "{code}");
    }
}

/// Waits of a submission that was not made exclude no signal of later ones.
#[test]
fn failed_submissions_leave_no_wait_behind() {
    let failures = [(vk::Result::SUCCESS, 0, ErrorKind::InvalidArgument), {
        (vk::Result::ERROR_OUT_OF_DEVICE_MEMORY, 101, ErrorKind::OutOfMemory)
    }];
    for (code, value, kind) in failures {
        let interop = start(Settings::default());
        let context = context(&interop);
        let [timeline, gate] = [(); 2].map(|()| OwnedSemaphore::timeline(&interop, 0).expect("a semaphore"));
        let op = |semaphore, value| [SemaphoreOp { semaphore, value }];
        change(|settings| settings.submit = code);
        let failed = context.submit(&op(&timeline, 100), &op(&timeline, value), |_| Ok(()));
        assert_eq!(failed.expect_err("not submitted").kind(), kind);
        change(|settings| settings.submit = vk::Result::SUCCESS);
        drop(context.submit(&op(&gate, 1), &op(&timeline, 60), |_| Ok(())).expect("submitted"));
        let error = timeline.signal(50).expect_err("the queue may signal 60 first");
        assert_eq!(error.kind(), ErrorKind::Overtaken, "{error}");
    }
}

/// The owner of a semaphore uses the context when it is dropped.
#[test]
fn owners_are_dropped_without_the_lock_of_a_context() {
    struct Uses(Arc<OnceLock<HeadlessContext>>);
    impl Drop for Uses {
        fn drop(&mut self) {
            if let Some(context) = self.0.get() {
                context.run(|_| Ok(())).expect("runs");
            }
        }
    }
    let (ended, has_ended) = channel();
    std::thread::spawn(move || {
        let interop = start(Settings::default());
        let context = context(&interop);
        let later = Arc::new(OnceLock::new());
        let owner: Arc<dyn Any + Send + Sync> = Arc::new(Uses(later.clone()));
        // SAFETY: the fake driver has a semaphore of any number.
        let lent = unsafe { OwnedSemaphore::timeline_from_raw(&interop, vk::Semaphore::from_raw(0xe9), owner) };
        let semaphore = lent.expect("a timeline");
        change(|settings| settings.fence = vk::Result::NOT_READY);
        drop(context.submit(&[], &[SemaphoreOp { semaphore: &semaphore, value: 1 }], |_| Ok(())).expect("submitted"));
        drop(semaphore);
        later.set(context.clone()).expect("set once");
        change(|settings| settings.fence = vk::Result::SUCCESS);
        context.run(|_| Ok(())).expect("runs");
        ended.send(()).expect("the test listens");
    });
    has_ended.recv_timeout(Duration::from_secs(20)).expect("the owner's call ends");
}

/// A child process drops a pending and a finished submission and their context.
#[test]
#[cfg(target_os = "linux")]
fn drops_in_a_forked_process_call_no_driver() {
    let interop = start(Settings::default());
    let context = context(&interop);
    let finished = context.submit(&[], &[], |_| Ok(())).expect("submitted");
    change(|settings| settings.fence = vk::Result::NOT_READY);
    abandon_fill(&context, &interop);
    let pending = context.submit(&[], &[], |_| Ok(())).expect("submitted");
    calls();
    // SAFETY: the child only drops objects and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop((pending, finished, context, interop));
        let code = i32::try_from(calls().len()).unwrap_or(i32::MAX);
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(code.min(100)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just created.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "{status:#x}");
    assert_eq!(libc::WEXITSTATUS(status), 0, "calls of the driver in the child");
    change(|settings| settings.fence = vk::Result::SUCCESS);
}
