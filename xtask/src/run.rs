//! Starts programs and reports how they ended.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Result of a command, a check or a step; the text describes the failure.
pub(crate) type Outcome = Result<(), String>;

/// A command that starts in the root of the repository.
#[derive(Debug)]
pub(crate) struct Run(Command);

/// The program and arguments in `line`, separated by spaces.
pub(crate) fn run(line: &str) -> Run {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    Run(command)
}

/// Cargo, with the arguments of `line`.
pub(crate) fn cargo(line: &str) -> Run {
    run(&format!("cargo {line}"))
}

impl Run {
    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.0.arg(argument);
        self
    }

    pub(crate) fn args<T: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = T>) -> Self {
        self.0.args(arguments);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    pub(crate) fn envs(mut self, variables: &[(&str, String)]) -> Self {
        self.0.envs(variables.iter().map(|(name, value)| (name, value)));
        self
    }

    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.0.current_dir(folder);
        self
    }

    /// Prints the command and waits for its end.
    ///
    /// # Errors
    /// The command, if it does not start.
    pub(crate) fn status(mut self) -> Result<ExitStatus, String> {
        println!("+ {}", self.line());
        self.0.status().map_err(|error| format!("{}: {error}", self.line()))
    }

    /// As for [`Run::status`].
    ///
    /// # Errors
    /// The command, if it does not start or its exit status is not 0.
    pub(crate) fn check(self) -> Outcome {
        let line = self.line();
        let status = self.status()?;
        if status.success() { Ok(()) } else { Err(format!("{line}: {status}")) }
    }

    /// The output of the command, without trailing white space.
    ///
    /// # Errors
    /// As for [`Run::check`].
    pub(crate) fn text(mut self) -> Result<String, String> {
        let output = self.0.stderr(Stdio::inherit()).output().map_err(|error| format!("{}: {error}", self.line()))?;
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.status.success() { Ok(text) } else { Err(format!("{}: {}\n{text}", self.line(), output.status)) }
    }

    /// `true` if the command starts and exits with status 0. Its output is discarded.
    pub(crate) fn succeeds(mut self) -> bool {
        self.0.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    fn line(&self) -> String {
        let words = std::iter::once(self.0.get_program()).chain(self.0.get_args());
        words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }
}

/// `true` if a program of this name is in PATH.
pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
