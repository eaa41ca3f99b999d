//! Entries of a file of expectations, and what they match.

use globset::{Glob, GlobMatcher};
use serde::Deserialize;

use super::version::{Range, Version};
use crate::outcome::Stop;
use crate::scenario::Scenario;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// Permanent: not run at all.
    #[serde(default)]
    pub(super) unsupported: Vec<Entry>,
    /// Temporary: run, and expected to fail; a pass fails the run, because the entry is stale.
    #[serde(default)]
    pub(super) expected_failure: Vec<Entry>,
    /// Fails in some runs: run, and run again after a failure.
    #[serde(default)]
    pub(super) flaky: Vec<Entry>,
}

/// One expectation. Patterns are globs; an omitted pattern matches everything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) scenario: Pattern,
    #[serde(default)]
    pub(super) backend: Pattern,
    #[serde(default)]
    pub(super) exporter: Pattern,
    pub(super) driver: Option<Range>,
    pub(super) exporter_driver: Option<Range>,
    #[serde(default)]
    pub(super) device: Pattern,
    /// As Rust names it: `linux`.
    #[serde(default)]
    pub(super) os: Pattern,
    /// Of a flaky entry: the share of runs that fail, more than 0 and less than 1.
    pub(super) rate: Option<f64>,
    /// `true` if the entry applies only to runs on an emulated kernel driver, `false` if only to others.
    pub(super) emulated: Option<bool>,
    pub(super) reason: String,
    /// Source: a page or an issue.
    pub(super) link: Option<String>,
    /// Source: the machine and date of a measurement.
    pub(super) measured: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Pattern(Option<GlobMatcher>);

impl TryFrom<String> for Pattern {
    type Error = globset::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(Self(Some(Glob::new(&text)?.compile_matcher())))
    }
}

impl Pattern {
    pub(super) fn matches(&self, text: &str) -> bool {
        self.0.as_ref().is_none_or(|glob| glob.is_match(text))
    }

    pub(super) fn text(&self) -> &str {
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
    pub(super) fn is_for(&self, machine: &Machine<'_>) -> bool {
        self.backend.matches(machine.backend)
            && self.device.matches(machine.device)
            && self.os.matches(machine.os)
            && self.emulated.is_none_or(|emulated| emulated == machine.emulated)
            && self.driver.as_ref().is_none_or(|range| range.contains(machine.driver))
    }

    pub(super) fn matches(&self, place: &Place<'_>) -> bool {
        self.is_for(&place.machine)
            && self.names(place.scenario.id, place.exporter)
            && self.exporter_driver.as_ref().is_none_or(|range| range.contains(place.exporter_driver))
    }

    pub(super) fn names(&self, scenario: &str, exporter: &str) -> bool {
        self.scenario.matches(scenario) && self.exporter.matches(exporter)
    }

    /// The reason and the source.
    pub(super) fn why(&self) -> String {
        let Self { reason, link, measured, .. } = self;
        match (link, measured) {
            (Some(link), _) => format!("{reason} [{link}]"),
            (None, Some(measured)) => format!("{reason} [measured: {measured}]"),
            (None, None) => reason.clone(),
        }
    }
}

/// An error of a file.
pub(super) fn wrong(name: &str, error: &dyn std::fmt::Display) -> Stop {
    Stop::failed(format!("{name}: {error}"))
}
