//! The catalogue of scenarios, one page in Markdown.

use std::fmt::Write;

use crate::scenario::{Exporters, Scenario};
use crate::scenarios::{GROUPS, Group, NOT_COVERED};

/// The beginning of the page.
const BEGINNING: &str = "\
# Scenarios of the conformance suite

Each scenario is written once and runs on every backend. It passes only if its sentence was verified, usually for every
byte on both sides. A scenario with *each* exporter runs once with a Vulkan driver, once with the device's own exportable
memory, and on Windows once with Direct3D 12; a scenario with *none* needs no exporter. A scenario is unsupported where
one of its *needs* is. *Mirrors* names the equivalent of a public suite or a written contract; the code is this project's
own.

This page lists Linux. Windows has `import.win32_*` instead of `import.fd_*`, and none of `misbehaviour.*`, `nvsci.*`,
`gl.*` and `property.imports`; `conformance list` lists its scenarios there.

`cargo xtask record` writes this page.
";

/// The beginning of the last section.
const NOT_COVERED_BEGINNING: &str = "
## Not covered

Requirements of others that no scenario covers.

| requirement | reason | source |
|---|---|---|
";

/// The page, in Markdown.
pub fn markdown(scenarios: &[Scenario]) -> String {
    let mut page = BEGINNING.to_owned();
    for Group { name, about, .. } in GROUPS {
        let mut of_group = scenarios.iter().filter(|scenario| group_of(scenario.id) == *name).peekable();
        if of_group.peek().is_none() {
            continue;
        }
        let _ = write!(
            page,
            "\n## {name}\n\n{about}\n\n| id | verified statement | exporters | needs | mirrors |\n|---|---|---|---|---|\n"
        );
        for scenario in of_group {
            let exporters = match scenario.exporters {
                Exporters::None => "none",
                Exporters::Any => "each",
            };
            let mirrors = scenario.source.map(cell).unwrap_or_default();
            let needs: Vec<String> = scenario.requirements().map(|need| need.to_string()).collect();
            let (purpose, needs) = (cell(scenario.purpose), cell(&needs.join("; ")));
            let _ = writeln!(page, "| `{}` | {purpose} | {exporters} | {needs} | {mirrors} |", scenario.id);
        }
    }
    page.push_str(NOT_COVERED_BEGINNING);
    for missing in NOT_COVERED {
        let _ = writeln!(page, "| {} | {} | {} |", cell(missing.what), cell(missing.why), cell(missing.asked_by));
    }
    page
}

/// The prefix of an id.
fn group_of(id: &str) -> &str {
    id.split_once('.').map_or(id, |(group, _)| group)
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::path::Path;

    #[cfg(unix)]
    use gpu_interop_test_support::committed;

    use super::*;
    use crate::suite::Suite;

    /// The page is generated on Linux.
    #[cfg(unix)]
    #[test]
    fn the_committed_page_is_up_to_date() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../SCENARIOS.md");
        committed(&file, &markdown(Suite::standard().scenarios())).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn every_scenario_is_in_a_group_and_on_the_page() {
        let suite = Suite::standard();
        let page = markdown(suite.scenarios());
        for scenario in suite.scenarios() {
            let group = group_of(scenario.id);
            assert!(GROUPS.iter().any(|known| known.name == group), "`{group}` is not in the list of groups");
            assert!(page.contains(&format!("| `{}`", scenario.id)), "{} is not on the page", scenario.id);
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_covered_names_only_scenarios_that_there_are() {
        let suite = Suite::standard();
        for missing in NOT_COVERED {
            for quoted in missing.why.split('`').skip(1).step_by(2).filter(|text| !text.contains(' ')) {
                let glob = globset::Glob::new(quoted).expect("a pattern").compile_matcher();
                let names = suite.scenarios().iter().any(|scenario| glob.is_match(scenario.id));
                assert!(names, "no scenario is `{quoted}`, which is said to be instead of: {}", missing.what);
            }
        }
    }

    #[test]
    fn a_bar_does_not_end_a_cell() {
        assert_eq!(cell("a | b"), "a \\| b");
    }
}
