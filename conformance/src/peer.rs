//! Another process of the suite, and the socket to it.

use std::ffi::OsStr;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use serde::{Deserialize, Serialize};
use wait_timeout::ChildExt;

use crate::context::{Context, PATIENCE};
use crate::outcome::{Stop, Verdict};
use crate::runner::child;

/// The hidden subcommand that a peer is started with.
pub(crate) const SUBCOMMAND: &str = "peer";
/// The most descriptors that travel in one message.
const MAX_FDS: usize = 4;
/// The longest message, bytes.
const MAX_LENGTH: usize = 4096;

/// What processes of a scenario tell each other. Descriptors travel beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// What it is about; both sides know the words.
    pub what: String,
    /// A number that goes with it: a size in bytes, a value.
    pub number: u64,
}

/// What came over a channel.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// A message and its descriptors.
    Message(Message, Vec<OwnedFd>),
    /// The other side has ended.
    Gone,
    /// The time is over.
    Nothing,
}

/// One end of a socket that carries messages and descriptors.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
}

impl Channel {
    /// The end that a process was started with: its standard input.
    pub(crate) fn of_this_process() -> Verdict<Self> {
        Ok(Self { socket: std::io::stdin().as_fd().try_clone_to_owned()? })
    }

    /// Both ends: this process's, and one for another.
    pub(crate) fn pair() -> Verdict<(Self, OwnedFd)> {
        let (here, there) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self { socket: here }, there))
    }

    /// Nothing comes or goes any more; the other side finds this one gone.
    fn close(&self) -> Verdict {
        Ok(rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both)?)
    }

    /// Sends a message and duplicates of descriptors (`SCM_RIGHTS`).
    ///
    /// # Errors
    /// If the other side is gone.
    pub fn send(&self, what: &str, number: u64, fds: &[BorrowedFd<'_>]) -> Verdict {
        let message = Message { what: what.into(), number };
        let bytes = serde_json::to_vec(&message).map_err(|error| Stop::Failed(error.to_string()))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(Stop::Failed(format!("more than {MAX_FDS} descriptors in one message")));
        }
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives the next message and its descriptors, which get close-on-exec set.
    ///
    /// # Errors
    /// If none comes in time, the other side is gone, or it is not the one that was expected.
    pub fn receive(&self, expected: &str) -> Verdict<(u64, Vec<OwnedFd>)> {
        match self.next(PATIENCE)? {
            Incoming::Message(message, fds) if message.what == expected => Ok((message.number, fds)),
            Incoming::Message(message, _) => {
                Err(Stop::Failed(format!("the other process sent `{}`, not `{expected}`", message.what)))
            }
            Incoming::Gone => Err(Stop::Failed(format!("the other process ended before it sent `{expected}`"))),
            Incoming::Nothing => Err(Stop::Failed(format!("the other process did not send `{expected}` in time"))),
        }
    }

    /// Waits for whatever comes next.
    pub(crate) fn next(&self, timeout: Duration) -> Verdict<Incoming> {
        if !self.wait(timeout)? {
            return Ok(Incoming::Nothing);
        }
        let mut bytes = [0_u8; MAX_LENGTH];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = match rustix::net::recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            // It died with a message of this side unread.
            Err(Errno::CONNRESET) => return Ok(Incoming::Gone),
            received => received?,
        };
        let fds = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            })
            .flatten()
            .collect();
        if received.bytes == 0 {
            return Ok(Incoming::Gone);
        }
        let message: Message = serde_json::from_slice(&bytes[..received.bytes])
            .map_err(|error| Stop::Failed(format!("the other process sent something unreadable: {error}")))?;
        Ok(Incoming::Message(message, fds))
    }

    /// Receives a message with exactly one descriptor.
    ///
    /// # Errors
    /// As for [`Channel::receive`], and if the number of descriptors is another.
    pub fn receive_fd(&self, expected: &str) -> Verdict<(u64, OwnedFd)> {
        let (number, fds) = self.receive(expected)?;
        let count = fds.len();
        match <[OwnedFd; 1]>::try_from(fds) {
            Ok([fd]) => Ok((number, fd)),
            Err(_) => Err(Stop::Failed(format!("`{expected}` came with {count} descriptors, not 1"))),
        }
    }

    /// Whether there is something to receive before the time is over.
    fn wait(&self, timeout: Duration) -> Verdict<bool> {
        readable_within(&self.socket, timeout)
    }
}

/// Whether there is something to read, or the other end is closed, before the time is over. Signals, such as that a child
/// has ended, do not end the waiting.
pub(crate) fn readable_within(fd: impl AsFd, timeout: Duration) -> Verdict<bool> {
    let deadline = Instant::now() + timeout;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match rustix::event::poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)) {
            Err(Errno::INTR) => {}
            ready => return Ok(ready? > 0),
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A process started by a scenario. Killed when dropped, and by the kernel when the scenario's process dies.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    channel: Channel,
}

impl Peer {
    /// Whether it has not ended.
    pub(crate) fn is_running(&self) -> bool {
        let Ok(id) = i32::try_from(self.child.id()) else { return false };
        // Without taking its status, which `finish` asks for.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let id = Pid::from_raw(id).map(WaitId::Pid);
        id.is_some_and(|id| matches!(rustix::process::waitid(id, options), Ok(None)))
    }

    /// Starts a process that has a role, by the arguments of its subcommand.
    pub(crate) fn spawn(arguments: &[&str], environment: &[(&str, &str)]) -> Verdict<Self> {
        let mut command = this_program()?;
        command.arg(SUBCOMMAND).args(arguments).envs(environment.iter().copied());
        Self::start_with(command)
    }

    /// Starts this program with `arguments` and a socket to it.
    pub(crate) fn start(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Verdict<Self> {
        let mut command = this_program()?;
        command.args(arguments);
        Self::start_with(command)
    }

    fn start_with(mut command: Command) -> Verdict<Self> {
        let (here, there) = Channel::pair()?;
        // The socket is the peer's standard input: the one descriptor that every process has.
        let child = command.stdin(Stdio::from(there)).spawn()?;
        Ok(Self { child, channel: here })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The socket to it.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Kills it, as a crash would, and waits until it is gone.
    ///
    /// # Errors
    /// If it ended by itself before.
    pub fn kill(mut self) -> Verdict {
        self.child.kill()?;
        let status = self.child.wait()?;
        if status.success() {
            return Err(Stop::Failed("the other process had ended before it was killed".into()));
        }
        Ok(())
    }

    /// Closes the socket and waits until the process ends: how it did, or `None` if it had to be killed.
    pub(crate) fn finish(mut self, timeout: Duration) -> Verdict<Option<ExitStatus>> {
        self.channel.close()?;
        Ok(self.child.wait_timeout(timeout)?)
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// If it does not in time, or reports a failure.
    pub fn join(mut self) -> Verdict {
        match self.child.wait_timeout(PATIENCE)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(Stop::Failed(format!("the other process failed: {}", describe(status)))),
            None => Err(Stop::Failed("the other process did not end in time".into())),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Both fail harmlessly if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a process ended that did not end well, with the signal's name.
pub(crate) fn describe(status: ExitStatus) -> String {
    match status.signal() {
        Some(number) => {
            let name = match Signal::from_named_raw(number) {
                // The headers abbreviate it, `Signal` does not.
                Some(Signal::ABORT) => " (SIGABRT)".into(),
                // `Signal::SEGV`, as the headers have it.
                Some(signal) => {
                    format!(" (SIG{})", format!("{signal:?}").trim_matches('"').trim_start_matches("Signal::"))
                }
                None => String::new(),
            };
            format!("its process was killed by signal {number}{name}")
        }
        None => format!("its process ended without an answer: {status}"),
    }
}

/// What a peer does, by role.
pub(crate) type Role = fn(&Context, &Channel) -> Verdict;

/// Runs a role in a process that [`Peer::spawn`] started.
pub(crate) fn run(role: Role, context: Context) -> Verdict {
    let channel = Channel::of_this_process()?;
    child::checked(context, |context| role(context, &channel))
}

/// The environment variable in which a process of the suite finds the one that started it.
const PARENT_VARIABLE: &str = "GPU_INTEROP_CONFORMANCE_PARENT";

/// Another process of this program, which will [`die_with_parent`].
pub(crate) fn this_program() -> Verdict<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(PARENT_VARIABLE, std::process::id().to_string());
    Ok(command)
}

/// Ends this process when the one that started it ends, however that happens: nothing that hangs is left behind. Called
/// first thing, before a driver can hang.
pub(crate) fn die_with_parent() -> Verdict {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before that. Its number is asked for, and not whether it is 1: in a container the suite itself
    // may be that.
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().to_string());
    match std::env::var(PARENT_VARIABLE) {
        Ok(expected) if parent.as_ref() != Some(&expected) => {
            Err(Stop::Failed("the process that started this one has ended".into()))
        }
        _ => Ok(()),
    }
}
