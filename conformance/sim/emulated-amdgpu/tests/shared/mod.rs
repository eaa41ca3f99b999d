//! What the tests on real user-space drivers share: processes with a time limit.

use std::process::{Command, Output, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Runs a command, and kills it when it takes too long.
pub(crate) fn output(mut command: Command, limit: Duration) -> std::io::Result<Output> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let process = rustix::process::Pid::from_child(&child);
    let (ended, wait) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if wait.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // The process was not waited for yet, so its number is still valid.
            _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
    });
    let output = child.wait_with_output();
    drop(ended);
    _ = guard.join();
    output
}
