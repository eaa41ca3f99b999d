//! Durations of cases: slower or faster by more than the noise.
//!
//! A stall of the machine lengthens a case and never shortens it. With equal numbers of runs on both sides, the fastest run of
//! each side counts. The noise is the greatest deviation of the fastest run between halves of a side, of any case. With unequal
//! numbers of runs, or few cases, the slowest run before counts: the fastest of many runs is faster than the fastest of few,
//! and few cases do not show the noise.
//!
//! A single run on a side has high limits, because its stalls cannot be detected. If there is one on each side, the noise is
//! the greatest deviation in the opposite direction, because equal runs deviate equally in both.

use std::time::Duration;

/// Durations below this are dominated by the scheduler, seconds.
const GRAIN: f64 = 0.05;
/// A duration counts if it exceeds the noise by this factor.
const MARGIN: f64 = 2.0;
/// The number of cases from which on their median is that of the run, and their noise that of any case.
const ENOUGH: usize = 10;

/// The durations of one case in all runs of both sides, seconds. Neither side is empty.
#[derive(Debug, Clone)]
pub(super) struct Timed {
    pub(super) before: Vec<f64>,
    pub(super) after: Vec<f64>,
}

impl Timed {
    /// From microseconds; `None` if a side has none.
    pub(super) fn new(before: &[u64], after: &[u64]) -> Option<Self> {
        let seconds = |all: &[u64]| all.iter().map(|us| Duration::from_micros(*us).as_secs_f64()).collect::<Vec<_>>();
        let timed = Self { before: seconds(before), after: seconds(after) };
        (!timed.before.is_empty() && !timed.after.is_empty()).then_some(timed)
    }

    /// As if all durations after the change had been shorter by this factor.
    fn scaled(&self, factor: f64) -> Self {
        Self { before: self.before.clone(), after: self.after.iter().map(|seconds| seconds / factor).collect() }
    }

    fn swapped(&self) -> Self {
        Self { before: self.after.clone(), after: self.before.clone() }
    }

    /// The increase from the slowest run before to the fastest one after.
    fn excess(&self) -> f64 {
        increase(slowest(&self.before), fastest(&self.after))
    }
}

fn slowest(all: &[f64]) -> f64 {
    all.iter().copied().fold(0.0, f64::max)
}

fn fastest(all: &[f64]) -> f64 {
    all.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The relative increase of a duration; negative for a decrease.
fn increase(from: f64, to: f64) -> f64 {
    (to - from) / (from + GRAIN)
}

/// The greatest increase of one of some equal runs over all others.
fn spread(equal: &[f64]) -> f64 {
    let mut sorted = equal.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.as_slice() {
        [first, second, .., before_last, last] => increase(*before_last, *last).max(increase(*first, *second)),
        [first, .., last] => increase(*first, *last),
        _ => 0.0,
    }
}

/// The deviation of the fastest run between halves of equal runs: the first and the second, and those with even and odd
/// numbers.
fn deviation(equal: &[f64]) -> f64 {
    if equal.len() < 2 {
        return 0.0;
    }
    let every_second = |first| fastest(&equal.iter().copied().skip(first).step_by(2).collect::<Vec<_>>());
    let (first, second) = equal.split_at(equal.len() / 2);
    let halves = [[fastest(first), fastest(second)], [every_second(0), every_second(1)]];
    halves.iter().map(|half| increase(fastest(half), slowest(half))).fold(0.0, f64::max)
}

/// The rule for the durations of two sides.
#[derive(Debug)]
pub(super) struct Rule {
    /// The least ratio of durations.
    ratio: f64,
    /// The least difference, seconds.
    least: f64,
    /// The greatest increase that is noise, for a slower and for a faster case.
    noise: [f64; 2],
    /// The median ratio of all cases.
    shift: f64,
    runs: (usize, usize),
    /// The fastest run before counts, not the slowest.
    is_fastest: bool,
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speed {
    Slower,
    Faster,
}

impl Rule {
    /// The rule for these cases, which ran this often on each side.
    pub(super) fn of(cases: &[Timed], runs: (usize, usize)) -> Self {
        let (ratio, least) = match runs {
            (1, 1) => (5.0, 3.0),
            (1, _) | (_, 1) => (2.0, 3.0),
            _ => (1.3, 0.05),
        };
        let shift = shift(cases);
        let is_fastest = runs.0 == runs.1 && runs.0 > 1 && cases.len() >= ENOUGH;
        let noise = if runs == (1, 1) {
            let greatest =
                |excess: fn(&Timed) -> f64| cases.iter().map(|case| excess(&case.scaled(shift))).fold(0.0, f64::max);
            [greatest(|case| case.swapped().excess()), greatest(Timed::excess)]
        } else {
            let sides = cases.iter().flat_map(|case| [&case.before, &case.after]);
            let of = if is_fastest { deviation } else { spread };
            [sides.map(|side| of(side)).fold(0.0, f64::max); 2]
        };
        Self { ratio, least, noise, shift, runs, is_fastest }
    }

    /// Compares the durations of a case. `None` also if it is not in all runs.
    pub(super) fn judge(&self, case: &Timed) -> Option<Speed> {
        if case.before.len() < self.runs.0 || case.after.len() < self.runs.1 {
            return None;
        }
        let scaled = case.scaled(self.shift);
        if self.admits(&scaled, self.noise[0]) {
            return Some(Speed::Slower);
        }
        self.admits(&scaled.swapped(), self.noise[1]).then_some(Speed::Faster)
    }

    /// `true` if the fastest run after took longer than the run before that counts, by more than the noise.
    fn admits(&self, case: &Timed, noise: f64) -> bool {
        let (from, to) = (if self.is_fastest { fastest } else { slowest }(&case.before), fastest(&case.after));
        let is_slower = to > from * self.ratio && to - from > self.least && increase(from, to) > MARGIN * noise;
        is_slower && to > median(&case.before)
    }

    /// The rule in words.
    pub(super) fn describe(&self) -> String {
        let Self { ratio, least, noise: [slower, faster], shift, runs: (before, after), is_fastest } = self;
        let [compared, median] =
            if *is_fastest { ["fastest", ", longer than the median before"] } else { ["slowest", ""] };
        let mut text = format!(
            "{before} against {after} runs: a case is slower if its fastest run took {ratio} times as long as its \
             {compared} run before, at least {least} s longer{median}, and {MARGIN} times as much longer as the noise explains"
        );
        let percent = 100.0 * MARGIN * slower.max(*faster);
        text.push_str(&format!(" (here {percent:.0} % of the duration and {GRAIN} s)"));
        if (shift - 1.0).abs() > 0.05 {
            text.push_str(&format!("; the median case took {shift:.2} times as long, which is taken out"));
        }
        if !*is_fastest {
            text.push_str("; more runs, as many on each side, find smaller changes");
        }
        text
    }
}

/// The median ratio of the cases' median durations; 1 for few cases.
fn shift(cases: &[Timed]) -> f64 {
    let ratio = |case: &Timed| (median(&case.after) + GRAIN) / (median(&case.before) + GRAIN);
    let ratios: Vec<f64> = cases.iter().map(ratio).collect();
    if ratios.len() < ENOUGH { 1.0 } else { median(&ratios) }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.len() % 2) {
        (Some(upper), 0) => (sorted[middle - 1] + upper) / 2.0,
        (Some(value), _) => *value,
        (None, _) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(before: &[f64], after: &[f64]) -> Timed {
        Timed { before: before.into(), after: after.into() }
    }

    /// A calm case, and one with noise of 40 ms in equal runs.
    fn calm(runs: usize) -> Vec<Timed> {
        let noisy = [0.10, 0.14, 0.12];
        let steady = case(&vec![0.1; runs], &vec![0.1; runs]);
        let mut all = vec![steady; 20];
        all.push(case(&noisy[..runs], &noisy[..runs]));
        all
    }

    #[test]
    fn several_runs_find_what_is_beyond_their_noise() {
        let cases = calm(3);
        let rule = Rule::of(&cases, (3, 3));
        let of = |before: &[f64], after: &[f64]| rule.judge(&case(before, after));
        assert!(cases.iter().all(|case| rule.judge(case).is_none()));
        assert_eq!(of(&[0.1, 0.1, 0.1], &[0.3, 0.31, 0.3]), Some(Speed::Slower));
        assert_eq!(of(&[0.3, 0.31, 0.3], &[0.1, 0.1, 0.1]), Some(Speed::Faster));
        // One run that is as fast as before is enough to be in doubt.
        assert_eq!(of(&[0.1, 0.1, 0.1], &[0.3, 0.1, 0.3]), None);
        assert_eq!(of(&[0.1, 0.1, 0.1], &[0.13, 0.13, 0.13]), None, "within the noise");
        assert_eq!(of(&[0.001, 0.001, 0.001], &[0.02, 0.02, 0.02]), None, "less than the least difference");
    }

    #[test]
    fn a_single_run_on_each_side_finds_only_what_no_stall_resembles() {
        let rule = Rule::of(&calm(1), (1, 1));
        assert_eq!(rule.judge(&case(&[0.1], &[2.9])), None);
        assert_eq!(rule.judge(&case(&[0.1], &[3.5])), Some(Speed::Slower));
        assert_eq!(rule.judge(&case(&[2.0], &[5.0])), None, "less than five times");
        // A stall of three seconds before the change is noise after it.
        let mut stalled = calm(1);
        stalled.push(case(&[4.0], &[0.1]));
        let rule = Rule::of(&stalled, (1, 1));
        assert_eq!(rule.judge(&case(&[0.1], &[4.0])), None);
    }

    /// One line a case, and one column a run, milliseconds: 24 equal runs on three H100 machines with driver 580.159.04. Only
    /// cases that took 0.1 s or more. Nine are left out: their durations included the start or exit of a process in some runs.
    /// The start of a process stalls cases in others for up to 5 s.
    const EQUAL_RUNS: &str = include_str!("equal_runs.txt");
    const RUNS: usize = 24;

    /// The durations of two sides, whose runs have these columns.
    fn measured(before: &[usize], after: &[usize]) -> Vec<Timed> {
        let side = |line: &str, columns: &[usize]| -> Vec<f64> {
            let all: Vec<f64> = line.split(' ').map(|ms| ms.parse::<f64>().expect("a number") / 1000.0).collect();
            assert_eq!(all.len(), RUNS);
            columns.iter().map(|column| all[*column]).collect()
        };
        EQUAL_RUNS.lines().map(|line| Timed { before: side(line, before), after: side(line, after) }).collect()
    }

    #[test]
    fn equal_runs_of_a_gpu_do_not_differ() {
        for (before, after) in [(1, 1), (1, 2), (1, 4), (2, 2), (2, 7), (2, 22), (10, 2), (3, 3), (4, 4), (12, 12)] {
            for (stride, first) in [1, 5, 7, 11].iter().flat_map(|stride| (0..RUNS).map(move |first| (stride, first))) {
                let columns: Vec<usize> = (0..before + after).map(|run| (first + stride * run) % RUNS).collect();
                let cases = measured(&columns[..before], &columns[before..]);
                let rule = Rule::of(&cases, (before, after));
                let differ: Vec<_> = cases.iter().filter(|case| rule.judge(case).is_some()).collect();
                assert!(differ.is_empty(), "{columns:?}, {before} before: {differ:?}");
            }
        }
    }

    /// The number of cases that count as slower if they took this much longer, seconds, each with all others unchanged.
    fn found(runs: usize, more: f64) -> usize {
        let columns: Vec<usize> = (0..2 * runs).collect();
        let cases = measured(&columns[..runs], &columns[runs..]);
        let rule = Rule::of(&cases, (runs, runs));
        let slower = |case: &Timed| case.after.iter().map(|seconds| seconds + more).collect();
        let changed = cases.iter().map(|case| Timed { before: case.before.clone(), after: slower(case) });
        changed.filter(|case| rule.judge(case) == Some(Speed::Slower)).count()
    }

    #[test]
    fn more_runs_of_a_gpu_find_smaller_changes() {
        let all = EQUAL_RUNS.lines().count();
        let [three, twelve] = [3, 12].map(|runs| found(runs, 2.0));
        assert!(4 * three > all / 2 && 3 * twelve > 2 * all && twelve > 2 * three, "{three}, {twelve} of {all}");
    }

    #[test]
    fn a_slower_machine_is_no_slower_case() {
        let cases: Vec<Timed> = (1..30).map(|n| case(&[0.2 * f64::from(n); 2], &[0.4 * f64::from(n); 2])).collect();
        let rule = Rule::of(&cases, (2, 2));
        assert!(cases.iter().all(|case| rule.judge(case).is_none()));
        assert_eq!(rule.judge(&case(&[1.0; 2], &[4.0; 2])), Some(Speed::Slower));
        assert!(rule.describe().contains("times as long, which is taken out"), "{}", rule.describe());
    }

    #[test]
    fn medians_are_of_odd_and_even_counts() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0]), median(&[])), (2.0, 2.5, 0.0));
    }
}
