//! Processes of this program: they isolate crashing drivers, and are the other processes of scenarios.
//!
//! A scenario that needs a second process starts its own program again, with the hidden subcommand [`SUBCOMMAND`] and
//! one argument. The program passes that argument to [`Suite::serve`](crate::Suite::serve), first in `main`.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
#[cfg(unix)]
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use wait_timeout::ChildExt;

use crate::exporter::ExporterName;
use crate::outcome::{Stop, Verdict};
use crate::suite::Discovery;
use crate::system::{self, describe, nameless_file, set_variable};

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

/// The hidden subcommand of such a process.
pub const SUBCOMMAND: &str = "suite-process";
/// The number of hardware queues that CUDA's streams share, 8 by default. A wait on one stream blocks the other streams
/// of its queue.
pub const CONNECTIONS_VARIABLE: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
/// The time limit of a discovery.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// The task of the process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The second process of a scenario.
    Peer {
        role: String,
        backend: String,
        exporter: Option<ExporterName>,
        seed: u32,
        device: usize,
        signals_by_host: bool,
    },
    /// Discovers a backend and its devices, without exporters.
    Discover { backend: String, device: usize },
    /// Calls CUDA's driver, loaded from this file, without the library.
    #[cfg(unix)]
    RawCuda { library: PathBuf, device: i32 },
}

impl Request {
    pub(crate) fn arguments(&self) -> Verdict<[String; 2]> {
        let text = serde_json::to_string(self)?;
        Ok([SUBCOMMAND.into(), text])
    }
}

/// Discovers a backend in a process with these environment variables.
pub(crate) fn discover(backend: &str, device: usize, environment: &[(&str, &str)]) -> Verdict<Discovery> {
    let arguments = Request::Discover { backend: backend.into(), device }.arguments()?;
    let environment = [environment, one_queue().as_slice()].concat();
    ask(&format!("looking at backend {backend}"), &arguments, &environment, DISCOVERY_LIMIT)
}

/// The setting for a process whose streams need not run concurrently: one hardware queue of CUDA. With the default of 8
/// queues, starting and exiting takes 0.12 s longer (H100). `None` if the variable is already set.
pub(crate) fn one_queue() -> Option<(&'static str, &'static str)> {
    set_variable(CONNECTIONS_VARIABLE).is_none().then_some((CONNECTIONS_VARIABLE, "1"))
}
