//! Another thread records a graph by the driver's own functions, as PyTorch does, in each of the three modes. Nothing of the
//! library minds, the recording does not either, and the graph does what was recorded.

use std::time::Duration;

use gpu_interop::{ErrorKind, MappedBuffer, Stream, Timeline, WaitCondition};

use super::timeline::need_waits;
use super::{cleared, expect_error};
use crate::context::{Context, PATIENCE};
use crate::ensure;
use crate::ensure_eq;
use crate::exporter::ExportedBuffer;
use crate::leak_check::ResourceSnapshot;
use crate::outcome::{Stop, Verdict};
use crate::scenario::scenarios;
use crate::stream_capture::{Mode, Recording, check_own_mode};

scenarios! {
    all need [Graphs, driver StreamCapture];
    "capture.import_map_free", Any,
        "While another thread records a graph: memory is imported, mapped, written, read and freed, with the right data.",
        import_map_free;
    "capture.read_behind_a_wait", Any,
        "While another thread records a graph: a read behind a wait returns with the data, not before.",
        read_behind_a_wait, needs [StreamMemoryOperations32];
    "capture.questions", Any,
        "While another thread records a graph: streams and events say that work is pending until it has run.",
        questions, needs [StreamMemoryOperations32];
    "capture.drop_with_work_pending", Any,
        "While another thread records a graph: what is dropped under pending work is freed after it, not before.",
        drop_with_work_pending, needs [StreamMemoryOperations32];
    "capture.timeline", Any,
        "While another thread records a graph: a stream waits for a timeline of the exporter and signals it.", timeline,
        signals_by_host;
    "capture.close", Any,
        "While another thread records a graph: streams, modules, graphs and a device are made, used and closed.", close;
    "capture.nothing_is_left", Any,
        "What was imported, used and freed beside 30 recordings of other threads leaves nothing behind.",
        nothing_is_left;
}

const SIZE: usize = 16 << 10;
/// How long a wait is kept waiting.
const LATE: Duration = Duration::from_millis(40);

/// Does `work` while another thread records, once in each mode, and launches what that recorded.
fn beside(context: &Context, work: impl Fn(Mode) -> Verdict) -> Verdict {
    for (mode, value) in Mode::ALL.into_iter().zip(1..) {
        let (buffer, target) = cleared(context, 4096)?;
        let recording = Recording::start(context, mode, &target, value)?;
        let worked = work(mode);
        // In any case: it uses the target.
        let ended = recording.finish();
        let in_mode = |stop: Stop| match stop {
            Stop::Failed(reason) => Stop::Failed(format!("beside a recording in mode {mode:?}: {reason}")),
            other => other,
        };
        worked.map_err(in_mode)?;
        ended.map_err(in_mode)?;
        let mut found = vec![0; 4096];
        buffer.read(0, &mut found)?;
        ensure!(found.iter().all(|byte| *byte == value), "the graph recorded in mode {mode:?} does not fill");
        check_own_mode(context)?;
    }
    Ok(())
}

fn import_map_free(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    beside(context, |_| imported(context, &*buffer))
}

/// One import, used in both directions and freed.
fn imported(context: &Context, buffer: &dyn ExportedBuffer) -> Verdict {
    let (pattern, stream) = (context.pattern(), context.device().create_stream()?);
    buffer.write(0, &pattern.bytes(0, SIZE))?;
    let memory = context.device().import_memory(buffer.import_request()?)?;
    let mapped = memory.map_buffer(0..SIZE as u64)?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "what the exporter wrote")?;
    let other = pattern.other();
    stream.write(&mapped, &other.bytes(0, SIZE))?;
    let mut found = vec![0; SIZE];
    buffer.read(0, &mut found)?;
    other.verify(0, &found, "what the device wrote")?;
    mapped.close()?;
    memory.close()?;
    Ok(stream.close()?)
}

/// A word that a stream waits for.
struct Gate {
    buffer: Box<dyn ExportedBuffer>,
    mapped: MappedBuffer,
}

impl Gate {
    fn new(context: &Context) -> Verdict<Self> {
        let (buffer, mapped) = cleared(context, 4096)?;
        Ok(Self { buffer, mapped })
    }

    fn close(&self, stream: &Stream) -> Verdict {
        self.buffer.write(0, &[0; 4])?;
        Ok(stream.wait_value_u32(self.mapped.slice(..4)?, 1, WaitCondition::Equal)?)
    }

    fn open(&self) -> Verdict {
        self.buffer.write(0, &1_u32.to_ne_bytes())
    }

    /// Does what blocks until the gate is open, which another thread opens a moment later.
    fn opened_meanwhile<T>(&self, work: impl FnOnce() -> Verdict<T>) -> Verdict<T> {
        std::thread::scope(|scope| {
            let opens = scope.spawn(|| {
                std::thread::sleep(LATE);
                self.open()
            });
            let result = work();
            super::threads::join(opens)?;
            result
        })
    }
}

fn read_behind_a_wait(context: &Context) -> Verdict {
    let gate = Gate::new(context)?;
    let (_buffer, mapped) = cleared(context, SIZE)?;
    beside(context, |mode| {
        let stream = context.device().create_stream()?;
        let value = 0x40 + mode as u8;
        gate.close(&stream)?;
        stream.fill(&mapped, value)?;
        // Not what is there already.
        let mut found = vec![0xee; SIZE];
        gate.opened_meanwhile(|| Ok(stream.read(&mapped, &mut found)?))?;
        let at_once = found.clone();
        std::thread::sleep(LATE);
        ensure!(at_once == found, "the target changed after the read had returned");
        ensure!(found.iter().all(|byte| *byte == value), "the read returned before the data were there: {}", found[0]);
        Ok(())
    })
}

fn questions(context: &Context) -> Verdict {
    let gate = Gate::new(context)?;
    let (buffer, mapped) = cleared(context, SIZE)?;
    beside(context, |mode| {
        let stream = context.device().create_stream()?;
        let event = context.device().create_event()?;
        let value = 0x50 + mode as u8;
        gate.close(&stream)?;
        stream.fill(&mapped, value)?;
        stream.record(&event)?;
        ensure!(!stream.is_idle()?, "the stream says that it is idle, while it waits");
        ensure!(!event.is_complete()?, "the event says that it has passed, while the stream waits");
        expect_error(stream.synchronize_timeout(LATE / 4), ErrorKind::Timeout, "a wait that is not met")?;
        gate.opened_meanwhile(|| Ok(stream.synchronize()?))?;
        ensure!(stream.is_idle()? && event.is_complete()?, "what was waited for has not run");
        let mut found = vec![0; SIZE];
        buffer.read(0, &mut found)?;
        ensure!(found.iter().all(|byte| *byte == value), "the fill has not run");
        Ok(())
    })
}

fn drop_with_work_pending(context: &Context) -> Verdict {
    let gate = Gate::new(context)?;
    let buffer = context.buffer(SIZE as u64)?;
    beside(context, |mode| {
        let stream = context.device().create_stream()?;
        let value = 0x60 + mode as u8;
        let mapped = context.import(&*buffer)?;
        gate.close(&stream)?;
        stream.fill(&mapped, value)?;
        drop(mapped);
        context.device().collect();
        std::thread::sleep(LATE);
        context.device().collect();
        ensure!(!stream.is_idle()?, "the stream did not wait");
        gate.open()?;
        stream.synchronize_timeout(PATIENCE)?;
        let mut found = vec![0; SIZE];
        buffer.read(0, &mut found)?;
        ensure!(found.iter().all(|byte| *byte == value), "the fill of what was dropped has not run");
        context.device().collect();
        Ok(())
    })
}

fn timeline(context: &Context) -> Verdict {
    let exporter = context.exporter()?.timeline(0)?;
    let timeline = Timeline::new(context.device(), exporter.clone())?;
    need_waits(context.device(), timeline.strategy())?;
    let (buffer, mapped) = cleared(context, SIZE)?;
    beside(context, |mode| {
        let stream = context.device().create_stream()?;
        let (theirs, value) = (2 * mode as u64 + 1, 0x70 + mode as u8);
        stream.wait_timeline(&timeline, theirs)?;
        stream.fill(&mapped, value)?;
        stream.signal_timeline(&timeline, theirs + 1)?;
        std::thread::sleep(LATE / 4);
        exporter.signal(theirs)?;
        exporter.wait(theirs + 1, PATIENCE)?;
        let mut found = vec![0; SIZE];
        buffer.read(0, &mut found)?;
        ensure!(found.iter().all(|byte| *byte == value), "the signal came before the fill");
        Ok(stream.synchronize_timeout(PATIENCE)?)
    })
}

fn close(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    beside(context, |mode| {
        let value = 0x20 + mode as u8;
        let device = context.open_again()?;
        let stream = device.create_stream()?;
        let mapped = device.import_memory(buffer.import_request()?)?.map_buffer(0..SIZE as u64)?;
        let graph = device.record(|stream| stream.fill(&mapped, value))?;
        graph.launch(&stream)?;
        stream.synchronize_timeout(PATIENCE)?;
        graph.close()?;
        drop((stream, mapped, device));
        let mut found = vec![0; SIZE];
        buffer.read(0, &mut found)?;
        ensure!(found.iter().all(|byte| *byte == value), "the graph of the other device did not run");
        Ok(())
    })
}

fn nothing_is_left(context: &Context) -> Verdict {
    let buffer = context.buffer(SIZE as u64)?;
    let round = || beside(context, |_| (0..4).try_for_each(|_| imported(context, &*buffer)));
    round()?;
    context.device().collect();
    let before = ResourceSnapshot::at_rest()?;
    (0..10).try_for_each(|_| round())?;
    context.device().collect();
    let after = ResourceSnapshot::settled(&before)?;
    ensure_eq!(after.descriptors, before.descriptors, "open descriptors");
    ensure!(
        after.mappings <= before.mappings + 8,
        "mapped regions grew from {} to {}",
        before.mappings,
        after.mappings
    );
    Ok(())
}
