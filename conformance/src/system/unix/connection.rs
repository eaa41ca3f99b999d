//! A socket between two processes.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};

use crate::outcome::{Stop, Verdict};
use crate::system::{BorrowedOsHandle, MAX_HANDLES, Received};

/// One end of a socket that keeps messages apart and carries descriptors.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// The end that a process was started with: its standard input, the one descriptor that every process has.
    pub(crate) fn of_this_process() -> Verdict<Self> {
        Ok(Self { socket: std::io::stdin().as_fd().try_clone_to_owned()? })
    }

    /// Both ends: this process's, and one for another's standard input.
    pub(crate) fn pair() -> Verdict<(Self, Stdio)> {
        let (here, there) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self { socket: here }, there.into()))
    }

    /// Nothing comes or goes any more; the other side finds this one gone.
    pub(crate) fn close(&self) -> Verdict {
        Ok(rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both)?)
    }

    /// Sends a message and duplicates of descriptors (`SCM_RIGHTS`).
    pub(crate) fn send(&self, bytes: &[u8], handles: &[BorrowedOsHandle<'_>]) -> Verdict {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_HANDLES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !handles.is_empty() && !control.push(SendAncillaryMessage::ScmRights(handles)) {
            return Err(Stop::Failed(format!("more than {MAX_HANDLES} descriptors in one message")));
        }
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives the next message, of at most so many bytes. Descriptors get close-on-exec set.
    pub(crate) fn receive(&self, most: usize) -> Verdict<Received> {
        let mut bytes = vec![0_u8; most];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_HANDLES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let received = match rustix::net::recvmsg(&self.socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            // It died with a message of this side unread.
            Err(Errno::CONNRESET) => return Ok(Received::Gone),
            received => received?.bytes,
        };
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors = descriptors.flatten().collect();
        if received == 0 {
            return Ok(Received::Gone);
        }
        bytes.truncate(received);
        Ok(Received::Message(bytes, descriptors))
    }

    /// Whether there is something to receive, or the other end is closed, before the time is over. Signals, such as that
    /// a child has ended, do not end the waiting.
    pub(crate) fn wait(&self, timeout: Duration) -> Verdict<bool> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            match rustix::event::poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
                Err(Errno::INTR) => {}
                ready => return Ok(ready? > 0),
            }
        }
    }
}
