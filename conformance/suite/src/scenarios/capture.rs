//! Another thread captures a stream by the driver's own functions, as PyTorch does, in each of the three capture modes.
//! During the capture, the library's calls work. The capture stays valid, and the captured graph runs.

use std::time::Duration;

use gpu_interop::{ErrorKind, Timeline};

use super::timeline::need_waits;
use super::{BRIEF, expect_error, keeps_waiting};
use crate::context::{Context, import_on};
use crate::ensure;
use crate::exporter::ExportedBuffer;
use crate::gate::Gate;
use crate::leak_check::ResourceSnapshot;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::pattern::verify_bytes;
use crate::scenario::scenarios;
use crate::stream_capture::{Capture, Mode, check_own_mode};

scenarios! {
    all need [Graphs, driver StreamCapture];
    "capture.import_map_free", Any,
        "During a stream capture by another thread, memory is imported, mapped, written, read and freed; the data is right.",
        import_map_free;
    "capture.read_behind_a_wait", Any,
        "During a stream capture by another thread, a read behind a wait returns after the wait, with the data.",
        read_behind_a_wait, needs [StreamMemoryOperations32];
    "capture.queries", Any,
        "During a stream capture by another thread, streams and events report pending work until it has completed.",
        queries, needs [StreamMemoryOperations32];
    "capture.drop_with_work_pending", Any,
        "During a stream capture by another thread, a mapping dropped with pending work is freed after that work.",
        drop_with_work_pending, needs [StreamMemoryOperations32];
    "capture.timeline", Any,
        "During a stream capture by another thread, a stream waits for the exporter's timeline and signals it.",
        timeline, signals_by_host;
    "capture.close", Any,
        "During a stream capture by another thread, streams, graphs and a device are created, used and closed.", close;
    "capture.leaks", Any,
        "Imports, work and releases during 30 stream captures of other threads leave descriptors and mappings as before.",
        leaks;
}

const SIZE: usize = 16 << 10;
/// The time for which a stream's wait stays pending.
const LATE: Duration = Duration::from_millis(40);

/// Runs `work` during a capture by another thread, once in each mode, and launches the captured graph.
fn during_capture(context: &Context, work: impl Fn(Mode) -> Verdict) -> Verdict {
    for (mode, value) in Mode::ALL.into_iter().zip(1..) {
        let (buffer, target) = context.zeroed(4096)?;
        let capture = Capture::start(context, mode, &target, value)?;
        let worked = work(mode);
        // Finishes the capture even after a failure, because it uses `target`.
        let ended = capture.finish();
        let in_mode = |stop: Stop| stop.during(format_args!("during a capture in mode {mode:?}"));
        worked.map_err(in_mode)?;
        ended.map_err(in_mode)?;
        buffer.verify_all(value, &format!("the graph captured in mode {mode:?} does not fill"))?;
        check_own_mode(context)?;
    }
    Ok(())
}

fn import_map_free(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    during_capture(context, |_| imported(context, &*buffer))
}

/// Imports a buffer, uses it in both directions, and frees it.
fn imported(context: &Context, buffer: &dyn ExportedBuffer) -> Verdict {
    let (pattern, stream) = (context.pattern(), context.stream()?);
    buffer.put(pattern)?;
    let memory = context.import_memory(buffer)?;
    let mapped = memory.map_buffer(0..SIZE as u64)?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "the exporter's data")?;
    stream.write(&mapped, &pattern.other().bytes(0, SIZE))?;
    buffer.verify(pattern.other(), "the device's data")?;
    mapped.close()?;
    memory.close()?;
    Ok(stream.close()?)
}

fn read_behind_a_wait(context: &Context) -> Verdict {
    let (gate, (_buffer, mapped)) = (Gate::new(context)?, context.zeroed(SIZE)?);
    during_capture(context, |mode| {
        let (stream, value) = (context.stream()?, 0x40 + mode as u8);
        gate.close(&stream)?;
        stream.fill(&mapped, value)?;
        // Differs from the bytes of `mapped`.
        let mut found = vec![0xee; SIZE];
        gate.open_during(LATE, || Ok(stream.read(&mapped, &mut found)?))?;
        let at_once = found.clone();
        std::thread::sleep(LATE);
        ensure!(at_once == found, "the target changed after the read had returned");
        verify_bytes(&found, value, "the read returned before the data was there")
    })
}

fn queries(context: &Context) -> Verdict {
    let (gate, (buffer, mapped)) = (Gate::new(context)?, context.zeroed(SIZE)?);
    during_capture(context, |mode| {
        let (stream, event, value) = (context.stream()?, context.device().create_event()?, 0x50 + mode as u8);
        gate.close(&stream)?;
        stream.fill(&mapped, value)?;
        stream.record(&event)?;
        keeps_waiting(&stream, BRIEF, "the stream is reported idle while it waits")?;
        ensure!(!event.is_complete()?, "the event is reported complete while the stream waits");
        expect_error(stream.synchronize_timeout(LATE / 4), ErrorKind::Timeout, "a wait that is not met")?;
        gate.open_during(LATE, || Ok(stream.synchronize()?))?;
        ensure!(stream.is_idle()? && event.is_complete()?, "pending work is reported after the synchronisation");
        buffer.verify_all(value, "the fill has not run")
    })
}

fn drop_with_work_pending(context: &Context) -> Verdict {
    let (gate, buffer) = (Gate::new(context)?, context.buffer(SIZE as u64)?);
    during_capture(context, |mode| {
        let (stream, value) = (context.stream()?, 0x60 + mode as u8);
        let mapped = context.import(&*buffer)?;
        gate.close(&stream)?;
        stream.fill(&mapped, value)?;
        drop(mapped);
        context.device().collect();
        std::thread::sleep(LATE);
        context.device().collect();
        keeps_waiting(&stream, BRIEF, "the stream did not wait")?;
        gate.open()?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        buffer.verify_all(value, "the fill of the dropped mapping has not run")?;
        context.device().collect();
        Ok(())
    })
}

fn timeline(context: &Context) -> Verdict {
    let exporter = context.exporter()?.timeline(0)?;
    let timeline = Timeline::new(context.device(), exporter.clone())?;
    need_waits(context.device(), timeline.strategy())?;
    let (buffer, mapped) = context.zeroed(SIZE)?;
    during_capture(context, |mode| {
        let stream = context.stream()?;
        let (theirs, value) = (2 * mode as u64 + 1, 0x70 + mode as u8);
        stream.wait_timeline(&timeline, theirs)?;
        stream.fill(&mapped, value)?;
        stream.signal_timeline(&timeline, theirs + 1)?;
        std::thread::sleep(LATE / 4);
        exporter.signal(theirs)?;
        exporter.wait(theirs + 1, WAIT_TIMEOUT)?;
        buffer.verify_all(value, "the signal was visible before the fill")?;
        Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
    })
}

fn close(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    during_capture(context, |mode| {
        let (device, value) = (context.open_again()?, 0x20 + mode as u8);
        let stream = device.create_stream()?;
        let mapped = import_on(&device, &*buffer)?;
        let graph = device.record(|stream| stream.fill(&mapped, value))?;
        graph.launch(&stream)?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        graph.close()?;
        drop((stream, mapped, device));
        buffer.verify_all(value, "the graph of the other device did not run")
    })
}

fn leaks(context: &Context) -> Verdict {
    /// Maximum growth of the number of mapped regions.
    const SLACK: usize = 8;
    let buffer = context.buffer(SIZE as u64)?;
    let round = || during_capture(context, |_| (0..4).try_for_each(|_| imported(context, &*buffer)));
    round()?;
    context.device().collect();
    let before = ResourceSnapshot::at_rest()?;
    (0..10).try_for_each(|_| round())?;
    context.device().collect();
    ResourceSnapshot::settled(&before, SLACK, u64::MAX)?.check_since(&before, SLACK)
}
