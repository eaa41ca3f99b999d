use gpu_interop::ExporterTimeline;
use gpu_interop::vulkan::OwnedSemaphore;
use wgpu::BufferUsages;

use super::*;
use crate::buffer::SharedBuffer;
use crate::native::RECORDED;
use crate::native::objects::NativeTimeline;
use crate::timeline::TimelineInner;

struct Context {
    interop: Interop,
    stream: Stream,
    buffer: SharedBuffer,
}

impl Context {
    /// `None`, with the reason on the standard output, if this machine cannot share.
    fn new() -> Option<Self> {
        let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
        desc.backends = wgpu::Backends::VULKAN;
        desc.flags = wgpu::InstanceFlags::empty();
        let instance = wgpu::Instance::new(desc);
        let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default()));
        let adapter = adapter.inspect_err(|error| println!("skipped: {error}")).ok()?;
        let (device, queue) = crate::request_device(&adapter, &wgpu::DeviceDescriptor::default()).expect("a device");
        let interop = match Interop::new(&device, &queue) {
            Ok(interop) => interop,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoDevice, "{error}");
                println!("skipped: {error}");
                return None;
            }
        };
        let stream = interop.compute().create_stream().expect("a stream");
        let usage = BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let desc = wgpu::BufferDescriptor { label: None, size: 4, usage, mapped_at_creation: false };
        let buffer = interop.create_buffer(&desc).expect("a buffer");
        RECORDED.take();
        Some(Self { interop, stream, buffer })
    }

    /// A word goes to compute and comes back.
    fn exchange(&self, value: u32) {
        self.interop.queue().write_buffer(self.buffer.wgpu(), 0, &value.to_ne_bytes());
        let compute = self.interop.begin_compute(&self.stream, &[&self.buffer]).expect("handed over");
        let mut seen = [0; 4];
        self.stream.read(&self.buffer, &mut seen).expect("read");
        assert_eq!(u32::from_ne_bytes(seen), value);
        compute.end().expect("handed back");
    }
}

/// The release was submitted when the signal fails.
#[test]
fn objects_come_back_after_a_failed_signal() {
    let Some(context) = Context::new() else { return };
    // A timeline that is ahead of its recorded value.
    let timeline = context.interop.inner.create_timeline(10).expect("a timeline");
    context.interop.inner.put_hand_over_timeline(HandOverTimeline::new(timeline));
    let error = context.interop.begin_compute(&context.stream, &[&context.buffer]).expect_err("does not grow");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(RECORDED.take(), [Transfer::Release, Transfer::Acquire]);
    context.exchange(1);
}

/// wgpu rejects the acquire of both.
#[test]
fn the_other_objects_come_back_if_one_was_destroyed() {
    let Some(context) = Context::new() else { return };
    let desc =
        wgpu::BufferDescriptor { label: None, size: 4, usage: BufferUsages::COPY_DST, mapped_at_creation: false };
    let other = context.interop.create_buffer(&desc).expect("a buffer");
    RECORDED.take();
    let compute = context.interop.begin_compute(&context.stream, &[&other, &context.buffer]).expect("handed over");
    other.wgpu().destroy();
    let error = compute.end().expect_err("destroyed");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    // Both at once, then each.
    assert_eq!(RECORDED.take(), [Transfer::Release, Transfer::Acquire, Transfer::Acquire, Transfer::Acquire]);
    context.exchange(3);
}

/// The stream may not have reached the timeline's value. A later wait for it would end too early, or never.
#[test]
fn a_timeline_is_not_used_again_after_a_failed_acquire() {
    let Some(mut context) = Context::new() else { return };
    context.exchange(1);
    let timelines = context.interop.inner.hand_over_timeline_count();
    let back = context.interop.begin_compute(&context.stream, &[&context.buffer]).expect("handed over");
    let back = back.signal().expect("signalled");
    // Fails the wait of wgpu's queue, where the CPU transfers it.
    back.done.abandon("the test").expect("abandoned");
    RECORDED.take();
    match back.acquire() {
        Ok(()) => println!("skipped: the driver transfers it"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
            assert_eq!(RECORDED.take(), [Transfer::Acquire]);
            assert_eq!(context.interop.inner.hand_over_timeline_count(), timelines - 1, "the timeline was returned");
            // The former stream reports a released wait, at once or later.
            context.stream = context.interop.compute().create_stream().expect("a stream");
            context.exchange(2);
        }
    }
}

/// A successful hand-over returns its timeline.
#[test]
fn a_timeline_is_used_again() {
    let Some(context) = Context::new() else { return };
    let timelines = context.interop.inner.hand_over_timeline_count();
    (0..5).for_each(|value| context.exchange(value));
    assert_eq!(context.interop.inner.hand_over_timeline_count(), timelines);
}

/// A semaphore of a device whose timelines may be 100 ahead.
#[derive(Debug)]
struct Near(OwnedSemaphore);

impl ExporterTimeline for Near {
    fn value(&self) -> Result<u64> {
        self.0.value()
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.0.signal(value)
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        self.0.wait(value, timeout)
    }

    fn max_difference(&self) -> u64 {
        100
    }
}

#[test]
fn signals_too_far_ahead_are_rejected() {
    let Some(context) = Context::new() else { return };
    let inner = &context.interop.inner;
    let native = inner.create_timeline(50).expect("a timeline").native.clone();
    #[allow(clippy::infallible_destructuring_match, reason = "Windows has another variant")]
    let semaphore = match native.clone() {
        NativeTimeline::Vulkan(semaphore) => semaphore,
        #[cfg(windows)]
        NativeTimeline::D3d12(_) => panic!("the instance is Vulkan's"),
    };
    let timeline = Timeline::new(context.interop.compute(), Arc::new(Near(semaphore))).expect("a timeline");
    let timeline = TimelineInner::new(native, timeline, context.interop.queue().clone(), 50);
    let signal = |value| timeline.signal_from_queue("test", &inner.graphics, value);
    let error = signal(151).expect_err("too far");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("greatest difference: 100"), "{error}");
    signal(150).expect("near enough");
    timeline.timeline.wait(150, Duration::from_secs(10)).expect("reached");
    signal(250).expect("counted from the current value");
}
