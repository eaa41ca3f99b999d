//! Malformed imports of semaphores: handles of another kind, wrong values, and malformed batches.

use std::os::fd::OwnedFd;
use std::time::Duration;

use gpu_interop::{ErrorKind, ExternalMemory, ExternalSemaphore, ImportError, MemoryHandle, SemaphoreHandle};

use super::super::expect_error;
use super::super::import_fd::{descriptor, harmless};
use super::super::semaphore_misuse::import_timeline;
use super::{Rows, before_the_driver};
use crate::context::Context;
use crate::outcome::{Verdict, WAIT_TIMEOUT};
use crate::raw_cuda::{Batch, OPAQUE_FD, RawCall, TIMELINE_FD};
use crate::scenario::scenarios;
use crate::{ensure, request};

scenarios! {
    all need [driver RawCalls];
    "misbehaviour.memory_as_semaphore", Any, "A memory descriptor relabelled as a semaphore is harmless.",
        memory_as_semaphore, needs [semaphore OpaqueFd];
    "misbehaviour.semaphore_as_memory", Any, "A semaphore descriptor relabelled as memory is harmless.",
        semaphore_as_memory, needs [semaphore OpaqueFd, exporter BinarySemaphores];
    "misbehaviour.semaphore_kinds", Any, "A timeline relabelled as a binary semaphore, and the reverse, are harmless.",
        semaphore_kinds, needs [semaphore OpaqueFd, semaphore TimelineFd,
            exporter BinarySemaphores, exporter TimelineSemaphores];
    "misbehaviour.timeline_backwards", Any,
        "A smaller timeline value is rejected before the driver is called; the driver alone decreases the counter.",
        backwards, needs [semaphore TimelineFd, exporter TimelineSemaphores];
    "misbehaviour.semaphore_batches", Any,
        "Empty batches are rejected before the driver is called; NULL semaphores, which crash it, have no type.", batches,
        needs [semaphore TimelineFd, exporter TimelineSemaphores],
        mirrors("hip-tests contract: SignalSemaphoreNullHandle, WaitSemaphoreNullHandle");
}

/// The library's outcome for a falsely declared descriptor: an import that can be closed, or an error that returns it.
fn survived<T, R: std::fmt::Debug>(
    imported: Result<T, ImportError<R>>,
    close: impl FnOnce(T) -> gpu_interop::Result<()>,
    fd_of: impl FnOnce(R) -> Verdict<OwnedFd>,
    witness: &OwnedFd,
) -> Verdict<String> {
    let text = match &imported {
        Ok(_) => "accepted, and ended without harm; only a handwritten label reaches this".to_owned(),
        Err(failure) => format!("{}; the descriptor came back open", ErrorKind::to_string(&failure.kind())),
    };
    harmless(imported, close, fd_of, witness).map(|()| text)
}

fn memory_as_semaphore(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let buffer = context.buffer(4096)?;
    let request = buffer.import_request()?;
    let raw = rows.with_memory(&RawCall::ImportSemaphore { kind: OPAQUE_FD }, &request)?;
    let library = || {
        let fd = descriptor(request.into_handle().into_fd())?;
        let witness = fd.try_clone()?;
        let imported = context.device().import_semaphore(request::semaphore(SemaphoreHandle::OpaqueFd(fd)));
        survived(imported, ExternalSemaphore::close, |request| descriptor(request.into_handle().into_fd()), &witness)
    };
    rows.row("import memory as a semaphore", raw, library())?;
    rows.end()
}

fn semaphore_as_memory(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let semaphore = context.exporter()?.binary_semaphore()?;
    let handle = semaphore.export()?;
    let raw = rows.with_semaphore(&RawCall::ImportMemory { kind: OPAQUE_FD, size: 4096, flags: 0 }, &handle)?;
    let library = || {
        let fd = descriptor(handle.into_fd())?;
        let witness = fd.try_clone()?;
        let imported = context.device().import_memory(request::memory(MemoryHandle::OpaqueFd(fd), 4096));
        survived(imported, ExternalMemory::close, |request| descriptor(request.into_handle().into_fd()), &witness)
    };
    rows.row("import a semaphore as memory", raw, library())?;
    rows.end()
}

fn semaphore_kinds(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let exporter = context.exporter()?;
    let timeline = exporter.timeline_semaphore(0)?;
    let binary = exporter.binary_semaphore()?;
    let as_binary: fn(OwnedFd) -> SemaphoreHandle = SemaphoreHandle::OpaqueFd;
    let relabelled = [
        ("import a timeline as a binary semaphore", timeline.export()?, OPAQUE_FD, as_binary),
        ("import a binary semaphore as a timeline", binary.export()?, TIMELINE_FD, SemaphoreHandle::TimelineFd),
    ];
    for (what, handle, kind, label) in relabelled {
        let raw = rows.with_semaphore(&RawCall::ImportSemaphore { kind }, &handle)?;
        let library = || {
            let fd = descriptor(handle.into_fd())?;
            let witness = fd.try_clone()?;
            let imported = context.device().import_semaphore(request::semaphore(label(fd)));
            survived(
                imported,
                ExternalSemaphore::close,
                |request| descriptor(request.into_handle().into_fd()),
                &witness,
            )
        };
        rows.row(what, raw, library())?;
    }
    rows.end()
}

const SETTLING_TIME: Duration = Duration::from_millis(20);

fn backwards(context: &Context) -> Verdict {
    let mut rows = Rows::new(context)?;
    let timeline = context.exporter()?.timeline_semaphore(0)?;
    rows.with_semaphore(&RawCall::KeepSemaphore { kind: TIMELINE_FD }, &timeline.export()?)?;
    let mut raw = rows.call(&RawCall::Signal { value: 10, batch: Batch::One })?.text;
    let reached = timeline.wait(10, WAIT_TIMEOUT)?;
    let second = rows.call(&RawCall::Signal { value: 5, batch: Batch::One })?.text;
    let now = match (reached, timeline.wait(10, SETTLING_TIME)?, timeline.wait(5, SETTLING_TIME)?) {
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
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        ensure!(exported.wait(10, WAIT_TIMEOUT)?, "the exporter does not see 10");
        stream.signal(&[timeline.signal_value(11)])?;
        stream.synchronize_timeout(WAIT_TIMEOUT)?;
        ensure!(exported.wait(11, WAIT_TIMEOUT)?, "the exporter does not see 11");
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
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    rows.end()
}
