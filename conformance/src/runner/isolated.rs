//! Each scenario in a process of its own, so that a crash of a driver is a result and not the end.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde::de::DeserializeOwned;
use wait_timeout::ChildExt;

use super::{Case, Ended};
use crate::exporter::ExporterName;
use crate::outcome::{Outcome, Stop, Verdict};
use crate::report::Environment;

/// The end of a process's output that a report keeps, bytes.
const LOG_LENGTH: u64 = 4096;
/// How long looking at the machine may take.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// How a child process ended.
enum ChildEnd<T> {
    Answered(T),
    Exited(ExitStatus),
    TimedOut,
}

/// Runs this program with `arguments` and reads the answer that it writes to a file.
fn run_self<T: DeserializeOwned>(arguments: &[String], limit: Duration) -> Verdict<(ChildEnd<T>, String)> {
    let answer = tempfile::NamedTempFile::new()?;
    let mut log = tempfile::tempfile()?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .arg("--answer")
        .arg(answer.path())
        .stdin(Stdio::null())
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
    let length = log.seek(SeekFrom::End(0))?;
    log.seek(SeekFrom::Start(length.saturating_sub(LOG_LENGTH)))?;
    let mut end_of_log = Vec::new();
    log.read_to_end(&mut end_of_log)?;
    let end_of_log = String::from_utf8_lossy(&end_of_log).trim_end().to_owned();
    let end =
        match status {
            None => ChildEnd::TimedOut,
            // The answer counts only if the process also ended well: a crash on the way out is a crash.
            Some(status) if status.success() => {
                let text = std::fs::read_to_string(answer.path())?;
                ChildEnd::Answered(serde_json::from_str(&text).map_err(|error| {
                    Stop::Failed(format!("the scenario's process left no readable answer: {error}"))
                })?)
            }
            Some(status) => ChildEnd::Exited(status),
        };
    Ok((end, end_of_log))
}

/// Runs one case.
pub(super) fn run(backend: &str, case: &Case<'_>, seed: u32, limit: Duration) -> Ended {
    let mut arguments: Vec<String> =
        ["child", "--backend", backend, "--scenario", case.scenario.id, "--seed", &seed.to_string()]
            .map(Into::into)
            .into();
    if let Some(exporter) = case.exporter {
        arguments.extend(["--exporter".into(), exporter.name().into()]);
    }
    let (end, log) = match run_self::<Result<(), Stop>>(&arguments, limit) {
        Ok(ended) => ended,
        Err(stop) => return Ended::of(Err(stop)),
    };
    let ended = match end {
        ChildEnd::Answered(verdict) => Ended::of(verdict),
        ChildEnd::TimedOut => {
            Ended::without_log(Outcome::TimedOut, Some(format!("did not end within {limit:?} and was killed")))
        }
        ChildEnd::Exited(status) => Ended::without_log(Outcome::Crashed, Some(not_on_its_feet(status))),
    };
    Ended { log: Some(log), ..ended }
}

/// How a process ended that did not end well, with the signal's name.
fn not_on_its_feet(status: ExitStatus) -> String {
    match status.signal() {
        Some(number) => {
            let name = match Signal::from_named_raw(number) {
                Some(signal) => format!("{signal:?}"),
                None => number.to_string(),
            };
            format!("its process was killed by signal {number} ({name})")
        }
        None => format!("its process ended without an answer: {status}"),
    }
}

/// Looks at the machine from a process of its own, because loading a driver may crash.
pub(crate) fn discover(backend: &str, exporters: &[ExporterName]) -> Verdict<Environment> {
    let mut arguments: Vec<String> = ["discover", "--backend", backend].map(Into::into).into();
    for exporter in exporters {
        arguments.extend(["--exporter".into(), exporter.name().into()]);
    }
    match run_self::<Result<Environment, Stop>>(&arguments, DISCOVERY_LIMIT)? {
        (ChildEnd::Answered(environment), _) => environment,
        (ChildEnd::TimedOut, log) => {
            Err(Stop::Failed(format!("looking at backend {backend} did not end within {DISCOVERY_LIMIT:?}\n{log}")))
        }
        (ChildEnd::Exited(status), log) => {
            Err(Stop::Failed(format!("looking at backend {backend} failed: {}\n{log}", not_on_its_feet(status))))
        }
    }
}
