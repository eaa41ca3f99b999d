//! Timelines order the two sides and their data.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use gpu_interop::ErrorKind;

use super::super::{expect_error, keeps_waiting, times_out};
use super::{Shared, Strategy, by_strategy, need_waits, of_turn};
use crate::context::Context;
use crate::exporter::Exchange;
use crate::outcome::{PROMPT, Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::verify_bytes;
use crate::scenario::Scenario;
use crate::{ensure, ensure_eq};

by_strategy! {
    // Each of many turns would wait for the time slices of busy processes.
    "ping_pong",
        "The exporter's queue and a stream take 10,000 turns on one buffer; each finds the other's data.",
        ping_pong,
        within(60), mirrors("intel/llvm: vulkan_interop/buffer_usm_timeline_semaphore");
    "frames_in_flight", "With 1, 2 and 3 frames in flight, each frame has its own data on both sides.", frames_in_flight;
    "wait_before_signal", "A wait enqueued more than a second before its signal is met by it, and not before.",
        wait_before_signal;
    "timeout", "Host waits and synchronisations behind an unmet wait time out on time, and can be repeated.",
        timeout;
    "large_values", "Values near 2^32, 2^63 and up to 2^64 - 1 work; no smaller value meets them.", large_values;
}

/// Values that need no stream that waits for a word.
pub(crate) const REACHED: &[Scenario] = {
    by_strategy! {
        native need [native timelines], bridge need [bridged timelines];
        "reached", "A wait for a reached value needs no driver call; the exporter finds the data after the signal.", reached;
    }
    SCENARIOS
};

fn ping_pong<S: Strategy>(context: &Context) -> Verdict {
    const SIZE: usize = 64;
    const TURNS: u32 = 10_000;
    /// Number of turns enqueued before the first is checked: fewer than drivers' queues hold.
    const AHEAD: usize = 8;
    /// The turns on the exporter's main queue, one of this many. A queue for copies takes a fifth of the time.
    const MAIN: u64 = 5;
    let shared = Shared::new::<S>(context, 0)?;
    let (buffer, mapped) = context.zeroed(SIZE)?;
    let (log, seen) = context.zeroed(SIZE * TURNS as usize)?;
    let stream = context.stream()?;
    let mut exchanges: VecDeque<(u64, Box<dyn Exchange>)> = VecDeque::new();
    let check = |(turn, exchange): (u64, Box<dyn Exchange>)| -> Verdict {
        let expected = if turn == 0 { 0 } else { context.pattern().byte(turn - 1) };
        let found = exchange.finish()?;
        verify_bytes(&found, expected, format_args!("turn {turn}: the exporter does not find the stream's data"))
    };
    for turn in 0..u64::from(TURNS) {
        let (theirs, ours) = (2 * turn + 1, 2 * turn + 2);
        stream.wait_timeline(&shared.device, theirs)?;
        stream.copy(seen.slice(turn * SIZE as u64..(turn + 1) * SIZE as u64)?, &mapped)?;
        stream.fill(&mapped, context.pattern().byte(turn))?;
        stream.signal_timeline(&shared.device, ours)?;
        let data = of_turn(context, turn).bytes(0, SIZE);
        let (wait, signal) = (shared.at(2 * turn), shared.at(theirs));
        let exchange = if turn % MAIN == 0 {
            buffer.exchange(wait, &data, signal)
        } else {
            buffer.exchange_by_copying(wait, &data, signal)
        };
        exchanges.push_back((turn, exchange?));
        if exchanges.len() > AHEAD {
            exchanges.pop_front().map_or(Ok(()), check)?;
        }
    }
    exchanges.into_iter().try_for_each(check)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    // A bridge carries the last signal after the stream is idle.
    shared.device.wait(2 * u64::from(TURNS), WAIT_TIMEOUT)?;
    let found = log.contents()?;
    for (turn, found) in (0..).zip(found.chunks_exact(SIZE)) {
        of_turn(context, turn).verify(0, found, format_args!("turn {turn}: the stream's copy"))?;
    }
    Ok(())
}

fn frames_in_flight<S: Strategy>(context: &Context) -> Verdict {
    (1..=3).try_for_each(|count| several_frames::<S>(context, count))
}

/// As in a renderer: a timeline for each direction, and one buffer per frame in flight.
fn several_frames<S: Strategy>(context: &Context, in_flight: u64) -> Verdict {
    const SIZE: usize = 4096;
    const FRAMES: u64 = 60;
    let (ready, done) = (Shared::new::<S>(context, 0)?, Shared::new::<S>(context, 0)?);
    let slots = (0..in_flight).map(|_| context.zeroed(2 * SIZE)).collect::<Verdict<Vec<_>>>()?;
    let stream = context.stream()?;
    let mut exchanges: VecDeque<(u64, Box<dyn Exchange>)> = VecDeque::new();
    // The exchange of a frame reads the previous frame from the same buffer.
    let check = |(frame, exchange): (u64, Box<dyn Exchange>)| -> Verdict {
        let found = exchange.finish()?;
        let Some(before) = frame.checked_sub(in_flight).filter(|before| *before > 0) else { return Ok(()) };
        let (input, output) = found.split_at(SIZE);
        let what = |part: &str| format!("{in_flight} in flight, frame {before}, {part}");
        of_turn(context, before).verify(0, input, what("the exporter's data"))?;
        of_turn(context, before).verify(0, output, what("the device's copy"))
    };
    for (frame, (buffer, mapped)) in (1..=FRAMES).zip(slots.iter().cycle()) {
        // Zeros overwrite the device's copy of the previous frame.
        let data = [of_turn(context, frame).bytes(0, SIZE), vec![0; SIZE]].concat();
        let free = done.at(frame.saturating_sub(in_flight));
        exchanges.push_back((frame, buffer.exchange(free, &data, ready.at(frame))?));
        stream.wait_timeline(&ready.device, frame)?;
        stream.copy(mapped.slice(SIZE as u64..)?, mapped.slice(..SIZE as u64)?)?;
        stream.signal_timeline(&done.device, frame)?;
        if exchanges.len() as u64 > in_flight {
            exchanges.pop_front().map_or(Ok(()), check)?;
        }
    }
    exchanges.into_iter().try_for_each(check)?;
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

fn wait_before_signal<S: Strategy>(context: &Context) -> Verdict {
    const SIZE: usize = 4096;
    let shared = Shared::new::<S>(context, 0)?;
    let ((source, from), (target, to)) = (context.zeroed(SIZE)?, context.zeroed(SIZE)?);
    let stream = context.stream()?;
    stream.wait_timeline(&shared.device, 1)?;
    stream.copy(&to, &from)?;
    stream.signal_timeline(&shared.device, 2)?;
    keeps_waiting(&stream, Duration::from_millis(400), "the stream did not wait")?;
    ensure_eq!(shared.exporter.value()?, 0, "the exporter's value while the stream waits");
    let pattern = context.pattern();
    source.put(pattern)?;
    shared.exporter.signal(1)?;
    shared.exporter.wait(2, WAIT_TIMEOUT)?;
    target.verify(pattern, "the stream's copy after the signal")?;
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

fn timeout<S: Strategy>(context: &Context) -> Verdict {
    let shared = Shared::new::<S>(context, 0)?;
    let (buffer, mapped) = context.zeroed(4096)?;
    let stream = context.stream()?;
    stream.wait_timeline(&shared.device, 1)?;
    stream.fill(&mapped, 0x5a)?;
    stream.signal_timeline(&shared.device, 2)?;
    let limit = Duration::from_millis(150);
    for _ in 0..2 {
        times_out(limit, "a synchronisation behind an unmet wait", || stream.synchronize_timeout(limit))?;
        times_out(limit, "a wait of the host", || shared.device.wait(1, limit))?;
    }
    let start = Instant::now();
    expect_error(shared.device.wait(2, Duration::ZERO), ErrorKind::Timeout, "a wait without any time")?;
    ensure!(start.elapsed() < PROMPT, "a wait without any time took {:?}", start.elapsed());
    buffer.verify_all(0, "the stream proceeded after a wait timed out")?;
    shared.exporter.signal(1)?;
    shared.device.wait(2, WAIT_TIMEOUT)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    buffer.verify_all(0x5a, "the work behind the wait did not run")?;
    Ok(())
}

/// The remaining support if streams cannot wait for words in memory.
fn reached<S: Strategy>(context: &Context) -> Verdict {
    const SIZE: usize = 1024;
    let shared = Shared::without_waits::<S>(context.device(), context.exporter()?.timeline(0)?)?;
    let ((source, from), (target, to)) = (context.zeroed(SIZE)?, context.zeroed(SIZE)?);
    let stream = context.stream()?;
    for turn in 0..50 {
        let (theirs, ours) = (2 * turn + 1, 2 * turn + 2);
        let pattern = of_turn(context, turn);
        source.put(pattern)?;
        shared.exporter.signal(theirs)?;
        shared.device.wait(theirs, WAIT_TIMEOUT)?;
        stream.wait_timeline(&shared.device, theirs)?;
        stream.copy(&to, &from)?;
        stream.signal_timeline(&shared.device, ours)?;
        shared.exporter.wait(ours, WAIT_TIMEOUT)?;
        target.verify(pattern, &format!("turn {turn}: the stream's copy"))?;
    }
    if need_waits(context.device(), S::STRATEGY).is_err() {
        let refused = stream.wait_timeline(&shared.device, 1000);
        expect_error(refused, ErrorKind::Unsupported, "a wait for a value that is not reached")?;
    }
    // A rejected wait that was enqueued would never end.
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

fn large_values<S: Strategy>(context: &Context) -> Verdict {
    let edge = u64::from(u32::MAX);
    let (reach, greatest) = (context.exporter()?.timeline_reach(), context.exporter()?.greatest_value());
    let mut shared = Shared::new::<S>(context, edge - 2)?;
    let (buffer, mapped) = context.zeroed(4096)?;
    let stream = context.stream()?;
    let middle = 1 << 63;
    // Pairs: the exporter signals the first, the stream the second.
    let pairs = [
        (edge - 1, edge),
        (edge + 1, edge + 2),
        (middle - 2, middle - 1),
        (middle, middle + 1),
        (greatest - 1, greatest),
    ];
    for (turn, (theirs, ours)) in (0..).zip(pairs) {
        let present = shared.exporter.value()?;
        if ours - present > reach {
            context
                .leave_out(format!("from {present} to {ours} at once: the exporter's timelines go by {reach} at most"));
            shared = Shared::new::<S>(context, theirs - 1)?;
        }
        stream.wait_timeline(&shared.device, theirs)?;
        stream.fill(&mapped, context.pattern().byte(turn))?;
        stream.signal_timeline(&shared.device, ours)?;
        let watch = if turn == 0 { WATCH } else { WATCH / 4 };
        keeps_waiting(&stream, watch, format_args!("a wait for {theirs} was met by a smaller value"))?;
        expect_error(shared.device.wait(theirs, Duration::ZERO), ErrorKind::Timeout, "a wait of the host")?;
        shared.exporter.signal(theirs)?;
        shared.device.wait(ours, WAIT_TIMEOUT)?;
        ensure_eq!(shared.exporter.value()?, ours, "the exporter's value");
        buffer.verify_all(context.pattern().byte(turn), &format!("{ours}: the stream's data is missing"))?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
    }
    Ok(())
}
