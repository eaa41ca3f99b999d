//! Waits for submissions, and their fences as syncobjs and sync files.

use rustix::io::Errno;

use crate::abi::drm::{
    FENCE_TO_SYNC_FILE, FENCE_TO_SYNCOBJ, FENCE_TO_SYNCOBJ_FD, FenceToHandle, SubmissionFence, WaitFences,
    WaitSubmission,
};
use crate::abi::{Result, read_array};
use crate::drm::{Caller, returned};
use crate::sync::{Check, Deadline, Fence, State, Syncobj, file};

/// The fence of a submission.
fn fence_of(caller: Caller<'_>, fence: &SubmissionFence) -> Result<Fence> {
    let SubmissionFence { context, engine, instance, ring, sequence } = *fence;
    caller.context(context)?.ring(caller, engine, instance, ring)?.fence(sequence)
}

/// A time of the kernel's interface: a negative number is no limit.
fn deadline(nanoseconds: u64) -> Deadline {
    i64::try_from(nanoseconds).map_or(Deadline::NEVER, Deadline::at)
}

pub(super) fn submission(caller: Caller<'_>, value: &mut WaitSubmission) -> Result<()> {
    let WaitSubmission { sequence, timeout, engine, instance, ring, context } = *value;
    let fence = fence_of(caller, &SubmissionFence { context, engine, instance, ring, sequence })?;
    let done = caller.emulation.signals.wait_all(std::slice::from_ref(&fence), deadline(timeout));
    value.sequence = u64::from(!done);
    match fence.state() {
        State::Done(Some(error)) if done => Err(error),
        _ => Ok(()),
    }
}

pub(super) fn fences(caller: Caller<'_>, value: &mut WaitFences) -> Result<()> {
    // SAFETY: the caller of the ioctl passes an array of this many fences.
    let fences: Vec<SubmissionFence> = unsafe { read_array(value.fences, value.count)? };
    let fences = fences.iter().map(|fence| fence_of(caller, fence)).collect::<Result<Vec<_>>>()?;
    let limit = deadline(value.timeout);
    let signals = &caller.emulation.signals;
    let first = if value.all != 0 {
        signals.wait_all(&fences, limit).then_some(0)
    } else {
        signals.wait(limit, || Ok(fences.iter().position(Fence::is_done).map_or(Check::Sleep, Check::Ready)))?
    };
    let index = first.and_then(|first| u64::try_from(first).ok()).unwrap_or(0);
    value.fences = u64::from(first.is_some()) | index << 32;
    Ok(())
}

pub(super) fn to_handle(caller: Caller<'_>, value: &mut FenceToHandle) -> Result<()> {
    let FenceToHandle { context, engine, instance, ring, sequence, .. } = *value;
    let fence = fence_of(caller, &SubmissionFence { context, engine, instance, ring, sequence })?;
    let signals = &caller.emulation.signals;
    let cloexec = rustix::fs::OFlags::CLOEXEC.bits();
    value.context = match value.what {
        FENCE_TO_SYNCOBJ => caller.new_syncobj(Syncobj::new(signals, Some(fence)))?,
        FENCE_TO_SYNCOBJ_FD => returned(Syncobj::new(signals, Some(fence)).export()?, cloexec)?.cast_unsigned(),
        FENCE_TO_SYNC_FILE => returned(file::export(&fence, signals)?, cloexec)?.cast_unsigned(),
        _ => return Err(Errno::INVAL),
    };
    Ok(())
}
