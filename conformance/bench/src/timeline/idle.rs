//! Idle cost of a bridge: processor time of its thread. `process` is that of all threads,
//! including the driver's.
//!
//! | variant | state |
//! |---|---|
//! | `none` | no bridge |
//! | `unused` | a bridge without pending values |
//! | `waiting` | a stream waits for a value that is never signalled |
//! | `signalling` | a stream's signal is pending behind an event that never happens |
//!
//! Only `unused` has a limit: applications keep their timelines for as long as they run.

use std::time::Duration;

use gpu_interop::{BufferSlice, Stream, WaitCondition};
use gpu_interop_conformance::Verdict;

use super::{Clock, Exporter, LibraryCounter, Peer, bridges_time};
use crate::machine::{Machine, WAIT_TIMEOUT, too_much};
use crate::record::Recorder;
use crate::report::Limit;

/// Settling time before a measurement.
const SETTLES: Duration = Duration::from_millis(100);
/// A thousandth of one core.
const LIMIT: Limit = Limit::AtMost(0.001);

pub(crate) fn run(machine: &Machine, recorder: &mut Recorder, name: &str) -> Verdict {
    let time = Duration::from_millis(if recorder.quick { 300 } else { 1000 });
    let mut look = |variant: &str, limit| {
        std::thread::sleep(SETTLES);
        let (bridges, clock) = (bridges_time(), Clock::start());
        std::thread::sleep(time);
        let elapsed = clock.elapsed();
        let (used, of) = (bridges_time().saturating_sub(bridges).as_secs_f64(), elapsed.time.as_secs_f64());
        recorder.note(name, variant, "%", 100.0 * used / of);
        recorder.note(&format!("{name}.process"), variant, "%", 100.0 * elapsed.processor.as_secs_f64() / of);
        if limit {
            recorder.compare(format!("{name} {variant}: processor/time"), used, of, Some(LIMIT));
        }
    };
    look("none", false);
    let peer;
    let exporter = match machine.graphics_queue() {
        Ok(context) => Exporter::Vulkan(context),
        Err(stop) => {
            peer = Peer::open(machine).map_err(|_| stop)?;
            Exporter::Own(&peer)
        }
    };
    let counter = LibraryCounter::bridge(machine, exporter)?;
    let (stream, timeline) = (&machine.stream, &counter.follower);
    stream.wait_timeline(timeline, 1)?;
    stream.signal_timeline(timeline, 2)?;
    // Not through the library's object, whose value is 2 already.
    timeline.exporter().signal(1)?;
    timeline.wait(2, WAIT_TIMEOUT)?;
    look("unused", true);

    stream.wait_timeline(timeline, 3)?;
    look("waiting", false);
    timeline.signal(3)?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;

    let word = machine.device.allocate_exportable(4).map_err(too_much)?;
    let word = word.slice(..4)?;
    stream.fill_u32(word, 0)?;
    stream.wait_value_u32(word, 1, WaitCondition::GreaterOrEqual)?;
    stream.signal_timeline(timeline, 4)?;
    look("signalling", false);
    let_go(&machine.device.create_stream()?, word)?;
    timeline.wait(4, WAIT_TIMEOUT)?;
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}

/// Writes the word on which the other stream waits.
fn let_go(stream: &Stream, word: BufferSlice<'_>) -> Verdict {
    stream.write_value_u32(word, 1)?;
    Ok(stream.synchronize_timeout(WAIT_TIMEOUT)?)
}
