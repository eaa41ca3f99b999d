//! Processes of this program, in which drivers may crash.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::process::ExitStatus;
use std::time::Duration;

use serde::de::DeserializeOwned;
use wait_timeout::ChildExt;

use crate::exporter::ExporterName;
use crate::outcome::{Stop, Verdict};
use crate::peer::{describe, this_program};
use crate::report::Environment;
use crate::system::{self, nameless_file};

/// The end of a process's output that a report keeps, bytes.
const LOG_LENGTH: u64 = 4096;
/// How long looking at the machine may take.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// What to do about a driver that crashes or hangs where no report has its calls.
const SEE_CALLS: &str = "RUST_LOG=gpu_interop::driver_call=trace shows which call of a driver did not return";

/// How a child process ended.
enum ChildEnd<T> {
    Answered(T),
    Exited(ExitStatus),
    TimedOut,
}

/// Runs this program with `arguments` and reads the answer that it writes to its standard input, which is a nameless
/// file: no other descriptor is there in every process, and nothing is left behind whatever happens.
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
        // The answer counts only if the process also ended well: a crash on the way out is a crash.
        Some(status) if status.success() => ChildEnd::Answered(
            serde_json::from_str(&read_from(&mut answer, 0)?)
                .map_err(|error| Stop::Failed(format!("the scenario's process left no readable answer: {error}")))?,
        ),
        Some(status) => ChildEnd::Exited(status),
    };
    Ok((end, log))
}

/// What a log has from `start` on; its last 4 KiB if that is more.
pub(super) fn log_from(log: &mut File, start: u64) -> Verdict<String> {
    let length = log.seek(SeekFrom::End(0))?;
    let kept = start.max(length.saturating_sub(LOG_LENGTH));
    let cut = if kept > start { "[...] " } else { "" };
    Ok(format!("{cut}{}", read_from(log, kept)?.trim_end()))
}

pub(super) fn read_from(file: &mut File, start: u64) -> Verdict<String> {
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes this process's answer to where [`run_self`] reads it.
pub(crate) fn answer(text: &str) -> Verdict {
    let mut answer = File::from(system::standard_input()?);
    Ok(answer.write_all(text.as_bytes())?)
}

/// Looks at the machine from a process of its own, because loading a driver may crash.
pub(crate) fn discover(backend: &str, device: usize, exporters: &[ExporterName]) -> Verdict<Environment> {
    discover_with(backend, device, exporters, &[])
}

/// The same from a process with variables in its environment.
pub(crate) fn discover_with(
    backend: &str,
    device: usize,
    exporters: &[ExporterName],
    environment: &[(&str, &str)],
) -> Verdict<Environment> {
    let mut arguments: Vec<String> =
        ["discover", "--backend", backend, "--device", &device.to_string()].map(Into::into).into();
    for exporter in exporters {
        arguments.extend(["--exporter".into(), exporter.name().into()]);
    }
    ask_self_with(&format!("looking at backend {backend}"), &arguments, environment, DISCOVERY_LIMIT)
}

/// Runs this program with `arguments` and hands its answer on. `what` it does is for messages.
#[cfg(unix)]
pub(crate) fn ask_self<T: DeserializeOwned>(what: &str, arguments: &[String], limit: Duration) -> Verdict<T> {
    ask_self_with(what, arguments, &[], limit)
}

fn ask_self_with<T: DeserializeOwned>(
    what: &str,
    arguments: &[String],
    environment: &[(&str, &str)],
    limit: Duration,
) -> Verdict<T> {
    match run_self::<Result<T, Stop>>(arguments, environment, limit)? {
        (ChildEnd::Answered(answer), _) => answer,
        (ChildEnd::TimedOut, log) => {
            Err(Stop::Failed(format!("{what} did not end within {limit:?}; {SEE_CALLS}\n{log}")))
        }
        (ChildEnd::Exited(status), log) => {
            Err(Stop::Failed(format!("{what} failed: {}; {SEE_CALLS}\n{log}", describe(status))))
        }
    }
}
