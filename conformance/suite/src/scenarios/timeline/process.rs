//! Timelines of an exporter in another process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_interop::{ErrorKind, ExporterTimeline, MappedBuffer, TimelineStrategy};

use super::super::{BRIEF, expect_error, keeps_waiting};
use super::{Shared, Strategy, by_strategy, let_go, of_turn};
use crate::context::Context;
use crate::exporter::{ExportedBuffer, Point};
use crate::outcome::{PROMPT, Stop, Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::verify_bytes;
use crate::peer::Channel;
use crate::scenario::Role;
use crate::system::{self, OsHandle};
use crate::{ensure, ensure_eq};

by_strategy! {
    "two_processes",
        "The queue of an exporter in another process and a stream take 200 turns, with the data verified by both.",
        two_processes;
    "exporter_killed",
        "Killing an exporter with pending work fails its timeline in bounded time, hangs no stream with many enqueued turns, \
         and keeps its data.",
        exporter_killed, last_in_process;
}

pub(crate) const ROLES: &[(&str, Role)] =
    &[("timeline-turns", export_and_take_turns), ("timeline-frame-and-hang", export_a_frame_and_hang_in_the_next)];

const SIZE: usize = 1024;
const TURNS: u32 = 200;
/// The number of enqueued turns that the killed process never takes.
const TURNS_OF_THE_DEAD: u64 = 20;

type ExporterSide = (Box<dyn ExportedBuffer>, Arc<dyn ExporterTimeline>);

/// The exporter's process: creates a buffer and a timeline, and sends both.
fn export(context: &Context, channel: &Channel) -> Verdict<ExporterSide> {
    let (exporter, buffer) = (context.exporter()?, context.buffer(SIZE as u64)?);
    buffer.write(0, &[0; SIZE])?;
    let timeline = exporter.timeline(0)?;
    let request = buffer.import_request()?;
    let memory = system::of_memory(request.handle());
    let memory = memory.ok_or_else(|| Stop::failed("the memory cannot be sent to another process".into()))?;
    let sent = exporter.send_timeline(&*timeline)?;
    channel.send("shared", request.size(), &[memory, system::borrow_handle(&sent)])?;
    Ok((buffer, timeline))
}

/// The device's process: imports the other one's exports.
fn import<S: Strategy>(context: &Context, channel: &Channel) -> Verdict<(MappedBuffer, Shared)> {
    let (size, handles) = channel.receive("shared")?;
    let [memory, timeline] = <[OsHandle; 2]>::try_from(handles)
        .map_err(|handles| Stop::failed(format!("{} handles came, not 2", handles.len())))?;
    let exporter = context.exporter()?;
    let mapped = context.device().import_memory(exporter.sent_memory(memory, size))?.map_buffer(0..SIZE as u64)?;
    Ok((mapped, Shared::with::<S>(context.device(), exporter.open_timeline(timeline)?)?))
}

/// Stops as unsupported before the other process is started.
fn need<S: Strategy>(context: &Context) -> Verdict {
    let exporter = context.exporter()?;
    let timeline = exporter.timeline(0)?;
    super::need::<S>(context.device(), &*timeline)?;
    exporter.send_timeline(&*timeline).map(drop)
}

fn two_processes<S: Strategy>(context: &Context) -> Verdict {
    need::<S>(context)?;
    let peer = context.spawn_peer("timeline-turns")?;
    let (mapped, shared) = import::<S>(context, peer.channel())?;
    let (log, seen) = context.zeroed(SIZE * TURNS as usize)?;
    let stream = context.stream()?;
    for turn in 0..u64::from(TURNS) {
        let here = turn * SIZE as u64;
        stream.wait_timeline(&shared.device, 2 * turn + 1)?;
        stream.copy(seen.slice(here..here + SIZE as u64)?, &mapped)?;
        stream.fill(&mapped, context.pattern().byte(turn))?;
        stream.signal_timeline(&shared.device, 2 * turn + 2)?;
    }
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    shared.device.wait(2 * u64::from(TURNS), WAIT_TIMEOUT)?;
    let found = log.contents()?;
    for (turn, found) in (0..).zip(found.chunks_exact(SIZE)) {
        of_turn(context, turn).verify(0, found, format_args!("turn {turn}: the stream's copy"))?;
    }
    peer.join()
}

fn export_and_take_turns(context: &Context, channel: &Channel) -> Verdict {
    let (buffer, timeline) = export(context, channel)?;
    let at = |value| Point { timeline: &timeline, value };
    for turn in 0..u64::from(TURNS) {
        let data = of_turn(context, turn).bytes(0, SIZE);
        let found = buffer.exchange(at(2 * turn), &data, at(2 * turn + 1))?.finish()?;
        let expected = if turn == 0 { 0 } else { context.pattern().byte(turn - 1) };
        verify_bytes(&found, expected, format_args!("turn {turn}: the stream's data is missing"))?;
    }
    timeline.wait(2 * u64::from(TURNS), WAIT_TIMEOUT)?;
    buffer.verify_all(context.pattern().byte(u64::from(TURNS) - 1), "the stream's last data is missing")
}

fn exporter_killed<S: Strategy>(context: &Context) -> Verdict {
    need::<S>(context)?;
    let peer = context.spawn_peer("timeline-frame-and-hang")?;
    let (mapped, shared) = import::<S>(context, peer.channel())?;
    shared.device.watch_process(peer.id())?;
    let ((target, copy), (_, late)) = (context.zeroed(SIZE)?, context.zeroed(SIZE)?);
    let stream = context.stream()?;
    stream.wait_timeline(&shared.device, 1)?;
    stream.copy(&copy, &mapped)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    // The exporter's queue waits for 2, which is never signalled, and the stream for later values, turn by turn.
    peer.channel().receive("submitted")?;
    for turn in 1..=TURNS_OF_THE_DEAD {
        stream.wait_timeline(&shared.device, 2 * turn + 1)?;
        stream.copy(&late, &mapped)?;
        stream.signal_timeline(&shared.device, 2 * turn + 2)?;
    }
    let early = shared.device.wait(3, WATCH);
    expect_error(early, ErrorKind::Timeout, "a wait for a missing frame of a running process")?;
    keeps_waiting(&stream, BRIEF, "the stream did not wait")?;
    peer.kill()?;
    let start = Instant::now();
    // A native timeline is not polled while only streams wait.
    if S::STRATEGY == TimelineStrategy::Native {
        expect_error(
            shared.device.wait(3, WAIT_TIMEOUT),
            ErrorKind::Cancelled,
            "a wait of the host for a killed process",
        )?;
    }
    let_go(&stream)?;
    let (taken, next) = (start.elapsed(), 2 * TURNS_OF_THE_DEAD + 3);
    ensure!(taken < PROMPT, "the end of the process was noticed after {taken:?}");
    for (what, result) in [
        ("a wait of the host", shared.device.wait(3, WAIT_TIMEOUT)),
        ("a wait", stream.wait_timeline(&shared.device, next)),
        ("a signal", stream.signal_timeline(&shared.device, next)),
    ] {
        expect_error(result, ErrorKind::Cancelled, what)?;
    }
    ensure_eq!(stream.is_idle()?, true, "whether the stream is idle after the rejected calls");
    // Earlier data stays, and the device works.
    let pattern = of_turn(context, 1);
    target.verify(pattern, "the frame that the stream copied")?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "the frame in the memory of the process that was killed")
}

fn export_a_frame_and_hang_in_the_next(context: &Context, channel: &Channel) -> Verdict {
    let (buffer, timeline) = export(context, channel)?;
    let at = |value| Point { timeline: &timeline, value };
    buffer.exchange(at(0), &of_turn(context, 1).bytes(0, SIZE), at(1))?.finish()?;
    let _pending = buffer.exchange(at(2), &of_turn(context, 2).bytes(0, SIZE), at(3))?;
    channel.send("submitted", 0, &[])?;
    std::thread::sleep(Duration::from_secs(60));
    Err(Stop::failed("this process was not killed".into()))
}
