//! Timelines and exporters that end while streams wait for them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_interop::{ErrorKind, ExporterTimeline, MappedBuffer, Stream};

use super::super::{expect_error, keeps_waiting};
use super::{Shared, Strategy, by_strategy, let_go};
use crate::context::{Context, import_on};
use crate::exporter::ExportedBuffer;
use crate::outcome::{PROMPT, Stop, Verdict, WAIT_TIMEOUT, WATCH};
use crate::{ensure, ensure_eq};

by_strategy! {
    "dropped_pending",
        "Work that waits when its timeline, stream and device are dropped runs as enqueued once the value is reached.",
        dropped_pending;
    "dropped_for_ever",
        "Dropping everything with a wait that is never met ends in bounded time, and the exporter's value is unchanged.",
        dropped_for_ever, last_in_process;
    "abandoned",
        "Abandoning a timeline releases streams with many enqueued turns; later calls fail with the reason.", abandoned;
}

const SIZE: usize = 4096;

/// The objects that are dropped while the stream waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dropped {
    Timeline,
    TimelineAndStream,
    DeviceToo,
}

fn dropped_pending<S: Strategy>(context: &Context) -> Verdict {
    for (round, what) in (1..).zip([Dropped::Timeline, Dropped::TimelineAndStream, Dropped::DeviceToo]) {
        const TRIES: usize = 3;
        let mut ran = Ok(());
        for _ in 0..TRIES {
            let taken;
            (ran, taken) = drop_pending::<S>(context, what, round)?;
            // On a machine that stops this process for a while, the value may be late.
            let gave_up = what == Dropped::DeviceToo && taken >= GIVES_UP;
            if ran.is_ok() || !gave_up {
                break;
            }
        }
        ran?;
    }
    Ok(())
}

/// Time after which a device that is closed gives up its pending work.
const GIVES_UP: Duration = Duration::from_secs(1);

/// Returns whether the work ran, and the time that dropping the device took.
fn drop_pending<S: Strategy>(context: &Context, what: Dropped, round: u8) -> Verdict<(Verdict, Duration)> {
    let buffer = context.buffer(SIZE as u64)?;
    buffer.write(0, &[0; SIZE])?;
    let exporter = context.exporter()?.timeline(0)?;
    let device = context.open_again()?;
    let mapped = import_on(&device, &*buffer)?;
    let timeline = Shared::with::<S>(&device, exporter.clone())?.device;
    let stream = device.create_stream()?;
    stream.wait_timeline(&timeline, 1)?;
    stream.fill(&mapped, round)?;
    stream.signal_timeline(&timeline, 2)?;
    drop((timeline, mapped));
    let (mut kept_stream, mut kept_device) = (Some(stream), Some(device));
    if what != Dropped::Timeline {
        drop(kept_stream.take());
    }
    let device = kept_device.take_if(|_| what == Dropped::DeviceToo);
    // The last reference to the device is dropped on another thread: it waits briefly for pending work.
    let dropped = std::thread::spawn(move || {
        let start = Instant::now();
        drop(device);
        start.elapsed()
    });
    let waited = match &kept_stream {
        Some(stream) => keeps_waiting(stream, WATCH, "the stream went on when its timeline was dropped"),
        None => {
            std::thread::sleep(WATCH);
            Ok(())
        }
    };
    let value = exporter.value();
    // Even after a failure: a driver may wait for the pending wait when it frees memory, and at the process's exit.
    exporter.signal(1)?;
    waited?;
    ensure_eq!(value?, 0, "{what:?}: the exporter's value while the stream waits");
    let ends = || -> Verdict {
        exporter.wait(2, WAIT_TIMEOUT)?;
        buffer.verify_all(round, &format!("{what:?}: the work behind the wait did not run"))?;
        Ok(kept_stream.as_ref().map_or(Ok(()), |stream| stream.synchronize_timeout(WAIT_TIMEOUT))?)
    };
    let ran = ends();
    Ok((ran, dropped.join().map_err(|_| Stop::failed(format!("{what:?}: dropping panicked")))?))
}

fn dropped_for_ever<S: Strategy>(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    buffer.write(0, &[0; SIZE])?;
    let exporter = context.exporter()?.timeline(0)?;
    let mut other = None;
    let verdict = drop_a_device::<S>(context, &exporter, &*buffer, &mut other);
    // While the wait is pending, a driver may wait for it when it frees memory, and at the process's exit.
    let signalled = exporter.signal(1);
    verdict?;
    Ok(signalled?)
}

/// Drops a device whose stream waits for a value. `other` receives objects of the context's own device.
fn drop_a_device<S: Strategy>(
    context: &Context,
    exporter: &Arc<dyn ExporterTimeline>,
    buffer: &dyn ExportedBuffer,
    other: &mut Option<(Shared, Stream, MappedBuffer)>,
) -> Verdict {
    let start = Instant::now();
    {
        let device = context.open_again()?;
        let mapped = import_on(&device, buffer)?;
        let timeline = Shared::with::<S>(&device, exporter.clone())?.device;
        let stream = device.create_stream()?;
        stream.wait_timeline(&timeline, 1)?;
        stream.fill(&mapped, 0x99)?;
        stream.signal_timeline(&timeline, 2)?;
    }
    let taken = start.elapsed();
    ensure!(taken < PROMPT, "dropping took {taken:?}");
    std::thread::sleep(Duration::from_millis(100));
    ensure_eq!(exporter.value()?, 0, "the exporter's value after everything was dropped");
    // The context's own device is not affected.
    let new = (Shared::new::<S>(context, 0)?, context.stream()?, context.import(buffer)?);
    let (other, stream, mapped) = other.insert(new);
    stream.wait_timeline(&other.device, 1)?;
    stream.fill(&*mapped, 0x33)?;
    stream.signal_timeline(&other.device, 2)?;
    other.exporter.signal(1)?;
    other.exporter.wait(2, WAIT_TIMEOUT)?;
    buffer.verify_all(0x33, "the other device does not work any more")
}

fn abandoned<S: Strategy>(context: &Context) -> Verdict {
    const SIZE: usize = 4096;
    const TURNS: u64 = 25;
    const REASON: &str = "the renderer is gone";
    let shared = Shared::new::<S>(context, 0)?;
    let (buffer, mapped) = context.zeroed(2 * SIZE)?;
    let streams = [context.stream()?, context.stream()?];
    for turn in 0..TURNS {
        for (stream, first) in streams.iter().zip([1, 3]) {
            stream.wait_timeline(&shared.device, 4 * turn + first)?;
            // With a driver that imports the timeline, this decreases it from its raised value.
            stream.signal_timeline(&shared.device, 4 * turn + first + 1)?;
        }
    }
    for (stream, at) in streams.iter().zip([0, SIZE as u64]) {
        stream.fill(mapped.slice(at..at + SIZE as u64)?, 0x5a)?;
    }
    for stream in &streams {
        keeps_waiting(stream, WATCH / 2, "the stream did not wait")?;
    }
    shared.device.abandon(REASON)?;
    for stream in &streams {
        let error = let_go(stream)?;
        ensure!(error.to_string().contains(REASON), "the stream's error lacks the reason: {error}");
    }
    buffer.verify_all(0x5a, "the work behind the turns has not run")?;
    for (what, result) in [
        ("the value", shared.device.value().map(drop)),
        ("a wait of the host", shared.device.wait(1, WAIT_TIMEOUT)),
        ("a signal of the host", shared.device.signal(4 * TURNS + 1)),
        ("a wait", streams[0].wait_timeline(&shared.device, 1)),
        ("a signal", streams[1].signal_timeline(&shared.device, 4 * TURNS + 1)),
    ] {
        let error = expect_error(result, ErrorKind::Cancelled, what)?;
        ensure!(error.to_string().contains(REASON), "{what}: the error lacks the reason: {error}");
    }
    // Both streams work without it.
    let other = Shared::new::<S>(context, 0)?;
    streams[0].wait_timeline(&other.device, 1)?;
    streams[0].fill(&mapped, 0xa5)?;
    streams[0].signal_timeline(&other.device, 2)?;
    other.exporter.signal(1)?;
    other.exporter.wait(2, WAIT_TIMEOUT)?;
    buffer.verify_all(0xa5, "bytes that another timeline's stream wrote")
}
