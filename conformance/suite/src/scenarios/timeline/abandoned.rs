//! Timelines abandoned while streams have many pending turns.

use gpu_interop::{ErrorKind, TimelineStrategy};

use super::super::{expect_error, keeps_waiting};
use super::{Shared, Strategy, by_strategy, let_go};
use crate::{Context, PATIENCE, Verdict, WATCH, ensure, ensure_eq};

by_strategy! {
    "abandoned",
        "Abandoning a timeline releases streams with many enqueued turns; later calls fail with the reason.", abandoned;
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
        if S::STRATEGY == TimelineStrategy::Native {
            let_go(stream)?;
        } else {
            let synchronized = stream.synchronize_timeout(PATIENCE);
            let error =
                expect_error(synchronized, ErrorKind::Cancelled, "a stream that waited for an abandoned timeline")?;
            ensure!(error.to_string().contains(REASON), "the stream's error lacks the reason: {error}");
        }
    }
    let found = buffer.contents()?;
    ensure!(found.iter().all(|byte| *byte == 0x5a), "the work behind the turns has not run");
    for (what, result) in [
        ("the value", shared.device.value().map(drop)),
        ("a wait of the host", shared.device.wait(1, PATIENCE)),
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
    other.exporter.wait(2, PATIENCE)?;
    let found = buffer.contents()?;
    ensure_eq!(
        found.iter().filter(|byte| **byte != 0xa5).count(),
        0,
        "bytes that another timeline's stream did not write"
    );
    Ok(())
}
