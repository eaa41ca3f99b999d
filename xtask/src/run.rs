//! Starts programs and reports how they ended.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread::spawn;
use std::time::{Duration, Instant};

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

    /// As for [`Run::check`], with all output of the command in the standard output.
    ///
    /// # Errors
    /// As for [`Run::check`], with the lines of the output for which `is_listed` is `true`.
    pub(crate) fn check_and_list(mut self, is_listed: fn(&str) -> bool) -> Outcome {
        let line = self.line();
        let fails = |error: std::io::Error| format!("{line}: {error}");
        println!("+ {line}");
        let (output, input) = std::io::pipe().map_err(fails)?;
        self.0.stdout(input.try_clone().map_err(fails)?).stderr(input);
        let mut child = self.0.spawn().map_err(fails)?;
        // The command keeps its ends of the pipe.
        drop(self);
        let (listed, lines) = channel();
        spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                println!("{line}");
                if is_listed(&line) {
                    let _ = listed.send(format!("\n  {}", line.trim()));
                }
            }
        });
        let status = child.wait().map_err(fails)?;
        // A process that outlives the command may keep the pipe open.
        let end = Instant::now() + Duration::from_secs(5);
        let mut error = format!("{line}: {status}");
        while let Ok(line) = lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            error += &line;
        }
        if status.success() { Ok(()) } else { Err(error) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_lists_the_chosen_lines_of_both_outputs() {
        let script = "echo reason 1; echo other; echo reason 2 >&2; printf 'reason \\xff'; exit $0";
        let outcome =
            |status: &str| run("bash -c").arg(script).arg(status).check_and_list(|line| line.contains("reason"));
        assert_eq!(outcome("0"), Ok(()));
        let error = outcome("3").expect_err("status 3");
        let lines: Vec<&str> = error.lines().map(str::trim).collect();
        assert_eq!(lines[lines.len() - 3..], ["reason 1", "reason 2", "reason \u{fffd}"]);
        assert!(error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn a_process_that_keeps_the_output_open_is_not_awaited() {
        let start = Instant::now();
        assert_eq!(run("bash -c").arg("sleep 60 & echo reason").check_and_list(|_| true), Ok(()));
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    }
}
