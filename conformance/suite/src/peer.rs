//! Another process of a scenario, and the connection to it.

#[cfg(unix)]
use std::process::ExitStatus;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wait_timeout::ChildExt;

use crate::ensure;
use crate::outcome::{Stop, Verdict};
use crate::process::Request;
use crate::process::this_program;
#[cfg(unix)]
use crate::system;
use crate::system::{BorrowedOsHandle, Connection, OsHandle, Received, describe};

/// Maximum length of a message, bytes.
const MAX_LENGTH: usize = 4096;
/// The time limit of a message or an exit: on a busy machine, a process needs seconds to load drivers. The end of a
/// process is noticed at once.
const PEER: Duration = Duration::from_secs(20);

/// A message between the processes of a scenario, with its descriptors or handles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The subject, a word known to both sides.
    pub what: String,
    /// A number: a size in bytes, or a value.
    pub number: u64,
}

/// A received message, or the reason why there is none.
#[derive(Debug)]
pub enum Incoming {
    /// A message and its descriptors or handles.
    Message(Message, Vec<OsHandle>),
    /// The other side has ended.
    Gone,
    /// No message came in time.
    Nothing,
}

/// One end of a connection that carries messages and descriptors or handles.
#[derive(Debug)]
pub struct Channel {
    connection: Connection,
}

impl Channel {
    /// The end that a process was started with: its standard input.
    pub fn of_this_process() -> Verdict<Self> {
        Ok(Self { connection: Connection::of_this_process()? })
    }

    /// Both ends: this process's, and one for another's standard input.
    pub fn pair() -> Verdict<(Self, Stdio)> {
        let (here, there) = Connection::pair()?;
        Ok((Self { connection: here }, there))
    }

    /// The connection below the messages.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Sends a message and duplicates of descriptors or handles.
    ///
    /// # Errors
    /// If the other side is gone.
    pub fn send(&self, what: &str, number: u64, handles: &[BorrowedOsHandle<'_>]) -> Verdict {
        let message = Message { what: what.into(), number };
        let bytes = serde_json::to_vec(&message)?;
        self.connection.send(&bytes, handles)
    }

    /// Receives the next message and its descriptors or handles, which other programs do not inherit.
    ///
    /// # Errors
    /// If no message comes in time, the other side has ended, or the message is another one.
    pub fn receive(&self, expected: &str) -> Verdict<(u64, Vec<OsHandle>)> {
        match self.next(PEER)? {
            Incoming::Message(message, fds) if message.what == expected => Ok((message.number, fds)),
            Incoming::Message(message, _) => {
                Err(Stop::failed(format!("the other process sent `{}`, not `{expected}`", message.what)))
            }
            Incoming::Gone => Err(Stop::failed(format!("the other process ended before it sent `{expected}`"))),
            Incoming::Nothing => Err(Stop::failed(format!("the other process did not send `{expected}` in time"))),
        }
    }

    /// Waits for the next message.
    pub fn next(&self, timeout: Duration) -> Verdict<Incoming> {
        if !self.connection.wait(timeout)? {
            return Ok(Incoming::Nothing);
        }
        match self.connection.receive(MAX_LENGTH)? {
            Received::Gone => Ok(Incoming::Gone),
            Received::Message(bytes, handles) => {
                let message: Message = serde_json::from_slice(&bytes)
                    .map_err(|error| Stop::failed(format!("the other process sent an invalid message: {error}")))?;
                Ok(Incoming::Message(message, handles))
            }
        }
    }

    /// Receives a message with exactly one descriptor or handle.
    ///
    /// # Errors
    /// As for [`Channel::receive`], and if the number of handles is another.
    pub fn receive_handle(&self, expected: &str) -> Verdict<(u64, OsHandle)> {
        let (number, handles) = self.receive(expected)?;
        let count = handles.len();
        match <[OsHandle; 1]>::try_from(handles) {
            Ok([handle]) => Ok((number, handle)),
            Err(_) => Err(Stop::failed(format!("`{expected}` came with {count} handles, not 1"))),
        }
    }
}

/// A process started by a scenario. Killed when dropped, and by the kernel when the scenario's process dies.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    channel: Channel,
}

impl Peer {
    /// True until it has ended.
    #[cfg(unix)]
    pub(crate) fn is_running(&self) -> bool {
        system::is_running(&self.child)
    }

    pub(crate) fn start(request: &Request, environment: &[(&str, &str)]) -> Verdict<Self> {
        let mut command = this_program()?;
        command.args(request.arguments()?).envs(environment.iter().copied());
        Self::start_with(command)
    }

    fn start_with(mut command: Command) -> Verdict<Self> {
        let (here, there) = Channel::pair()?;
        let child = command.stdin(there).spawn()?;
        Ok(Self { child, channel: here })
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The connection to it.
    #[must_use]
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Kills it, which simulates a crash, and waits for its end.
    ///
    /// # Errors
    /// If it had already exited.
    pub fn kill(mut self) -> Verdict {
        self.child.kill()?;
        let status = self.child.wait()?;
        ensure!(!status.success(), "the other process had ended before it was killed");
        Ok(())
    }

    /// Closes the connection and waits until the process exits: returns its status, or `None` if it had to be killed.
    #[cfg(unix)]
    pub(crate) fn finish(mut self, timeout: Duration) -> Verdict<Option<ExitStatus>> {
        self.channel.connection.close()?;
        Ok(self.child.wait_timeout(timeout)?)
    }

    /// Waits for its own exit.
    ///
    /// # Errors
    /// If it does not exit in time, or reports a failure.
    pub fn join(mut self) -> Verdict {
        match self.child.wait_timeout(PEER)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(Stop::failed(format!("the other process failed: {}", describe(status)))),
            None => Err(Stop::failed("the other process did not end in time".into())),
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

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    fn peer(script: &str) -> Peer {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Peer::start_with(command).expect("a process")
    }

    /// An abnormal end of another process fails its scenario.
    #[test]
    fn a_peer_that_does_not_end_well_fails_its_scenario() {
        assert_eq!(peer("exit 0").join(), Ok(()));
        for (script, part) in [("exit 1", "exit status: 1"), ("exit 255", "255"), ("kill -9 $$", "signal")] {
            match peer(script).join() {
                Err(stop) => assert!(stop.is_failure() && stop.reason.contains(part), "{script}: {stop}"),
                Ok(()) => panic!("{script}: passed"),
            }
        }
        assert_eq!(peer("exec sleep 60").kill(), Ok(()));
    }
}
