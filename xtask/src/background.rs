//! Steps that run beside others, in a process with the lowest priority.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::run::{Outcome, has};

/// A process of this program that runs some steps.
#[derive(Debug)]
pub(crate) struct Background {
    child: Child,
    /// Its output.
    log: PathBuf,
}

impl Background {
    /// Starts `steps` of `cargo xtask ci`, with its output in a file of Cargo's `target` folder; `None` without steps.
    ///
    /// # Errors
    /// If the process or its log cannot be created.
    pub(crate) fn start(target: &Path, steps: &[&str]) -> Result<Option<Self>, String> {
        let Some(first) = steps.first() else { return Ok(None) };
        let fails = |error: std::io::Error| format!("steps in the background: {error}");
        fs::create_dir_all(target).map_err(fails)?;
        let log = target.join(format!("background-{first}.log"));
        let output = File::create(&log).map_err(fails)?;
        let program = std::env::current_exe().map_err(fails)?;
        let mut command = Command::new(&program);
        if has("nice") {
            command = Command::new("nice");
            command.args(["-n", "19"]).arg(&program);
        }
        command.arg("ci").args(steps).stdin(Stdio::null()).stderr(output.try_clone().map_err(fails)?).stdout(output);
        println!("in the background: {}", steps.join(", "));
        Ok(Some(Self { child: command.spawn().map_err(fails)?, log }))
    }

    /// `true` if it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Waits for the end and prints the output.
    ///
    /// # Errors
    /// If a step failed.
    pub(crate) fn finish(mut self) -> Outcome {
        let status = self.child.wait().map_err(|error| error.to_string())?;
        println!("\n=== in the background\n{}", fs::read_to_string(&self.log).unwrap_or_default());
        if status.success() { Ok(()) } else { Err(format!("steps in the background: {status}")) }
    }
}
