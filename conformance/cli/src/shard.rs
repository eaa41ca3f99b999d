//! `--shard`: every n-th case.

use std::str::FromStr;

use gpu_interop_conformance::{Stop, Verdict};

use crate::report;
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
