//! A socket between two processes.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

use crate::ensure;
use crate::outcome::{Stop, Verdict};
use crate::system::{BorrowedOsHandle, MAX_HANDLES, Received};

/// One end of a socket that preserves message boundaries and carries descriptors.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// The end that a process was started with: its standard input, the only descriptor that every process has.
    pub fn of_this_process() -> Verdict<Self> {
        Ok(Self { socket: std::io::stdin().as_fd().try_clone_to_owned()? })
    }

    /// Both ends: this process's, and one for another's standard input.
    pub fn pair() -> Verdict<(Self, Stdio)> {
        let (here, there) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self { socket: here }, there.into()))
    }

    /// Closes both directions; the other side sees a closed connection.
    pub fn close(&self) -> Verdict {
        Ok(rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both)?)
    }

    /// Sends a message and duplicates of descriptors (`SCM_RIGHTS`).
    pub fn send(&self, bytes: &[u8], handles: &[BorrowedOsHandle<'_>]) -> Verdict {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_HANDLES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !handles.is_empty() && !control.push(SendAncillaryMessage::ScmRights(handles)) {
            return Err(Stop::failed(format!("more than {MAX_HANDLES} descriptors in one message")));
        }
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives the next message, of at most this many bytes and [`MAX_HANDLES`] descriptors, which are set to
    /// close-on-exec.
    ///
    /// # Errors
    /// If the message is longer, or not all of its descriptors could be received; the received ones are closed.
    pub fn receive(&self, most: usize) -> Verdict<Received> {
        self.receive_into(most, &mut [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_HANDLES))])
    }

    fn receive_into(&self, most: usize, space: &mut [MaybeUninit<u8>]) -> Verdict<Received> {
        let mut bytes = vec![0_u8; most];
        let mut control = RecvAncillaryBuffer::new(space);
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let mut receive = || rustix::net::recvmsg(&self.socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC);
        let received = match receive() {
            // The other side has ended with an unread message of this side. Linux reports that once, before the messages
            // that the other side has sent.
            Err(Errno::CONNRESET) => receive(),
            received => received,
        };
        let received = match received {
            Err(Errno::CONNRESET) => return Ok(Received::Gone),
            received => received?,
        };
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors: Vec<_> = descriptors.flatten().collect();
        let count = descriptors.len();
        // MSG_CTRUNC: the descriptors did not fit, or this process may not open more. The space is aligned, so that
        // more may fit.
        if received.flags.contains(ReturnFlags::CTRUNC) || count > MAX_HANDLES {
            let reason =
                format!("a message has more than {MAX_HANDLES} descriptors, or this process has too many open");
            return Err(Stop::failed(format!("{reason}; {count} were received, and closed")));
        }
        ensure!(!received.flags.contains(ReturnFlags::TRUNC), "a message is longer than {most} bytes");
        if received.bytes == 0 {
            return Ok(Received::Gone);
        }
        bytes.truncate(received.bytes);
        Ok(Received::Message(bytes, descriptors))
    }

    /// `true` if a message or the end of the connection can be received before the timeout. Signals, such as SIGCHLD,
    /// do not end the wait.
    pub fn wait(&self, timeout: Duration) -> Verdict<bool> {
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

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read};
    use std::os::fd::BorrowedFd;

    use super::*;

    /// Sends a byte and this many writing ends of a pipe, whose reading end is returned: it is at its end once all
    /// writing ends are closed.
    fn send_writers(count: usize) -> (Connection, std::io::PipeReader) {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let (here, there) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("sockets");
        let writers: Vec<BorrowedFd<'_>> = vec![writer.as_fd(); count];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2 * MAX_HANDLES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&writers)));
        rustix::net::sendmsg(&there, &[IoSlice::new(b"abc")], &mut control, SendFlags::empty()).expect("sent");
        (Connection { socket: here }, reader)
    }

    /// No writing end is open. A process that another test starts has a copy until it runs its program.
    fn at_its_end(mut reader: std::io::PipeReader) -> bool {
        rustix::io::ioctl_fionbio(&reader, true).expect("does not block");
        for _ in 0..5000 {
            match reader.read(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
                read => return matches!(read, Ok(0)),
            }
        }
        false
    }

    #[test]
    fn messages_arrive_from_a_side_that_has_ended_without_reading() {
        let sockets = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let [here, there] = <[_; 2]>::from(sockets.expect("sockets")).map(|socket| Connection { socket });
        for text in [b"one", b"two"] {
            there.send(text, &[]).expect("sends");
        }
        here.send(b"unread", &[]).expect("sends");
        drop(there);
        for text in [b"one", b"two"] {
            let received = here.receive(8).expect("receives");
            assert!(matches!(&received, Received::Message(bytes, _) if bytes == text), "{received:?}");
        }
        assert!(matches!(here.receive(8), Ok(Received::Gone)));
    }

    #[test]
    fn descriptors_that_do_not_fit_are_an_error_and_none_is_left() {
        for count in [MAX_HANDLES + 1, 2 * MAX_HANDLES] {
            let (connection, reader) = send_writers(count);
            let error = connection.receive(8).expect_err("too many");
            assert!(error.reason().contains("descriptors"), "{error}");
            assert!(at_its_end(reader), "a descriptor is left");
        }
        // Fewer than the maximum arrive, and not all: from one to three fit, depending on the alignment.
        let (connection, reader) = send_writers(MAX_HANDLES);
        let mut space = [MaybeUninit::uninit(); 28];
        let error = connection.receive_into(8, &mut space).expect_err("not all");
        assert!(error.reason().contains("descriptors"), "{error}");
        assert!(at_its_end(reader), "a descriptor is left");
    }

    #[test]
    fn a_message_that_does_not_fit_is_an_error_and_leaves_no_descriptor() {
        let (connection, reader) = send_writers(1);
        let error = connection.receive(2).expect_err("one byte too many");
        assert!(error.reason().contains("longer than 2 bytes"), "{error}");
        assert!(at_its_end(reader), "a descriptor is left");
    }

    #[test]
    fn as_many_descriptors_as_fit_arrive_with_close_on_exec() {
        let (connection, reader) = send_writers(MAX_HANDLES);
        let Received::Message(bytes, descriptors) = connection.receive(3).expect("a message") else {
            panic!("the connection is closed")
        };
        assert_eq!((&bytes[..], descriptors.len()), (&b"abc"[..], MAX_HANDLES));
        for descriptor in &descriptors {
            let flags = rustix::io::fcntl_getfd(descriptor).expect("open");
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "{flags:?}");
        }
        drop(descriptors);
        assert!(at_its_end(reader), "a descriptor is left");
    }
}
