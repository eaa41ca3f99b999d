//! Orders in which exports, imports and signals of one semaphore follow each other.

use gpu_interop::{ExternalSemaphore, MappedBuffer, SemaphorePayload, Stream};

use super::semaphore_misuse::import_timeline;
use super::{BRIEF, keeps_waiting};
use crate::context::Context;
use crate::ensure;
use crate::exporter::ExportedSemaphore;
use crate::outcome::{Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::Pattern;
use crate::scenario::scenarios;

scenarios! {
    "semaphore.imported_twice_binary", Any,
        "A binary semaphore is imported twice: a stream's wait through one import is met by a stream's signal through the \
         other, in turns, with the data handed over.",
        |context| imported_twice(context, SemaphorePayload::Binary), needs [shared binaries];
    "semaphore.imported_twice_timeline", Any,
        "A timeline is imported twice: a stream's wait through one import is met by a stream's signal through the other, in \
         turns, with the data handed over.",
        |context| imported_twice(context, SemaphorePayload::Timeline), needs [shared timelines];
    "semaphore.signalled_early_binary", Any,
        "A binary semaphore that the exporter signalled before its export, or before its import, meets one wait of a stream, \
         and not a second one.",
        |context| signalled_early(context, SemaphorePayload::Binary), needs [shared binaries];
    "semaphore.signalled_early_timeline", Any,
        "A timeline that the exporter signalled before its export, or before its import, meets a stream's wait for that value, \
         and not for the next one.",
        |context| signalled_early(context, SemaphorePayload::Timeline), needs [shared timelines];
    "semaphore.replaced", Any,
        "An import is dropped and made again while a stream waits through it: a signal through the second one meets the wait.",
        replaced, needs [shared timelines];
}

const SIZE: usize = 64 << 10;

fn create(context: &Context, payload: SemaphorePayload) -> Verdict<Box<dyn ExportedSemaphore>> {
    match payload {
        SemaphorePayload::Binary => context.exporter()?.binary_semaphore(),
        _ => context.exporter()?.timeline_semaphore(0),
    }
}

/// Waits for the value if it is a timeline.
fn wait(stream: &Stream, semaphore: &ExternalSemaphore, payload: SemaphorePayload, value: u64) -> Verdict {
    let operation = match payload {
        SemaphorePayload::Binary => semaphore.wait(),
        _ => semaphore.wait_value(value),
    };
    Ok(stream.wait(&[operation])?)
}

fn signal(stream: &Stream, semaphore: &ExternalSemaphore, payload: SemaphorePayload, value: u64) -> Verdict {
    let operation = match payload {
        SemaphorePayload::Binary => semaphore.signal(),
        _ => semaphore.signal_value(value),
    };
    Ok(stream.signal(&[operation])?)
}

/// One stream fills the first half and signals through one import, and the other one, enqueued before if it is a timeline,
/// waits through the other import and copies the half. The imports change places with each turn.
fn imported_twice(context: &Context, payload: SemaphorePayload) -> Verdict {
    let exported = create(context, payload)?;
    let import = || Ok::<_, crate::Stop>(context.device().import_semaphore(exported.import_request()?)?);
    let (mut here, mut there) = (import()?, import()?);
    let (buffer, mapped) = context.zeroed(SIZE)?;
    let middle = SIZE as u64 / 2;
    let (low, high) = (mapped.slice(..middle)?, mapped.slice(middle..)?);
    let (writer, reader) = (context.stream()?, context.stream()?);
    for turn in 1..=100_u64 {
        let byte = context.pattern().byte(turn);
        let reads = || -> Verdict {
            wait(&reader, &there, payload, turn)?;
            Ok(reader.copy(high, low)?)
        };
        // A wait for a binary semaphore is enqueued after its signal.
        if payload != SemaphorePayload::Binary {
            reads()?;
            if turn < 3 {
                keeps_waiting(&reader, BRIEF, format_args!("turn {turn}: the wait was met before the signal"))?;
            }
        }
        writer.fill(low, byte)?;
        signal(&writer, &here, payload, turn)?;
        if payload == SemaphorePayload::Binary {
            reads()?;
        }
        reader.synchronize_timeout(WAIT_TIMEOUT).map_err(|error| {
            crate::Stop::from(error).during(format_args!("turn {turn}: a signal through the other import"))
        })?;
        buffer.verify_all(byte, &format!("turn {turn}: what the other stream copied"))?;
        std::mem::swap(&mut here, &mut there);
    }
    // Each import ends by itself.
    here.close()?;
    writer.fill(&mapped, 0x77)?;
    signal(&writer, &there, payload, 101)?;
    ensure!(exported.wait(101, WAIT_TIMEOUT)?, "the exporter misses a signal through the import that is left");
    buffer.verify_all(0x77, "the fill before the last signal")
}

/// Enqueues a copy behind a wait.
fn copies(
    (stream, semaphore, payload): (&Stream, &ExternalSemaphore, SemaphorePayload),
    value: u64,
    [to, from]: [&MappedBuffer; 2],
) -> Verdict {
    wait(stream, semaphore, payload, value)?;
    Ok(stream.copy(to, from)?)
}

fn signalled_early(context: &Context, payload: SemaphorePayload) -> Verdict {
    let (source, from) = context.shared(SIZE)?;
    let (target, to) = context.zeroed(SIZE)?;
    let mut pattern = context.pattern();
    for (signals_before, when) in [(true, "export"), (false, "import")] {
        let exported = create(context, payload)?;
        source.put(pattern)?;
        if signals_before {
            exported.signal(1)?;
        }
        let request = exported.import_request()?;
        if !signals_before {
            exported.signal(1)?;
        }
        let semaphore = context.device().import_semaphore(request)?;
        let stream = context.stream()?;
        let waiting = (&stream, &semaphore, payload);
        copies(waiting, 1, [&to, &from])?;
        stream.synchronize_timeout(WAIT_TIMEOUT).map_err(|error| {
            crate::Stop::from(error).during(format_args!("a wait for a signal of before the {when}"))
        })?;
        target.verify(pattern, &format!("the copy behind a signal of before the {when}"))?;
        let later = pattern.other();
        copies(waiting, 2, [&to, &from])?;
        let what = format_args!("a second wait was met by the signal of before the {when}");
        keeps_waiting(&stream, WATCH, what)?;
        source.put(later)?;
        exported.signal(2)?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        target.verify(later, &format!("the copy behind the second signal, the first one before the {when}"))?;
        pattern = Pattern::new(pattern.seed().wrapping_add(0x51));
    }
    Ok(())
}

fn replaced(context: &Context) -> Verdict {
    let (exported, mut timeline) = import_timeline(context, 0)?;
    let (buffer, mapped) = context.zeroed(4096)?;
    let (waiter, signaller) = (context.stream()?, context.stream()?);
    for round in 0..10_u64 {
        let (value, byte) = (2 * round + 1, context.pattern().byte(round));
        waiter.wait(&[timeline.wait_value(value)])?;
        waiter.fill(&mapped, byte)?;
        waiter.signal(&[timeline.signal_value(value + 1)])?;
        // Assigned over the first import, which ends here.
        timeline = context.device().import_semaphore(exported.import_request()?)?;
        keeps_waiting(&waiter, BRIEF, format_args!("round {round}: the stream went on when its import was replaced"))?;
        signaller.signal(&[timeline.signal_value(value)])?;
        waiter.synchronize_timeout(WAIT_TIMEOUT)?;
        ensure!(
            exported.wait(value + 1, WAIT_TIMEOUT)?,
            "round {round}: the exporter misses the first import's signal"
        );
        buffer.verify_all(byte, &format!("round {round}: the fill behind the wait"))?;
    }
    Ok(())
}
