//! Steps that run beside others, in another process.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::run::{Outcome, has};

/// A process of this program that runs some steps.
#[derive(Debug)]
pub(crate) struct Background {
    child: Child,
    /// The names of its steps.
    steps: String,
    /// Its output.
    log: PathBuf,
}

/// How the steps of such a process ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// An error if one of them failed.
    pub(crate) outcome: Outcome,
    /// The steps that failed, with the first line of each failure.
    pub(crate) failures: Vec<String>,
    pub(crate) left_out: Vec<String>,
}

/// The priority of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// That of the others: its steps have time limits.
    Normal,
    Lowest,
}

impl Background {
    /// Starts `steps` of `cargo xtask ci`, with its output in a file of Cargo's `target` folder; `None` without steps.
    ///
    /// # Errors
    /// If the process or its log cannot be created.
    pub(crate) fn start(target: &Path, steps: &[&str], priority: Priority) -> Result<Option<Self>, String> {
        let Some(first) = steps.first() else { return Ok(None) };
        let fails = |error: std::io::Error| format!("steps in the background: {error}");
        fs::create_dir_all(target).map_err(fails)?;
        let log = target.join(format!("background-{first}.log"));
        let output = File::create(&log).map_err(fails)?;
        let program = std::env::current_exe().map_err(fails)?;
        let mut command = Command::new(&program);
        if priority == Priority::Lowest && has("nice") {
            command = Command::new("nice");
            command.args(["-n", "19"]).arg(&program);
        }
        command.arg("ci").args(steps).stdin(Stdio::null()).stderr(output.try_clone().map_err(fails)?).stdout(output);
        let steps = steps.join(", ");
        println!("in the background: {steps}");
        Ok(Some(Self { child: command.spawn().map_err(fails)?, steps, log }))
    }

    /// `true` if it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Waits for the end and prints the output.
    pub(crate) fn finish(mut self) -> Ended {
        let status = self.child.wait();
        let output = fs::read_to_string(&self.log).unwrap_or_default();
        println!("\n=== in the background\n{output}");
        // Each is printed at once, and at the end.
        let once = |start: &str| -> Vec<String> {
            let lines: BTreeSet<&str> = output.lines().filter_map(|line| line.strip_prefix(start)).collect();
            lines.into_iter().map(str::to_owned).collect()
        };
        let (failures, left_out) = (once("FAILED: "), once("left out: "));
        let outcome = match status {
            Ok(status) if status.success() => Ok(()),
            _ => Err(format!("one of {}", self.steps)),
        };
        Ended { outcome, failures, left_out }
    }
}
