//! Expectations: known failures and unsupported combinations, as data.
//!
//! There are three lists: permanent limits of a device, current failures, and failures of some runs. Every entry has a
//! reason, a failure also a source, and a failure of some runs its rate. This project's entries are in the folder
//! `expectations` and compiled into the command; entries of files on the command line take precedence.

mod check;
mod entry;
mod version;

use std::path::Path;

use crate::outcome::{Outcome, Verdict};

use entry::{Entry, File, wrong};
pub use entry::{Machine, Place};
pub use version::Version;

/// The built-in expectations, by backend.
const BUILT_IN: [(&str, &str); 3] = [
    ("cuda", include_str!("../../../expectations/cuda.toml")),
    ("hip", include_str!("../../../expectations/hip.toml")),
    ("host", include_str!("../../../expectations/host.toml")),
];

/// An entry of `[[flaky]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct DeclaredFlake {
    /// The share of runs that fail, more than 0 and less than 1.
    pub rate: f64,
    /// The reason and the source.
    pub reason: String,
}

/// All expectations.
#[derive(Debug, Default)]
pub struct Expectations {
    file: File,
}

impl Expectations {
    /// Reads and joins files, followed by this project's if requested.
    ///
    /// # Errors
    /// If a file cannot be read or parsed, or has an entry without a reason.
    pub fn read(paths: &[impl AsRef<Path>], built_in: bool) -> Verdict<Self> {
        let mut all = Self::default();
        for path in paths {
            let path = path.as_ref();
            let text = std::fs::read_to_string(path).map_err(|error| wrong(&path.display().to_string(), &error))?;
            all.add(&path.display().to_string(), &text)?;
        }
        for (backend, text) in BUILT_IN.iter().filter(|_| built_in) {
            all.add(&format!("the command's own expectations of {backend}"), text)?;
        }
        Ok(all)
    }

    /// Appends a file's entries.
    fn add(&mut self, name: &str, text: &str) -> Verdict {
        let mut file: File = toml::from_str(text).map_err(|error| wrong(name, &error))?;
        check::entries(name, &file)?;
        self.file.unsupported.append(&mut file.unsupported);
        self.file.expected_failure.append(&mut file.expected_failure);
        self.file.flaky.append(&mut file.flaky);
        Ok(())
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        let File { unsupported, expected_failure, flaky } = &self.file;
        unsupported.iter().chain(expected_failure).chain(flaky)
    }

    /// Entries that apply to this machine but match no existing scenario, with pattern and reason. `exist` lists all
    /// scenarios with all their exporters, not only those of this run.
    pub fn stale<'a, E: Iterator<Item = (&'a str, &'a str)>>(
        &self,
        machine: &Machine<'_>,
        exist: impl Fn() -> E,
    ) -> Vec<String> {
        let is_stale = |entry: &&Entry| {
            entry.is_for(machine) && !exist().any(|(scenario, exporter)| entry.names(scenario, exporter))
        };
        let line = |entry: &Entry| format!("`{}`: {}", entry.scenario.text(), entry.why());
        self.entries().filter(is_stale).map(line).collect()
    }

    /// The reason why a scenario is not run, if any.
    pub fn unsupported(&self, place: &Place<'_>) -> Option<String> {
        find(&self.file.unsupported, place)
    }

    /// The declared flake of a case, if any.
    pub fn flake(&self, place: &Place<'_>) -> Option<DeclaredFlake> {
        let entry = self.file.flaky.iter().find(|entry| entry.matches(place))?;
        Some(DeclaredFlake { rate: entry.rate?, reason: entry.why() })
    }

    /// The outcome with respect to the expectations, and a reason to prepend to the scenario's own.
    pub fn judge(&self, place: &Place<'_>, outcome: Outcome) -> (Outcome, Option<String>) {
        match (find(&self.file.expected_failure, place), outcome) {
            (Some(reason), Outcome::Passed) => (Outcome::UnexpectedPass, Some(reason)),
            (Some(reason), outcome) if outcome.is_failure() => (Outcome::ExpectedFailure, Some(reason)),
            _ => (outcome, None),
        }
    }
}

/// The first matching entry.
fn find(entries: &[Entry], place: &Place<'_>) -> Option<String> {
    entries.iter().find(|entry| entry.matches(place)).map(Entry::why)
}

#[cfg(test)]
mod tests;
