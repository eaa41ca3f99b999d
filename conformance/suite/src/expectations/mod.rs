//! Expectations: known failures and unsupported combinations, as data.
//!
//! There are three lists: permanent limits of a device, current failures, and failures of some runs. Every entry has a
//! reason, a failure also a source, and a failure of some runs its rate. This project's entries are in the folder
//! `expectations` and compiled into the command; entries of files on the command line take precedence.

mod version;

use std::path::Path;

use globset::{Glob, GlobMatcher};
use serde::Deserialize;

use version::Range;
pub use version::Version;

use crate::outcome::{Outcome, Stop, Verdict};
use crate::scenario::Scenario;

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
        check_entries(name, &file)?;
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
    /// What the exporter's driver calls itself: `radv *`.
    #[serde(default)]
    exporter_says: Pattern,
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
    /// What the exporter's driver says of itself; empty without an exporter.
    pub exporter_says: &'a str,
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
            && self.names(place.scenario.id, place.exporter)
            && self.exporter_driver.as_ref().is_none_or(|range| range.contains(place.exporter_driver))
            && self.exporter_says.matches(place.exporter_says)
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

/// An error of a file.
fn wrong(name: &str, error: &dyn std::fmt::Display) -> Stop {
    Stop::failed(format!("{name}: {error}"))
}

const NO_SOURCE: &str =
    "says where it is known from: `link`, a page or an issue, or `measured`, on what and when it was seen";

/// Fails if an entry has no reason, a failure no source, or a flake no rate.
fn check_entries(name: &str, file: &File) -> Verdict {
    let File { unsupported, expected_failure, flaky } = file;
    let fail = |entry: &Entry, message: &str| Err(wrong(name, &format!("{message}: `{}`", entry.scenario.text())));
    for entry in unsupported.iter().chain(expected_failure).chain(flaky) {
        if entry.reason.trim().is_empty() {
            return fail(entry, "every expectation needs a reason");
        }
    }
    if let Some(entry) = expected_failure.iter().find(|entry| !has_source(entry)) {
        return fail(entry, &format!("an expected failure {NO_SOURCE}"));
    }
    if let Some(entry) = flaky.iter().find(|entry| !has_source(entry)) {
        return fail(entry, &format!("a flaky case {NO_SOURCE}"));
    }
    let is_share = |rate: f64| rate > 0.0 && rate < 1.0;
    if let Some(entry) = flaky.iter().find(|entry| !entry.rate.is_some_and(is_share)) {
        return fail(entry, "a flaky case needs `rate`, the share of runs that fail, more than 0 and less than 1");
    }
    if let Some(entry) = unsupported.iter().chain(expected_failure).find(|entry| entry.rate.is_some()) {
        return fail(entry, "only a `[[flaky]]` entry has a `rate`");
    }
    Ok(())
}

fn has_source(entry: &Entry) -> bool {
    [&entry.link, &entry.measured].into_iter().flatten().any(|text| !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exporter::ExporterName;
    use crate::scenario::{Exporters, Scenario};
    use crate::suite::Suite;

    const MACHINE: Machine<'_> = Machine { backend: "host", driver: None, emulated: false, device: "CPU", os: "linux" };
    const OFFSETS: Scenario = scenario("map.offsets");
    const FILL: Scenario = scenario("memory.fill");
    const PLACE: Place<'_> =
        Place { machine: MACHINE, scenario: &OFFSETS, exporter: "vulkan", exporter_driver: None, exporter_says: "" };

    const fn scenario(id: &'static str) -> Scenario {
        Scenario::new(id, Exporters::Any, "", |_| Ok(()))
    }

    fn parse(text: &str) -> Verdict<Expectations> {
        let mut all = Expectations::default();
        all.add("a file", text).map(|()| all)
    }

    fn refused(text: &str) -> String {
        parse(text).expect_err(text).reason().to_owned()
    }

    fn version(text: &str) -> Version {
        Version::try_from(text.to_owned()).expect("a version")
    }

    #[test]
    fn an_expected_failure_that_passes_is_unexpected() {
        let all =
            parse("[[expected_failure]]\nscenario = 'map.*'\nreason = 'known'\nlink = 'https://x'").expect("valid");
        let known = || Some("known [https://x]".to_owned());
        assert_eq!(all.judge(&PLACE, Outcome::Failed), (Outcome::ExpectedFailure, known()));
        assert_eq!(all.judge(&PLACE, Outcome::Crashed), (Outcome::ExpectedFailure, known()));
        assert_eq!(all.judge(&PLACE, Outcome::Passed), (Outcome::UnexpectedPass, known()));
        assert_eq!(all.judge(&PLACE, Outcome::Skipped), (Outcome::Skipped, None));
        assert_eq!(all.unsupported(&PLACE), None);
    }

    #[test]
    fn every_field_must_match() {
        let entry = |field: &str| {
            parse(&format!("[[unsupported]]\nscenario = 'map.*'\n{field}\nreason = 'r'"))
                .expect("valid")
                .unsupported(&PLACE)
        };
        let r = Some("r".to_owned());
        for (fits, does_not) in [
            ("backend = 'host'", "backend = 'cuda'"),
            ("exporter = 'vulkan'", "exporter = 'native'"),
            ("device = 'C*'", "device = '*Tegra*'"),
            ("os = '{linux,android}'", "os = 'windows'"),
            ("emulated = false", "emulated = true"),
        ] {
            assert_eq!((entry(fits), entry(does_not)), (r.clone(), None), "{fits}");
        }
        let all = parse("[[unsupported]]\nscenario = 'map.*'\nreason = 'r'").expect("valid");
        assert_eq!(all.unsupported(&Place { scenario: &FILL, ..PLACE }), None);
    }

    #[test]
    fn what_is_for_emulated_drivers_is_for_no_other() {
        let fits = |field: &str, emulated: bool| {
            let all = parse(&format!("[[expected_failure]]\nscenario = '*'\n{field}\nreason = 'r'\nmeasured = 'm'"));
            let place = Place { machine: Machine { emulated, ..MACHINE }, ..PLACE };
            all.expect("valid").judge(&place, Outcome::Failed).0 == Outcome::ExpectedFailure
        };
        for (field, emulated, hardware) in
            [("emulated = true", true, false), ("emulated = false", false, true), ("", true, true)]
        {
            assert_eq!((fits(field, true), fits(field, false)), (emulated, hardware), "{field}");
        }
    }

    #[test]
    fn drivers_are_matched_by_their_numbers() {
        let text = |field: &str| {
            format!("[[unsupported]]\nscenario = '*'\n{field} = {{ from = '580.65', before = '585' }}\nreason = 'r'")
        };
        let (own, exporters) =
            (parse(&text("driver")).expect("valid"), parse(&text("exporter_driver")).expect("valid"));
        for (driver, fits) in
            [(None, false), (Some("580.159.04"), true), (Some("580.7"), false), (Some("585.1"), false)]
        {
            let version = driver.map(version);
            let driver = version.as_ref();
            let place = Place { machine: Machine { driver, ..MACHINE }, ..PLACE };
            assert_eq!((own.unsupported(&place).is_some(), exporters.unsupported(&place)), (fits, None), "{driver:?}");
            let place = Place { exporter_driver: driver, ..PLACE };
            assert_eq!((own.unsupported(&place), exporters.unsupported(&place).is_some()), (None, fits), "{driver:?}");
        }
    }

    #[test]
    fn the_first_entry_counts() {
        let mut all = parse("[[unsupported]]\nscenario = 'map.*'\nreason = 'own'").expect("valid");
        all.add("another", "[[unsupported]]\nscenario = '*'\nreason = 'built in'").expect("valid");
        assert_eq!(all.unsupported(&PLACE).as_deref(), Some("own"));
        assert_eq!(all.unsupported(&Place { scenario: &FILL, ..PLACE }).as_deref(), Some("built in"));
    }

    #[test]
    fn misspelt_and_missing_fields_are_errors() {
        for text in [
            "[[unsupported]]\nscenario = 'x'\nreson = 'r'",
            "[[unsupported]]\nscenario = 'x'\nreason = 'r'\nplatform = 'linux'",
            "[[unsupported]]\nreason = 'r'",
            "[[expected_failures]]\nscenario = 'x'\nreason = 'r'",
            "[[unsupported]]\nscenario = '[x'\nreason = 'r'",
        ] {
            assert!(refused(text).starts_with("a file: "), "{text}");
        }
        assert!(refused("[[unsupported]]\nscenario = 'x.y'\nreason = ' '").contains("needs a reason: `x.y`"));
        for source in ["", "link = ''", "measured = ' '"] {
            let text = refused(&format!("[[expected_failure]]\nscenario = 'x.y'\nreason = 'r'\n{source}"));
            assert!(text.contains("where it is known from") && text.contains("`x.y`"), "{text}");
        }
    }

    #[test]
    fn a_flaky_entry_has_a_rate_and_a_source() {
        let entry = |rate: &str, source: &str| format!("[[flaky]]\nscenario = 'map.*'\nreason = 'r'\n{rate}\n{source}");
        let all = parse(&entry("rate = 0.05", "measured = 'here'")).expect("valid");
        let flake = DeclaredFlake { rate: 0.05, reason: "r [measured: here]".into() };
        assert_eq!(all.flake(&PLACE), Some(flake));
        assert_eq!(all.flake(&Place { scenario: &FILL, ..PLACE }), None);
        // The outcome is known only after another run.
        assert_eq!(all.judge(&PLACE, Outcome::Failed), (Outcome::Failed, None));
        assert!(refused(&entry("rate = 0.05", "link = ' '")).contains("where it is known from"));
        for rate in ["", "rate = 0.0", "rate = 1.0", "rate = -1.0", "rate = nan"] {
            assert!(refused(&entry(rate, "link = 'x'")).contains("needs `rate`"), "{rate}");
        }
        for list in ["unsupported", "expected_failure"] {
            let text = entry("rate = 0.5", "link = 'x'").replace("flaky", list);
            assert!(refused(&text).contains("only a `[[flaky]]` entry has a `rate`"), "{list}");
        }
    }

    #[test]
    fn stale_is_what_is_for_this_machine_and_no_scenario() {
        let all = parse(
            "
        [[unsupported]]
        scenario = 'map.*'
        reason = 'there'
        [[unsupported]]
        scenario = 'mpa.*'
        reason = 'misspelt'
        [[expected_failure]]
        scenario = 'map.*'
        exporter = 'none'
        reason = 'not with this exporter'
        measured = 'once'
        [[unsupported]]
        scenario = 'mpa.*'
        backend = 'cuda'
        reason = 'of another backend'
        [[unsupported]]
        scenario = 'mpa.*'
        driver = { from = '1.0' }
        reason = 'of another driver'
        ",
        )
        .expect("valid");
        let exist = || [("map.offsets", "vulkan"), ("identity.json", "none")].into_iter();
        let expected = ["`mpa.*`: misspelt", "`map.*`: not with this exporter [measured: once]"];
        assert_eq!(all.stale(&MACHINE, exist), expected);
    }

    #[test]
    fn what_the_command_knows_is_of_one_backend_and_of_scenarios_that_exist() {
        let suite = Suite::standard();
        let exporters: Vec<&str> = ExporterName::ALL.iter().map(|exporter| exporter.name()).collect();
        let mut files = BUILT_IN.map(|(name, _)| name);
        files.sort_unstable();
        assert_eq!(files, ["cuda", "hip", "host"]);
        for (backend, text) in BUILT_IN {
            let all = parse(text).unwrap_or_else(|error| panic!("{backend}.toml: {}", error.reason()));
            for entry in all.entries() {
                assert_eq!(entry.backend.text(), backend, "an entry of {backend}.toml says so: {}", entry.why());
                let exists = suite.scenarios().iter().any(|scenario| match scenario.exporters {
                    Exporters::None => entry.names(scenario.id, "none"),
                    Exporters::Any => exporters.iter().any(|exporter| entry.names(scenario.id, exporter)),
                });
                // Windows lacks the scenarios of OpenGL.
                assert!(
                    exists || cfg!(windows),
                    "{backend}.toml: no scenario is `{}` with this exporter",
                    entry.scenario.text()
                );
            }
        }
    }

    /// The documented examples are valid.
    #[test]
    fn the_examples_in_the_documentation_are_read_and_name_scenarios() {
        let suite = Suite::standard();
        for text in [include_str!("../../../README.md"), include_str!("../../../../ci/README.md")] {
            let (_, rest) = text.split_once("```toml\n").expect("an example");
            let all = parse(rest.split_once("```").expect("its end").0).expect("valid");
            assert!(all.entries().count() > 0);
            for entry in all.entries() {
                let named = suite.scenarios().iter().any(|scenario| entry.names(scenario.id, "vulkan"));
                assert!(named, "no scenario is `{}`", entry.scenario.text());
            }
        }
    }
}
