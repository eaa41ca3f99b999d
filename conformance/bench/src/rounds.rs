//! Variants of one operation, measured alternately.
//!
//! A measurement of the processor's own work counts only rounds on a free core ([`Effort::on_a_free_core`]).

use std::time::{Duration, Instant};

use gpu_interop_conformance::{Verdict, ensure};

use super::quiet::Core;

/// Rounds on a free core, enough for an interval of about a hundredth.
const ENOUGH: usize = 500;
/// Until there are enough, a measurement with rounds on a busy core takes up to this many times its budget.
const EXTENSION: u32 = 4;

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
    /// Rounds count only if no other thread used the core, if there are at least `least` of these.
    pub(super) on_a_free_core: bool,
}

impl Effort {
    /// For cheap calls: many rounds within this time.
    pub(super) fn within(budget: Duration) -> Self {
        Self { warm_up: 5, least: 15, most: 1000, budget, on_a_free_core: false }
    }

    /// A fixed number of rounds.
    pub(super) fn exactly(rounds: usize) -> Self {
        Self { warm_up: 1, least: rounds, most: rounds, budget: Duration::ZERO, on_a_free_core: false }
    }

    /// For the cost of the calling thread's own work: leaves out rounds on a busy core ([`Core`]). Takes up to four times
    /// the budget on a machine with busy cores. Counts every round if less than `least` are on a free core.
    pub(super) fn on_a_free_core(self) -> Self {
        Self { on_a_free_core: true, ..self }
    }

    /// A tenth of the time; fewer rounds.
    pub(super) fn quick(self) -> Self {
        let least = self.least.div_ceil(3);
        let most = (self.most / 10).max(least);
        Self { warm_up: self.warm_up.min(1), least, most, budget: self.budget / 10, ..self }
    }

    /// `true` after enough rounds on a free and on a busy core, `begun` after the first of them.
    fn is_met(&self, free: usize, busy: usize, begun: Duration) -> bool {
        if free >= self.most {
            return true;
        }
        let extension = if busy > 0 && free < ENOUGH.min(self.most) { EXTENSION } else { 1 };
        free + busy >= self.least && begun >= self.budget * extension
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
    pub(super) fn only(self, indices: &'static [usize]) -> Self {
        let mut run = self.run;
        Self::new(self.name, move || {
            let values = run()?;
            Ok(indices.iter().map(|index| values.get(*index).copied().flatten()).collect())
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

/// The samples of all variants.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) samples: Vec<Samples>,
    pub(super) cores: Cores,
}

/// The processor cores of a measurement's rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cores {
    /// Every round counts, on whichever core.
    Any,
    /// So many rounds do not count, because the core was busy.
    Free { left_out: usize },
    /// Every round counts, because too few were on a free core: so many were on a busy one.
    Busy { busy: usize },
}

/// Runs every variant once a round. The order changes from round to round, so that no variant always follows the
/// same one.
pub(super) fn take_turns(
    effort: Effort,
    quantities: usize,
    variants: &mut [Variant<'_>],
    core: &mut Option<Core<'_>>,
) -> Verdict<Measured> {
    let count = variants.len();
    let mut core = effort.on_a_free_core.then(|| core.get_or_insert_with(Core::calibrated));
    // On a free core, and on a busy one.
    let [mut free, mut busy] = [Vec::new(), Vec::new()];
    let mut start = Instant::now();
    for round in 0.. {
        if round == effort.warm_up {
            start = Instant::now();
        }
        if round >= effort.warm_up && effort.is_met(free.len(), busy.len(), start.elapsed()) {
            break;
        }
        let mut is_free = core.as_mut().is_none_or(|core| core.wait_until_free());
        let mut values = vec![Vec::new(); count];
        for turn in 0..count {
            let index = order(round, turn, count);
            values[index] = (variants[index].run)()?;
            ensure!(
                values[index].len() == quantities,
                "{} measured {} quantities instead of {quantities}",
                variants[index].name,
                values[index].len()
            );
            is_free = core.as_mut().is_none_or(|core| core.is_free()) && is_free;
        }
        if round >= effort.warm_up {
            if is_free { free.push(values) } else { busy.push(values) }
        }
    }
    let cores = match busy.len() {
        _ if !effort.on_a_free_core => Cores::Any,
        busy if free.len() < effort.least => Cores::Busy { busy },
        left_out => Cores::Free { left_out },
    };
    if let Cores::Busy { .. } = cores {
        free.append(&mut busy);
    }
    let of = |index: usize, quantity: usize| free.iter().filter_map(|round| round[index][quantity]).collect();
    let samples = variants.iter().enumerate().map(|(index, variant)| Samples {
        variant: variant.name,
        quantities: (0..quantities).map(|quantity| of(index, quantity)).collect(),
    });
    Ok(Measured { samples: samples.collect(), cores })
}

/// The order of a round: forwards in even rounds, backwards in odd ones, with another start every two rounds.
fn order(round: usize, turn: usize, count: usize) -> usize {
    let turn = if round.is_multiple_of(2) { turn } else { count - 1 - turn };
    (turn + round / 2) % count
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::super::quiet::Timed;
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
        let effort = Effort { warm_up: 2, ..Effort::exactly(3) };
        let samples = take_turns(effort, 2, &mut variants, &mut None).expect("samples").samples;
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
        let budget = Duration::from_millis(20);
        let effort = Effort { warm_up: 0, least: 4, most: 1_000_000_000, budget, on_a_free_core: false };
        let samples = take_turns(effort, 1, &mut variants, &mut None).expect("samples").samples;
        assert!(samples[0].quantities[0].len() >= 4);
        assert!(take_turns(effort, 2, &mut variants, &mut None).is_err(), "one number for two quantities");
    }

    /// Measures two variants. `is_busy` decides for each round and variant.
    fn measure_beside(effort: Effort, is_busy: impl Fn(u32, u32) -> bool) -> Measured {
        let (calls, variant) = (Cell::new(0_u32), Cell::new(0));
        // Of the last call; each round has two.
        let round = || calls.get().div_ceil(2);
        let mut core = Core::new(
            || Timed { taken: if is_busy(round(), variant.get()) { 1500.0 } else { 1000.0 }, processor: 0 },
            || {},
        );
        for _ in 0..20 {
            core.is_free();
        }
        let run = |number: u32| {
            let (calls, variant) = (&calls, &variant);
            move || {
                calls.set(calls.get() + 1);
                variant.set(number);
                Ok(f64::from(round()))
            }
        };
        let mut variants = [Variant::of_one("a", run(1)), Variant::of_one("b", run(2))];
        take_turns(effort.on_a_free_core(), 1, &mut variants, &mut Some(core)).expect("samples")
    }

    #[test]
    fn a_round_counts_only_if_the_core_was_free_after_each_variant() {
        let effort = Effort { warm_up: 0, budget: Duration::from_secs(60), ..Effort::exactly(6) };
        for busy_variant in [1, 2] {
            let measured = measure_beside(effort, |round, variant| round % 3 == 2 && variant == busy_variant);
            let counted = &measured.samples[0].quantities[0];
            assert_eq!(counted.len(), 6);
            assert!(counted.iter().all(|round| round % 3.0 != 2.0), "{counted:?}");
            assert!(matches!(measured.cores, Cores::Free { left_out: 2.. }), "{:?}", measured.cores);
        }
    }

    #[test]
    fn a_core_that_is_never_free_ends_no_later_and_counts_every_round() {
        let effort = Effort { warm_up: 0, budget: Duration::from_millis(1), ..Effort::exactly(3) };
        let measured = measure_beside(effort, |round, _| round > 0);
        assert_eq!((measured.cores, measured.samples[1].quantities[0].len()), (Cores::Busy { busy: 3 }, 3));
    }

    #[test]
    fn busy_cores_extend_the_budget_until_there_are_enough_rounds() {
        let (plain, seconds) = (Effort::within(Duration::from_secs(1)), Duration::from_secs);
        let on_any = |free, time| plain.is_met(free, 0, time);
        assert!(on_any(15, seconds(1)) && !on_any(14, seconds(9)) && on_any(1000, seconds(0)));
        for effort in [plain.on_a_free_core(), plain.on_a_free_core().quick()] {
            let (enough, budget) = (ENOUGH.min(effort.most), effort.budget);
            assert!(effort.is_met(15, 0, budget), "every round was on a free core");
            assert!(effort.is_met(enough, 9, budget) && !effort.is_met(enough - 1, 9, budget * 3));
            assert!(effort.is_met(0, 15, budget * 4) && !effort.is_met(0, 4, budget * 4));
            assert!(effort.is_met(effort.most, 9, seconds(0)));
        }
    }
}
