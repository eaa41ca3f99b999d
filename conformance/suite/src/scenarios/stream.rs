//! Streams: order, events, words in memory, host functions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use gpu_interop::{ErrorKind, WaitCondition};

use super::{BRIEF, expect_error, keeps_waiting, times_out};
use crate::context::Context;
use crate::gate::Gate;
use crate::outcome::{PROMPT, Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::verify_bytes;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    "stream.in_order", Any, "1,000 fills of one buffer end with the last one.", in_order;
    "stream.asynchronous", Any, "Enqueuing behind a wait returns at once, and nothing runs before the wait is met.",
        asynchronous, needs [StreamMemoryOperations32];
    "stream.timeout", Any, "A bounded synchronisation times out on time with a typed error, and can be repeated.", timeout,
        needs [StreamMemoryOperations32];
    "stream.wait_value_32", Any,
        "The exporter's write meets a 32-bit wait under each condition, and across the wrap-around where it is defined.",
        wait_value_32, needs [StreamMemoryOperations32], mirrors("CUDA driver API: cuStreamWaitValue32");
    "stream.wait_value_64", Any, "A 64-bit wait is not met by a value whose low half matches.", wait_value_64,
        needs [StreamMemoryOperations64], mirrors("CUDA driver API: cuStreamWaitValue64");
    "stream.write_value", Any, "Words that a stream writes arrive after the work before them.", write_value,
        needs [StreamMemoryOperations32, StreamMemoryOperations64],
        mirrors("CUDA driver API: cuStreamWriteValue32, cuStreamWriteValue64");
    "stream.events", Any, "A stream waits for an event of another stream.", events, needs [StreamMemoryOperations32];
    "stream.host_function", Any, "A host function runs after the work before it and before the work after it.",
        host_function, needs [HostFunctions, StreamMemoryOperations32], mirrors("CUDA driver API: cuLaunchHostFunc");
    "stream.host_function_panics", Any, "A panic in a host function is reported once; the stream proceeds.",
        host_function_panics, needs [HostFunctions, StreamMemoryOperations32];
    "stream.many", Any, "Of 100 streams, more than hardware queues, 99 complete while one is blocked.", many,
        needs [HostFunctions, StreamMemoryOperations32];
    "stream.waits_apart", Any,
        "While 15 streams wait for words, a 16th runs; the 15 are released one by one, the newest first.", waits_apart,
        needs [StreamMemoryOperations32], many_streams;
}

const SIZE: usize = 64 << 10;

fn in_order(context: &Context) -> Verdict {
    let (buffer, mapped) = context.shared(SIZE)?;
    let stream = context.stream()?;
    for value in 0..1000_u32 {
        stream.fill_u32(&mapped, value)?;
    }
    stream.synchronize()?;
    let wrong = buffer.contents()?.chunks_exact(4).filter(|word| **word != 999_u32.to_ne_bytes()).count();
    ensure_eq!(wrong, 0, "words that are not the last fill's");
    Ok(())
}

fn asynchronous(context: &Context) -> Verdict {
    let ((buffer, mapped), gate, stream) = (context.zeroed(SIZE)?, Gate::new(context)?, context.stream()?);
    let start = Instant::now();
    gate.block(&stream)?;
    stream.fill(&mapped, 0x44)?;
    let enqueued = start.elapsed();
    ensure!(enqueued < PROMPT, "enqueuing took {enqueued:?}");
    std::thread::sleep(WATCH);
    buffer.verify_all(0, "the fill ran before the wait was met")?;
    gate.open()?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    buffer.verify_all(0x44, "the fill did not run after the wait was met")
}

fn timeout(context: &Context) -> Verdict {
    let (gate, stream) = (Gate::new(context)?, context.stream()?);
    gate.block(&stream)?;
    for limit in [Duration::ZERO, Duration::from_millis(50), Duration::from_millis(200)] {
        times_out(limit, "a wait that is not met", || stream.synchronize_timeout(limit))?;
    }
    gate.open()?;
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

/// Checks that a stream that waits for `condition` on `value` proceeds when the word changes from `before` to `after`.
fn proceeds(context: &Context, condition: WaitCondition, value: u32, before: u32, after: u32) -> Verdict {
    let (buffer, word) = context.zeroed(4096)?;
    buffer.write(0, &before.to_ne_bytes())?;
    let stream = context.stream()?;
    stream.wait_value_u32(word.slice(..4)?, value, condition)?;
    stream.write_value_u32(word.slice(4..8)?, 0xd00d)?;
    keeps_waiting(&stream, Duration::from_millis(20), format_args!("{condition:?} {value:#x} was met by {before:#x}"))?;
    buffer.write(0, &after.to_ne_bytes())?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    ensure_eq!(buffer.word(4)?, 0xd00d, "the word behind the wait");
    Ok(())
}

fn wait_value_32(context: &Context) -> Verdict {
    proceeds(context, WaitCondition::Equal, 5, 6, 5)?;
    proceeds(context, WaitCondition::GreaterOrEqual, 5, 4, 6)?;
    if context.driver_api().is_ok_and(|api| !api.waits_cyclically()) {
        context.leave_out("waits for words past the end of their range: HIP documents *ptr & mask >= value");
    } else {
        // The comparison is cyclic: 1 is past 0xffff_fff0.
        proceeds(context, WaitCondition::GreaterOrEqual, 0xffff_fff0, 0xffff_ffe0, 1)?;
    }
    proceeds(context, WaitCondition::And, 0b0110, 0b1001, 0b0100)?;
    proceeds(context, WaitCondition::Nor, !1, 1, 0)
}

fn wait_value_64(context: &Context) -> Verdict {
    let wanted = 0x0000_0001_0000_0007_u64;
    let ((buffer, word), stream) = (context.zeroed(4096)?, context.stream()?);
    buffer.write(0, &7_u64.to_ne_bytes())?;
    stream.wait_value_u64(word.slice(..8)?, wanted, WaitCondition::GreaterOrEqual)?;
    keeps_waiting(&stream, WATCH, format_args!("a wait for {wanted:#x} was met by 7"))?;
    buffer.write(0, &wanted.to_ne_bytes())?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    for (range, what) in [(4..8, "a word of 4 bytes"), (4..12, "a misaligned word")] {
        let wait = stream.wait_value_u64(word.slice(range)?, 0, WaitCondition::Equal);
        expect_error(wait, ErrorKind::InvalidArgument, what)?;
    }
    Ok(())
}

fn write_value(context: &Context) -> Verdict {
    let ((buffer, mapped), (flag_buffer, flag)) = (context.shared(SIZE)?, context.zeroed(4096)?);
    let stream = context.stream()?;
    for round in 1..=200_u32 {
        stream.fill_u32(&mapped, round)?;
        stream.write_value_u32(flag.slice(..4)?, round)?;
        let start = Instant::now();
        while flag_buffer.word(0)? != round {
            ensure!(start.elapsed() < WAIT_TIMEOUT, "the word of round {round} did not arrive");
        }
        // The last word of the fill, read after the flag.
        ensure_eq!(buffer.word(SIZE as u64 - 4)?, round, "the data behind the flag");
    }
    stream.write_value_u64(flag.slice(8..16)?, 0x1122_3344_5566_7788)?;
    stream.synchronize()?;
    let mut word = [0; 8];
    flag_buffer.read(8, &mut word)?;
    ensure_eq!(u64::from_ne_bytes(word), 0x1122_3344_5566_7788, "the 64-bit word");
    Ok(())
}

fn events(context: &Context) -> Verdict {
    const HALF: u64 = SIZE as u64 / 2;
    let ((buffer, mapped), gate) = (context.zeroed(SIZE)?, Gate::new(context)?);
    let (first, second) = (context.stream()?, context.stream()?);
    let event = context.device().create_event()?;
    ensure!(event.is_complete()?, "an event that was never recorded is not complete");
    gate.block(&first)?;
    first.fill(mapped.slice(..HALF)?, 0x11)?;
    first.record(&event)?;
    second.wait_event(&event)?;
    second.copy(mapped.slice(HALF..)?, mapped.slice(..HALF)?)?;
    std::thread::sleep(WATCH);
    ensure!(!event.is_complete()?, "the event is complete before its stream reached it");
    keeps_waiting(&second, BRIEF, "the second stream did not wait")?;
    gate.open()?;
    second.synchronize_timeout(WAIT_TIMEOUT)?;
    ensure!(event.is_complete()?, "the event is not complete although a stream went past it");
    buffer.verify_all(0x11, "the copy did not see the fill it waited for")
}

fn host_function(context: &Context) -> Verdict {
    const COUNT: u32 = 8;
    const LAST: u64 = SIZE as u64 - 4;
    let (gate, (buffer, mapped), stream) = (Gate::new(context)?, context.shared(SIZE)?, context.stream()?);
    let calls = Arc::new(AtomicU32::new(0));
    gate.block(&stream)?;
    // Few: CUDA's driver blocks the enqueuing thread when too many host functions are pending.
    for expected in 0..COUNT {
        let counter = calls.clone();
        stream.fill_u32(&mapped, expected)?;
        stream.launch_host_function(move || {
            // In stream order, the previous calls have been made.
            let _ = counter.compare_exchange(expected, expected + 1, Ordering::SeqCst, Ordering::SeqCst);
        })?;
    }
    std::thread::sleep(WATCH);
    ensure_eq!(calls.load(Ordering::SeqCst), 0, "host functions that ran before the work in front of them");
    gate.open()?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    ensure_eq!(calls.load(Ordering::SeqCst), COUNT, "host functions that ran in order");
    // Work after a host function waits for it. This function waits for this thread, not for other work.
    let (go, wait) = std::sync::mpsc::channel::<()>();
    stream.launch_host_function(move || {
        let _ = wait.recv_timeout(WAIT_TIMEOUT);
    })?;
    stream.fill_u32(&mapped, 0xffff_ffff)?;
    keeps_waiting(&stream, WATCH, "the stream is idle while a host function runs")?;
    ensure_eq!(buffer.word(LAST)?, COUNT - 1, "the data while a host function blocks the next fill");
    let _ = go.send(());
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    ensure_eq!(buffer.word(LAST)?, 0xffff_ffff, "the data after the host function");
    Ok(())
}

fn host_function_panics(context: &Context) -> Verdict {
    let (gate, stream) = (Gate::new(context)?, context.stream()?);
    let after = Arc::new(AtomicU32::new(0));
    let counter = after.clone();
    gate.block(&stream)?;
    // `resume_unwind` skips the panic hook, which would print to the log.
    stream.launch_host_function(|| std::panic::resume_unwind(Box::new("on purpose")))?;
    stream.launch_host_function(move || counter.store(1, Ordering::SeqCst))?;
    expect_error(stream.synchronize_timeout(WATCH), ErrorKind::Timeout, "a wait that is not met")?;
    gate.open()?;
    expect_error(stream.synchronize_timeout(WAIT_TIMEOUT), ErrorKind::HostFunctionPanicked, "a panic")?;
    stream.synchronize()?;
    ensure_eq!(after.load(Ordering::SeqCst), 1, "the function behind the one that panicked");
    Ok(())
}

fn waits_apart(context: &Context) -> Verdict {
    const WAITING: u64 = 15;
    const WORD: u64 = 4;
    let ((words_side, words), (data_side, data)) = (context.zeroed(4096)?, context.zeroed(4096)?);
    let word = |number: u64| words.slice(number * WORD..(number + 1) * WORD);
    let (waiting, free) = (context.streams(15)?, context.stream()?);
    for (number, stream) in (0..).zip(&waiting) {
        stream.wait_value_u32(word(number)?, 1, WaitCondition::Equal)?;
        stream.fill(data.slice(number * WORD..(number + 1) * WORD)?, context.pattern().byte(number))?;
    }
    free.fill(data.slice(WAITING * WORD..)?, context.pattern().byte(WAITING))?;
    free.synchronize_timeout(WAIT_TIMEOUT)?;
    let expect = |released: u64| -> Verdict {
        for (number, found) in (0..).zip(data_side.contents()?.chunks_exact(4)) {
            let done = number >= WAITING - released;
            let byte = if done { context.pattern().byte(number.min(WAITING)) } else { 0 };
            verify_bytes(found, byte, format_args!("word {number} after {released} streams were released"))?;
        }
        Ok(())
    };
    expect(0)?;
    for (released, (number, stream)) in (1..).zip((0..).zip(&waiting).collect::<Vec<_>>().into_iter().rev()) {
        keeps_waiting(stream, BRIEF, format_args!("stream {number} did not wait"))?;
        words_side.write(number * WORD, &1_u32.to_ne_bytes())?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        expect(released)?;
    }
    Ok(())
}

fn many(context: &Context) -> Verdict {
    let (gate, streams) = (Gate::new(context)?, context.streams(100)?);
    let count = Arc::new(AtomicU32::new(0));
    let (blocked, free) = streams.split_at(1);
    gate.block(&blocked[0])?;
    for _ in 0..10 {
        for stream in &streams {
            let count = count.clone();
            stream.launch_host_function(move || {
                count.fetch_add(1, Ordering::SeqCst);
            })?;
        }
    }
    for stream in free {
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
    }
    ensure_eq!(count.load(Ordering::SeqCst), 990, "host functions of the streams that nothing blocks");
    keeps_waiting(&blocked[0], BRIEF, "the blocked stream is idle")?;
    gate.open()?;
    blocked[0].synchronize_timeout(WAIT_TIMEOUT)?;
    ensure_eq!(count.load(Ordering::SeqCst), 1000, "host functions that ran");
    Ok(())
}
