//! Distribution of cases over processes, and the workers that run them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Mutex;

use gpu_interop::sync::lock;
use gpu_interop_conformance::{Concurrency, ExporterName};

use super::Isolation;
use super::case::Case;

/// The number of cases after which another process begins. Starting a GPU's drivers takes longer than most scenarios.
const CASES_PER_PROCESS: usize = 40;

/// The cases of a process, in order, as indices. All have the same [`Key`].
pub(super) type Group = Vec<usize>;

/// The properties that all cases of a process have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    exporter: Option<ExporterName>,
    counts_resources: bool,
    without_layer: bool,
    many_streams: bool,
    is_exclusive: bool,
}

impl Key {
    fn of(case: &Case<'_>, has_layer: bool) -> Self {
        let scenario = case.scenario;
        Self {
            exporter: case.exporter,
            counts_resources: scenario.counts_resources,
            without_layer: scenario.signals_by_host && has_layer && case.exporter == Some(ExporterName::Vulkan),
            many_streams: scenario.many_streams,
            is_exclusive: scenario.concurrency == Concurrency::Exclusive,
        }
    }
}

/// Distributes cases over processes. Scenarios with the same prefix, such as `memory.*`, share a process as far as their keys
/// permit. A scenario marked `last_in_process` ends the process of others. The largest groups come first.
///
/// `has_layer` is `true` if Vulkan's exporter has a validation layer.
pub(super) fn groups(isolation: Isolation, has_layer: bool, cases: &[Case<'_>], indices: &[usize]) -> Vec<Group> {
    if isolation == Isolation::Scenario {
        return indices.iter().map(|index| vec![*index]).collect();
    }
    let ends_process = |index: &usize| cases[*index].scenario.last_in_process;
    let mut keys = BTreeMap::<Key, (BTreeMap<&str, Group>, Vec<usize>)>::new();
    for index in indices {
        let (prefixes, last) = keys.entry(Key::of(&cases[*index], has_layer)).or_default();
        if ends_process(index) {
            last.push(*index);
        } else {
            prefixes.entry(cases[*index].group()).or_default().push(*index);
        }
    }
    let mut groups = Vec::new();
    for (prefixes, last) in keys.into_values() {
        let first = groups.len();
        for cases in prefixes.into_values() {
            match groups[first..].last_mut() {
                Some(group) if Group::len(group) < CASES_PER_PROCESS => group.extend(cases),
                _ => groups.push(cases),
            }
        }
        for index in last {
            match groups[first..].iter_mut().find(|group| !group.last().is_some_and(ends_process)) {
                Some(group) => group.push(index),
                None => groups.push(vec![index]),
            }
        }
    }
    groups.sort_by_key(|group| Reverse(group.len()));
    groups
}

/// Calls `run` for each group, by this number of workers; afterwards for the groups of exclusive scenarios, one at a time.
pub(super) fn run_all(jobs: NonZeroUsize, cases: &[Case<'_>], groups: Vec<Group>, run: &(impl Fn(Group) + Sync)) {
    let is_exclusive =
        |group: &Group| group.iter().any(|index| cases[*index].scenario.concurrency == Concurrency::Exclusive);
    let (exclusive, shared): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_exclusive);
    let queue = Mutex::new(VecDeque::from(shared));
    // The scope propagates a worker's panic.
    std::thread::scope(|scope| {
        for _ in 0..jobs.get() {
            scope.spawn(|| {
                let next = || lock(&queue).pop_front();
                while let Some(group) = next() {
                    run(group);
                }
            });
        }
    });
    exclusive.into_iter().for_each(run);
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    use gpu_interop_conformance::{Scenario, Suite};

    use super::*;

    /// Each scenario with each exporter.
    fn cases(scenarios: &[Scenario]) -> Vec<Case<'_>> {
        let exporters = [None, Some(ExporterName::Native), Some(ExporterName::Vulkan)];
        scenarios.iter().flat_map(|scenario| exporters.map(|exporter| Case { scenario, exporter })).collect()
    }

    #[test]
    fn every_case_is_in_one_group_with_others_of_its_key() {
        let suite = Suite::standard();
        let cases = cases(suite.scenarios());
        let indices: Vec<usize> = (0..cases.len()).collect();
        for (isolation, has_layer) in
            [(Isolation::Shared, true), (Isolation::Shared, false), (Isolation::Scenario, true)]
        {
            let groups = groups(isolation, has_layer, &cases, &indices);
            let mut all = groups.concat();
            all.sort_unstable();
            assert_eq!(all, indices, "{isolation:?}");
            let ends_process = |index: &usize| cases[*index].scenario.last_in_process;
            for group in &groups {
                let (last, others) = group.split_last().expect("no empty group");
                let key = Key::of(&cases[*last], has_layer);
                assert!(others.iter().all(|index| Key::of(&cases[*index], has_layer) == key), "{group:?}");
                assert!(!others.iter().any(ends_process), "{group:?}");
                assert!(others.is_empty() || isolation == Isolation::Shared, "{group:?}");
            }
            assert!(groups.is_sorted_by_key(|group| Reverse(group.len())));
            // Starts of processes are saved.
            assert!(isolation == Isolation::Scenario || groups.len() < cases.len() / 20, "{}", groups.len());
        }
    }

    const SHARED: Scenario = Scenario::new("a.b", gpu_interop_conformance::Exporters::None, "", |_| Ok(()));

    /// A shared group, an exclusive one, and five shared ones.
    fn mixed() -> ([Scenario; 2], Vec<Group>) {
        let mut exclusive = SHARED;
        exclusive.concurrency = Concurrency::Exclusive;
        ([SHARED, exclusive], [0, 1, 0, 0, 0, 0, 0].map(|index| vec![index]).into())
    }

    #[test]
    fn an_exclusive_group_runs_alone_and_last() {
        let (scenarios, groups) = mixed();
        let cases = [0, 1].map(|index| Case { scenario: &scenarios[index], exporter: None });
        for jobs in [1, 3] {
            let (ran, at_once, most) = (Mutex::new(Vec::new()), AtomicUsize::new(0), AtomicUsize::new(0));
            let run = |group: Group| {
                let now = at_once.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                assert!(now <= jobs && (group == [0] || now == 1), "{now} at once: {group:?}");
                // The other workers may start late.
                let start = Instant::now();
                while most.load(Ordering::SeqCst) < jobs && start.elapsed() < Duration::from_secs(20) {
                    std::thread::yield_now();
                }
                std::thread::sleep(Duration::from_millis(5));
                at_once.fetch_sub(1, Ordering::SeqCst);
                ran.lock().expect("no panic").extend(group);
            };
            run_all(NonZeroUsize::new(jobs).expect("not 0"), &cases, groups.clone(), &run);
            assert_eq!(ran.into_inner().expect("no panic"), [0, 0, 0, 0, 0, 0, 1], "{jobs}");
            assert_eq!(most.into_inner(), jobs);
        }
    }

    #[test]
    fn a_panic_of_a_worker_is_passed_on() {
        let (scenarios, groups) = mixed();
        let cases = [0, 1].map(|index| Case { scenario: &scenarios[index], exporter: None });
        let jobs = NonZeroUsize::MIN;
        let ran = catch_unwind(AssertUnwindSafe(|| run_all(jobs, &cases, groups, &|_| panic!("planted"))));
        assert!(ran.is_err());
    }
}
