//! Invalid signals and waits.

use std::time::Duration;

use gpu_interop::ErrorKind;

use super::super::expect_error;
use super::super::semaphore_misuse::import_timeline;
use super::{Rows, before_the_driver};
use crate::context::Context;
use crate::ensure;
use crate::outcome::{PATIENCE, Verdict};
use crate::raw_cuda::{Batch, RawCall, TIMELINE_FD};
use crate::scenario::scenarios;

scenarios! {
    all need [driver RawCalls];
    "misbehaviour.timeline_backwards", Any,
        "A smaller timeline value is rejected before the driver is called; the driver alone decreases the counter.",
        backwards, needs [semaphore TimelineFd, exporter TimelineSemaphores];
    "misbehaviour.semaphore_batches", Any,
        "Empty batches are rejected before the driver is called; NULL semaphores, which crash it, have no type.", batches,
        needs [semaphore TimelineFd, exporter TimelineSemaphores],
        mirrors("hip-tests contract: SignalSemaphoreNullHandle, WaitSemaphoreNullHandle");
}

const MOMENT: Duration = Duration::from_millis(20);

fn backwards(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let timeline = context.exporter()?.timeline_semaphore(0)?;
    rows.with_semaphore(&RawCall::KeepSemaphore { kind: TIMELINE_FD }, &timeline.export()?)?;
    let mut raw = rows.call(&RawCall::Signal { value: 10, batch: Batch::One })?.text;
    let reached = timeline.wait(10, PATIENCE)?;
    let second = rows.call(&RawCall::Signal { value: 5, batch: Batch::One })?.text;
    let now = match (reached, timeline.wait(10, MOMENT)?, timeline.wait(5, MOMENT)?) {
        (true, true, _) => "the exporter still sees 10",
        (true, false, true) => "the exporter sees less than 10: the counter went backwards",
        (true, false, false) => "the exporter sees less than 5",
        (false, ..) => "the exporter saw neither",
    };
    raw = format!("10: {raw}; 5: {second}; {now}");

    let library = || {
        let (exported, timeline) = import_timeline(context, 0)?;
        let stream = context.stream()?;
        stream.signal(&[timeline.signal_value(10)])?;
        let refusal = stream.signal(&[timeline.signal_value(5)]);
        let error = expect_error(refusal, ErrorKind::InvalidArgument, "a step back")?;
        stream.synchronize_timeout(PATIENCE)?;
        ensure!(exported.wait(10, PATIENCE)?, "the exporter does not see 10");
        stream.signal(&[timeline.signal_value(11)])?;
        stream.synchronize_timeout(PATIENCE)?;
        ensure!(exported.wait(11, PATIENCE)?, "the exporter does not see 11");
        Ok(format!("{}; the exporter sees 10, and the next value works", before_the_driver(&error)?))
    };
    rows.row("signal a timeline with 10, then with 5", raw, library())?;
    rows.hand_on();
    Ok(())
}

fn batches(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let timeline = context.exporter()?.timeline_semaphore(1)?;
    let stream = context.stream()?;
    let keep = RawCall::KeepSemaphore { kind: TIMELINE_FD };
    rows.with_semaphore(&keep, &timeline.export()?)?;

    let raw = rows.call(&RawCall::Signal { value: 2, batch: Batch::Empty })?.text;
    let refusal = expect_error(stream.signal(&[]), ErrorKind::InvalidArgument, "an empty signal");
    rows.row("signal no semaphore at all", raw, refusal.and_then(|error| before_the_driver(&error)))?;
    let raw = rows.call(&RawCall::Wait { value: 1, batch: Batch::Empty })?.text;
    let refusal = expect_error(stream.wait(&[]), ErrorKind::InvalidArgument, "an empty wait");
    rows.row("wait for no semaphore at all", raw, refusal.and_then(|error| before_the_driver(&error)))?;

    let impossible = |what: &str| Ok(format!("has no type: {what}"));
    let params = "parameters come with their semaphore";
    let raw = rows.call(&RawCall::Signal { value: 2, batch: Batch::NullParams })?.text;
    rows.row("signal with NULL parameters", raw, impossible(params))?;
    let raw = rows.call(&RawCall::Wait { value: 1, batch: Batch::NullParams })?.text;
    rows.row("wait with NULL parameters", raw, impossible(params))?;

    let object = "a semaphore is an object that was imported";
    rows.replace_lost_process(|rows| rows.with_semaphore(&keep, &timeline.export()?))?;
    let raw = rows.call(&RawCall::Wait { value: 1, batch: Batch::NullSemaphore })?.text;
    rows.row("wait for a NULL semaphore", raw, impossible(object))?;
    rows.replace_lost_process(|rows| rows.with_semaphore(&keep, &timeline.export()?))?;
    let raw = rows.call(&RawCall::Signal { value: 2, batch: Batch::NullSemaphore })?.text;
    rows.row("signal a NULL semaphore", raw, impossible(object))?;
    // No rejected call enqueued anything.
    stream.synchronize_timeout(PATIENCE)?;
    rows.end()
}
