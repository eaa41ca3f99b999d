//! Runs steps in order, measures their times, and records the steps left out.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::background::{Background, Priority};
use crate::run::{Outcome, Run, cargo, run};

/// A named part of a run.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: fn(&Session) -> Outcome,
}

/// One run of `cargo xtask`.
#[derive(Debug)]
pub(crate) struct Session {
    /// Root of the repository, which is the current folder.
    pub(crate) root: PathBuf,
    /// Cargo's target folder.
    pub(crate) target: PathBuf,
    /// `true` if a CI system runs this; then no step may be left out.
    ci: bool,
    left_out: RefCell<Vec<String>>,
    /// Differences from the last commit before the first step.
    pub(crate) changed_before: String,
}

impl Session {
    /// Enters the root of the repository.
    ///
    /// # Errors
    /// If it cannot be entered.
    pub(crate) fn new() -> Result<Self, String> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().ok_or("xtask has no folder above it")?.to_path_buf();
        std::env::set_current_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder));
        let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        let changed_before = changed().unwrap_or_default();
        Ok(Self { root, target, ci, left_out: RefCell::default(), changed_before })
    }

    /// A file or folder that Cargo builds with the profile `dev`.
    pub(crate) fn debug(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(name)
    }

    /// Records that `what` is left out because `needed` is missing.
    ///
    /// # Errors
    /// The same sentence, if a CI system runs this.
    pub(crate) fn leave_out(&self, what: &str, needed: &str) -> Outcome {
        let sentence = format!("{what}: needs {needed}");
        if self.ci {
            return Err(sentence);
        }
        println!("left out: {sentence}");
        self.left_out.borrow_mut().push(sentence);
        Ok(())
    }

    /// Runs all of `steps`, the later ones even after a failure, and prints a table and the failures. Those named in
    /// `background` run in a process of their own until the last step, which begins when they have ended. If they have
    /// ended before a step named in `later`, as they do where everything is built, another process runs those.
    ///
    /// # Errors
    /// The names of the failed steps.
    pub(crate) fn run(&self, steps: &[&'static Step], background: &[&str], later: &[&str]) -> Outcome {
        let mut table = Vec::new();
        let (mut failed, mut failures): (Vec<String>, Vec<String>) = Default::default();
        let mut elsewhere = background.to_vec();
        let mut beside = Vec::from_iter(Background::start(&self.target, background, Priority::Lowest)?);
        let mut free = !beside.is_empty();
        for (index, step) in steps.iter().enumerate() {
            if elsewhere.contains(&step.name) {
                continue;
            }
            if index + 1 == steps.len() {
                for ended in beside.drain(..).map(Background::finish) {
                    failed.extend(ended.outcome.err());
                    failures.extend(ended.failures);
                    self.left_out.borrow_mut().extend(ended.left_out);
                }
            }
            if free && beside.iter_mut().all(Background::has_ended) {
                let is_left = |name: &&str| steps[index + 1..].iter().any(|step| step.name == *name);
                let later: Vec<&str> = later.iter().copied().filter(is_left).collect();
                // If it does not start, this process runs them.
                if let Ok(started) = Background::start(&self.target, &later, Priority::Normal) {
                    beside.extend(started);
                    elsewhere.extend(later);
                }
                free = false;
            }
            println!("\n=== {}: {}", step.name, step.what);
            let (start, cpu, left_out) = (Instant::now(), cpu_time(), self.left_out.borrow().len());
            let outcome = (step.run)(self);
            let result = match &outcome {
                Err(error) => {
                    let failure = format!("{}: {error}", step.name);
                    println!("FAILED: {failure}");
                    failed.push(step.name.into());
                    failures.push(failure);
                    "FAILED"
                }
                Ok(()) if self.left_out.borrow().len() > left_out => "passed in part",
                Ok(()) => "passed",
            };
            let row = format!(
                "{:<14} {:>6.0} s {:>6.0} s CPU  {result}",
                step.name,
                start.elapsed().as_secs_f64(),
                cpu_time().saturating_sub(cpu).as_secs_f64()
            );
            println!("--- {row}");
            table.push(row);
        }
        println!("\n{}", table.join("\n"));
        for sentence in self.left_out.borrow().iter() {
            println!("left out: {sentence}");
        }
        for failure in &failures {
            println!("FAILED: {failure}");
        }
        if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
    }
}

/// Differences from the last commit, as git lists them; `None` without git or a repository.
pub(crate) fn changed() -> Option<String> {
    run("git status --porcelain").text().ok()
}

/// Processor time of all ended child processes, from Linux; zero on other systems.
fn cpu_time() -> Duration {
    let fields = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may contain spaces: fields 16 and 17 of proc(5), in hundredths of a second.
    let ticks =
        |field: usize| -> Option<u64> { fields.rsplit_once(')')?.1.split_whitespace().nth(field - 3)?.parse().ok() };
    Duration::from_millis(10 * (ticks(16).unwrap_or(0) + ticks(17).unwrap_or(0)))
}

/// Cargo with a target folder for metadata: Cargo locks the other one while it builds the tests.
pub(crate) fn lint(session: &Session, line: &str) -> Run {
    cargo(line).env("CARGO_TARGET_DIR", session.target.join("lints"))
}

/// The command and the libraries that it loads. Built with the tests, so that all have the same dependencies with the
/// same features, which are built once.
pub(crate) fn build() -> Outcome {
    cargo("build --workspace --lib --bins --tests").check()
}
