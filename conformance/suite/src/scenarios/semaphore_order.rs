//! Semaphores order the two sides.

use std::time::Duration;

use gpu_interop::{SignalBatch, WaitBatch};

use super::semaphore_misuse::{import_binary, import_timeline, need_batches};
use super::{BRIEF, keeps_waiting, times_out};
use crate::context::Context;
use crate::ensure;
use crate::leak_check::leak_check;
use crate::outcome::{Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::{Pattern, verify_bytes};
use crate::scenario::scenarios;

scenarios! {
    "semaphore.binary_order", Any, "A stream's wait for a binary semaphore ends with the exporter's signal, not before.",
        binary_order, needs [shared binaries],
        mirrors("hip-tests: hipWaitExternalSemaphoresAsync_Vulkan_Positive_Binary_Semaphore");
    "semaphore.timeline_order", Any, "A stream's wait for a timeline value is not met by a smaller one.", timeline_order,
        needs [shared timelines],
        mirrors("hip-tests: hipWaitExternalSemaphoresAsync_Vulkan_Positive_Timeline_Semaphore");
    "semaphore.device_to_exporter", Any, "The exporter sees the stream's data when it sees its signal.",
        device_to_exporter, needs [shared timelines],
        mirrors("hip-tests: hipSignalExternalSemaphoresAsync_Vulkan_Positive_Binary_Semaphore");
    "semaphore.wait_before_signal", Any, "A wait enqueued long before its signal is met by it.", wait_before_signal,
        needs [shared timelines];
    "semaphore.timeout", Any, "A synchronisation behind an unmet wait times out on time and can be repeated.", timeout,
        needs [shared timelines];
    "semaphore.batches", Any, "Batches of 1, 8, 9 and 64 semaphores signal and wait as one.", batches,
        needs [shared timelines],
        mirrors("hip-tests: hipSignalExternalSemaphoresAsync_Vulkan_Positive_Multiple_Semaphores; \
             OpenCL-CTS: external_semaphores_multi_signal, external_semaphores_multi_wait");
    "semaphore.prepared_batches", Any,
        "Prepared batches of 1, 8, 9 and 64 semaphores signal and wait as one, each time with the values set last.",
        prepared_batches, needs [shared timelines];
    "semaphore.two_streams", Any, "Two streams of the device hand work over by a timeline, 500 times.", two_streams,
        needs [shared timelines],
        mirrors("OpenCL-CTS: external_semaphores_cross_queues_io, external_semaphores_cross_queues_ooo");
    "semaphore.1000_frames", Any,
        "1,000 frames go back and forth between exporter and device, with the data verified on both sides.",
        thousand_frames, needs [shared timelines], within(60), mirrors("OpenCL-CTS: external_semaphores_reuse");
    "semaphore.large_values", Any, "Values around 2^32 and up to 2^64 - 1 work.", large_values,
        needs [shared timelines];
    "semaphore.smaller_wait", Any, "A wait for a value that was reached does not block.", smaller_wait,
        needs [shared timelines], mirrors("ONNX Runtime: WaitAndSignalSemaphore");
    "semaphore.destroy_pending", Any,
        "A semaphore dropped while a stream waits for it still ends that wait when it is signalled.", destroy_pending,
        needs [shared timelines];
    "semaphore.import_cycles", Any, "200 imports and closes of semaphores leak nothing.", import_cycles,
        needs [shared timelines], counts_resources, within(60);
}

const SIZE: usize = 64 << 10;

fn binary_order(context: &Context) -> Verdict {
    let (exported, semaphore) = import_binary(context)?;
    let buffer = context.buffer(SIZE as u64)?;
    let target = context.buffer(SIZE as u64)?;
    let (from, to) = (context.import(&*buffer)?, context.import(&*target)?);
    let stream = context.stream()?;
    let mut pattern = context.pattern();
    for round in 0..20 {
        buffer.write(0, &vec![0; SIZE])?;
        stream.wait(&[semaphore.wait()])?;
        stream.copy(&to, &from)?;
        if round < 2 {
            keeps_waiting(
                &stream,
                WATCH,
                format_args!("round {round}: the stream went on although nothing was signalled"),
            )?;
        }
        buffer.put(pattern)?;
        exported.signal(0)?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        target.verify(pattern, &format!("round {round}: the stream's copy after the signal"))?;
        pattern = pattern.other();
    }
    Ok(())
}

fn timeline_order(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let buffer = context.buffer(SIZE as u64)?;
    let target = context.buffer(SIZE as u64)?;
    let (from, to) = (context.import(&*buffer)?, context.import(&*target)?);
    let stream = context.stream()?;
    let pattern = context.pattern();
    buffer.write(0, &vec![0; SIZE])?;
    stream.wait(&[timeline.wait_value(7)])?;
    stream.copy(&to, &from)?;
    for value in [1, 6] {
        exported.signal(value)?;
        keeps_waiting(&stream, WATCH, format_args!("a wait for 7 was met by {value}"))?;
    }
    buffer.put(pattern)?;
    exported.signal(9)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    target.verify(pattern, "the stream's copy after the signal")
}

fn device_to_exporter(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let (buffer, mapped) = context.shared(SIZE)?;
    let stream = context.stream()?;
    let mut found = vec![0; SIZE];
    for value in 1..=200_u64 {
        let byte = context.pattern().byte(value);
        stream.fill(&mapped, byte)?;
        stream.signal(&[timeline.signal_value(value)])?;
        ensure!(exported.wait(value, WAIT_TIMEOUT)?, "the exporter timed out waiting for {value}");
        buffer.read(0, &mut found)?;
        verify_bytes(&found, byte, format_args!("the exporter saw the signal {value} before its data"))?;
    }
    Ok(())
}

fn wait_before_signal(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let stream = context.stream()?;
    stream.wait(&[timeline.wait_value(1)])?;
    stream.signal(&[timeline.signal_value(2)])?;
    keeps_waiting(&stream, Duration::from_millis(400), "the stream did not wait")?;
    ensure!(!exported.wait(2, Duration::ZERO)?, "the signal behind the wait came before the wait was met");
    exported.signal(1)?;
    ensure!(exported.wait(2, WAIT_TIMEOUT)?, "the stream did not proceed");
    Ok(())
}

fn timeout(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let stream = context.stream()?;
    stream.wait(&[timeline.wait_value(1)])?;
    let limit = Duration::from_millis(150);
    for _ in 0..2 {
        times_out(limit, "an unmet wait", || stream.synchronize_timeout(limit))?;
    }
    let start = std::time::Instant::now();
    ensure!(!exported.wait(1, limit)?, "the exporter saw a value that was never signalled");
    ensure!(start.elapsed() >= limit, "the exporter's wait timed out early");
    exported.signal(1)?;
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

fn batches(context: &Context) -> Verdict {
    need_batches(context)?;
    let (gate_side, gate) = import_timeline(context, 0)?;
    for (round, count) in [1_usize, 8, 9, 64].into_iter().enumerate() {
        let pairs = (0..count).map(|_| import_timeline(context, 0)).collect::<Verdict<Vec<_>>>()?;
        let (waiter, signaller) = (context.stream()?, context.stream()?);
        let waits: Vec<_> = pairs.iter().map(|(_, timeline)| timeline.wait_value(3)).collect();
        waiter.wait(&waits)?;
        // All but the last are signalled, so the batch is not complete.
        for (side, _) in &pairs[1..] {
            side.signal(2)?;
        }
        keeps_waiting(&waiter, Duration::from_millis(30), format_args!("a batch of {count} waits was met too early"))?;
        let value = round as u64 + 1;
        signaller.wait(&[gate.wait_value(value)])?;
        let signals: Vec<_> = pairs.iter().map(|(_, timeline)| timeline.signal_value(3)).collect();
        signaller.signal(&signals)?;
        keeps_waiting(
            &waiter,
            Duration::from_millis(30),
            format_args!("a batch of {count} signals did not wait for the work before it"),
        )?;
        gate_side.signal(value)?;
        waiter.synchronize_timeout(WAIT_TIMEOUT)?;
        for (index, (side, _)) in pairs.iter().enumerate() {
            ensure!(side.wait(3, WAIT_TIMEOUT)?, "semaphore {index} of a batch of {count} was not signalled");
        }
    }
    Ok(())
}

fn prepared_batches(context: &Context) -> Verdict {
    need_batches(context)?;
    for count in [1_usize, 8, 9, 64] {
        let pairs = (0..count).map(|_| import_timeline(context, 0)).collect::<Verdict<Vec<_>>>()?;
        let timelines = || pairs.iter().map(|(_, timeline)| timeline);
        let (mut waits, mut signals) = (WaitBatch::new(timelines())?, SignalBatch::new(timelines())?);
        let (waiter, signaller) = (context.stream()?, context.stream()?);
        // At first not the same value for each, and not in the order of the batch. Later one value for all: the last
        // values of the batch's timelines are one from the second such signal on.
        let (filled, rounds) = (4, 7);
        let different = |index: usize| (index as u64 * 7) % 64;
        let value = |round: u64, index: usize| round * 100 + if round < filled { different(index) } else { 0 };
        for round in 1..=rounds {
            if round >= filled {
                waits.fill(value(round, 0));
                signals.fill(value(round, 0));
            } else if round == 2 {
                for index in 0..count {
                    waits.set(index, value(round, index))?;
                    signals.set(index, value(round, index))?;
                }
            } else {
                let values: Vec<u64> = (0..count).map(|index| value(round, index)).collect();
                waits.set_all(&values)?;
                signals.set_all(&values)?;
            }
            waiter.wait_prepared(&waits)?;
            for (index, (side, _)) in pairs.iter().enumerate() {
                // The last one lacks 1, so the batch is not complete.
                side.signal(value(round, index) - 1)?;
            }
            keeps_waiting(
                &waiter,
                Duration::from_millis(30),
                format_args!("round {round}: a prepared batch of {count} waits was met too early"),
            )?;
            signaller.signal_prepared(&mut signals)?;
            waiter.synchronize_timeout(WAIT_TIMEOUT)?;
            for (index, (side, _)) in pairs.iter().enumerate() {
                let value = value(round, index);
                ensure!(side.wait(value, WAIT_TIMEOUT)?, "semaphore {index} of {count} was not signalled with {value}");
                let above = side.wait(value + 1, Duration::from_millis(0))?;
                ensure!(!above, "semaphore {index} of {count} was signalled with more than {value}");
            }
        }
    }
    Ok(())
}

fn two_streams(context: &Context) -> Verdict {
    let (_side, timeline) = import_timeline(context, 0)?;
    let (buffer, mapped) = context.zeroed(4096)?;
    let (even, odd) = (context.stream()?, context.stream()?);
    // Each step copies the half that the other stream wrote, so a step out of order leaves a wrong byte.
    let (low, high) = (mapped.slice(..2048)?, mapped.slice(2048..)?);
    for step in 0..500_u64 {
        let stream = if step % 2 == 0 { &even } else { &odd };
        if step > 0 {
            stream.wait(&[timeline.wait_value(step)])?;
        }
        let byte = context.pattern().byte(step);
        if step % 2 == 0 {
            stream.fill(low, byte)?;
        } else {
            stream.copy(high, low)?;
        }
        stream.signal(&[timeline.signal_value(step + 1)])?;
    }
    odd.synchronize_timeout(WAIT_TIMEOUT)?;
    buffer.verify_all(context.pattern().byte(498), "the two streams did not take turns")
}

fn thousand_frames(context: &Context) -> Verdict {
    const FRAME: usize = 4096;
    let (ready, to_device) = import_timeline(context, 0)?;
    let (done, from_device) = import_timeline(context, 0)?;
    let (input, output) = (context.buffer(FRAME as u64)?, context.buffer(FRAME as u64)?);
    let (from, to) = (context.import(&*input)?, context.import(&*output)?);
    let stream = context.stream()?;
    let mut found = vec![0; FRAME];
    for frame in 1..=1000_u64 {
        // The device's half is enqueued before the exporter has written anything.
        stream.wait(&[to_device.wait_value(frame)])?;
        stream.copy(&to, &from)?;
        stream.signal(&[from_device.signal_value(frame)])?;
        let pattern = Pattern::new(context.pattern().seed() ^ u32::try_from(frame).unwrap_or(0));
        input.put(pattern)?;
        ready.signal(frame)?;
        ensure!(done.wait(frame, WAIT_TIMEOUT)?, "frame {frame} did not come back");
        output.read(0, &mut found)?;
        pattern.verify(0, &found, format_args!("frame {frame}"))?;
    }
    Ok(())
}

fn large_values(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, u64::from(u32::MAX) - 2)?;
    let stream = context.stream()?;
    let edge = u64::from(u32::MAX);
    for value in [edge - 1, edge, edge + 1, edge + 2, 1 << 48, i64::MAX.unsigned_abs()] {
        stream.wait(&[timeline.wait_value(value)])?;
        keeps_waiting(&stream, BRIEF, format_args!("a wait for {value} was met by a smaller value"))?;
        exported.signal(value)?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
    }
    stream.signal(&[timeline.signal_value(i64::MAX.unsigned_abs() + 1)])?;
    let greatest = context.exporter()?.greatest_value();
    stream.signal(&[timeline.signal_value(greatest)])?;
    ensure!(exported.wait(greatest, WAIT_TIMEOUT)?, "the greatest value did not arrive");
    Ok(())
}

fn smaller_wait(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 5)?;
    let stream = context.stream()?;
    for (value, next) in [(5, 6), (3, 7), (0, 8)] {
        stream.wait(&[timeline.wait_value(value)])?;
        stream.signal(&[timeline.signal_value(next)])?;
        ensure!(exported.wait(next, WAIT_TIMEOUT)?, "a wait for {value}, which had passed, held the work behind it up");
    }
    Ok(())
}

fn destroy_pending(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let (buffer, mapped) = context.zeroed(4096)?;
    let stream = context.stream()?;
    stream.wait(&[timeline.wait_value(1)])?;
    stream.fill(&mapped, 0x66)?;
    timeline.close()?;
    keeps_waiting(&stream, WATCH, "the stream went on when its semaphore was dropped")?;
    exported.signal(1)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    buffer.verify_all(0x66, "the work behind the wait did not run")
}

fn import_cycles(context: &Context) -> Verdict {
    let stream = context.stream()?;
    leak_check(200, |_| {
        let (exported, timeline) = import_timeline(context, 0)?;
        stream.signal(&[timeline.signal_value(1)])?;
        ensure!(exported.wait(1, WAIT_TIMEOUT)?, "a signal did not arrive");
        Ok(timeline.close()?)
    })
}
