//! Expectations: known failures and unsupported combinations, as data.
//!
//! There are three lists: permanent limits of a device, current failures, and failures of some runs. Every entry has a
//! reason, a failure also a source, and a failure of some runs its rate. This project's entries are in the folder `expectations` and compiled into the
//! command; entries of files on the command line take precedence.

mod check;
mod version;

use std::path::Path;

use globset::{Glob, GlobMatcher};
use serde::Deserialize;

use crate::outcome::{Outcome, Stop, Verdict};
use crate::scenario::Scenario;

use version::Range;
pub use version::Version;

/// The built-in expectations, by backend.
const BUILT_IN: [(&str, &str); 3] = [
    ("cuda", include_str!("../../../expectations/cuda.toml")),
    ("hip", include_str!("../../../expectations/hip.toml")),
    ("host", include_str!("../../../expectations/host.toml")),
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Permanent: not run at all.
    #[serde(default)]
    unsupported: Vec<Entry>,
    /// Temporary: run, and expected to fail; a pass fails the run, because the entry is stale.
    #[serde(default)]
    expected_failure: Vec<Entry>,
    /// Fails in some runs: run, and run again after a failure.
    #[serde(default)]
    flaky: Vec<Entry>,
}

/// One expectation. Patterns are globs; an omitted pattern matches everything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    scenario: Pattern,
    #[serde(default)]
    backend: Pattern,
    #[serde(default)]
    exporter: Pattern,
    driver: Option<Range>,
    exporter_driver: Option<Range>,
    #[serde(default)]
    device: Pattern,
    /// As Rust names it: `linux`.
    #[serde(default)]
    os: Pattern,
    /// Of a flaky entry: the share of runs that fail, more than 0 and less than 1.
    rate: Option<f64>,
    /// `true` if the entry applies only to runs on an emulated kernel driver, `false` if only to others.
    emulated: Option<bool>,
    reason: String,
    /// Source: a page or an issue.
    link: Option<String>,
    /// Source: the machine and date of a measurement.
    measured: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "String")]
struct Pattern(Option<GlobMatcher>);

impl TryFrom<String> for Pattern {
    type Error = globset::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(Self(Some(Glob::new(&text)?.compile_matcher())))
    }
}

impl Pattern {
    fn matches(&self, text: &str) -> bool {
        self.0.as_ref().is_none_or(|glob| glob.is_match(text))
    }

    fn text(&self) -> &str {
        self.0.as_ref().map_or("*", |matcher| matcher.glob().glob())
    }
}

/// Properties of a run's machine, for matching.
#[derive(Debug, Clone, Copy)]
pub struct Machine<'a> {
    /// The backend's name.
    pub backend: &'a str,
    /// Its driver's version, if reported.
    pub driver: Option<&'a Version>,
    /// `true` if the kernel driver below a vendor's runtime is emulated.
    pub emulated: bool,
    /// The device's name.
    pub device: &'a str,
    /// The system, as Rust names it: `linux`.
    pub os: &'a str,
}

/// A scenario of a run, for matching.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The machine.
    pub machine: Machine<'a>,
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The exporter's name; `none` without one.
    pub exporter: &'a str,
    /// The version of the exporter's driver, if reported.
    pub exporter_driver: Option<&'a Version>,
}

impl Entry {
    fn is_for(&self, machine: &Machine<'_>) -> bool {
        self.backend.matches(machine.backend)
            && self.device.matches(machine.device)
            && self.os.matches(machine.os)
            && self.emulated.is_none_or(|emulated| emulated == machine.emulated)
            && self.driver.as_ref().is_none_or(|range| range.contains(machine.driver))
    }

    fn matches(&self, place: &Place<'_>) -> bool {
        self.is_for(&place.machine)
            && place.scenario.names().any(|id| self.names(id, place.exporter))
            && self.exporter_driver.as_ref().is_none_or(|range| range.contains(place.exporter_driver))
    }

    fn names(&self, scenario: &str, exporter: &str) -> bool {
        self.scenario.matches(scenario) && self.exporter.matches(exporter)
    }

    /// The reason and the source.
    fn why(&self) -> String {
        let Self { reason, link, measured, .. } = self;
        match (link, measured) {
            (Some(link), _) => format!("{reason} [{link}]"),
            (None, Some(measured)) => format!("{reason} [measured: {measured}]"),
            (None, None) => reason.clone(),
        }
    }
}

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

fn wrong(name: &str, error: &dyn std::fmt::Display) -> Stop {
    Stop::Failed(format!("{name}: {error}"))
}

/// The first matching entry.
fn find(entries: &[Entry], place: &Place<'_>) -> Option<String> {
    entries.iter().find(|entry| entry.matches(place)).map(Entry::why)
}

#[cfg(test)]
mod tests;
