//! Sync files: a fence behind a descriptor that any process can poll.
//!
//! The descriptor is the reading end of a pipe, with a flag that other pipes do not have. A byte in the pipe is the
//! signal. A pipe without a byte and without a writer has an error: the work failed, or its process ended.

use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::abi::Result;
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
        let mut files = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) | Err(_) => State::Pending,
            Ok(_) if files.iter().any(|file| file.revents().contains(PollFlags::IN)) => State::Done(None),
            Ok(_) => State::Done(Some(CANCELLED)),
        }
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
    let link = rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
    let flags = rustix::fs::fcntl_getfl(file)?;
    if !link.as_bytes().starts_with(b"pipe:") || !flags.contains(MARK) || flags.contains(OFlags::WRONLY) {
        return Err(Errno::INVAL);
    }
    let file = SyncFile(high_descriptor(rustix::io::fcntl_dupfd_cloexec(file, 0)?));
    Ok(match file.state() {
        State::Done(None) => Fence::Signalled,
        _ => Fence::File(Arc::new(file)),
    })
}

#[cfg(test)]
mod tests {
    use rustix::fd::AsFd as _;

    use super::*;
    use crate::sync::JobFence;

    #[test]
    fn a_sync_file_follows_its_fence() {
        let signals = Arc::default();
        for (error, expected) in [(None, State::Done(None)), (Some(Errno::IO), State::Done(Some(CANCELLED)))] {
            let job = JobFence::new(&signals);
            let file = export(&Fence::Job(Arc::clone(&job)), &signals).unwrap();
            let [early, again] = [(); 2].map(|()| import(file.as_fd()).unwrap());
            assert_eq!((early.state(), early.is_foreign()), (State::Pending, true));
            job.signal(error);
            assert_eq!((early.state(), again.state()), (expected, expected));
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
        }
    }
}
