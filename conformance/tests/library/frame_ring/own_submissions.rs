//! Vulkan's half with the application's own command buffers and submissions, and recorded compute halves.

use gpu_interop::ErrorKind;
use gpu_interop::vulkan::ash::{self, vk};
use gpu_interop::vulkan::{Frame, FrameSide, FrameSync, HeadlessContext, OwnershipTransfer};
use gpu_interop::{Device, Feature};

use crate::{SIZE, TIMEOUT, compute, fails, open, read, ring};

/// Command buffers of the application, one for each frame of the ring.
struct Commands<'a> {
    context: &'a HeadlessContext,
    pool: vk::CommandPool,
    buffers: Vec<vk::CommandBuffer>,
}

impl<'a> Commands<'a> {
    fn new(context: &'a HeadlessContext, count: u32) -> Self {
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(context.queue_family());
        let device = context.interop().device();
        // SAFETY: the device is live and has this family.
        let pool = unsafe { device.create_command_pool(&info, None) }.expect("a pool");
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(count);
        // SAFETY: the pool is new.
        let buffers = unsafe { device.allocate_command_buffers(&info) }.expect("command buffers");
        Self { context, pool, buffers }
    }

    fn device(&self) -> &ash::Device {
        self.context.interop().device()
    }

    /// Records the frame's half: fills its buffer.
    fn record(&self, frame: &Frame, word: u32) -> vk::CommandBuffer {
        let (commands, device) = (self.buffers[frame.index()], self.device());
        let transfer = OwnershipTransfer::all(self.context.queue_family());
        // SAFETY: the last use of this command buffer has completed, because the ring returned the frame of its index; the
        // barriers surround the fill, and the commands are submitted as the frame's half.
        unsafe {
            device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default()).expect("begin");
            frame.record_acquire(commands, transfer).expect("acquire");
            device.cmd_fill_buffer(commands, frame.memory().buffers()[0].buffer().as_raw(), 0, SIZE, word);
            frame.record_release(commands, transfer).expect("release");
            device.end_command_buffer(commands).expect("end");
        }
        commands
    }
}

impl Drop for Commands<'_> {
    fn drop(&mut self) {
        // SAFETY: the test has waited for all frames.
        unsafe { self.device().destroy_command_pool(self.pool, None) };
    }
}

/// Submits by `submit`, with three frames in flight, and checks each frame.
fn flow(context: &HeadlessContext, device: &Device, submit: impl Fn(&Commands<'_>, &mut Frame, vk::CommandBuffer)) {
    let (ring, stream) = (ring(context, device, 3), device.create_stream().expect("stream"));
    let commands = Commands::new(context, 3);
    let mut in_flight = std::collections::VecDeque::new();
    let check = |(mut frame, word): (Frame, u32)| {
        assert_eq!(read(&mut frame, context), [word, !word]);
    };
    for word in 0..60 {
        if in_flight.len() == 3 {
            in_flight.pop_front().into_iter().for_each(check);
        }
        let mut frame = ring.acquire(TIMEOUT).expect("a frame");
        let recorded = commands.record(&frame, word);
        submit(&commands, &mut frame, recorded);
        assert_eq!(frame.turn(), FrameSide::Compute);
        compute(&mut frame, &stream, !word);
        in_flight.push_back((frame, word));
    }
    in_flight.into_iter().for_each(check);
}

#[test]
fn command_buffers_are_submitted_by_the_frame() {
    let Some((context, device)) = open() else { return };
    flow(&context, &device, |_, frame, commands| {
        // SAFETY: the context's lock excludes other users of the queue; the commands are recorded for this half.
        context.with_queue(|queue| unsafe { frame.submit_render(queue, &[commands]) }).expect("submit");
    });
}

#[test]
fn the_application_submits_with_the_frames_values() {
    let Some((context, device)) = open() else { return };
    flow(&context, &device, |own, frame, commands| {
        let sync = frame.render_sync().expect("Vulkan's turn");
        let FrameSync { semaphore, wait, signal, .. } = sync;
        assert_eq!((sync.wait_info().value, sync.signal_info().value), (wait, signal));
        assert_eq!((sync.wait_info().semaphore, signal), (semaphore, wait + 1));
        let (semaphores, waits, signals) = ([semaphore], [wait], [signal]);
        let mut values =
            vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&waits).signal_semaphore_values(&signals);
        let commands = [commands];
        let info = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .wait_semaphores(&semaphores)
            .wait_dst_stage_mask(&[vk::PipelineStageFlags::ALL_COMMANDS])
            .signal_semaphores(&semaphores)
            .push_next(&mut values);
        // SAFETY: the context's lock excludes other users of the queue; commands and semaphore are live, and the values
        // increase. The half was submitted.
        unsafe {
            context.with_queue(|queue| own.device().queue_submit(queue, &[info], vk::Fence::null())).expect("submit");
            frame.assume_rendered().expect("Vulkan's turn");
        }
    });
}

#[test]
fn vulkans_calls_out_of_turn_are_rejected() {
    let Some((context, device)) = open() else { return };
    let (ring, commands) = (ring(&context, &device, 1), Commands::new(&context, 1));
    let mut frame = ring.acquire(TIMEOUT).expect("a frame");
    let recorded = commands.record(&frame, 1);
    // SAFETY: as above.
    context.with_queue(|queue| unsafe { frame.submit_render(queue, &[recorded]) }).expect("submit");
    let (transfer, null) = (OwnershipTransfer::all(context.queue_family()), vk::CommandBuffer::null());
    // SAFETY: all of these are rejected before the driver is called.
    let refused = unsafe {
        [
            frame.record_acquire(null, transfer),
            frame.record_release(null, transfer),
            frame.submit_render(vk::Queue::null(), &[]),
            frame.assume_rendered(),
            frame.render_sync().map(drop),
        ]
    };
    for error in refused {
        fails(&error.expect_err("out of turn"), ErrorKind::InvalidArgument, "compute side's turn");
    }
    frame.wait(TIMEOUT).expect("the half ends");
}

#[test]
fn recorded_halves_run_in_turn() {
    let Some((context, device)) = open() else { return };
    if !device.capabilities().feature(Feature::Graphs).is_supported() {
        return println!("skipped: the device records no graphs");
    }
    let (first, other) = (ring(&context, &device, 3), ring(&context, &device, 3));
    let stream = device.create_stream().expect("stream");
    let record = |ring: &gpu_interop::vulkan::FrameRing| {
        ring.record(|stream, memory| {
            let word = u32::try_from(memory.index()).unwrap_or(0) + 100;
            stream.fill_u32(memory.buffers()[0].slice(SIZE / 2..)?, word)
        })
    };
    let (graphs, foreign) = (record(&first).expect("graphs"), record(&other).expect("graphs"));
    for word in 0..9 {
        let mut frame = first.acquire(TIMEOUT).expect("a frame");
        drop(crate::render(&mut frame, &context, word));
        fails(&frame.launch(&stream, &foreign).expect_err("foreign"), ErrorKind::InvalidArgument, "another ring");
        frame.launch(&stream, &graphs).expect("launch");
        let index = u32::try_from(frame.index()).expect("small");
        assert_eq!(read(&mut frame, &context), [word, index + 100]);
    }
}
