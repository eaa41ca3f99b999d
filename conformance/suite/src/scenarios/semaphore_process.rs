//! Semaphores between processes.

use std::time::Duration;

use gpu_interop::ErrorKind;

use super::semaphore_misuse::{import_binary, import_timeline};
use super::{expect_error, keeps_waiting};
use crate::context::Context;
use crate::exporter::ExportedSemaphore;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT, WATCH};
use crate::pattern::verify_bytes;
use crate::peer::Channel;
use crate::scenario::{Role, scenarios};
use crate::{ensure, request, system};

scenarios! {
    "semaphore.cross_process_timeline", Any,
        "Streams of two processes take 200 turns on one buffer, with the data verified each time.",
        cross_process_timeline, needs [shared timelines];
    "semaphore.cross_process_binary", Any, "A binary semaphore orders streams of two processes.", cross_process_binary,
        needs [shared binaries];
    "semaphore.peer_killed", Any,
        "A wait for a killed process times out instead of hanging, and the semaphore still works.", peer_killed,
        needs [shared timelines], last_in_process;
}

pub(super) const ROLES: &[(&str, Role)] =
    &[("take-turns", take_turns), ("signal-binary", signal_binary), ("signal-once-and-hang", signal_once_and_hang)];

const SIZE: usize = 4096;
const TURNS: u64 = 200;

fn send_semaphore(channel: &Channel, what: &str, semaphore: &dyn ExportedSemaphore) -> Verdict {
    let handle = semaphore.export()?;
    let handle = system::of_semaphore(&handle)
        .ok_or_else(|| Stop::unsupported("semaphores of this exporter cannot be sent to another process".into()))?;
    channel.send(what, 0, &[handle])
}

fn cross_process_timeline(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let (buffer, mapped) = context.shared(SIZE)?;
    let stream = context.stream()?;
    let peer = context.spawn_peer("take-turns")?;
    let request = buffer.import_request()?;
    let handle = system::of_memory(request.handle());
    let handle = handle.ok_or_else(|| Stop::unsupported("the memory cannot be sent to another process".into()))?;
    // Odd values are this process's signals, even ones the peer's.
    let mut found = vec![0; SIZE];
    for turn in 0..TURNS {
        stream.fill(&mapped, context.pattern().byte(turn))?;
        stream.signal(&[timeline.signal_value(2 * turn + 1)])?;
        stream.wait(&[timeline.wait_value(2 * turn + 2)])?;
        if turn == 0 {
            keeps_waiting(&stream, WATCH, "the stream went on before the other process had the timeline")?;
            peer.channel().send("memory", request.size(), &[handle])?;
            send_semaphore(peer.channel(), "timeline", &*exported)?;
            peer.channel().receive("ready")?;
        }
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        buffer.read(0, &mut found)?;
        let expected = context.pattern().byte(turn).wrapping_add(1);
        verify_bytes(&found, expected, format_args!("turn {turn}: the other process's data is missing"))?;
    }
    peer.join()
}

fn take_turns(context: &Context, channel: &Channel) -> Verdict {
    let (size, handle) = channel.receive_handle("memory")?;
    let memory = context.device().import_memory(context.exporter()?.sent_memory(handle, size))?;
    let mapped = memory.map_buffer(0..SIZE as u64)?;
    let (_, handle) = channel.receive_handle("timeline")?;
    let timeline = context.device().import_semaphore(request::semaphore(context.exporter()?.sent_timeline(handle)))?;
    let stream = context.stream()?;
    channel.send("ready", 0, &[])?;
    for turn in 0..TURNS {
        stream.wait(&[timeline.wait_value(2 * turn + 1)])?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        let found = context.read(&stream, &mapped)?;
        verify_bytes(
            &found,
            context.pattern().byte(turn),
            format_args!("turn {turn}: the first process's data is missing"),
        )?;
        stream.fill(&mapped, context.pattern().byte(turn).wrapping_add(1))?;
        stream.signal(&[timeline.signal_value(2 * turn + 2)])?;
        stream.synchronize()?;
    }
    Ok(())
}

fn cross_process_binary(context: &Context) -> Verdict {
    let (exported, semaphore) = import_binary(context)?;
    let stream = context.stream()?;
    let peer = context.spawn_peer("signal-binary")?;
    send_semaphore(peer.channel(), "binary", &*exported)?;
    peer.channel().receive("ready")?;
    for round in 0..50 {
        stream.wait(&[semaphore.wait()])?;
        if round == 0 {
            keeps_waiting(&stream, WATCH, "the stream went on before the other process signalled")?;
        }
        peer.channel().send("signal", round, &[])?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
    }
    peer.join()
}

fn signal_binary(context: &Context, channel: &Channel) -> Verdict {
    let (_, handle) = channel.receive_handle("binary")?;
    let semaphore = context.device().import_semaphore(request::semaphore(system::binary_semaphore(handle)))?;
    let stream = context.stream()?;
    channel.send("ready", 0, &[])?;
    for _ in 0..50 {
        channel.receive("signal")?;
        stream.signal(&[semaphore.signal()])?;
        stream.synchronize()?;
    }
    Ok(())
}

fn peer_killed(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let stream = context.stream()?;
    let peer = context.spawn_peer("signal-once-and-hang")?;
    send_semaphore(peer.channel(), "timeline", &*exported)?;
    peer.channel().receive("waiting")?;
    stream.wait(&[timeline.wait_value(1)])?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    stream.wait(&[timeline.wait_value(2)])?;
    peer.kill()?;
    let limit = Duration::from_millis(200);
    expect_error(stream.synchronize_timeout(limit), ErrorKind::Timeout, "a wait for a process that was killed")?;
    exported.signal(2)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    stream.signal(&[timeline.signal_value(3)])?;
    ensure!(exported.wait(3, WAIT_TIMEOUT)?, "the semaphore does not work any more");
    Ok(())
}

fn signal_once_and_hang(context: &Context, channel: &Channel) -> Verdict {
    let (_, handle) = channel.receive_handle("timeline")?;
    let timeline = context.device().import_semaphore(request::semaphore(context.exporter()?.sent_timeline(handle)))?;
    let stream = context.stream()?;
    stream.signal(&[timeline.signal_value(1)])?;
    stream.synchronize()?;
    // Killed during a wait, with the most resources in use.
    stream.wait(&[timeline.wait_value(1000)])?;
    channel.send("waiting", 0, &[])?;
    std::thread::sleep(Duration::from_secs(60));
    Err(Stop::failed("this process was not killed".into()))
}
