//! Semaphore signals and waits in graphs.

use std::time::Duration;

use gpu_interop::{ErrorKind, Timeline, TimelineStrategy};

use super::semaphore_misuse::{import_binary, import_timeline};
use super::{expect_error, keeps_waiting};
use crate::context::Context;
use crate::outcome::{Verdict, WAIT_TIMEOUT, WATCH};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    all need [GraphSemaphores];
    "graph_semaphore.binary", Any,
        "A graph waits for a binary semaphore and signals another at each of 20 launches, with the data handed over.",
        binary, needs [shared binaries],
        mirrors("hip-tests: hipGraphAddExternalSemaphoresSignalNode_Positive_Basic, \
             hipGraphAddExternalSemaphoresWaitNode_Positive_Basic");
    "graph_semaphore.timeline", Any,
        "A graph's wait for and signal of a timeline take new values for each of 50 launches, with the data handed over.",
        timeline, needs [shared timelines],
        mirrors("hip-tests: hipGraphAddExternalSemaphoresSignalNode_Vulkan_Positive_Timeline_Semaphore");
    "graph_semaphore.orders", Any, "A launch does not proceed before the value that was set last.", orders,
        needs [shared timelines];
    "graph_semaphore.enqueued_keep_theirs", Any, "New values do not change launches that are already enqueued.",
        enqueued_keep_theirs, needs [shared timelines],
        mirrors("hip-tests: hipGraphExecExternalSemaphoresSignalNodeSetParams_Positive_Basic");
    "graph_semaphore.small_fill", Any, "A wait for a graph's signal finds the small fill before it, 500 times.",
        small_fill, needs [shared timelines];
    "graph_semaphore.batches", Any, "A recorded batch of 9 signals is replaced by one of 9 other semaphores.", batches,
        needs [shared timelines],
        mirrors("hip-tests: hipGraphAddExternalSemaphoresSignalNode_Vulkan_Positive_Multiple_Semaphores");
    "graph_semaphore.backwards", Any,
        "A second launch with the same value is rejected and signals nothing; with a greater value it works.", backwards,
        needs [shared timelines];
    "graph_semaphore.refusals", Any,
        "Batches of another length, of another device and of library timelines are rejected; the graph is intact.",
        refusals, needs [shared timelines],
        mirrors("hip-tests: hipGraphExecExternalSemaphoresSignalNodeSetParams_Negative");
    "graph_semaphore.keeps_semaphores", Any, "Semaphores that were dropped live as long as the graph.", keeps_semaphores,
        needs [shared timelines];
}

const SIZE: usize = 64 << 10;

fn binary(context: &Context) -> Verdict {
    let ((ready_side, ready), (done_side, done)) = (import_binary(context)?, import_binary(context)?);
    let ((from_side, from), (to_side, to)) = (context.zeroed(SIZE)?, context.zeroed(SIZE)?);
    let graph = context.device().record(|stream| {
        stream.wait(&[ready.wait()])?;
        stream.copy(&to, &from)?;
        stream.signal(&[done.signal()])
    })?;
    let stream = context.stream()?;
    let mut pattern = context.pattern();
    for launch in 0..20 {
        graph.launch(&stream)?;
        from_side.put(pattern)?;
        ready_side.signal(0)?;
        ensure!(done_side.wait(0, WAIT_TIMEOUT)?, "launch {launch} was not signalled");
        to_side.verify(pattern, &format!("launch {launch}"))?;
        pattern = pattern.other();
    }
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

fn timeline(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let ((from_side, from), (to_side, to)) = (context.zeroed(SIZE)?, context.zeroed(SIZE)?);
    let graph = context.device().record(|stream| {
        stream.wait(&[timeline.wait_value(1)])?;
        stream.copy(&to, &from)?;
        stream.signal(&[timeline.signal_value(2)])
    })?;
    ensure_eq!((graph.signals(), graph.waits()), (1, 1), "recorded batches");
    let stream = context.stream()?;
    let mut pattern = context.pattern();
    for launch in 0..50_u64 {
        let (ready, done) = (2 * launch + 1, 2 * launch + 2);
        graph.set_waits(0, &[timeline.wait_value(ready)])?;
        graph.set_signals(0, &[timeline.signal_value(done)])?;
        graph.launch(&stream)?;
        from_side.put(pattern)?;
        exported.signal(ready)?;
        ensure!(exported.wait(done, WAIT_TIMEOUT)?, "launch {launch} did not signal {done}");
        to_side.verify(pattern, &format!("launch {launch}"))?;
        pattern = pattern.other();
    }
    Ok(())
}

fn orders(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let (_buffer, mapped) = context.zeroed(SIZE)?;
    let graph = context.device().record(|stream| {
        stream.wait(&[timeline.wait_value(1)])?;
        stream.fill(&mapped, 1)
    })?;
    exported.signal(5)?;
    let stream = context.stream()?;
    graph.set_waits(0, &[timeline.wait_value(7)])?;
    graph.launch(&stream)?;
    keeps_waiting(&stream, WATCH, "a wait for 7 was met by 5")?;
    exported.signal(7)?;
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

fn enqueued_keep_theirs(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let (gate_side, gate) = import_timeline(context, 0)?;
    let graph = context.device().record(|stream| stream.signal(&[timeline.signal_value(1)]))?;
    let stream = context.stream()?;
    stream.wait(&[gate.wait_value(1)])?;
    graph.launch(&stream)?;
    graph.set_signals(0, &[timeline.signal_value(9)])?;
    gate_side.signal(1)?;
    ensure!(exported.wait(1, WAIT_TIMEOUT)?, "the launch did not signal");
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    ensure!(!exported.wait(2, Duration::ZERO)?, "the launch signalled a value that it was given after it was enqueued");
    graph.launch(&stream)?;
    ensure!(exported.wait(9, WAIT_TIMEOUT)?, "the next launch did not signal the new value");
    Ok(())
}

fn small_fill(context: &Context) -> Verdict {
    let (_side, timeline) = import_timeline(context, 0)?;
    let ((_, mapped), (copied_side, copied)) = (context.zeroed(1024)?, context.zeroed(1024)?);
    let (first, second) = (context.stream()?, context.stream()?);
    let mut found = vec![0; 1024];
    for round in 1..=500_u64 {
        let byte = context.pattern().byte(round);
        let graph = context.device().record(|stream| {
            stream.fill(&mapped, byte)?;
            stream.signal(&[timeline.signal_value(2 * round)])
        })?;
        graph.launch(&first)?;
        second.wait(&[timeline.wait_value(2 * round)])?;
        second.copy(&copied, &mapped)?;
        second.synchronize_timeout(WAIT_TIMEOUT)?;
        copied_side.read(0, &mut found)?;
        let old = found.iter().filter(|found| **found != byte).count();
        ensure_eq!(old, 0, "bytes that the fill of round {round} had not reached when its signal came");
    }
    Ok(())
}

fn batches(context: &Context) -> Verdict {
    const COUNT: usize = 9;
    let timelines = |_| import_timeline(context, 0);
    let first = (0..COUNT).map(timelines).collect::<Verdict<Vec<_>>>()?;
    let second = (0..COUNT).map(timelines).collect::<Verdict<Vec<_>>>()?;
    let values: Vec<u64> = (3..).take(COUNT).collect();
    let of_first: Vec<_> = first.iter().zip(&values).map(|((_, own), value)| own.signal_value(*value)).collect();
    let of_second: Vec<_> = second.iter().zip(&values).map(|((_, own), value)| own.signal_value(*value)).collect();
    let graph = context.device().record(|stream| stream.signal(&of_first))?;
    let stream = context.stream()?;
    graph.launch(&stream)?;
    graph.set_signals(0, &of_second)?;
    graph.launch(&stream)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    for (index, ((exported, _), value)) in first.iter().chain(&second).zip(values.iter().cycle()).enumerate() {
        ensure!(exported.wait(*value, WAIT_TIMEOUT)?, "semaphore {index} was not signalled");
        ensure!(!exported.wait(value + 1, Duration::ZERO)?, "semaphore {index} is past {value}");
    }
    Ok(())
}

fn backwards(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let graph = context.device().record(|stream| stream.signal(&[timeline.signal_value(4)]))?;
    let stream = context.stream()?;
    ensure!(!exported.wait(1, WATCH)?, "a recorded signal came before the launch");
    graph.launch(&stream)?;
    expect_error(graph.launch(&stream), ErrorKind::InvalidArgument, "a second launch with the same value")?;
    stream.signal(&[timeline.signal_value(6)])?;
    graph.set_signals(0, &[timeline.signal_value(5)])?;
    expect_error(graph.launch(&stream), ErrorKind::InvalidArgument, "a launch that signals less")?;
    graph.set_signals(0, &[timeline.signal_value(7)])?;
    graph.launch(&stream)?;
    ensure!(exported.wait(7, WAIT_TIMEOUT)?, "the launch with another value did not signal");
    Ok(())
}

fn refusals(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let other_device = context.open_again()?;
    let foreign = other_device.import_semaphore(exported.import_request()?)?;
    let shared = context.exporter()?.timeline(0)?;
    let shared = Timeline::with_strategy(context.device(), shared, TimelineStrategy::Native)?;
    let invalid = ErrorKind::InvalidArgument;
    let mut refused = Ok(());
    let graph = context.device().record(|stream| {
        let all = [
            ("a wait for a library's timeline", stream.wait_timeline(&shared, 1)),
            ("a signal of a library's timeline", stream.signal_timeline(&shared, 1)),
            ("a signal of another device's semaphore", stream.signal(&[foreign.signal_value(1)])),
            ("an empty signal", stream.signal(&[])),
            ("an empty wait", stream.wait(&[])),
        ];
        refused = all.into_iter().try_for_each(|(what, result)| expect_error(result, invalid, what).map(drop));
        stream.signal(&[timeline.signal_value(1)])
    })?;
    refused?;
    expect_error(graph.set_signals(1, &[timeline.signal_value(2)]), invalid, "an unknown batch")?;
    expect_error(graph.set_waits(0, &[timeline.wait_value(2)]), invalid, "an unknown wait")?;
    expect_error(graph.set_signals(0, &[]), invalid, "a batch of another length")?;
    expect_error(graph.set_signals(0, &[foreign.signal_value(2)]), invalid, "another device's semaphore")?;
    expect_error(graph.set_signals(0, &[timeline.signal()]), invalid, "a binary signal of a timeline")?;
    let stream = context.stream()?;
    graph.launch(&stream)?;
    ensure!(exported.wait(1, WAIT_TIMEOUT)?, "the recorded signal did not come");
    ensure!(!exported.wait(2, Duration::ZERO)?, "a rejected signal took effect");
    Ok(())
}

fn keeps_semaphores(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let (later_side, later) = import_timeline(context, 0)?;
    let graph = context.device().record(|stream| stream.signal(&[timeline.signal_value(1)]))?;
    let stream = context.stream()?;
    timeline.close()?;
    context.device().collect();
    graph.launch(&stream)?;
    ensure!(exported.wait(1, WAIT_TIMEOUT)?, "a semaphore that was closed was not signalled by the graph");
    graph.set_signals(0, &[later.signal_value(1)])?;
    later.close()?;
    context.device().collect();
    graph.launch(&stream)?;
    ensure!(later_side.wait(1, WAIT_TIMEOUT)?, "a semaphore that the graph was given later was not signalled");
    Ok(())
}
