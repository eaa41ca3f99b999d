//! Options that choose the driver below a backend: emulated, simulated, or the system's.

pub(crate) mod emulate;
pub(crate) mod simulate;

use std::convert::Infallible;
use std::io;
use std::process::Command;

use clap::Args;
use gpu_interop_conformance::{Stop, Verdict};

use self::emulate::{EmulateArgs, Session};
use self::simulate::SimulateArgs;

/// The options, shared by the commands that load a backend.
#[derive(Debug, Args)]
pub(crate) struct DriverArgs {
    #[command(flatten)]
    emulate: EmulateArgs,
    #[command(flatten)]
    simulate: SimulateArgs,
}

/// Variables that hide devices. They are often set on machines without a GPU.
pub(crate) const HIDING_VARIABLES: [&str; 4] =
    ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];

impl DriverArgs {
    /// Starts the requested emulation or simulation: this process is replaced by itself, and calls this function again.
    ///
    /// # Errors
    /// If something is missing, or the system is not supported.
    pub(crate) fn enter(&self) -> Verdict<Option<Session>> {
        self.simulate.enter()?;
        self.emulate.enter()
    }

    /// The option that chooses an emulation or simulation, and its backend.
    fn implied(&self) -> Option<(String, &'static str)> {
        self.emulate.backend().or_else(|| self.simulate.backend())
    }

    /// The option that chooses this backend's driver again.
    pub(crate) fn option(&self, backend: &str) -> String {
        self.implied().map_or_else(|| format!("--backend {backend}"), |(option, _)| option)
    }

    /// The backend of a command: the named one, or that of the emulation or simulation.
    ///
    /// # Errors
    /// If they differ.
    pub(crate) fn backend(&self, named: Option<&str>) -> Verdict<Option<String>> {
        match (self.implied(), named) {
            (Some((option, backend)), Some(named)) if named != backend => {
                Err(Stop::failed(format!("{option} is for the backend {backend}; --backend names {named}")))
            }
            (Some((_, backend)), _) => Ok(Some(backend.into())),
            (None, named) => Ok(named.map(ToOwned::to_owned)),
        }
    }
}

/// Replaces this process by `command` with the arguments of this process, in which emulated and simulated devices are
/// visible. Returns the error after a failure. `option` names the emulation or simulation.
fn restart(command: &mut Command, option: &str) -> Stop {
    command.args(std::env::args_os().skip(1));
    for name in HIDING_VARIABLES {
        command.env_remove(name);
    }
    match replace(command) {
        Ok(never) => match never {},
        Err(error) => Stop::failed(format!("{option}: cannot start {}: {error}", command.get_program().display())),
    }
}

/// Replaces this process.
#[cfg(unix)]
fn replace(command: &mut Command) -> io::Result<Infallible> {
    Err(std::os::unix::process::CommandExt::exec(command))
}

/// Waits for the other process, and exits with its status. Both receive Ctrl-C; the other one ends the run.
#[cfg(not(unix))]
fn replace(command: &mut Command) -> io::Result<Infallible> {
    let mut child = command.spawn()?;
    crate::interrupt::listen().map_err(|stop| io::Error::other(stop.reason().to_owned()))?;
    let status = child.wait()?;
    std::process::exit(status.code().unwrap_or(i32::from(crate::cli::NOT_RUN)))
}

/// Options as a command that has no others parses them.
#[cfg(test)]
pub(crate) fn parse<A: clap::Args>(arguments: &[&str]) -> Result<A, String> {
    let command = A::augment_args(clap::Command::new("conformance").no_binary_name(true));
    let matches = command.try_get_matches_from(arguments).map_err(|error| error.to_string())?;
    A::from_arg_matches(&matches).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backend_is_implied_and_no_other_is_taken() {
        for (option, value, implied, other) in [
            ("--emulate", "amd:5.2.3", "hip", "cuda"),
            ("--simulate", "cuda", "cuda", "host"),
            ("--simulate", "hip:5.7.1", "hip", "cuda"),
        ] {
            let args = parse::<DriverArgs>(&[option, value]).expect(value);
            assert_eq!(args.backend(None), Ok(Some(implied.into())));
            assert_eq!(args.backend(Some(implied)), Ok(Some(implied.into())));
            let stop = args.backend(Some(other)).expect_err("another backend");
            let expected = format!("{option} {value} is for the backend {implied}; --backend names {other}");
            assert_eq!(stop.reason(), expected);
        }
        let plain = parse::<DriverArgs>(&[]).expect("valid");
        assert_eq!(plain.backend(Some("cuda")), Ok(Some("cuda".into())));
        assert_eq!(plain.backend(None), Ok(None));
        assert!(plain.enter().expect("nothing to start").is_none());
    }

    #[test]
    fn a_driver_is_emulated_or_simulated() {
        let error = parse::<DriverArgs>(&["--emulate", "amd", "--simulate", "hip"]).expect_err("both");
        assert!(error.contains("cannot be used with"), "{error}");
    }
}
