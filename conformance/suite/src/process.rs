//! Processes of this program, which isolate crashing drivers.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wait_timeout::ChildExt;

use crate::outcome::{Stop, Verdict};
use crate::system::{self, describe, nameless_file};

/// The length of the end of a process's output in a report, bytes.
const LOG_LENGTH: u64 = 4096;

/// Advice for a driver that crashes or hangs without a call trace in the report.
const SEE_CALLS: &str = "RUST_LOG=gpu_interop::driver_call=trace shows which call of a driver did not return";

/// How a child process ended.
enum ChildEnd<T> {
    Answered(T),
    Exited(ExitStatus),
    TimedOut,
}

/// Runs this program with `arguments` and reads the result that it writes to its standard input, a nameless file: every
/// process has that descriptor, and no file remains.
fn run_self<T: DeserializeOwned>(
    arguments: &[String],
    environment: &[(&str, &str)],
    limit: Duration,
) -> Verdict<(ChildEnd<T>, String)> {
    let mut answer = nameless_file("conformance answer")?;
    let mut log = nameless_file("conformance log")?;
    let mut child = this_program()?
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(answer.try_clone()?)
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        .spawn()?;
    let status = match child.wait_timeout(limit)? {
        Some(status) => Some(status),
        None => {
            child.kill()?;
            child.wait()?;
            None
        }
    };
    let log = log_from(&mut log, 0)?;
    let end = match status {
        None => ChildEnd::TimedOut,
        // The result counts only if the process also exited successfully: a crash at exit is a crash.
        Some(status) if status.success() => ChildEnd::Answered(
            serde_json::from_str(&read_from(&mut answer, 0)?)
                .map_err(|error| Stop::failed(format!("the scenario's process left no valid result: {error}")))?,
        ),
        Some(status) => ChildEnd::Exited(status),
    };
    Ok((end, log))
}

/// The log from `start` on, or its last 4 KiB if it is longer.
///
/// # Errors
/// If it cannot be read.
pub fn log_from(log: &mut File, start: u64) -> Verdict<String> {
    let length = log.seek(SeekFrom::End(0))?;
    let kept = start.max(length.saturating_sub(LOG_LENGTH));
    let cut = if kept > start { "[...] " } else { "" };
    Ok(format!("{cut}{}", read_from(log, kept)?.trim_end()))
}

fn read_from(file: &mut File, start: u64) -> Verdict<String> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes this process's result for [`ask`].
///
/// # Errors
/// If it cannot be written.
pub fn answer<T: Serialize>(answer: &Verdict<T>) -> Verdict {
    let bytes = serde_json::to_vec(answer).map_err(|error| Stop::failed(format!("cannot write JSON: {error}")))?;
    Ok(File::from(system::standard_input()?).write_all(&bytes)?)
}

/// Runs this program with `arguments` and returns its result. `what` describes the task in messages.
///
/// # Errors
/// The error in its result, or its exit status without one.
pub fn ask<T: DeserializeOwned>(
    what: &str,
    arguments: &[String],
    environment: &[(&str, &str)],
    limit: Duration,
) -> Verdict<T> {
    match run_self::<Result<T, Stop>>(arguments, environment, limit)? {
        (ChildEnd::Answered(answer), _) => answer,
        (ChildEnd::TimedOut, log) => {
            Err(Stop::failed(format!("{what} did not end within {limit:?}; {SEE_CALLS}\n{log}")))
        }
        (ChildEnd::Exited(status), log) => {
            Err(Stop::failed(format!("{what} failed: {}; {SEE_CALLS}\n{log}", describe(status))))
        }
    }
}

/// The environment variable with the id of the process that started a process of the suite.
const PARENT_VARIABLE: &str = "GPU_INTEROP_CONFORMANCE_PARENT";

/// Another process of this program, which will [`die_with_parent`].
///
/// # Errors
/// If the system does not report this program's path.
pub fn this_program() -> Verdict<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(PARENT_VARIABLE, std::process::id().to_string());
    Ok(command)
}

/// Ends this process when the one that started it ends in any way, so that no hanging process remains. Called first,
/// before a driver can hang.
///
/// # Errors
/// If the parent has already ended, or cannot be watched.
pub fn die_with_parent() -> Verdict {
    system::die_with(std::env::var(PARENT_VARIABLE).ok().as_deref())
}
