//! Failures, misuse and drops of frames and rings.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Instant;

use gpu_interop::vulkan::{BufferOptions, Frame, FrameRing, FrameRingOptions, FrameSide};
use gpu_interop::{Error, ErrorKind, Feature};

use super::super::{expect_error, expect_invalid};
use super::{BYTES, ClosedQueue, IN_FLIGHT, Log, Rig, SIZE, USAGE, of_frame, vulkan};
use crate::context::Context;
use crate::leak_check::leak_check;
use crate::outcome::{PROMPT, Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::{Pattern, verify_bytes};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    all need [exporter FrameRings, bridged timelines, word waits];
    "frame_ring.failing_half", Any,
        "A half that fails or panics is handed back behind its enqueued work; frame and ring stay usable.", failing_half,
        signals_by_host;
    "frame_ring.misuse", Any,
        "Halves out of turn, of other devices and of other rings are typed errors; the frame works afterwards.", misuse,
        signals_by_host;
    "frame_ring.dropped_frames", Any,
        "Frames dropped after any half return to the ring, and the next frames have their own data.", dropped_frames,
        signals_by_host;
    "frame_ring.dropped_in_flight", Any,
        "A ring dropped with three frames in flight frees nothing too early, and does not block for long.",
        dropped_in_flight, signals_by_host;
    "frame_ring.cycles", Any, "10,000 frames, and 100 rings, leak nothing.", cycles, counts_resources,
        within(180), signals_by_host;
}

/// Vulkan's and the compute half, and every byte of the result.
fn whole_frame(rig: &Rig<'_>, mut frame: Frame, pattern: Pattern) -> Verdict {
    const MIDDLE: u64 = BYTES / 2;
    let what = format!("frame {} at {}", frame.number(), frame.index());
    rig.write(&mut frame, &[pattern.bytes(0, SIZE / 2), vec![0; SIZE / 2]].concat())?;
    frame.compute(&rig.stream, |stream, memory| {
        let buffer = &memory.buffers()[0];
        stream.copy(buffer.slice(MIDDLE..)?, buffer.slice(..MIDDLE)?)
    })?;
    let found = rig.read(frame)?;
    let (written, copied) = found.split_at(SIZE / 2);
    pattern.verify(0, written, &what)?;
    pattern.verify(0, copied, &what)
}

fn failing_half(context: &Context) -> Verdict {
    let rig = Rig::new(context)?;
    let queue = ClosedQueue::new(rig.vulkan)?;
    let mut held = Vec::new();
    for panics in [false, true, false] {
        let mut frame = rig.acquire()?;
        rig.write(&mut frame, &context.pattern().bytes(0, SIZE))?;
        let mut half = || {
            frame.compute(&rig.stream, |stream, memory| -> gpu_interop::Result<()> {
                stream.fill(memory.buffers()[0].slice(..BYTES / 2)?, 0x33)?;
                if panics {
                    // Without the message of a panic, which would look like a failure of the suite.
                    resume_unwind(Box::new("on purpose"));
                }
                Err(Error::new(ErrorKind::Cancelled, "work", "on purpose"))
            })
        };
        if panics {
            ensure!(catch_unwind(AssertUnwindSafe(half)).is_err(), "the panic did not continue");
        } else {
            expect_error(half(), ErrorKind::Cancelled, "a half that fails")?;
        }
        ensure_eq!(frame.turn(), FrameSide::Vulkan, "the turn after a failed half");
        ensure!(!frame.is_done()?, "a half ended before Vulkan's");
        held.push(frame);
    }
    queue.open()?;
    // What the halves had enqueued was executed before they were handed back.
    for frame in held {
        let found = rig.read(frame)?;
        let (filled, rest) = found.split_at(SIZE / 2);
        verify_bytes(filled, 0x33, "the work before the failure did not run")?;
        context.pattern().verify(BYTES / 2, rest, "the bytes beside the work before the failure")?;
    }
    for number in 0..2 * IN_FLIGHT as u64 {
        whole_frame(&rig, rig.acquire()?, of_frame(context, number))?;
    }
    // A failing half of Vulkan submits nothing.
    let mut frame = rig.acquire()?;
    let failed = frame.render(rig.vulkan, |_, _| Err(Error::new(ErrorKind::Cancelled, "work", "on purpose")));
    expect_error(failed.map(drop), ErrorKind::Cancelled, "a half of Vulkan that fails")?;
    ensure_eq!(frame.turn(), FrameSide::Vulkan, "the turn after a failed half of Vulkan");
    whole_frame(&rig, frame, context.pattern())
}

fn misuse(context: &Context) -> Verdict {
    let rig = Rig::new(context)?;
    let new = |frames| FrameRing::new(rig.vulkan, context.device(), &FrameRingOptions::new(frames)).map(drop);
    for frames in [0, 17, usize::MAX] {
        expect_invalid(new(frames), "a ring with this number of frames")?;
    }
    let foreign = context.open_again()?;
    let stranger = foreign.create_stream()?;
    let mut frame = rig.acquire()?;
    let untouched = |_: &gpu_interop::Stream, _: &gpu_interop::vulkan::FrameMemory| -> gpu_interop::Result<()> {
        Err(Error::new(ErrorKind::Cancelled, "work", "the closure was called"))
    };
    expect_invalid(frame.compute(&rig.stream, untouched), "compute before Vulkan")?;
    rig.write(&mut frame, &context.pattern().bytes(0, SIZE))?;
    expect_invalid(frame.render(rig.vulkan, |_, _| Ok(())).map(drop), "Vulkan twice")?;
    expect_invalid(frame.render_sync().map(drop), "semaphores of Vulkan out of turn")?;
    expect_invalid(frame.compute(&stranger, untouched), "a stream of another device")?;
    if context.has(Feature::Graphs) {
        let other = Rig::new(context)?;
        let graphs = other.ring.record(|stream, memory| stream.fill(&memory.buffers()[0], 1))?;
        expect_invalid(frame.launch(&rig.stream, &graphs), "graphs of another ring")?;
        // On a stream that records; the recording fails with the same error.
        let recorded = context.device().record(|stream| frame.compute(stream, untouched));
        expect_invalid(recorded.map(drop), "a half on a recording stream")?;
    }
    frame.compute(&rig.stream, |stream, memory| stream.fill(memory.buffers()[0].slice(..16)?, 0x44))?;
    expect_invalid(frame.compute(&rig.stream, untouched), "compute twice")?;
    let found = rig.read(frame)?;
    verify_bytes(&found[..16], 0x44, "the half after rejected ones did not run")?;
    context.pattern().verify(16, &found[16..], "the bytes after rejected halves")?;
    let begins = Rig::with(context, FrameRingOptions::new(1).first(FrameSide::Compute))?;
    let mut frame = begins.acquire()?;
    expect_invalid(frame.render(begins.vulkan, |_, _| Ok(())).map(drop), "Vulkan before compute")?;
    Ok(())
}

fn dropped_frames(context: &Context) -> Verdict {
    let rig = Rig::new(context)?;
    for first in 0..4_u32 {
        for second in 0..4 {
            for halves in [first, second, 3] {
                let mut frame = rig.acquire()?;
                let pattern = of_frame(context, frame.number());
                if halves == 3 {
                    whole_frame(&rig, frame, pattern)?;
                    continue;
                }
                if halves > 0 {
                    rig.write(&mut frame, &pattern.bytes(0, SIZE))?;
                }
                if halves > 1 {
                    frame.compute(&rig.stream, |stream, memory| stream.fill(&memory.buffers()[0], 0x66))?;
                }
            }
        }
    }
    for number in 0..2 * IN_FLIGHT as u64 {
        whole_frame(&rig, rig.acquire()?, of_frame(context, number))?;
    }
    Ok(())
}

fn dropped_in_flight(context: &Context) -> Verdict {
    let log = Log::new(context, IN_FLIGHT)?;
    let stream = {
        let rig = Rig::new(context)?;
        let queue = ClosedQueue::new(rig.vulkan)?;
        let mut held = Vec::new();
        for number in 0..IN_FLIGHT as u64 {
            let mut frame = rig.acquire()?;
            rig.write(&mut frame, &of_frame(context, number).bytes(0, SIZE))?;
            rig.log(&mut frame, &log)?;
            held.push(frame);
        }
        let Rig { ring, stream, .. } = rig;
        drop(ring);
        let start = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(WATCH);
                queue.open()
            });
            drop(held);
        });
        ensure!(start.elapsed() < PROMPT, "the drop blocked for {:?}", start.elapsed());
        stream
    };
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    log.verify(context)
}

fn cycles(context: &Context) -> Verdict {
    const SMALL: u64 = 256;
    /// The frames of the main queue, one of this many. A queue for copies takes a fifth of the time.
    const MAIN: u32 = 5;
    let (rig, log) = (Rig::new(context)?, context.zeroed(4096)?);
    let (seen, mapped) = log;
    let copying = rig.vulkan.copying().unwrap_or(rig.vulkan);
    leak_check(10_000, |cycle| {
        let mut frame = rig.acquire()?;
        let queue = if cycle % MAIN == 0 { rig.vulkan } else { copying };
        frame.render(queue, |recording, memory| recording.fill(memory.buffers()[0].buffer(), 0, SMALL, cycle))?;
        let note = u64::from(cycle % 1024) * 4;
        frame.compute(&rig.stream, |stream, memory| {
            stream.copy(mapped.slice(note..note + 4)?, memory.buffers()[0].slice(..4)?)
        })?;
        if cycle % 1024 == 1023 {
            frame.wait(WAIT_TIMEOUT)?;
            rig.stream.synchronize_timeout(WAIT_TIMEOUT)?;
            for (word, found) in (cycle - 1023..).zip(seen.contents()?.chunks_exact(4)) {
                ensure_eq!(found, word.to_ne_bytes(), "the word of frame {word}");
            }
        }
        Ok(())
    })?;
    let options = FrameRingOptions::new(IN_FLIGHT).buffer(BufferOptions::new(BYTES, USAGE));
    leak_check(100, |_| {
        let ring = FrameRing::new(vulkan(context)?, context.device(), &options)?;
        let mut frame = ring.acquire(WAIT_TIMEOUT)?;
        let half = frame.render(rig.vulkan, |_, _| Ok(()))?;
        frame.compute(&rig.stream, |stream, memory| stream.fill(&memory.buffers()[0], 1))?;
        frame.wait(WAIT_TIMEOUT)?;
        // Each side has seen the end of its work: otherwise its next use frees the frame's memory.
        half.wait(WAIT_TIMEOUT)?;
        Ok(rig.stream.synchronize_timeout(WAIT_TIMEOUT)?)
    })
}
