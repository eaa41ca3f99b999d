//! Futures whose timeline fails, and executors that panic.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as Task, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use crate::common::{Context, is_simulated};
use gpu_interop_test_support::in_own_process;
use gpu_interop_wgpu::Reached;
use gpu_interop_wgpu::gpu_interop::ErrorKind;

/// A future that was polled once, with a waker that records its wake.
struct Pending {
    future: std::pin::Pin<Box<Reached>>,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl Pending {
    fn new(future: Reached) -> Self {
        let mut pending = Self { future: Box::pin(future), woken: Arc::default() };
        assert!(pending.poll().is_pending());
        pending
    }

    fn poll(&mut self) -> Poll<Result<(), ErrorKind>> {
        let waker = Waker::from(self.woken.clone());
        self.future.as_mut().poll(&mut Task::from_waker(&waker)).map_err(|error| error.kind())
    }

    /// The output, once the waker was called.
    fn output(mut self) -> Result<(), ErrorKind> {
        let start = Instant::now();
        while !self.woken.0.load(Ordering::Acquire) {
            assert!(start.elapsed() < Duration::from_secs(5), "not woken");
            std::thread::sleep(Duration::from_millis(1));
        }
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("woken for nothing"),
        }
    }
}

#[test]
fn a_future_of_a_timeline_that_fails_is_woken() {
    let Some(context) = Context::unvalidated() else { return };
    let [fails, other] = [0; 2].map(|initial| context.interop.create_timeline(initial).expect("a timeline"));
    let [first, second] = [1, 7].map(|value| Pending::new(fails.reached(value)));
    let unaffected = Pending::new(other.reached(1));
    fails.timeline().abandon("no signal will come").expect("abandoned");
    assert_eq!(first.output(), Err(ErrorKind::Cancelled));
    assert_eq!(second.output(), Err(ErrorKind::Cancelled));
    // A new future has the failure at once.
    assert_eq!(pollster::block_on(fails.reached(1)).expect_err("failed").kind(), ErrorKind::Cancelled);
    other.timeline().signal(1).expect("signalled");
    assert_eq!(unaffected.output(), Ok(()));
}

#[test]
#[cfg(target_os = "linux")]
fn a_future_is_woken_when_the_process_that_signals_has_ended() {
    let Some(context) = Context::unvalidated() else { return };
    let timeline = context.interop.create_timeline(0).expect("a timeline");
    let mut child = std::process::Command::new("sleep").arg("0.2").spawn().expect("a process");
    timeline.timeline().watch_process(child.id()).expect("it runs");
    let future = Pending::new(timeline.reached(1));
    child.wait().expect("ended");
    assert_eq!(future.output(), Err(ErrorKind::Cancelled));
}

/// A value whose destructor panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the destructor of a panic's payload");
    }
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        std::panic::panic_any(Bomb);
    }
}

/// A subscriber that panics in the thread of the futures.
struct Unfit;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Unfit {
    fn on_event(&self, _: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if std::thread::current().name().is_some_and(|name| name.contains("futures")) {
            std::panic::panic_any(Bomb);
        }
    }
}

/// Neither ends the thread: the futures of all others are woken.
#[test]
fn wakers_and_subscribers_may_panic() {
    use tracing_subscriber::layer::SubscriberExt;
    if is_simulated() || !in_own_process("futures::wakers_and_subscribers_may_panic") {
        return;
    }
    let Some(context) = Context::unvalidated() else { return };
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Unfit)).expect("the first one");
    let timeline = context.interop.create_timeline(0).expect("a timeline");
    let bad = Waker::from(Arc::new(Panics));
    for value in 1..=3 {
        // The same signal wakes both, in this order and in the other.
        let before = Pending::new(timeline.reached(value));
        let mut panics = Box::pin(timeline.reached(value));
        assert!(panics.as_mut().poll(&mut Task::from_waker(&bad)).is_pending());
        let after = Pending::new(timeline.reached(value));
        timeline.timeline().signal(value).expect("signalled");
        assert_eq!(before.output(), Ok(()));
        assert_eq!(after.output(), Ok(()));
        assert!(panics.as_mut().poll(&mut Task::from_waker(&bad)).is_ready());
    }
}
