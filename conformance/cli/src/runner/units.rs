//! Distribution of cases over processes and threads.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::case::Case;
use super::plan::{Isolation, Plan};

/// The number of scenarios that justify another process: starting a GPU's drivers takes longer than most scenarios.
const WORTH_A_PROCESS: usize = 20;

impl Plan {
    /// Distributes cases over processes: one exporter a process, a group such as `memory.*` together, except scenarios
    /// marked `own_process`. Twice as many units as parallel processes balance the load, unless there are few cases.
    pub(super) fn units(&self, cases: &[Case<'_>], indices: &[usize]) -> Vec<Vec<usize>> {
        let (mut units, mut groups) = (Vec::new(), BTreeMap::<_, BTreeMap<&str, Vec<usize>>>::new());
        for index in indices {
            let case = &cases[*index];
            let scenario = case.scenario;
            if scenario.own_process || self.isolation != Isolation::Shared {
                units.push(vec![*index]);
                continue;
            }
            let group = scenario.id.split('.').next().unwrap_or_default();
            let key = (scenario.alone, scenario.signals_by_host, scenario.many_streams, case.exporter);
            groups.entry(key).or_default().entry(group).or_default().push(*index);
        }
        for ((alone, ..), groups) in groups {
            let mut groups: Vec<_> = groups.into_values().collect();
            let worth = groups.iter().map(Vec::len).sum::<usize>().div_ceil(WORTH_A_PROCESS);
            let mut shared = vec![Vec::new(); if alone { 1 } else { worth.min(2 * self.jobs.get()) }];
            // The largest group first, each to the smallest unit.
            groups.sort_by_key(|group| Reverse(group.len()));
            for group in groups {
                if let Some(least) = shared.iter_mut().min_by_key(|unit| unit.len()) {
                    least.extend(group);
                }
            }
            units.extend(shared.into_iter().filter(|unit| !unit.is_empty()));
        }
        units
    }
}

/// Calls `run` for each unit from `jobs` threads.
pub(super) fn side_by_side<T: Sync>(jobs: usize, units: &[T], run: &(impl Fn(&T) + Sync)) {
    let next = AtomicUsize::new(0);
    // Relaxed: each unit is taken once; no other data depends on the order.
    let take = || units.get(next.fetch_add(1, Ordering::Relaxed));
    let work = || std::iter::from_fn(take).for_each(run);
    if jobs <= 1 {
        return work();
    }
    // The scope propagates a worker's panic.
    std::thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
}
