use super::*;
use crate::exporter::ExporterName;
use crate::scenario::{Exporters, Scenario};
use crate::suite::Suite;

const MACHINE: Machine<'_> = Machine { backend: "host", driver: None, emulated: false, device: "CPU", os: "linux" };
const OFFSETS: Scenario = scenario("map.offsets");
const FILL: Scenario = scenario("memory.fill");
const PLACE: Place<'_> = Place { machine: MACHINE, scenario: &OFFSETS, exporter: "vulkan", exporter_driver: None };

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
    let all = parse("[[expected_failure]]\nscenario = 'map.*'\nreason = 'known'\nlink = 'https://x'").expect("valid");
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
    let (own, exporters) = (parse(&text("driver")).expect("valid"), parse(&text("exporter_driver")).expect("valid"));
    for (driver, fits) in [(None, false), (Some("580.159.04"), true), (Some("580.7"), false), (Some("585.1"), false)] {
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
            assert!(exists, "{backend}.toml: no scenario is `{}` with this exporter", entry.scenario.text());
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
