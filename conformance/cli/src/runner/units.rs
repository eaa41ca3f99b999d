//! Distribution of cases over processes and threads.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use gpu_interop_conformance::{Beside, Scenario};

use super::case::Case;
use super::plan::Isolation;
use crate::shard::Durations;

/// The number of scenarios that justify another process: starting a GPU's drivers takes longer than most scenarios.
const WORTH_A_PROCESS: usize = 20;

/// What all scenarios of a process have in common.
fn kind(scenario: &Scenario) -> (Beside, [bool; 3]) {
    let Scenario { beside, counts_resources, signals_by_host, many_streams, .. } = *scenario;
    (beside, [counts_resources, signals_by_host, many_streams])
}

/// Distributes cases over processes: one exporter a process, a group such as `memory.*` together, except scenarios
/// marked `own_process`. The units that take longest come first, so that all processes end together.
pub(super) fn units(isolation: Isolation, jobs: usize, cases: &[Case<'_>], indices: &[usize]) -> Vec<Vec<usize>> {
    let durations = Durations::built_in();
    let cost = |unit: &Vec<usize>| unit.iter().map(|index| durations.of(&cases[*index])).sum::<u64>();
    let (mut units, mut groups) = (Vec::new(), BTreeMap::<_, BTreeMap<&str, Vec<usize>>>::new());
    for index in indices {
        let case = &cases[*index];
        let scenario = case.scenario;
        if scenario.own_process || isolation != Isolation::Shared {
            units.push(vec![*index]);
            continue;
        }
        let group = scenario.id.split('.').next().unwrap_or_default();
        groups.entry((kind(scenario), case.exporter)).or_default().entry(group).or_default().push(*index);
    }
    for (((beside, _), _), groups) in groups {
        let mut groups: Vec<_> = groups.into_values().collect();
        let worth = groups.iter().map(Vec::len).sum::<usize>().div_ceil(WORTH_A_PROCESS);
        let mut shared = vec![(0, Vec::new()); if beside >= Beside::Waiting { 1 } else { worth.min(2 * jobs) }];
        // The longest group first, each to the shortest unit.
        groups.sort_by_key(|group| Reverse(cost(group)));
        for group in groups {
            if let Some((taken, least)) = shared.iter_mut().min_by_key(|(taken, _)| *taken) {
                *taken += cost(&group);
                least.extend(group);
            }
        }
        units.extend(shared.into_iter().map(|(_, unit)| unit).filter(|unit| !unit.is_empty()));
    }
    units.sort_by_key(|unit| Reverse(cost(unit)));
    units
}

/// Calls `run` for each unit, from `jobs` threads, with the result of `prepare`, which another thread calls for the next
/// units meanwhile. That thread calls `last` at the end, and this function returns its result.
pub(super) fn side_by_side<T: Sync, P: Send, R: Send>(
    jobs: usize,
    units: &[T],
    prepare: &(impl Fn(&T) -> P + Sync),
    run: &(impl Fn(&T, P) + Sync),
    last: impl FnOnce() -> R + Send,
) -> R {
    // One more waits for its place in the queue.
    let (sender, receiver) = sync_channel(jobs / 2);
    let receiver = Arc::new(Mutex::new(receiver));
    // The scope propagates a worker's panic.
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let receiver = receiver.clone();
            scope.spawn(move || {
                let next = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                while let Ok((unit, prepared)) = next() {
                    run(unit, prepared);
                }
            });
        }
        // If all workers have panicked, no unit is sent any more.
        drop(receiver);
        for unit in units {
            if sender.send((unit, prepare(unit))).is_err() {
                break;
            }
        }
        drop(sender);
        last()
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    use gpu_interop_conformance::Suite;

    use super::*;

    fn cases(scenarios: &[Scenario]) -> Vec<Case<'_>> {
        scenarios.iter().map(|scenario| Case { scenario, exporter: None }).collect()
    }

    #[test]
    fn every_case_is_in_one_unit_with_others_of_its_kind() {
        let suite = Suite::standard();
        let cases = cases(suite.scenarios());
        let indices: Vec<usize> = (0..cases.len()).collect();
        for (isolation, jobs) in [(Isolation::Shared, 1), (Isolation::Shared, 4), (Isolation::Scenario, 4)] {
            let units = units(isolation, jobs, &cases, &indices);
            let mut all = units.concat();
            all.sort_unstable();
            assert_eq!(all, indices, "{isolation:?}, {jobs}");
            for unit in &units {
                let kind = |index: &usize| kind(cases[*index].scenario);
                assert!(unit.iter().all(|index| kind(index) == kind(&unit[0])), "{unit:?}");
                let single =
                    isolation != Isolation::Shared || unit.iter().any(|index| cases[*index].scenario.own_process);
                assert!(!single || unit.len() == 1, "{unit:?}");
            }
            let durations = Durations::built_in();
            let costs: Vec<u64> =
                units.iter().map(|unit| unit.iter().map(|index| durations.of(&cases[*index])).sum()).collect();
            assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
        }
    }

    #[test]
    fn each_unit_runs_once_with_what_was_prepared_for_it() {
        for jobs in [1, 2, 5] {
            let (units, ran) = (Vec::from_iter(0..20), Mutex::new(Vec::new()));
            let run = |unit: &i32, prepared: i32| ran.lock().expect("no panic").push((*unit, prepared));
            let last = side_by_side(jobs, &units, &|unit| 10 * unit, &run, || "last");
            let mut ran = ran.into_inner().expect("no panic");
            ran.sort_unstable();
            assert_eq!((ran, last), (units.iter().map(|unit| (*unit, 10 * unit)).collect(), "last"), "{jobs}");
        }
    }

    /// Also with units that no worker takes any more.
    #[test]
    fn a_panic_of_each_worker_is_passed_on() {
        let units: Vec<i32> = (0..20).collect();
        let ended = AtomicBool::new(false);
        let run = |_: &i32, (): ()| {
            ended.store(true, Ordering::Relaxed);
            panic!("planted")
        };
        let ran = catch_unwind(AssertUnwindSafe(|| side_by_side(2, &units, &|_| (), &run, || ())));
        assert!(ran.is_err() && ended.load(Ordering::Relaxed));
    }
}
