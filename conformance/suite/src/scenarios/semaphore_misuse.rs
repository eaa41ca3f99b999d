//! Malformed semaphore requests.

use gpu_interop::{ErrorKind, ExternalSemaphore, WaitParams};

use super::{expect_error, expect_kind};
use crate::context::Context;
use crate::exporter::ExportedSemaphore;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::scenario::scenarios;
use crate::{ensure_eq, request, system};

scenarios! {
    "semaphore.empty_batch", None, "Empty batches of signals and waits are rejected.", empty_batch,
        mirrors("hip-tests: hipSignalExternalSemaphoresAsync_Vulkan_Negative_Parameters");
    "semaphore.wrong_parameters", Any,
        "Binary parameters for a timeline, values for a binary semaphore and keys for either are rejected.",
        wrong_parameters, needs [shared binaries, shared timelines];
    "semaphore.backwards", Any, "A timeline value that does not increase is rejected; the next one works.", backwards,
        needs [shared timelines];
    "semaphore.wrong_kind", Any,
        "A binary semaphore declared as a timeline, and the reverse, are harmless; a rejected handle stays usable.",
        wrong_kind, needs [shared binaries, shared timelines], last_in_process;
    "semaphore.other_device", Any, "A semaphore of another device is rejected.", other_device, needs [shared timelines];
    "semaphore.failed_batch", Any, "A batch with one bad entry signals none of its semaphores.", failed_batch,
        needs [shared timelines];
}

pub(super) fn import_binary(context: &Context) -> Verdict<(Box<dyn ExportedSemaphore>, ExternalSemaphore)> {
    let exported = context.exporter()?.binary_semaphore()?;
    let imported = context.device().import_semaphore(exported.import_request()?)?;
    Ok((exported, imported))
}

pub(super) fn import_timeline(
    context: &Context,
    value: u64,
) -> Verdict<(Box<dyn ExportedSemaphore>, ExternalSemaphore)> {
    let exported = context.exporter()?.timeline_semaphore(value)?;
    let imported = context.device().import_semaphore(exported.import_request()?)?;
    Ok((exported, imported))
}

fn empty_batch(context: &Context) -> Verdict {
    let stream = context.stream()?;
    expect_error(stream.signal(&[]), ErrorKind::InvalidArgument, "an empty signal")?;
    expect_error(stream.wait(&[]), ErrorKind::InvalidArgument, "an empty wait")?;
    Ok(())
}

fn wrong_parameters(context: &Context) -> Verdict {
    let (_b, binary) = import_binary(context)?;
    let (_t, timeline) = import_timeline(context, 0)?;
    let stream = context.stream()?;
    let invalid = ErrorKind::InvalidArgument;
    expect_error(stream.signal(&[timeline.signal()]), invalid, "a binary signal of a timeline")?;
    expect_error(stream.wait(&[timeline.wait()]), invalid, "a binary wait for a timeline")?;
    expect_error(stream.signal(&[binary.signal_value(1)]), invalid, "a value signalled to a binary semaphore")?;
    expect_error(stream.wait(&[binary.wait_value(1)]), invalid, "a wait for a value of a binary semaphore")?;
    expect_error(stream.signal(&[timeline.release_key(1)]), invalid, "a key released to a timeline")?;
    let key = WaitParams::Key { key: 1, timeout: None };
    expect_error(stream.wait(&[binary.wait_with(key)]), invalid, "a key acquired from a binary semaphore")?;
    // No rejected call enqueued anything.
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    Ok(())
}

fn backwards(context: &Context) -> Verdict {
    let (exported, timeline) = import_timeline(context, 0)?;
    let stream = context.stream()?;
    stream.signal(&[timeline.signal_value(10)])?;
    for value in [10, 9, 0] {
        expect_error(stream.signal(&[timeline.signal_value(value)]), ErrorKind::InvalidArgument, "a step back")?;
    }
    let batch = [timeline.signal_value(20), timeline.signal_value(15)];
    expect_error(stream.signal(&batch), ErrorKind::InvalidArgument, "a step back within a batch")?;
    stream.signal(&[timeline.signal_value(11)])?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    ensure_eq!(exported.wait(11, WAIT_TIMEOUT)?, true, "the value 11 on the exporter's side");
    ensure_eq!(exported.wait(12, std::time::Duration::from_millis(20))?, false, "a value that was not signalled");
    Ok(())
}

fn wrong_kind(context: &Context) -> Verdict {
    let lost = || Stop::failed("another handle came back".into());
    let import = |handle| context.device().import_semaphore(request::semaphore(handle));
    let binary = context.exporter()?.binary_semaphore()?;
    let handle = system::into_semaphore(binary.export()?).ok_or_else(lost)?;
    match import(system::timeline_semaphore(handle)) {
        // CUDA accepts it.
        Ok(semaphore) => semaphore.close()?,
        Err(failure) => {
            expect_kind(failure.error(), &[ErrorKind::ImportRejected], "a binary semaphore as timeline")?;
            let handle = system::into_semaphore(failure.into_request().into_handle()).ok_or_else(lost)?;
            let imported = import(system::binary_semaphore(handle))?;
            context.stream()?.signal(&[imported.signal()])?;
            ensure_eq!(binary.wait(0, WAIT_TIMEOUT)?, true, "a signal through the handle that came back");
        }
    }
    let timeline = context.exporter()?.timeline_semaphore(0)?;
    let handle = system::into_semaphore(timeline.export()?).ok_or_else(lost)?;
    match import(system::binary_semaphore(handle)) {
        Ok(semaphore) => Ok(semaphore.close()?),
        Err(failure) => expect_kind(failure.error(), &[ErrorKind::ImportRejected], "a timeline as binary semaphore"),
    }
}

fn other_device(context: &Context) -> Verdict {
    let (_exported, timeline) = import_timeline(context, 0)?;
    let stream = context.open_again()?.create_stream()?;
    let error = expect_error(stream.signal(&[timeline.signal_value(1)]), ErrorKind::InvalidArgument, "another device")?;
    ensure_eq!(error.code(), None, "the driver's code");
    expect_error(stream.wait(&[timeline.wait_value(1)]), ErrorKind::InvalidArgument, "another device")?;
    Ok(())
}

/// Stops as unsupported if a driver accepts one semaphore per call, which its backend reports.
pub(super) fn need_batches(context: &Context) -> Verdict {
    let pairs = [import_timeline(context, 0)?, import_timeline(context, 0)?];
    let stream = context.stream()?;
    let signals = pairs.each_ref().map(|(_, semaphore)| semaphore.signal_value(1));
    let signalled = stream.signal(&signals);
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    match signalled {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            Err(Stop::unsupported(format!("batches of semaphores: {error}")))
        }
        signalled => Ok(signalled?),
    }
}

fn failed_batch(context: &Context) -> Verdict {
    need_batches(context)?;
    let (first_side, first) = import_timeline(context, 0)?;
    let (second_side, second) = import_timeline(context, 0)?;
    let stream = context.stream()?;
    let batch = [first.signal_value(5), second.signal()];
    expect_error(stream.signal(&batch), ErrorKind::InvalidArgument, "a batch with one bad entry")?;
    stream.synchronize_timeout(WAIT_TIMEOUT)?;
    ensure_eq!(first_side.wait(1, std::time::Duration::from_millis(20))?, false, "the good entry of the bad batch");
    stream.signal(&[first.signal_value(1), second.signal_value(1)])?;
    ensure_eq!(
        first_side.wait(1, WAIT_TIMEOUT)? && second_side.wait(1, WAIT_TIMEOUT)?,
        true,
        "a good batch afterwards"
    );
    Ok(())
}
