//! Binary semaphores, as of a presentation, behind values of a bridge.

use std::sync::Arc;
use std::sync::mpsc::channel;

use gpu_interop::vulkan::{HeadlessContext, HeadlessOptions, OwnedSemaphore, SemaphoreOp};
use gpu_interop::{ErrorKind, Timeline, TimelineStrategy};

use crate::{SHORT, TIMEOUT, fails, open};

/// The signal does not block. The wait blocks until the bridge has signalled, also for a timeline whose handle the
/// application has, and for the second one that a thread serves.
#[test]
fn waits_for_binary_semaphores_follow_a_bridge() {
    let Some((_, device)) = open() else { return };
    // The host waits with this timeout. Drivers wait for ever.
    let context = HeadlessContext::new(&HeadlessOptions::default().timeout(SHORT)).expect("a context");
    let timelines = [0, 1].map(|_| OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline"));
    let bridges = timelines.each_ref().map(|timeline| {
        let _ = timeline.as_raw();
        Timeline::with_strategy(&device, Arc::new(timeline.clone()), TimelineStrategy::HostBridge).expect("a bridge")
    });
    let stream = device.create_stream().expect("a stream");
    let binary = OwnedSemaphore::binary(context.interop()).expect("a semaphore");
    let binary = [SemaphoreOp { semaphore: &binary, value: 0 }];
    for (semaphore, bridge) in timelines.iter().zip(&bridges) {
        let (open, gate) = channel::<()>();
        stream.launch_host_function(move || gate.recv_timeout(TIMEOUT).unwrap_or_default()).expect("enqueued");
        stream.signal_timeline(bridge, 1).expect("enqueued");
        context.submit(&[SemaphoreOp { semaphore, value: 1 }], &binary, |_| Ok(())).expect("submitted");
        assert_eq!(semaphore.value().expect("a value"), 0, "the signal blocked");
        let error = context.submit(&binary, &[], |_| Ok(())).expect_err("the stream is blocked");
        fails(&error, ErrorKind::Timeout, "such as one behind a bridge");
        open.send(()).expect("the stream waits");
        semaphore.wait(1, TIMEOUT).expect("the stream ends");
        context.submit(&binary, &[], |_| Ok(())).expect("submitted").wait(TIMEOUT).expect("the work ends");
    }
}
