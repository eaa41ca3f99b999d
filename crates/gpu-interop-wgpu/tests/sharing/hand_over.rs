//! Hand-overs: order, misuse, failures, futures.

use std::time::{Duration, Instant};

use crate::common::{Context, buffer_desc, compute_pipeline, is_simulated, validation_messages};
use gpu_interop_wgpu::SharedBuffer;
use gpu_interop_wgpu::gpu_interop::ErrorKind;

const SIZE: u64 = 4096;
/// Time by which a producer is late.
const LATE: Duration = Duration::from_millis(200);

fn buffer(context: &Context) -> SharedBuffer {
    context.interop.create_buffer(&buffer_desc(SIZE, wgpu::BufferUsages::STORAGE)).expect("a buffer")
}

/// A copy of the buffer, submitted now.
fn submit_copy(context: &Context, buffer: &SharedBuffer) -> wgpu::Buffer {
    let readback = context.readback(SIZE);
    context.queue().submit([copy(context, buffer, &readback)]);
    readback
}

fn copy(context: &Context, buffer: &SharedBuffer, to: &wgpu::Buffer) -> wgpu::CommandBuffer {
    context.encode(|encoder| encoder.copy_buffer_to_buffer(buffer.wgpu(), 0, to, 0, SIZE))
}

/// Enqueues a fill that a sleep delays.
fn fill_late(context: &Context, buffer: &SharedBuffer, value: u32) {
    context.stream.launch_host_function(|| std::thread::sleep(LATE)).expect("host functions");
    context.stream.fill_u32(buffer, value).expect("filled");
}

/// What wgpu reads after the hand-over, from a producer that is late, is the producer's. Without the wait it is not:
/// the negative control.
#[test]
fn wgpu_waits_for_a_late_stream_and_without_the_wait_sees_old_data() {
    // Without validation: the control is an error.
    let Some(context) = Context::unvalidated() else { return };
    let buffer = buffer(&context);
    let compute = context.interop.begin_compute(&context.stream, &[&buffer]).expect("handed over");
    fill_late(&context, &buffer, 1);
    compute.end().expect("handed back");
    let right = submit_copy(&context, &buffer);
    assert!(context.map_words(&right).iter().all(|word| *word == 1));

    let compute = context.interop.begin_compute(&context.stream, &[&buffer]).expect("handed over");
    let (go, wait) = std::sync::mpsc::channel();
    let gate = move || {
        let _ = wait.recv_timeout(Duration::from_secs(20));
    };
    context.stream.launch_host_function(gate).expect("host functions");
    context.stream.fill_u32(&buffer, 2).expect("filled");
    let back = compute.signal().expect("signalled");
    // The control: submitted before the acquire, and done before the fill may start.
    let wrong = submit_copy(&context, &buffer);
    assert!(context.map_words(&wrong).iter().all(|word| *word == 1), "the copy waited without a hand-over");
    go.send(()).expect("the host function waits");
    back.acquire().expect("handed back");
    assert!(context.map_words(&submit_copy(&context, &buffer)).iter().all(|word| *word == 2));
}

/// The other direction: a stream that does not wait reads what was there before wgpu's pending work. wgpu's work takes
/// longer and longer until that is seen.
#[test]
fn a_stream_waits_for_wgpu_and_without_the_wait_sees_old_data() {
    if is_simulated() {
        return println!("skipped: no shaders");
    }
    let Some(context) = Context::unvalidated() else { return };
    let buffer = buffer(&context);
    let slow = Slow::new(&context, &buffer);
    let last_word = || {
        let mut seen = [0; 4];
        context.stream.read(buffer.mapped().slice(SIZE - 4..).expect("the last word"), &mut seen).expect("read");
        u32::from_ne_bytes(seen)
    };
    let mut has_seen_old_data = false;
    for value in 1..=10 {
        let commands = slow.write(&context, &buffer, value, 32 << value);
        context.queue().submit([commands]);
        // The control: read behind the submission, without a hand-over.
        let control = last_word();
        assert!(control == value || control == value - 1, "{control}");
        let compute = context.interop.begin_compute(&context.stream, &[&buffer]).expect("handed over");
        assert_eq!(last_word(), value);
        compute.end().expect("handed back");
        has_seen_old_data = control == value - 1;
        if has_seen_old_data && value >= 3 {
            break;
        }
    }
    assert!(has_seen_old_data, "the stream waited without a hand-over");
}

/// Work that takes a while, and a copy to the last word behind it.
struct Slow {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    parameter: wgpu::Buffer,
}

const COUNT: &str = "
@group(0) @binding(0) var<storage, read_write> words: array<u32>;
@group(0) @binding(1) var<storage, read_write> value: array<u32>;
@compute @workgroup_size(1) fn main() {
    var sum = value[0];
    // Mesa's driver for the CPU ends loops after 65,535 rounds.
    for (var i = 0u; i < 60000u; i++) { sum = (sum ^ (sum >> 3u)) * 1664525u + i; }
    words[0] = sum;
}";

impl Slow {
    fn new(context: &Context, buffer: &SharedBuffer) -> Self {
        let device = context.device();
        let pipeline = compute_pipeline(device, COUNT);
        let parameter = device.create_buffer(&buffer_desc(4, wgpu::BufferUsages::STORAGE));
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[
                wgpu::BindGroupEntry { binding: 0, resource: buffer.wgpu().as_entire_binding() },
                wgpu::BindGroupEntry { binding: 1, resource: parameter.as_entire_binding() },
            ],
        });
        Self { pipeline, group, parameter }
    }

    fn write(&self, context: &Context, to: &SharedBuffer, value: u32, groups: u32) -> wgpu::CommandBuffer {
        context.queue().write_buffer(&self.parameter, 0, &value.to_ne_bytes());
        context.encode(|encoder| {
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                pass.set_pipeline(&self.pipeline);
                pass.set_bind_group(0, &self.group, &[]);
                // Powers of two, and at most 65,535 in one direction.
                pass.dispatch_workgroups(groups.min(1 << 15), groups.div_ceil(1 << 15), 1);
            }
            encoder.copy_buffer_to_buffer(&self.parameter, 0, to.wgpu(), SIZE - 4, 4);
        })
    }
}

#[test]
fn three_frames_in_flight_arrive() {
    let Some(context) = Context::new() else { return };
    context.interop.reserve(3).expect("timelines");
    let ring: [_; 3] = std::array::from_fn(|_| buffer(&context));
    let mut pending = std::collections::VecDeque::new();
    let finish = |(frame, back): (u32, gpu_interop_wgpu::HandBack)| {
        let readback = context.readback(SIZE);
        context.settle(&back);
        back.acquire_and_submit([copy(&context, &ring[frame as usize % 3], &readback)]).expect("handed back");
        assert!(context.map_words(&readback).iter().all(|word| *word == frame * 2 + 1), "frame {frame}");
    };
    for frame in 0..300_u32 {
        if pending.len() == 3 {
            finish(pending.pop_front().expect("three"));
        }
        let buffer = &ring[frame as usize % 3];
        let words = (frame * 2).to_ne_bytes().repeat(1024);
        context.queue().write_buffer(buffer.wgpu(), 0, &words);
        let compute = context.interop.begin_compute(&context.stream, &[buffer]).expect("handed over");
        // Host functions see what the stream sees: the CPU increments every word.
        let mut seen = vec![0; words.len()];
        context.stream.read(buffer, &mut seen).expect("read");
        assert_eq!(seen, words, "frame {frame}");
        context.stream.fill_u32(buffer, frame * 2 + 1).expect("filled");
        pending.push_back((frame, compute.signal().expect("signalled")));
    }
    pending.into_iter().for_each(finish);
    assert_eq!(validation_messages(), 0);
}

#[test]
fn a_forgotten_end_gives_the_objects_back() {
    let Some(context) = Context::new() else { return };
    let buffer = buffer(&context);
    let work = || -> Result<(), Box<dyn std::error::Error>> {
        let _compute = context.interop.begin_compute(&context.stream, &[&buffer])?;
        context.stream.fill_u32(&buffer, 5)?;
        Err("the application fails")?
    };
    work().expect_err("fails");
    assert!(context.map_words(&submit_copy(&context, &buffer)).iter().all(|word| *word == 5));
    let compute = context.interop.begin_compute(&context.stream, &[&buffer]).expect("handed over");
    context.stream.fill_u32(&buffer, 6).expect("filled");
    drop(compute.signal().expect("signalled"));
    assert!(context.map_words(&submit_copy(&context, &buffer)).iter().all(|word| *word == 6));
    // Leaked: nothing waits, and the object stays with compute.
    std::mem::forget(context.interop.begin_compute(&context.stream, &[&buffer]).expect("handed over"));
    let error = context.interop.begin_compute(&context.stream, &[&buffer]).expect_err("still handed over");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    context.wait();
}

#[test]
fn misuse_is_an_error_before_anything_is_submitted() {
    let (Some(context), Some(other)) = (Context::new(), Context::new()) else { return };
    let (one, foreign) = (buffer(&context), buffer(&other));
    let rejected = |objects: &[&dyn gpu_interop_wgpu::Shared]| {
        context.interop.begin_compute(&context.stream, objects).expect_err("rejected")
    };
    for error in [rejected(&[&one, &one]), rejected(&[&one, &foreign])] {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("index: 1"), "{error}");
    }
    // A stream of another device: detected after the release, which is undone.
    let error = context.interop.begin_compute(&other.stream, &[&one]).expect_err("another device");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    context.interop.begin_compute(&context.stream, &[&one]).expect("free again").end().expect("handed back");
    let timeline = other.interop.create_timeline(0).expect("a timeline");
    let error = context.interop.submit_with(&[], [], &[(&timeline, 1)]).expect_err("of another Interop");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let mapped = buffer_desc(SIZE, wgpu::BufferUsages::MAP_READ);
    assert_eq!(context.interop.create_buffer(&mapped).expect_err("maps").kind(), ErrorKind::InvalidArgument);
    let empty = buffer_desc(0, wgpu::BufferUsages::STORAGE);
    assert_eq!(context.interop.create_buffer(&empty).expect_err("empty").kind(), ErrorKind::InvalidArgument);
    context.wait();
    assert_eq!(validation_messages(), 0);
}

/// wgpu rejects the application's commands: the error has the reason, and the objects come back.
#[test]
fn rejected_commands_are_an_error_and_lose_no_object() {
    let Some(context) = Context::new() else { return };
    let buffer = buffer(&context);
    let invalid = || {
        let readback = context.readback(SIZE);
        let commands = copy(&context, &buffer, &readback);
        // Submitting a copy to a destroyed buffer is a validation error.
        readback.destroy();
        commands
    };
    let begun = context.interop.submit_and_begin_compute([invalid()], &context.stream, &[&buffer]);
    let error = begun.expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(format!("{error:?}").contains("destroyed"), "{error:?}");
    let compute = context.interop.begin_compute(&context.stream, &[&buffer]).expect("not lent");
    context.stream.fill_u32(&buffer, 9).expect("filled");
    let error = compute.end_and_submit([invalid()]).expect_err("rejected");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(context.map_words(&submit_copy(&context, &buffer)).iter().all(|word| *word == 9));
    context.interop.begin_compute(&context.stream, &[&buffer]).expect("acquired").end().expect("handed back");
    context.wait();
    assert_eq!(validation_messages(), 0);
}

/// A rejected submission leaves its waits for the next one, or none if their timeline is dropped first.
#[test]
fn waits_of_rejected_submissions_are_not_left_behind() {
    let Some(context) = Context::new() else { return };
    let buffer = buffer(&context);
    for _ in 0..3 {
        let timeline = context.interop.create_timeline(1).expect("a timeline");
        let readback = context.readback(SIZE);
        let commands = copy(&context, &buffer, &readback);
        readback.destroy();
        let rejected = context.interop.submit_with(&[(&timeline, 1)], [commands], &[(&timeline, 2)]);
        assert_eq!(rejected.expect_err("rejected").kind(), ErrorKind::InvalidArgument);
        assert_eq!(timeline.value().expect("a value"), 1, "signalled for nothing");
        drop(timeline);
        context.queue().submit([]);
        context.wait();
    }
    assert_eq!(validation_messages(), 0);
}

#[test]
fn values_of_timelines_are_futures() {
    let Some(context) = Context::new() else { return };
    let buffer = buffer(&context);
    let compute = context.interop.begin_compute(&context.stream, &[&buffer]).expect("handed over");
    let start = Instant::now();
    fill_late(&context, &buffer, 3);
    let back = compute.signal().expect("signalled");
    pollster::block_on(back.done()).expect("reached");
    assert!(start.elapsed() >= LATE, "{:?}", start.elapsed());
    back.acquire().expect("handed back");
    let timeline = context.interop.create_timeline(0).expect("a timeline");
    // wgpu's queue signals; a hundred futures share the thread.
    let futures: Vec<_> = (1..=100).map(|value| timeline.reached(value)).collect();
    let waiting = std::thread::spawn(move || futures.into_iter().try_for_each(pollster::block_on));
    for value in 1..=100 {
        context.interop.submit_with(&[], [], &[(&timeline, value)]).expect("submitted");
    }
    waiting.join().expect("no panic").expect("reached");
    assert_eq!(timeline.value().expect("a value"), 100);
    // Dropped futures are forgotten.
    drop(timeline.reached(1000));
    let error = context.interop.submit_with(&[], [], &[(&timeline, 100)]).expect_err("does not grow");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(validation_messages(), 0);
}

/// A timeline of the application's own: a stream signals it, wgpu's queue waits for it and signals another one.
#[test]
fn submissions_wait_for_timelines_and_signal_them() {
    let Some(context) = Context::new() else { return };
    let [produced, consumed] = [0, 5].map(|initial| context.interop.create_timeline(initial).expect("a timeline"));
    let buffer = buffer(&context);
    for frame in 1..=20 {
        let compute = context.interop.begin_compute(&context.stream, &[&buffer]).expect("handed over");
        context.stream.fill_u32(&buffer, frame).expect("filled");
        context.end(compute);
        context.stream.signal_timeline(produced.timeline(), frame.into()).expect("signalled");
        let readback = context.readback(SIZE);
        let commands = [copy(&context, &buffer, &readback)];
        let (waits, signals) = ([(&produced, frame.into())], [(&consumed, u64::from(frame) + 5)]);
        context.interop.submit_with(&waits, commands, &signals).expect("submitted");
        consumed.timeline().wait(u64::from(frame) + 5, Duration::from_secs(10)).expect("reached");
        assert!(context.map_words(&readback).iter().all(|word| *word == frame), "frame {frame}");
    }
    assert_eq!(validation_messages(), 0);
}

/// The host, streams and wgpu's queue raise one timeline: none of them lowers it.
#[test]
fn a_timeline_that_the_host_raised_is_not_lowered() {
    let Some(context) = Context::new() else { return };
    let timeline = context.interop.create_timeline(0).expect("a timeline");
    timeline.timeline().signal(10).expect("raised");
    let buffer = buffer(&context);
    for value in [5, 10] {
        let readback = context.readback(SIZE);
        let commands = copy(&context, &buffer, &readback);
        let error = context.interop.submit_with(&[], [commands], &[(&timeline, value)]).expect_err("reached");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("already signalled: 10"), "{error}");
    }
    context.wait();
    assert_eq!(timeline.value().expect("a value"), 10);
    context.interop.submit_with(&[], [], &[(&timeline, 11)]).expect("submitted");
    timeline.timeline().wait(11, Duration::from_secs(10)).expect("reached");
    let stream = &context.stream;
    stream.signal_timeline(timeline.timeline(), 20).expect("signalled");
    stream.synchronize().expect("completes");
    timeline.timeline().wait(20, Duration::from_secs(10)).expect("reached");
    context.interop.submit_with(&[], [], &[(&timeline, 12)]).expect_err("reached");
    context.interop.submit_with(&[], [], &[(&timeline, 21)]).expect("submitted");
    // On Direct3D 12 the queue signals after the submission.
    timeline.timeline().wait(21, Duration::from_secs(10)).expect("reached");
    assert_eq!(timeline.value().expect("a value"), 21);
    let most = timeline.timeline().exporter().max_difference();
    if let Some(far) = most.checked_add(22) {
        let error = context.interop.submit_with(&[], [], &[(&timeline, far)]).expect_err("too far");
        assert!(error.to_string().contains("greatest difference"), "{error}");
    }
    assert_eq!(validation_messages(), 0);
}

/// While a signal of wgpu's queue is pending, the host signals no value that it would revert or overtake.
#[test]
fn the_host_does_not_signal_past_a_pending_signal() {
    if is_simulated() {
        return println!("skipped: no shaders");
    }
    let Some(context) = Context::new() else { return };
    let timeline = context.interop.create_timeline(0).expect("a timeline");
    let buffer = buffer(&context);
    let slow = Slow::new(&context, &buffer);
    let mut last = 0;
    // Longer and longer work, until the host is faster.
    for round in 5..18 {
        let value = last + 10;
        let commands = slow.write(&context, &buffer, 1, 1 << round);
        context.interop.submit_with(&[], [commands], &[(&timeline, value)]).expect("submitted");
        let refused =
            [value - 5, value + 5].map(|other| timeline.timeline().signal(other).map_err(|error| error.kind()));
        timeline.timeline().wait(value, Duration::from_secs(20)).expect("reached");
        context.wait();
        last = timeline.value().expect("it did not decrease");
        if refused == [Err(ErrorKind::Overtaken), Err(ErrorKind::InvalidArgument)] {
            assert_eq!(last, value);
            timeline.timeline().signal(value + 1).expect("nothing is pending");
            return;
        }
    }
    panic!("the host was never faster");
}

/// Submissions of other threads between the steps of hand-overs change nothing.
#[test]
fn other_threads_submit_at_any_time() {
    // Without validation: version 1.4.309 of the layer replays a submission twice that waited for a value of the
    // bridge, in the thread that signals and in one that submits, and reports the copy to a new buffer as a hazard with
    // itself.
    let Some(context) = Context::unvalidated() else { return };
    let buffer = buffer(&context);
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                    context.queue().submit([]);
                    std::thread::sleep(Duration::from_micros(50));
                }
            });
        }
        for frame in 0..200_u32 {
            context.queue().write_buffer(buffer.wgpu(), 0, &frame.to_ne_bytes().repeat(1024));
            let compute = context.interop.begin_compute(&context.stream, &[&buffer]).expect("handed over");
            let mut seen = vec![0; 4096];
            context.stream.read(&buffer, &mut seen).expect("read");
            assert_eq!(seen, frame.to_ne_bytes().repeat(1024), "frame {frame}");
            context.stream.fill_u32(&buffer, !frame).expect("filled");
            let readback = context.readback(SIZE);
            compute.end_and_submit([copy(&context, &buffer, &readback)]).expect("handed back");
            assert!(context.map_words(&readback).iter().all(|word| *word == !frame), "frame {frame}");
        }
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
