//! Variants of one operation, measured alternately.

use std::time::{Duration, Instant};

use gpu_interop_conformance::{Verdict, ensure};

/// The extent of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Warm-up rounds, not counted.
    pub(super) warm_up: usize,
    /// Minimum number of rounds.
    pub(super) least: usize,
    /// Maximum number of rounds.
    pub(super) most: usize,
    /// No new round begins after this time.
    pub(super) budget: Duration,
}

impl Effort {
    /// For cheap calls: many rounds within this time.
    pub(super) fn within(budget: Duration) -> Self {
        Self { warm_up: 5, least: 15, most: 1000, budget }
    }

    /// A fixed number of rounds.
    pub(super) fn exactly(rounds: usize) -> Self {
        Self { warm_up: 1, least: rounds, most: rounds, budget: Duration::ZERO }
    }

    /// A tenth of the time; fewer rounds.
    pub(super) fn quick(self) -> Self {
        let least = self.least.div_ceil(3);
        Self { warm_up: self.warm_up.min(1), least, most: (self.most / 10).max(least), budget: self.budget / 10 }
    }
}

/// One variant: each call is one round and returns one number for each quantity, or `None` where this
/// variant does not measure it.
pub(super) struct Variant<'a> {
    pub(super) name: &'static str,
    pub(super) run: Box<dyn FnMut() -> Verdict<Vec<Option<f64>>> + 'a>,
}

impl<'a> Variant<'a> {
    pub(super) fn new(name: &'static str, run: impl FnMut() -> Verdict<Vec<Option<f64>>> + 'a) -> Self {
        Self { name, run: Box::new(run) }
    }

    /// The same with these quantities only, by index.
    pub(super) fn only(self, places: &'static [usize]) -> Self {
        let mut run = self.run;
        Self::new(self.name, move || {
            let values = run()?;
            Ok(places.iter().map(|place| values.get(*place).copied().flatten()).collect())
        })
    }

    /// A variant with one quantity.
    pub(super) fn of_one(name: &'static str, mut run: impl FnMut() -> Verdict<f64> + 'a) -> Self {
        Self::new(name, move || Ok(vec![Some(run()?)]))
    }
}

/// The samples of one variant: a list for each quantity.
#[derive(Debug)]
pub(super) struct Samples {
    pub(super) variant: &'static str,
    pub(super) quantities: Vec<Vec<f64>>,
}

/// Runs every variant once a round. The order changes from round to round, so that no variant always follows the
/// same one.
pub(super) fn take_turns(effort: Effort, quantities: usize, variants: &mut [Variant<'_>]) -> Verdict<Vec<Samples>> {
    let count = variants.len();
    let mut samples: Vec<Samples> = variants
        .iter()
        .map(|variant| Samples { variant: variant.name, quantities: vec![Vec::new(); quantities] })
        .collect();
    let mut start = Instant::now();
    for round in 0.. {
        if round == effort.warm_up {
            start = Instant::now();
        }
        let counted = round.saturating_sub(effort.warm_up);
        if counted >= effort.most || (counted >= effort.least && start.elapsed() >= effort.budget) {
            break;
        }
        for turn in 0..count {
            let index = order(round, turn, count);
            let values = (variants[index].run)()?;
            ensure!(
                values.len() == quantities,
                "{} measured {} quantities instead of {quantities}",
                variants[index].name,
                values.len()
            );
            if round < effort.warm_up {
                continue;
            }
            for (list, value) in samples[index].quantities.iter_mut().zip(values) {
                list.extend(value);
            }
        }
    }
    Ok(samples)
}

/// The order of a round: forwards in even rounds, backwards in odd ones, with another start every two rounds.
fn order(round: usize, turn: usize, count: usize) -> usize {
    let turn = if round.is_multiple_of(2) { turn } else { count - 1 - turn };
    (turn + round / 2) % count
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn everybody_has_one_turn_a_round_and_follows_everybody_else() {
        for count in 1..=4 {
            let mut follows = std::collections::BTreeSet::new();
            let mut last = None;
            for round in 0..4 * count {
                let turns: Vec<usize> = (0..count).map(|turn| order(round, turn, count)).collect();
                let mut all = turns.clone();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..count), "{turns:?}");
                for turn in turns {
                    follows.extend(last.replace(turn).map(|last| (last, turn)));
                }
            }
            for index in 0..count {
                let before = follows.iter().filter(|(_, after)| *after == index).count();
                assert!(before >= count.min(2), "{index} of {count} always follows the same: {follows:?}");
            }
        }
    }

    #[test]
    fn warm_up_is_not_counted_and_gaps_are_kept_apart() {
        let log = RefCell::new(Vec::new());
        let (mut calls, mut others) = (0.0, 0.0);
        let mut variants = [
            Variant::new("a", || {
                log.borrow_mut().push("a");
                calls += 1.0;
                Ok(vec![Some(calls), None])
            }),
            Variant::new("b", || {
                log.borrow_mut().push("b");
                others += 1.0;
                Ok(vec![Some(-others), Some(0.5)])
            }),
        ];
        let effort = Effort { warm_up: 2, least: 3, most: 3, budget: Duration::ZERO };
        let samples = take_turns(effort, 2, &mut variants).expect("samples");
        assert_eq!(samples[0].quantities, [vec![3.0, 4.0, 5.0], vec![]]);
        assert_eq!(samples[1].quantities, [vec![-3.0, -4.0, -5.0], vec![0.5; 3]]);
        drop(variants);
        assert_eq!(log.into_inner().concat(), "abba".to_owned() + "ba" + "ab" + "ab");
    }

    #[test]
    fn chosen_quantities_keep_their_order() {
        let mut variant = Variant::new("a", || Ok(vec![Some(1.0), None, Some(3.0)])).only(&[2, 0, 1]);
        assert_eq!((variant.run)().expect("values"), [Some(3.0), Some(1.0), None]);
    }

    #[test]
    fn the_budget_ends_what_the_least_has_met() {
        let mut variants = [Variant::of_one("a", || Ok(1.0))];
        let effort = Effort { warm_up: 0, least: 4, most: 1_000_000_000, budget: Duration::from_millis(20) };
        let samples = take_turns(effort, 1, &mut variants).expect("samples");
        assert!(samples[0].quantities[0].len() >= 4);
        assert!(take_turns(effort, 2, &mut variants).is_err(), "one number for two quantities");
    }
}
