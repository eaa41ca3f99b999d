//! Sync files: a fence behind a descriptor that any process can poll.
//!
//! The descriptor is the reading end of a pipe, with a flag that other pipes do not have. A byte in the pipe is the
//! signal. A pipe without a byte and without a writer has an error: the work failed, or its process ended.

use std::ffi::c_void;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::abi::{Result, edit, plain_structs, request_number, request_type};
use crate::memory::high_descriptor;
use crate::sync::fence::Hook;
use crate::sync::{CANCELLED, Fence, Signals, State};

/// Marks the pipe of a sync file. Pipes have no times of access, so other code has no use for it.
const MARK: OFlags = OFlags::NOATIME;

/// A sync file of this or another process.
#[derive(Debug)]
pub(crate) struct SyncFile(OwnedFd);

impl SyncFile {
    pub(super) fn state(&self) -> State {
        state(self.0.as_fd())
    }
}

fn state(file: BorrowedFd<'_>) -> State {
    let mut files = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
    match poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
        Ok(0) | Err(_) => State::Pending,
        Ok(_) if files.iter().any(|file| file.revents().contains(PollFlags::IN)) => State::Done(None),
        Ok(_) => State::Done(Some(CANCELLED)),
    }
}

plain_structs! {
    /// `sync_file_info`. Its fences are not emulated: their number is 0, and nothing is written to their address.
    struct FileInfo { name: [u8; 32], status: i32, flags: u32, fences: u32, pad: u32, address: u64 }
}

/// The type and the number of `SYNC_IOC_FILE_INFO`.
const FILE_INFO: (u8, u8) = (b'>', 4);

/// Executes an ioctl of a sync file. `None` for other ioctls and other files.
///
/// # Safety
///
/// `argument` is valid for the request.
pub(crate) unsafe fn ioctl(file: BorrowedFd<'_>, request: u64, argument: *mut c_void) -> Option<Result<()>> {
    if (request_type(request), request_number(request)) != FILE_INFO || check(file).is_err() {
        return None;
    }
    let fill = |info: &mut FileInfo| {
        if info.flags != 0 || info.pad != 0 {
            return Err(Errno::INVAL);
        }
        info.status = match state(file) {
            State::Pending => 0,
            State::Done(None) => 1,
            State::Done(Some(error)) => -error.raw_os_error(),
        };
        info.fences = 0;
        Ok(())
    };
    // SAFETY: the caller's promise.
    Some(unsafe { edit(request, argument, fill) })
}

/// EINVAL for a descriptor that is not a sync file.
fn check(file: BorrowedFd<'_>) -> Result<()> {
    let link = rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
    let flags = rustix::fs::fcntl_getfl(file)?;
    match link.as_bytes().starts_with(b"pipe:") && flags.contains(MARK) && !flags.contains(OFlags::WRONLY) {
        true => Ok(()),
        false => Err(Errno::INVAL),
    }
}

/// Signals a sync file, or closes it with an error.
pub(super) fn finish(end: OwnedFd, error: Option<Errno>) {
    if error.is_none() {
        // A pipe without a reader has no waits.
        _ = rustix::io::write(&end, &[1]);
    }
}

/// Creates a sync file with a fence.
pub(crate) fn export(fence: &Fence, signals: &Arc<Signals>) -> Result<OwnedFd> {
    let (file, end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    rustix::fs::fcntl_setfl(&file, MARK | OFlags::NONBLOCK)?;
    fence.then(Hook::File(high_descriptor(end)), signals)?;
    Ok(file)
}

/// The fence of a sync file. EINVAL for another file.
pub(crate) fn import(file: BorrowedFd<'_>) -> Result<Fence> {
    check(file)?;
    let file = SyncFile(high_descriptor(rustix::io::fcntl_dupfd_cloexec(file, 0)?));
    Ok(match file.state() {
        State::Done(None) => Fence::Signalled,
        _ => Fence::File(Arc::new(file)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::JobFence;

    /// The status by `SYNC_IOC_FILE_INFO` of x86; `None` for another file.
    fn status(file: BorrowedFd<'_>) -> Option<i32> {
        let mut info = FileInfo { fences: 3, ..FileInfo::default() };
        // SAFETY: the argument is the structure of the request.
        let done = unsafe { ioctl(file, 0xc038_3e04, (&raw mut info).cast()) }?;
        assert_eq!((done, info.fences), (Ok(()), 0));
        Some(info.status)
    }

    #[test]
    fn a_sync_file_follows_its_fence() {
        let signals = Arc::default();
        let ends = [(None, State::Done(None), 1), (Some(Errno::IO), State::Done(Some(CANCELLED)), -125)];
        for (error, expected, number) in ends {
            let job = JobFence::new(&signals);
            let file = export(&Fence::Job(Arc::clone(&job)), &signals).unwrap();
            let [early, again] = [(); 2].map(|()| import(file.as_fd()).unwrap());
            assert_eq!((early.state(), early.is_foreign()), (State::Pending, true));
            assert_eq!(status(file.as_fd()), Some(0));
            job.signal(error);
            assert_eq!((early.state(), again.state()), (expected, expected));
            assert_eq!(status(file.as_fd()), Some(number));
            assert_eq!(import(file.as_fd()).unwrap().state(), expected, "imported afterwards");
        }
    }

    #[test]
    fn a_sync_file_of_a_sync_file_is_relayed() {
        let signals = Arc::default();
        let job = JobFence::new(&signals);
        let first = export(&Fence::Job(Arc::clone(&job)), &signals).unwrap();
        let second = export(&import(first.as_fd()).unwrap(), &signals).unwrap();
        let fence = import(second.as_fd()).unwrap();
        assert_eq!(fence.state(), State::Pending);
        job.signal(None);
        assert!(signals.wait_all(&[fence], crate::sync::Deadline::after(std::time::Duration::from_secs(10))));
    }

    #[test]
    fn other_descriptors_are_not_sync_files() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let (_reader, end) = rustix::pipe::pipe().unwrap();
        rustix::fs::fcntl_setfl(&end, MARK).unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        for other in [reader.as_fd(), writer.as_fd(), end.as_fd(), file.as_fd()] {
            assert_eq!(import(other).unwrap_err(), Errno::INVAL);
            assert_eq!(status(other), None);
        }
    }
}
