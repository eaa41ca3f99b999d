//! `--shard`: a subset of the cases, balanced by duration so that all shards end at about the same time.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use gpu_interop_conformance::{Beside, Stop, Verdict};

use crate::report::{self, Report, case_name, merge};
use crate::runner::Case;
use crate::sha256;

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

/// Durations of cases, microseconds.
#[derive(Debug)]
pub(crate) struct Durations {
    by_name: BTreeMap<String, u64>,
    /// The median of those that are not 0: the duration of an unknown case.
    median: u64,
}

impl Durations {
    /// Those compiled into the command: `conformance/durations.txt`.
    pub(crate) fn built_in() -> Self {
        let line = |line: &str| {
            let (name, duration) = line.split_once(' ')?;
            Some((name.to_owned(), duration.parse().ok()?))
        };
        Self::new(include_str!("../../durations.txt").lines().filter_map(line).collect())
    }

    /// Those of a report of `run` or `merge`. Of several runs, the longest.
    ///
    /// # Errors
    /// If it cannot be read, or has no results.
    pub(crate) fn read(path: &Path) -> Verdict<Self> {
        let reports =
            merge::runs(path).map_err(|error| Stop::Failed(format!("--durations {}: {error}", path.display())))?;
        Ok(Self::of_reports(&reports))
    }

    fn of_reports(reports: &[Report]) -> Self {
        let mut all = BTreeMap::new();
        for case in reports.iter().flat_map(|report| &report.results) {
            let longest = all.entry(case.name()).or_insert(0);
            *longest = case.duration_us.max(*longest);
        }
        Self::new(all)
    }

    fn new(by_name: BTreeMap<String, u64>) -> Self {
        let mut known: Vec<u64> = by_name.values().copied().filter(|duration| *duration > 0).collect();
        known.sort_unstable();
        Self { median: known.get(known.len() / 2).copied().unwrap_or(1), by_name }
    }

    /// The duration of a case, also under its former name, microseconds.
    pub(crate) fn of(&self, case: &Case<'_>) -> u64 {
        let names = || case.scenario.names().map(|id| case_name(id, case.exporter));
        names().find_map(|name| self.by_name.get(&name).copied()).unwrap_or(self.median)
    }

    fn sha256(&self) -> String {
        sha256::of_lines(self.by_name.iter().map(|(name, duration)| format!("{name} {duration}")))
    }
}

/// The cases of one shard, and its description for the report.
///
/// # Errors
/// If the shard is empty.
pub(crate) fn select<'a>(
    cases: &[Case<'a>],
    number: ShardNumber,
    durations: &Durations,
) -> Verdict<(Vec<Case<'a>>, report::Shard)> {
    let ShardNumber { index, count } = number;
    let shards = assign(cases, count, durations);
    let positions: Vec<usize> = (0..cases.len()).filter(|position| shards[*position] == index - 1).collect();
    if positions.is_empty() {
        let total = cases.len();
        let message =
            format!("--shard {index}/{count}: the shard is empty, because there are {total} cases; use fewer shards");
        return Err(Stop::Failed(message));
    }
    let selected = positions.iter().map(|position| cases[*position]).collect();
    let shard = report::Shard {
        index,
        count,
        total: cases.len(),
        cases_sha256: sha256::of_lines(cases.iter().map(Case::name)),
        durations_sha256: durations.sha256(),
        positions,
    };
    Ok((selected, shard))
}

/// The shard of each case. The longest case comes first, and each goes to the shard with the shortest total duration. The
/// result is the same on every machine.
fn assign(cases: &[Case<'_>], count: usize, durations: &Durations) -> Vec<usize> {
    // No more shards than cases have any.
    let count = count.min(cases.len());
    // By default two processes share the busy cases. No second busy process runs beside a case that is marked
    // `beside_waiting` or `alone`, so that it counts twice.
    let cost = |case: &Case<'_>| {
        durations.of(case).saturating_mul(if case.scenario.beside >= Beside::Waiting { 2 } else { 1 })
    };
    let mut order: Vec<(u64, usize)> = cases.iter().map(cost).zip(0..).collect();
    order.sort_by_key(|(cost, position)| (Reverse(*cost), *position));
    let (mut shards, mut loads) = (vec![0; cases.len()], vec![(0, 0); count]);
    for (cost, position) in order {
        // Of equal loads the shard with fewer cases, then the first.
        let least = (0..count).min_by_key(|shard| loads[*shard]).unwrap_or_default();
        loads[least].0 = cost.saturating_add(loads[least].0);
        loads[least].1 += 1;
        shards[position] = least;
    }
    shards
}

#[cfg(test)]
mod tests {
    use gpu_interop_conformance::{Exporters, Scenario};

    use super::*;

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

    fn durations(all: &[(&str, u64)]) -> Durations {
        Durations::new(all.iter().map(|(name, duration)| ((*name).to_owned(), *duration)).collect())
    }

    #[test]
    fn shards_end_together() {
        let durations = durations(&[("a.1", 50), ("a.2", 10), ("a.3", 10), ("a.4", 10), ("a.5", 10), ("a.6", 10)]);
        assert_eq!(assign(&cases(), 2, &durations), [0, 1, 1, 1, 1, 1]);
        // Without any known duration, cases are distributed evenly.
        assert_eq!(assign(&cases(), 3, &Durations::new(BTreeMap::new())), [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_case_has_the_duration_of_its_former_name() {
        let durations = durations(&[("a.1", 50), ("a.0", 7), ("a.2", 9)]);
        let mut scenario = SCENARIOS[5];
        scenario.alias = Some("a.0");
        assert_eq!(durations.of(&Case { scenario: &scenario, exporter: None }), 7);
    }

    #[test]
    fn every_case_is_in_one_shard() {
        let (all, durations) = (cases(), durations(&[("a.2", 7), ("a.5", 3)]));
        for count in 1..=6 {
            let mut places = Vec::new();
            for index in 1..=count {
                let (selected, shard) = select(&all, ShardNumber { index, count }, &durations).expect("not empty");
                assert_eq!((selected.len(), shard.total), (shard.positions.len(), 6));
                places.extend(shard.positions);
            }
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2, 3, 4, 5]);
        }
        assert!(select(&all, ShardNumber { index: 7, count: 7 }, &durations).is_err());
    }

    #[test]
    fn numbers_are_from_1() {
        assert_eq!("2/4".parse(), Ok(ShardNumber { index: 2, count: 4 }));
        for text in ["0/4", "5/4", "4", "1/0", "a/b", "-1/2", ""] {
            assert!(text.parse::<ShardNumber>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_durations_in_the_command_are_read() {
        let text = include_str!("../../durations.txt");
        assert_eq!(Durations::built_in().by_name.len(), text.lines().count());
    }
}
