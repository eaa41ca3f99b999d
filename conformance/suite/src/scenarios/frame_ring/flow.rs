//! The way of frames: data, order, back pressure.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{
    ExportableSemaphore, Frame, FrameImage, FrameRing, FrameRingOptions, FrameSide, ImageOptions, ImageSpec,
    OwnedSemaphore, SemaphoreOp,
};
use gpu_interop::{Feature, Stream, Timeline, TimelineStrategy};

use super::super::times_out;
use super::{ClosedQueue, IN_FLIGHT, Log, Rig, SIZE, of_frame, vulkan};
use crate::context::Context;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::Pattern;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    all need [exporter FrameRings, bridged timelines, word waits];
    "frame_ring.three_in_flight.native", Any,
        "With three frames in flight, native timelines, the exporter, a stream and the exporter find each frame's own data.",
        |context| three_in_flight(context, TimelineStrategy::Native), needs [native timelines], signals_by_host;
    "frame_ring.three_in_flight.bridge", Any, "The same over a bridge.",
        |context| three_in_flight(context, TimelineStrategy::HostBridge), signals_by_host;
    "frame_ring.presented.native", Any,
        "A binary semaphore, as of a presentation, is signalled and waited for behind each frame's native timeline.",
        |context| presented(context, TimelineStrategy::Native), needs [native timelines], signals_by_host,
        mirrors("KhronosGroup/Vulkan-ValidationLayers#10211");
    "frame_ring.presented.bridge", Any, "The same over a bridge: the frame's value is reached before.",
        |context| presented(context, TimelineStrategy::HostBridge), signals_by_host,
        mirrors("KhronosGroup/Vulkan-ValidationLayers#10211");
    "frame_ring.sizes", Any, "Rings of 1 to 16 frames, all in flight, keep each frame's own data.", sizes, signals_by_host;
    "frame_ring.compute_first", Any, "Frames that the device begins arrive at the exporter.", compute_first,
        signals_by_host;
    "frame_ring.order", Any, "Streams execute no half of three frames in flight before the exporter's queue does.", order,
        signals_by_host;
    "frame_ring.back_pressure", Any,
        "No frame is acquired while all are held or have work pending; after the timeout nothing is lost.", back_pressure,
        signals_by_host;
    "frame_ring.images", Any, "Images of frames go both ways, three in flight.", images, signals_by_host;
    "frame_ring.graphs", Any, "Recorded halves, one graph a frame, change each frame's own data.", graphs,
        needs [Graphs], signals_by_host;
}

/// Vulkan writes the first half of a frame, the stream copies it to the second, and Vulkan reads both.
fn three_in_flight(context: &Context, strategy: TimelineStrategy) -> Verdict {
    const FRAMES: u64 = 100;
    let rig = Rig::with(context, FrameRingOptions::new(IN_FLIGHT).strategy(strategy))?;
    ensure_eq!(rig.ring.strategy(), strategy, "the strategy of a ring");
    let mut in_flight = VecDeque::new();
    for number in 0..FRAMES {
        if in_flight.len() == IN_FLIGHT {
            in_flight.pop_front().map_or(Ok(()), |frame| check_halves(&rig, frame))?;
        }
        let mut frame = rig.acquire()?;
        ensure_eq!(frame.number(), number, "the number of a frame");
        let data = [of_frame(context, number).bytes(0, SIZE / 2), vec![0; SIZE / 2]].concat();
        rig.write(&mut frame, &data)?;
        copy_half(&mut frame, &rig.stream)?;
        in_flight.push_back(frame);
    }
    in_flight.into_iter().try_for_each(|frame| check_halves(&rig, frame))?;
    Ok(rig.stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

/// The compute half: copies the first half of the buffer to the second.
fn copy_half(frame: &mut Frame, stream: &Stream) -> Verdict {
    const MIDDLE: u64 = SIZE as u64 / 2;
    Ok(frame.compute(stream, |stream, memory| {
        let buffer = &memory.buffers()[0];
        stream.copy(buffer.slice(MIDDLE..)?, buffer.slice(..MIDDLE)?)
    })?)
}

/// As [`three_in_flight`]. A submission signals a binary semaphore behind Vulkan's last half, and another one, in place of a
/// presentation, waits for it and reads the frame. The stream is blocked until then. The validation layer reports a wait for
/// a semaphore whose signal depends on a value which no submitted work signals (VUID-vkQueueSubmit-pWaitSemaphores-03238).
fn presented(context: &Context, strategy: TimelineStrategy) -> Verdict {
    const FRAMES: u64 = 60;
    let rig = Rig::with(context, FrameRingOptions::new(IN_FLIGHT).strategy(strategy))?;
    let interop = rig.vulkan.interop();
    let bridged = || OwnedSemaphore::timeline(interop, 0).map_err(Stop::attempted);
    let share = |exporter, strategy| Timeline::with_strategy(context.device(), exporter, strategy);
    let gate = share(Arc::new(bridged()?), TimelineStrategy::HostBridge)?;
    let (semaphore, done) = if strategy == TimelineStrategy::Native {
        let exported = ExportableSemaphore::timeline(interop, 0).map_err(Stop::attempted)?;
        (exported.semaphore().clone(), share(Arc::new(exported), strategy)?)
    } else {
        let semaphore = bridged()?;
        (semaphore.clone(), share(Arc::new(semaphore), strategy)?)
    };
    let shown = show_behind(&rig, &gate, (&semaphore, &done), FRAMES);
    // Also after a failure, which other scenarios of the process must survive.
    let _ = gate.signal(FRAMES + 1);
    shown?;
    Ok(rig.stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

/// Shows frames, whose compute halves wait for the gate until a moment after the presentation has begun.
fn show_behind(rig: &Rig<'_>, gate: &Timeline, done: (&OwnedSemaphore, &Timeline), frames: u64) -> Verdict {
    const MOMENT: Duration = Duration::from_millis(2);
    let semaphores = (0..IN_FLIGHT).map(|_| OwnedSemaphore::binary(rig.vulkan.interop()));
    let semaphores = semaphores.collect::<Result<Vec<_>, _>>().map_err(Stop::attempted)?;
    let is_native = done.1.strategy() == TimelineStrategy::Native;
    let present = |mut frame: Frame| -> Verdict {
        let (number, place) = (frame.number(), frame.index());
        let (binary, target) = ([SemaphoreOp { semaphore: &semaphores[place], value: 0 }], &rig.targets[place]);
        // A context that waits for the binary semaphore waits for the value itself, too.
        let value = number + 1;
        if number.is_multiple_of(2) {
            frame.before_present(WAIT_TIMEOUT)?;
            done.1.before_present(value, WAIT_TIMEOUT)?;
            ensure!(is_native || frame.is_done()?, "frame {number}: its half is pending");
        }
        frame.render(rig.vulkan, |recording, memory| {
            recording.copy(memory.buffers()[0].buffer(), 0, target, 0, SIZE as u64)
        })?;
        rig.vulkan.submit(&[SemaphoreOp { semaphore: done.0, value }], &binary, |_| Ok(()))?;
        let shown = rig.vulkan.submit(&binary, &[], |_| Ok(()))?;
        ensure!(
            is_native || done.0.value()? >= value,
            "frame {number}: a wait for a binary semaphore depends on a value that is not reached"
        );
        shown.wait(WAIT_TIMEOUT)?;
        let mut found = vec![0; SIZE];
        target.read(0, &mut found)?;
        verify_halves(rig.context, number, &found)
    };
    let open_and_present = |frame: Frame| {
        let value = frame.number() + 1;
        std::thread::scope(|scope| {
            let opened = scope.spawn(move || {
                sleep(MOMENT);
                gate.signal(value)
            });
            let presented = present(frame);
            opened.join().map_err(|_| Stop::failed("the thread that opens the gate panicked".into()))??;
            presented
        })
    };
    let mut in_flight = VecDeque::new();
    for number in 0..frames {
        if in_flight.len() == IN_FLIGHT {
            in_flight.pop_front().map_or(Ok(()), open_and_present)?;
        }
        let mut frame = rig.acquire()?;
        let data = [of_frame(rig.context, number).bytes(0, SIZE / 2), vec![0; SIZE / 2]].concat();
        rig.write(&mut frame, &data)?;
        rig.stream.wait_timeline(gate, number + 1)?;
        copy_half(&mut frame, &rig.stream)?;
        rig.stream.signal_timeline(done.1, number + 1)?;
        in_flight.push_back(frame);
    }
    in_flight.into_iter().try_for_each(open_and_present)
}

fn check_halves(rig: &Rig<'_>, frame: Frame) -> Verdict {
    let (number, found) = (frame.number(), rig.read(frame)?);
    verify_halves(rig.context, number, &found)
}

fn verify_halves(context: &Context, number: u64, found: &[u8]) -> Verdict {
    for (half, writer) in found.chunks_exact(SIZE / 2).zip(["the exporter", "the stream"]) {
        of_frame(context, number).verify(0, half, format_args!("frame {number}, written by {writer}"))?;
    }
    Ok(())
}

fn sizes(context: &Context) -> Verdict {
    for frames in [1, 2, 5, 16] {
        let rig = Rig::with(context, FrameRingOptions::new(frames))?;
        ensure_eq!(rig.ring.frames(), frames, "frames of a ring");
        for round in 0..3 {
            let all = (0..frames)
                .map(|index| {
                    let mut frame = rig.acquire()?;
                    ensure_eq!(frame.index(), index, "the rotation of round {round}");
                    let data = of_frame(context, frame.number()).bytes(0, SIZE / 2);
                    rig.write(&mut frame, &[data, vec![0; SIZE / 2]].concat())?;
                    copy_half(&mut frame, &rig.stream)?;
                    Ok(frame)
                })
                .collect::<Verdict<Vec<_>>>()?;
            all.into_iter().try_for_each(|frame| check_halves(&rig, frame))?;
        }
    }
    Ok(())
}

fn compute_first(context: &Context) -> Verdict {
    const FRAMES: u64 = 30;
    let rig = Rig::with(context, FrameRingOptions::new(IN_FLIGHT).first(FrameSide::Compute))?;
    let (source, from) = context.zeroed(usize::try_from(FRAMES)? * SIZE)?;
    for number in 0..FRAMES {
        source.write(number * SIZE as u64, &of_frame(context, number).bytes(0, SIZE))?;
    }
    let mut in_flight = VecDeque::new();
    let check = |frame: Frame| {
        let number = frame.number();
        of_frame(context, number).verify(0, &rig.read(frame)?, format_args!("frame {number}, from the device"))
    };
    for number in 0..FRAMES {
        if in_flight.len() == IN_FLIGHT {
            in_flight.pop_front().map_or(Ok(()), check)?;
        }
        let mut frame = rig.acquire()?;
        let start = number * SIZE as u64;
        frame.compute(&rig.stream, |stream, memory| {
            stream.copy(&memory.buffers()[0], from.slice(start..start + SIZE as u64)?)
        })?;
        in_flight.push_back(frame);
    }
    in_flight.into_iter().try_for_each(check)
}

fn order(context: &Context) -> Verdict {
    let (rig, log) = (Rig::new(context)?, Log::new(context, IN_FLIGHT)?);
    let queue = ClosedQueue::new(rig.vulkan)?;
    for number in 0..IN_FLIGHT as u64 {
        let mut frame = rig.acquire()?;
        rig.write(&mut frame, &of_frame(context, number).bytes(0, SIZE))?;
        rig.log(&mut frame, &log)?;
    }
    // A stream that does not wait has copied by then.
    sleep(WATCH);
    queue.open()?;
    let ended = rig.stream.synchronize_timeout(WAIT_TIMEOUT);
    // First the data: without it, a signal out of order would be all that is reported.
    log.verify(context)?;
    Ok(ended?)
}

fn back_pressure(context: &Context) -> Verdict {
    let (rig, log) = (Rig::new(context)?, Log::new(context, IN_FLIGHT + 1)?);
    let queue = ClosedQueue::new(rig.vulkan)?;
    for number in 0..IN_FLIGHT as u64 {
        let mut frame = rig.acquire()?;
        rig.write(&mut frame, &of_frame(context, number).bytes(0, SIZE))?;
        rig.log(&mut frame, &log)?;
    }
    for limit in [WATCH, WATCH / 4] {
        let error = times_out(limit, "an acquire with pending work", || rig.ring.acquire(limit).map(drop))?;
        let text = error.to_string();
        for part in ["frames held: 0", "frames pending: 3", "index 0 at value 0 of 2"] {
            ensure!(text.contains(part), "the error does not contain `{part}`: {text}");
        }
    }
    queue.open()?;
    let mut held = (0..IN_FLIGHT).map(|_| rig.acquire()).collect::<Verdict<VecDeque<_>>>()?;
    let limit = WATCH / 4;
    let error = times_out(limit, "an acquire while all are held", || rig.ring.acquire(limit).map(drop))?;
    ensure!(error.to_string().contains("frames held: 3"), "the error does not contain the held frames: {error}");
    // A frame that is returned while another thread waits for it.
    let returned = held.pop_front();
    let acquired = std::thread::scope(|scope| {
        scope.spawn(|| {
            sleep(WATCH / 4);
            drop(returned);
        });
        rig.acquire()
    })?;
    ensure_eq!(acquired.number(), 2 * IN_FLIGHT as u64, "the number of the frame after the timeouts");
    drop((acquired, held));
    let mut frame = rig.acquire()?;
    // Into the last place of the log, whose number is that of a fourth frame.
    rig.write(&mut frame, &of_frame(context, IN_FLIGHT as u64).bytes(0, SIZE))?;
    let last = log.mapped.slice((IN_FLIGHT * SIZE) as u64..)?;
    frame.compute(&rig.stream, |stream, memory| stream.copy(last, &memory.buffers()[0]))?;
    frame.wait(WAIT_TIMEOUT)?;
    rig.stream.synchronize_timeout(WAIT_TIMEOUT)?;
    log.verify(context)
}

const EXTENT: u32 = 64;
const TEXELS: usize = (EXTENT * EXTENT * 4) as usize;

/// The image as the stream reads and writes it: all of its texels, row by row.
fn transfer(stream: &Stream, image: &FrameImage, texels: &mut [u8], write: bool) -> gpu_interop::Result<()> {
    if let Some(array) = image.array() {
        let region = array.level(0)?;
        return if write { stream.write_array(region, texels) } else { stream.read_array(region, texels) };
    }
    let Some(buffer) = image.linear() else { return Ok(()) };
    let layout = image.image().subresource_layout(0, 0)?;
    for (row, texels) in (0..).zip(texels.chunks_exact_mut(EXTENT as usize * 4)) {
        let start = layout.offset + row * layout.row_pitch;
        let slice = buffer.slice(start..start + texels.len() as u64)?;
        if write { stream.write(slice, texels) } else { stream.read(slice, texels) }?;
    }
    Ok(())
}

fn images(context: &Context) -> Verdict {
    const FRAMES: u64 = 12;
    let (vulkan, stream) = (vulkan(context)?, context.stream()?);
    let usage = vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST;
    let spec = ImageSpec::new(vk::ImageViewType::TYPE_2D, [EXTENT, EXTENT, 1], vk::Format::R8G8B8A8_UNORM, usage);
    let arrays = context.has(Feature::MappedMipmappedArray);
    let spec = spec.tiling(if arrays { vk::ImageTiling::OPTIMAL } else { vk::ImageTiling::LINEAR });
    let options = FrameRingOptions::new(IN_FLIGHT).image(ImageOptions::new(spec));
    let ring = FrameRing::new(vulkan, context.device(), &options).map_err(Stop::attempted)?;
    let host = || {
        use gpu_interop::vulkan::{MemoryPlacement, OwnedBuffer};
        OwnedBuffer::new(vulkan.interop(), TEXELS as u64, super::USAGE, MemoryPlacement::HostVisible)
    };
    let staging = (0..IN_FLIGHT).map(|_| host()).collect::<Result<Vec<_>, _>>()?;
    let back = |number| Pattern::new(of_frame(context, number).seed() ^ 0x5a5a_0000);
    let check = |mut frame: Frame| -> Verdict {
        let (number, target) = (frame.number(), &staging[frame.index()]);
        let read = frame.render(vulkan, |recording, memory| {
            recording.copy_from_image(memory.images()[0].image(), 0, 0, target, 0)
        })?;
        read.wait(WAIT_TIMEOUT)?;
        let mut found = vec![0; TEXELS];
        target.read(0, &mut found)?;
        back(number).verify(0, &found, format_args!("frame {number}, from the stream"))
    };
    let mut in_flight = VecDeque::new();
    for number in 0..FRAMES {
        if in_flight.len() == IN_FLIGHT {
            in_flight.pop_front().map_or(Ok(()), check)?;
        }
        let mut frame = ring.acquire(WAIT_TIMEOUT)?;
        let source = &staging[frame.index()];
        source.write(0, &of_frame(context, number).bytes(0, TEXELS))?;
        frame
            .render(vulkan, |recording, memory| recording.copy_to_image(source, 0, memory.images()[0].image(), 0, 0))?;
        let (mut found, mut texels) = (vec![0; TEXELS], back(number).bytes(0, TEXELS));
        frame.compute(&stream, |stream, memory| {
            let image = &memory.images()[0];
            transfer(stream, image, &mut found, false)?;
            transfer(stream, image, &mut texels, true)
        })?;
        of_frame(context, number).verify(0, &found, format_args!("frame {number}, from the exporter"))?;
        in_flight.push_back(frame);
    }
    in_flight.into_iter().try_for_each(check)
}

fn graphs(context: &Context) -> Verdict {
    const MIDDLE: u64 = SIZE as u64 / 2;
    let rig = Rig::new(context)?;
    let graphs = rig.ring.record(|stream, memory| {
        let buffer = &memory.buffers()[0];
        stream.copy(buffer.slice(MIDDLE..)?, buffer.slice(..MIDDLE)?)
    })?;
    ensure_eq!(graphs.graphs().len(), IN_FLIGHT, "graphs");
    for _ in 0..5 {
        let mut all = Vec::with_capacity(IN_FLIGHT);
        for _ in 0..IN_FLIGHT {
            let mut frame = rig.acquire()?;
            let data = of_frame(context, frame.number()).bytes(0, SIZE / 2);
            rig.write(&mut frame, &[data, vec![0; SIZE / 2]].concat())?;
            frame.launch(&rig.stream, &graphs)?;
            all.push(frame);
        }
        all.into_iter().try_for_each(|frame| check_halves(&rig, frame))?;
    }
    Ok(())
}
