//! What is known not to work, as data.
//!
//! Two lists, kept apart: what a device can never do, and what fails for now. Every entry has a reason.

use std::path::Path;

use globset::{Glob, GlobMatcher};
use serde::Deserialize;

use crate::outcome::{Outcome, Stop, Verdict};

/// A file of expectations.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Permanent: not run at all.
    #[serde(default)]
    unsupported: Vec<Entry>,
    /// Temporary: run, and expected to fail; a pass fails the run, because the entry is stale.
    #[serde(default)]
    expected_failure: Vec<Entry>,
}

/// One expectation. Patterns are globs; one that is left out matches everything.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    scenario: Pattern,
    #[serde(default)]
    backend: Pattern,
    #[serde(default)]
    exporter: Pattern,
    #[serde(default)]
    driver: Pattern,
    #[serde(default)]
    device: Pattern,
    reason: String,
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
}

/// Where a scenario runs, for matching.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) scenario: &'a str,
    pub(crate) backend: &'a str,
    pub(crate) exporter: &'a str,
    pub(crate) driver: &'a str,
    pub(crate) device: &'a str,
}

impl Entry {
    fn matches(&self, place: &Place<'_>) -> bool {
        self.scenario.matches(place.scenario)
            && self.backend.matches(place.backend)
            && self.exporter.matches(place.exporter)
            && self.driver.matches(place.driver)
            && self.device.matches(place.device)
    }
}

/// Everything that is expected.
#[derive(Debug, Default)]
pub(crate) struct Expectations {
    file: File,
}

impl Expectations {
    /// Reads files and joins them.
    ///
    /// # Errors
    /// If one cannot be read, is no such file, or has an entry without a reason.
    pub(crate) fn read(paths: &[impl AsRef<Path>]) -> Verdict<Self> {
        let mut all = Self::default();
        for path in paths {
            let path = path.as_ref();
            let failed = |error: &dyn std::fmt::Display| Stop::Failed(format!("{}: {error}", path.display()));
            let text = std::fs::read_to_string(path).map_err(|error| failed(&error))?;
            let file: File = toml::from_str(&text).map_err(|error| failed(&error))?;
            if file.unsupported.iter().chain(&file.expected_failure).any(|entry| entry.reason.trim().is_empty()) {
                return Err(failed(&"every expectation needs a reason"));
            }
            all.file.unsupported.extend(file.unsupported);
            all.file.expected_failure.extend(file.expected_failure);
        }
        Ok(all)
    }

    /// The reasons of the entries that match none of `places`.
    pub(crate) fn unmatched<'a, P: Iterator<Item = Place<'a>>>(&self, places: impl Fn() -> P) -> Vec<String> {
        let entries = self.file.unsupported.iter().chain(&self.file.expected_failure);
        entries.filter(|entry| !places().any(|place| entry.matches(&place))).map(|entry| entry.reason.clone()).collect()
    }

    /// Why a scenario need not be run, if so.
    pub(crate) fn unsupported(&self, place: &Place<'_>) -> Option<&str> {
        find(&self.file.unsupported, place)
    }

    /// The outcome, and a reason to put before the scenario's own, in the light of what was expected.
    pub(crate) fn judge(&self, place: &Place<'_>, outcome: Outcome) -> (Outcome, Option<&str>) {
        match (find(&self.file.expected_failure, place), outcome) {
            (Some(reason), Outcome::Passed) => (Outcome::UnexpectedPass, Some(reason)),
            (Some(reason), outcome) if outcome.is_failure() => (Outcome::ExpectedFailure, Some(reason)),
            _ => (outcome, None),
        }
    }
}

fn find<'a>(entries: &'a [Entry], place: &Place<'_>) -> Option<&'a str> {
    entries.iter().find(|entry| entry.matches(place)).map(|entry| entry.reason.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place<'_> =
        Place { scenario: "map.offsets", backend: "host", exporter: "vulkan", driver: "1.0", device: "CPU" };

    fn parse(text: &str) -> Result<Expectations, toml::de::Error> {
        toml::from_str(text).map(|file| Expectations { file })
    }

    #[test]
    fn an_expected_failure_that_passes_is_unexpected() {
        let all = parse("[[expected_failure]]\nscenario = 'map.*'\nreason = 'known'").expect("valid");
        assert_eq!(all.judge(&PLACE, Outcome::Failed), (Outcome::ExpectedFailure, Some("known")));
        assert_eq!(all.judge(&PLACE, Outcome::Crashed), (Outcome::ExpectedFailure, Some("known")));
        assert_eq!(all.judge(&PLACE, Outcome::Passed), (Outcome::UnexpectedPass, Some("known")));
        assert_eq!(all.judge(&PLACE, Outcome::Skipped), (Outcome::Skipped, None));
        assert_eq!(all.unsupported(&PLACE), None);
    }

    #[test]
    fn every_field_must_match() {
        let all = parse("[[unsupported]]\nscenario = 'map.*'\nexporter = 'native'\nreason = 'r'").expect("valid");
        assert_eq!(all.unsupported(&PLACE), None);
        assert_eq!(all.unsupported(&Place { exporter: "native", ..PLACE }), Some("r"));
        assert_eq!(all.unsupported(&Place { exporter: "native", scenario: "memory.fill", ..PLACE }), None);
    }

    #[test]
    fn misspelt_fields_are_errors() {
        assert!(parse("[[unsupported]]\nscenario = 'x'\nreson = 'r'").is_err());
        assert!(parse("[[expected_failures]]\nscenario = 'x'\nreason = 'r'").is_err());
    }
}
