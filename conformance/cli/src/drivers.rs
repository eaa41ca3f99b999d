//! Options that choose the driver below a backend: emulated, simulated, or the system's.

use clap::Args;
use gpu_interop_conformance::{Stop, Verdict};

use crate::emulate::{EmulateArgs, Session};
use crate::simulate::SimulateArgs;

/// The options, shared by the commands that load a backend.
#[derive(Debug, Args)]
pub(crate) struct DriverArgs {
    #[command(flatten)]
    emulate: EmulateArgs,
    #[command(flatten)]
    simulate: SimulateArgs,
}

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
