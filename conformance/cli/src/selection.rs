//! The cases of a run: lists in files of `--cases`, tiers, which are lists in the command, and `--shard`, every n-th case.
//!
//! A line of a list is `id`, for every exporter, or `id@exporter`. `linux:` or `windows:` before it limits it to that
//! system. `#` begins a comment.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use clap::ValueEnum;
use gpu_interop_conformance::{ExporterName, Exporters, Scenario, Stop, Verdict};

use crate::report::{self, case_name};
use crate::runner::Case;
use crate::sha256;

/// A frozen list of cases. A change needs another number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tier {
    /// The behaviour that every program with shared memory and semaphores relies on; without stress tests.
    #[value(name = "core-1")]
    Core1,
    /// Every scenario of version 0.1.
    #[value(name = "full-1")]
    Full1,
}

impl Tier {
    fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Core1 => ("core-1", include_str!("../../tiers/core-1.txt")),
            Self::Full1 => ("full-1", include_str!("../../tiers/full-1.txt")),
        }
    }
}

/// The systems that a line may name, as Rust names them.
const SYSTEMS: [&str; 2] = ["linux", "windows"];

/// A list, and which of its lines selected a case.
#[derive(Debug, Clone)]
pub(crate) struct CaseList {
    about: report::CaseList,
    /// The lines of this system, with their numbers.
    lines: BTreeMap<String, usize>,
}

impl CaseList {
    /// The list of a tier.
    ///
    /// # Errors
    /// If it names an unknown case.
    pub(crate) fn tier(tier: Tier, scenarios: &[Scenario]) -> Verdict<Self> {
        let (name, text) = tier.text();
        Self::parse(name, text, scenarios)
    }

    /// The list in a file.
    ///
    /// # Errors
    /// If it cannot be read, names an unknown case, or is empty.
    pub(crate) fn read(path: &Path, scenarios: &[Scenario]) -> Verdict<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Stop::failed(format!("--cases {}: {error}", path.display())))?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        Self::parse(&name, &text, scenarios)
    }

    fn parse(name: &str, text: &str, scenarios: &[Scenario]) -> Verdict<Self> {
        let (mut lines, mut unknown) = (BTreeMap::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            let (system, case) = match line.split_once(':') {
                Some((system, case)) => (Some(system.trim()), case.trim()),
                None => (None, line),
            };
            if case.is_empty()
                || system.is_some_and(|system| system != std::env::consts::OS && SYSTEMS.contains(&system))
            {
                continue;
            }
            if !scenarios.iter().any(|scenario| exists(scenario, case))
                || system.is_some_and(|name| !SYSTEMS.contains(&name))
            {
                unknown.push(format!("line {number}: `{line}`"));
            }
            lines.insert(case.to_owned(), number);
        }
        if !unknown.is_empty() {
            let more = if unknown.len() > 5 { format!(", and {} more", unknown.len() - 5) } else { String::new() };
            unknown.truncate(5);
            return Err(Stop::failed(format!(
                "{name}: unknown cases: {}{more}; `conformance list` shows the ids",
                unknown.join(", ")
            )));
        }
        if lines.is_empty() {
            return Err(Stop::failed(format!("{name}: the list has no case for this system")));
        }
        let about = report::CaseList { name: name.into(), sha256: sha256::of(text.as_bytes()) };
        Ok(Self { about, lines })
    }

    /// `true` if the list has this case.
    pub(crate) fn has(&self, scenario: &Scenario, exporter: Option<ExporterName>) -> bool {
        self.lines.contains_key(scenario.id) || self.lines.contains_key(&case_name(scenario.id, exporter))
    }

    /// Its name and checksum, for the report.
    pub(crate) fn about(&self) -> &report::CaseList {
        &self.about
    }
}

/// `true` if a line names this scenario, or one of its cases.
fn exists(scenario: &Scenario, case: &str) -> bool {
    let id = scenario.id;
    let has_exporter = || ExporterName::ALL.iter().any(|exporter| case_name(id, Some(*exporter)) == case);
    id == case || (scenario.exporters == Exporters::Any && has_exporter())
}

/// The value of `--shard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ShardNumber {
    /// From 1.
    index: usize,
    count: usize,
}

impl FromStr for ShardNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err("use NUMBER/COUNT, with a number from 1 to the count: 2/4".into()),
        }
    }
}

/// The cases of one shard, and its description for the report.
///
/// # Errors
/// If the shard is empty.
pub(crate) fn select<'a>(cases: &[Case<'a>], number: ShardNumber) -> Verdict<(Vec<Case<'a>>, report::Shard)> {
    let ShardNumber { index, count } = number;
    // Neighbours of a group take similar time, so they belong to different shards.
    let positions: Vec<usize> = (index - 1..cases.len()).step_by(count).collect();
    if positions.is_empty() {
        let total = cases.len();
        let message =
            format!("--shard {index}/{count}: the shard is empty, because there are {total} cases; use fewer shards");
        return Err(Stop::failed(message));
    }
    let selected = positions.iter().map(|position| cases[*position]).collect();
    let shard = report::Shard {
        index,
        count,
        total: cases.len(),
        cases_sha256: sha256::of_lines(cases.iter().map(Case::name)),
        positions,
    };
    Ok((selected, shard))
}

#[cfg(test)]
mod tests {
    use gpu_interop_conformance::{Exporters, Scenario, Suite};
    use gpu_interop_test_support::committed;

    use super::*;

    fn parse(text: &str) -> Verdict<CaseList> {
        CaseList::parse("list.txt", text, Suite::standard().scenarios())
    }

    #[test]
    fn tiers_are_frozen_and_their_cases_exist() {
        let suite = Suite::standard();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tiers/SHA256SUMS");
        let sums = std::fs::read_to_string(&file).expect("SHA256SUMS");
        let mut all = sums.clone();
        for tier in Tier::value_variants() {
            let list = CaseList::tier(*tier, suite.scenarios()).unwrap_or_else(|stop| panic!("{}", stop.reason()));
            assert!(list.lines.len() > 50, "{tier:?}");
            let (sum, name) = (&list.about().sha256, format!("  {}.txt", list.about().name));
            match sums.lines().find_map(|line| line.strip_suffix(&name)) {
                Some(frozen) => assert_eq!(sum, frozen, "{tier:?} has changed: add another one instead"),
                None => all.push_str(&format!("{sum}{name}\n")),
            }
        }
        committed(&file, &all).unwrap_or_else(|error| panic!("{error}"));
        let [core, full] =
            [Tier::Core1, Tier::Full1].map(|tier| CaseList::tier(tier, suite.scenarios()).expect("valid"));
        assert!(core.lines.keys().all(|case| full.lines.contains_key(case)));
    }

    #[test]
    fn a_line_names_a_scenario_or_one_of_its_cases() {
        let list = parse("# a list\nmemory.fill@native\n\nidentity.stable # with a comment\n").expect("valid");
        let suite = Suite::standard();
        let has = |id: &str, exporter| list.has(suite.scenario(id).expect(id), exporter);
        assert!(has("memory.fill", Some(ExporterName::Native)) && has("identity.stable", None));
        assert!(!has("memory.fill", Some(ExporterName::Vulkan)) && !has("identity.json", None));
        let list = parse("memory.fill").expect("valid");
        assert!(list.has(suite.scenario("memory.fill").expect("known"), Some(ExporterName::Vulkan)));
    }

    #[test]
    fn lines_of_other_systems_are_left_out() {
        let list = parse("linux: memory.fill\nwindows: memory.fill\n").expect("valid");
        assert_eq!(list.lines.len(), 1);
        let other = if cfg!(windows) { "linux" } else { "windows" };
        assert!(
            parse(&format!("{other}: no.such")).is_err_and(|stop| stop.reason().contains("no case for this system"))
        );
    }

    #[test]
    fn unknown_cases_are_errors() {
        for line in ["memory.fil", "memory.fill@cuda", "identity.stable@native", "beos: memory.fill"] {
            let reason = parse(&format!("memory.fill\n{line}")).expect_err(line).reason().to_owned();
            assert!(reason.contains(&format!("line 2: `{line}`")), "{reason}");
        }
    }

    const SCENARIOS: [Scenario; 6] = [
        Scenario::new("a.1", Exporters::None, "", |_| Ok(())),
        Scenario::new("a.2", Exporters::None, "", |_| Ok(())),
        Scenario::new("a.3", Exporters::None, "", |_| Ok(())),
        Scenario::new("a.4", Exporters::None, "", |_| Ok(())),
        Scenario::new("a.5", Exporters::None, "", |_| Ok(())),
        Scenario::new("a.6", Exporters::None, "", |_| Ok(())),
    ];

    fn cases() -> Vec<Case<'static>> {
        SCENARIOS.iter().map(|scenario| Case { scenario, exporter: None }).collect()
    }

    #[test]
    fn every_case_is_in_one_shard() {
        let all = cases();
        for count in 1..=6 {
            let mut places = Vec::new();
            for index in 1..=count {
                let (selected, shard) = select(&all, ShardNumber { index, count }).expect("not empty");
                assert_eq!((selected.len(), shard.total), (shard.positions.len(), 6));
                places.extend(shard.positions);
            }
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2, 3, 4, 5]);
        }
        assert!(select(&all, ShardNumber { index: 7, count: 7 }).is_err());
    }

    #[test]
    fn numbers_are_from_1() {
        assert_eq!("2/4".parse(), Ok(ShardNumber { index: 2, count: 4 }));
        for text in ["0/4", "5/4", "4", "1/0", "a/b", "-1/2", ""] {
            assert!(text.parse::<ShardNumber>().is_err(), "{text}");
        }
    }
}
