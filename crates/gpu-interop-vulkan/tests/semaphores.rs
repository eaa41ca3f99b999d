//! Binary semaphores of a context: pending signals and waits, and those that depend on a value of a timeline.

#![allow(clippy::expect_used)]

mod common;

use std::time::{Duration, Instant};

use ash::vk;
use common::{rejected, vulkan};
use gpu_interop_core::ErrorKind;
use gpu_interop_vulkan::{
    ExportableSemaphore, HeadlessContext, HeadlessOptions, OwnedSemaphore, SemaphoreOp, Submission,
};

const LONG: Duration = Duration::from_secs(30);
const NO_SIGNAL: &str = "no signal of the binary semaphore";
const NO_WAIT: &str = "and no wait for it";

fn at(semaphore: &OwnedSemaphore, value: u64) -> SemaphoreOp<'_> {
    SemaphoreOp { semaphore, value }
}

fn submit(context: &HeadlessContext, waits: &[SemaphoreOp<'_>], signals: &[SemaphoreOp<'_>]) -> Submission {
    context.submit(waits, signals, |_| Ok(())).expect("submitted")
}

fn refused(context: &HeadlessContext, waits: &[SemaphoreOp<'_>], signals: &[SemaphoreOp<'_>], words: &str) {
    rejected(context.submit(waits, signals, |_| Ok(())).map(drop), words);
}

/// Otherwise the driver blocks for ever in `vkQueueSubmit`, with the queue locked.
#[test]
fn waits_for_binary_semaphores_need_a_submitted_signal() {
    let Some(context) = vulkan() else { return };
    let [one, two] = [0, 1].map(|_| OwnedSemaphore::binary(context.interop()).expect("a semaphore"));
    let (one, two) = (at(&one, 0), at(&two, 0));
    refused(&context, &[one], &[], NO_SIGNAL);
    submit(&context, &[], &[one]);
    // A rejected submission takes no signal.
    refused(&context, &[one, two], &[], NO_SIGNAL);
    refused(&context, &[one, one], &[], NO_SIGNAL);
    submit(&context, &[one], &[]);
    refused(&context, &[one], &[], NO_SIGNAL);
    context.run(|_| Ok(())).expect("the queue works");
}

#[test]
fn binary_semaphores_are_signalled_once_a_wait() {
    let Some(context) = vulkan() else { return };
    let [one, two] = [0, 1].map(|_| OwnedSemaphore::binary(context.interop()).expect("a semaphore"));
    let (one, two) = (at(&one, 0), at(&two, 0));
    refused(&context, &[], &[one, one], NO_WAIT);
    submit(&context, &[], &[one]);
    refused(&context, &[], &[one], NO_WAIT);
    // A rejected submission signals nothing.
    refused(&context, &[], &[two, one], NO_WAIT);
    refused(&context, &[two], &[], NO_SIGNAL);
    // A wait and the next signal in one submission.
    for _ in 0..3 {
        submit(&context, &[one], &[one]);
    }
    submit(&context, &[one], &[]).wait(LONG).expect("the work ends");
}

#[test]
fn signals_and_waits_of_the_application_are_declared() {
    let Some(context) = vulkan() else { return };
    let semaphore = OwnedSemaphore::binary(context.interop()).expect("a semaphore");
    let (device, raw, op) = (context.interop().device(), [semaphore.as_raw()], at(&semaphore, 0));
    let stages = [vk::PipelineStageFlags::ALL_COMMANDS];
    let queue_submit = |info: vk::SubmitInfo<'_>| {
        // SAFETY: the semaphore is live and of the device; the queue's lock is held.
        context
            .with_queue(|queue| unsafe { device.queue_submit(queue, &[info], vk::Fence::null()) })
            .expect("submitted");
    };
    queue_submit(vk::SubmitInfo::default().signal_semaphores(&raw));
    refused(&context, &[op], &[], NO_SIGNAL);
    // SAFETY: as declared.
    unsafe { semaphore.assume_signalled() };
    refused(&context, &[], &[op], NO_WAIT);
    submit(&context, &[op], &[op]);
    queue_submit(vk::SubmitInfo::default().wait_semaphores(&raw).wait_dst_stage_mask(&stages));
    refused(&context, &[], &[op], NO_WAIT);
    // SAFETY: as declared.
    unsafe { semaphore.assume_waited() };
    submit(&context, &[], &[op]);
    submit(&context, &[op], &[]).wait(LONG).expect("the work ends");
}

/// A context that times out soon, without validation: layers before 1.4.304 may stall where the host signals a timeline.
fn hasty() -> Option<HeadlessContext> {
    common::unvalidated(HeadlessOptions::default().timeout(Duration::from_secs(2)))
}

/// Vulkan constrains the wait for a binary semaphore, not its signal (VUID-vkQueueSubmit-pWaitSemaphores-03238).
#[test]
fn binary_signals_behind_a_closed_gate_do_not_block() {
    let Some(context) = hasty() else { return };
    let gate = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let own = OwnedSemaphore::binary(context.interop()).expect("a semaphore");
    let binary = [at(&own, 0)];
    // The host opens the gate between signal and wait; the gate is closed by an earlier submission in the second round.
    let first = submit(&context, &[at(&gate, 1)], &binary);
    assert!(!first.is_finished());
    gate.signal(1).expect("increases");
    submit(&context, &binary, &[]);
    submit(&context, &[at(&gate, 2)], &[]);
    submit(&context, &[], &binary);
    gate.signal(2).expect("increases");
    submit(&context, &binary, &[]).wait(LONG).expect("the work ends");
    // A later wait of the queue is none of the signal.
    submit(&context, &[], &binary);
    submit(&context, &[at(&gate, 3)], &[]);
    let last = submit(&context, &binary, &[]);
    assert!(!last.is_finished());
    gate.signal(3).expect("increases");
    last.wait(LONG).expect("the work ends");
}

/// Another device or OpenGL enqueues its wait for the semaphore before the host opens the gate.
#[test]
fn exported_binary_signals_behind_a_closed_gate_do_not_block() {
    let Some(context) = hasty() else { return };
    let Ok(there) = ExportableSemaphore::binary(context.interop()) else { return println!("skipped: no exports") };
    let gate = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let request = there.import_request().expect("a request");
    for value in 1..=3 {
        let first = submit(&context, &[at(&gate, value)], &[at(there.semaphore(), 0)]);
        std::thread::sleep(Duration::from_millis(10));
        assert!(!first.is_finished());
        gate.signal(value).expect("increases");
        first.wait(LONG).expect("the work ends");
        // In place of the other side. The context does not check a wait for a shared semaphore.
        submit(&context, &[at(there.semaphore(), 0)], &[]).wait(LONG).expect("the work ends");
    }
    drop(request);
}

/// A wait for a binary semaphore blocks until the signals on which that semaphore's signal depends have been submitted.
#[test]
fn binary_waits_follow_the_signals_that_they_depend_on() {
    let Some(context) = common::unvalidated(HeadlessOptions::default()) else { return };
    let timeline = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let binary = OwnedSemaphore::binary(context.interop()).expect("a semaphore");
    let binary = [at(&binary, 0)];
    let delayed = |value| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                timeline.signal(value).expect("increases");
            });
            let submission = submit(&context, &binary, &[]);
            assert!(timeline.value().expect("a value") >= value, "the submission depends on an unsubmitted value");
            submission
        })
    };
    submit(&context, &[at(&timeline, 1)], &binary);
    delayed(1);
    // Also a wait of an earlier submission.
    submit(&context, &[at(&timeline, 2)], &[]);
    submit(&context, &[], &binary);
    delayed(2).wait(LONG).expect("the work ends");
    // Submitted signals are not waited for.
    let gate = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    submit(&context, &[], &[at(&timeline, 3)]);
    submit(&context, &[at(&timeline, 3)], &binary);
    submit(&context, &binary, &[at(&gate, 1)]).wait(LONG).expect("the work ends");
}

#[test]
fn a_value_that_never_comes_is_a_timeout() {
    let timeout = Duration::from_millis(50);
    let Some(context) = common::unvalidated(HeadlessOptions::default().timeout(timeout)) else { return };
    let timeline = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
    let binary = OwnedSemaphore::binary(context.interop()).expect("a semaphore");
    let binary = [at(&binary, 0)];
    let first = submit(&context, &[at(&timeline, 1)], &binary);
    let start = Instant::now();
    let error = context.submit(&binary, &[], |_| Ok(())).expect_err("never signalled");
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    assert!(error.message().contains("binary semaphore") && error.message().contains("bridge"), "{error}");
    assert!((timeout..LONG).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert!(!first.is_finished());
    // Nothing was submitted: the signal remains.
    refused(&context, &[], &binary, NO_WAIT);
    timeline.signal(1).expect("increases");
    submit(&context, &binary, &[]).wait(LONG).expect("the queue works");
}
