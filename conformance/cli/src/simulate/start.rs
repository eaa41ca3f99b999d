//! Starts this program again, on a simulator.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use gpu_interop_conformance::{Stop, Verdict};

use crate::hidden_devices;

/// The simulation of this process.
const SESSION: &str = "GPU_INTEROP_SIMULATE_SESSION";

/// Replaces this process by one on the simulator that `session` names, with the variables for this program, unless it
/// is that process.
///
/// # Errors
/// If a simulator is missing and cannot be built, or this program cannot be started again.
pub(super) fn enter(session: &str, variables: impl FnOnce(&Path) -> Verdict<Vec<(&'static str, OsString)>>) -> Verdict {
    if std::env::var_os(SESSION).is_some_and(|present| present == session) {
        return Ok(());
    }
    let program = std::env::current_exe()?;
    let mut command = Command::new(&program);
    command.args(std::env::args_os().skip(1)).env(SESSION, session).envs(variables(&program)?);
    hidden_devices::remove_from(&mut command);
    match replace(&mut command) {
        Ok(never) => match never {},
        Err(error) => Err(Stop::failed(format!("{session}: cannot start {}: {error}", program.display()))),
    }
}

/// Replaces this process.
#[cfg(unix)]
fn replace(command: &mut Command) -> std::io::Result<Infallible> {
    Err(std::os::unix::process::CommandExt::exec(command))
}

/// Waits for the other process, and exits with its status. Both receive Ctrl-C; the other one ends the run.
#[cfg(not(unix))]
fn replace(command: &mut Command) -> std::io::Result<Infallible> {
    let mut child = command.spawn()?;
    crate::interrupt::listen().map_err(|stop| std::io::Error::other(stop.reason().to_owned()))?;
    let status = child.wait()?;
    std::process::exit(status.code().unwrap_or(i32::from(crate::exit_status::NOT_RUN)))
}
