//! Ioctls of syncobjs.

use std::sync::Arc;

use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::io::Errno;

use crate::abi::drm::{
    QUERY_LAST_SUBMITTED, SYNCOBJ_SIGNALED, SYNCOBJ_SYNC_FILE, SyncobjArray, SyncobjCreate, SyncobjDestroy,
    SyncobjEventfd, SyncobjHandle, SyncobjTimelineArray, SyncobjTimelineWait, SyncobjTransfer, SyncobjWait, WAIT_ALL,
    WAIT_AVAILABLE, WAIT_FOR_SUBMIT,
};
use crate::abi::{Result, read_array, write_user};
use crate::drm::{Caller, passed, returned};
use crate::lock;
use crate::memory::high_descriptor;
use crate::queue::spawn;
use crate::report::say;
use crate::sync::{Check, Deadline, Fence, State, Syncobj, file};

pub(super) fn create(caller: Caller<'_>, value: &mut SyncobjCreate) -> Result<()> {
    if value.flags & !SYNCOBJ_SIGNALED != 0 {
        return Err(Errno::INVAL);
    }
    let fence = (value.flags & SYNCOBJ_SIGNALED != 0).then_some(Fence::Signalled);
    value.handle = caller.new_syncobj(Syncobj::new(&caller.emulation.signals, fence))?;
    Ok(())
}

pub(super) fn destroy(caller: Caller<'_>, value: &mut SyncobjDestroy) -> Result<()> {
    let removed = lock(&caller.file.handles.syncobjs).remove(value.handle);
    removed.map(drop).ok_or(Errno::INVAL)
}

/// The fence of a syncobj at a point. Without a limit, EINVAL if the point is not submitted; otherwise waits for it, and
/// fails with ETIME.
pub(super) fn find(caller: Caller<'_>, syncobj: &Syncobj, point: u64, limit: Option<Deadline>) -> Result<Fence> {
    let found = || syncobj.read(|payload| payload.find(point));
    let Some(limit) = limit else { return found().ok_or(Errno::INVAL) };
    let check = || {
        let otherwise = if syncobj.is_shared() { Check::Poll } else { Check::Sleep };
        Ok(found().map_or(otherwise, Check::Ready))
    };
    caller.emulation.signals.wait(limit, check)?.ok_or(Errno::TIME)
}

pub(super) fn export(caller: Caller<'_>, value: &mut SyncobjHandle) -> Result<()> {
    let syncobj = caller.syncobj(value.handle)?;
    let exported = match value.flags {
        0 => syncobj.export()?,
        SYNCOBJ_SYNC_FILE => file::export(&find(caller, &syncobj, 0, None)?, &caller.emulation.signals)?,
        _ => return Err(Errno::INVAL),
    };
    value.descriptor = returned(exported, rustix::fs::OFlags::CLOEXEC.bits())?;
    say!(1, "syncobj {} is exported as descriptor {}, flags {}", value.handle, value.descriptor, value.flags);
    Ok(())
}

pub(super) fn import(caller: Caller<'_>, value: &mut SyncobjHandle) -> Result<()> {
    let descriptor = passed(value.descriptor)?;
    match value.flags {
        0 => value.handle = caller.new_syncobj(Syncobj::import(&caller.emulation.signals, descriptor)?)?,
        SYNCOBJ_SYNC_FILE => {
            let fence = file::import(descriptor)?;
            caller.syncobj(value.handle)?.edit(|payload| payload.replace(Some(fence)))?;
        }
        _ => return Err(Errno::INVAL),
    }
    say!(1, "syncobj {}: descriptor {} is imported, flags {}", value.handle, value.descriptor, value.flags);
    Ok(())
}

/// The syncobjs of an array of handles.
fn syncobjs(caller: Caller<'_>, handles: u64, count: u32) -> Result<Vec<Arc<Syncobj>>> {
    if count == 0 {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller of the ioctl passes an array of this many handles.
    let handles: Vec<u32> = unsafe { read_array(handles, count)? };
    say!(2, "syncobjs {handles:?}");
    handles.into_iter().map(|handle| caller.syncobj(handle)).collect()
}

/// Syncobjs with a point each.
fn with_points(caller: Caller<'_>, handles: u64, points: u64, count: u32) -> Result<Vec<(Arc<Syncobj>, u64)>> {
    let syncobjs = syncobjs(caller, handles, count)?;
    let points = match points {
        0 => vec![0; syncobjs.len()],
        // SAFETY: as above, of points.
        points => unsafe { read_array(points, count)? },
    };
    Ok(syncobjs.into_iter().zip(points).collect())
}

pub(super) fn wait(caller: Caller<'_>, value: &mut SyncobjWait) -> Result<()> {
    if value.flags & !(WAIT_ALL | WAIT_FOR_SUBMIT) != 0 {
        return Err(Errno::INVAL);
    }
    let waits = with_points(caller, value.handles, 0, value.count)?;
    value.first_signaled = wait_for(caller, &waits, Deadline::at(value.deadline), value.flags)?;
    Ok(())
}

pub(super) fn timeline_wait(caller: Caller<'_>, value: &mut SyncobjTimelineWait) -> Result<()> {
    if value.flags & !(WAIT_ALL | WAIT_FOR_SUBMIT | WAIT_AVAILABLE) != 0 {
        return Err(Errno::INVAL);
    }
    let waits = with_points(caller, value.handles, value.points, value.count)?;
    value.first_signaled = wait_for(caller, &waits, Deadline::at(value.deadline), value.flags)?;
    Ok(())
}

/// Waits for one or all points. Returns the first that is signalled.
fn wait_for(caller: Caller<'_>, waits: &[(Arc<Syncobj>, u64)], deadline: Deadline, flags: u32) -> Result<u32> {
    let (all, available) = (flags & WAIT_ALL != 0, flags & WAIT_AVAILABLE != 0);
    let may_be_missing = flags & (WAIT_FOR_SUBMIT | WAIT_AVAILABLE) != 0;
    // A fence is kept when it was found: the content may change afterwards.
    let mut fences: Vec<Option<Fence>> = vec![None; waits.len()];
    let check = || {
        let (mut first, mut done, mut foreign) = (None, 0, false);
        for (index, ((syncobj, point), fence)) in (0..).zip(waits.iter().zip(&mut fences)) {
            if fence.is_none() {
                *fence = syncobj.read(|payload| payload.find(*point));
            }
            match fence {
                None if !may_be_missing => return Err(Errno::INVAL),
                None => foreign |= syncobj.is_shared(),
                Some(fence) if available || fence.state() != State::Pending => {
                    done += 1;
                    first = first.or(Some(index));
                }
                Some(fence) => foreign |= fence.is_foreign(),
            }
        }
        let ended = if all { done == waits.len() } else { done > 0 };
        Ok(match first {
            Some(first) if ended => Check::Ready(first),
            _ if foreign => Check::Poll,
            _ => Check::Sleep,
        })
    };
    caller.emulation.signals.wait(deadline, check)?.ok_or(Errno::TIME)
}

pub(super) fn reset(caller: Caller<'_>, value: &mut SyncobjArray) -> Result<()> {
    syncobjs(caller, value.handles, value.count)?.iter().try_for_each(|it| it.edit(|payload| payload.replace(None)))
}

pub(super) fn signal(caller: Caller<'_>, value: &mut SyncobjArray) -> Result<()> {
    let syncobjs = syncobjs(caller, value.handles, value.count)?;
    syncobjs.iter().try_for_each(|it| it.edit(|payload| payload.replace(Some(Fence::Signalled))))
}

pub(super) fn timeline_signal(caller: Caller<'_>, value: &mut SyncobjTimelineArray) -> Result<()> {
    if value.flags != 0 {
        return Err(Errno::INVAL);
    }
    let points = with_points(caller, value.handles, value.points, value.count)?;
    points.iter().try_for_each(|(syncobj, point)| syncobj.edit(|payload| payload.add(*point, Fence::Signalled)))
}

pub(super) fn query(caller: Caller<'_>, value: &mut SyncobjTimelineArray) -> Result<()> {
    if value.flags & !QUERY_LAST_SUBMITTED != 0 {
        return Err(Errno::INVAL);
    }
    let syncobjs = syncobjs(caller, value.handles, value.count)?;
    let submitted = value.flags & QUERY_LAST_SUBMITTED != 0;
    for (at, syncobj) in (value.points..).step_by(8).zip(syncobjs) {
        let point = syncobj.read(|payload| payload.value(submitted));
        // SAFETY: the caller of the ioctl passes an array of as many points.
        unsafe { write_user(at, point)? };
    }
    Ok(())
}

/// Gives the fence at a point of a syncobj to another one.
pub(super) fn transfer(caller: Caller<'_>, value: &mut SyncobjTransfer) -> Result<()> {
    let [from, to] = [value.from, value.to].map(|handle| caller.syncobj(handle));
    let (from, to) = (from?, to?);
    // The kernel waits for 5 s.
    let limit = std::time::Duration::from_secs(5);
    let limit = (value.flags & WAIT_FOR_SUBMIT != 0).then(|| Deadline::after(limit));
    let fence = find(caller, &from, value.from_point, limit)?;
    say!(2, "syncobj {} at {} goes to syncobj {} at {}", value.from, value.from_point, value.to, value.to_point);
    to.edit(|payload| payload.set(value.to_point, fence))
}

/// Makes an eventfd count a point's signal, or its submission. A syncobj that is destroyed first does not.
pub(super) fn eventfd(caller: Caller<'_>, value: &mut SyncobjEventfd) -> Result<()> {
    if value.flags & !WAIT_AVAILABLE != 0 || value.pad != 0 {
        return Err(Errno::INVAL);
    }
    let syncobj = Arc::downgrade(&caller.syncobj(value.handle)?);
    let event = event(passed(value.descriptor)?)?;
    let (point, available) = (value.point, value.flags & WAIT_AVAILABLE != 0);
    let mut fence: Option<Fence> = None;
    // `false` if nothing can count any more.
    let mut check = move || {
        let Some(syncobj) = syncobj.upgrade() else { return Check::Ready(false) };
        if fence.is_none() {
            fence = syncobj.read(|payload| payload.find(point));
        }
        match &fence {
            Some(fence) if available || fence.is_done() => Check::Ready(true),
            Some(fence) if fence.is_foreign() => Check::Poll,
            None if syncobj.is_shared() => Check::Poll,
            _ => Check::Sleep,
        }
    };
    let count = move || {
        // Only a full counter rejects it, and that wakes its readers, too.
        _ = rustix::io::write(&event, &1_u64.to_ne_bytes());
    };
    if matches!(check(), Check::Ready(_)) {
        count();
        return Ok(());
    }
    let signals = Arc::clone(&caller.emulation.signals);
    let wait = move || {
        if let Ok(Some(true)) = signals.wait(Deadline::NEVER, || Ok(check())) {
            count();
        }
    };
    spawn("amdgpu-eventfd".to_owned(), wait).map(drop)
}

/// A descriptor of an eventfd. EINVAL for another file.
fn event(file: BorrowedFd<'_>) -> Result<OwnedFd> {
    let file = high_descriptor(rustix::io::fcntl_dupfd_cloexec(file, 0)?);
    let link = rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
    if link.as_bytes() == b"anon_inode:[eventfd]" { Ok(file) } else { Err(Errno::INVAL) }
}
