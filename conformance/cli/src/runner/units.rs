//! Distribution of cases over processes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use gpu_interop::DeviceKind;
use gpu_interop_conformance::{Beside, ExporterName, Scenario};

use super::case::Case;
use super::plan::Isolation;
use crate::report::Environment;
use crate::shard::Durations;

/// The number of scenarios that justify another process: starting a GPU's drivers takes longer than most scenarios.
const WORTH_A_PROCESS: usize = 40;

/// What matters of the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    /// Vulkan's exporter has a validation layer.
    pub(super) validated: bool,
    /// The device has no time slices: it is a CPU.
    pub(super) cpu: bool,
}

impl Machine {
    pub(super) fn of(environment: &Environment) -> Self {
        Self { validated: environment.is_validated(), cpu: environment.device.kind == DeviceKind::Cpu }
    }

    pub(super) fn beside(self, scenario: &Scenario) -> Beside {
        if self.cpu && scenario.beside == Beside::Waiting { Beside::Any } else { scenario.beside }
    }

    /// `true` if `last`, marked `last_in_process`, may run after `others` in their process.
    fn may_end_with<'a>(self, mut others: impl Iterator<Item = &'a Case<'a>>, last: &Case<'_>) -> bool {
        let (last_beside, [counts, layer, queues]) = self.kind(last);
        // Units of other kinds run one at a time, without busy processes or alone.
        let may_end = |beside| beside <= last_beside && last_beside <= Beside::All;
        others.all(|other| {
            let (beside, [other_counts, other_layer, other_queues]) = self.kind(other);
            let is_alike = (other.exporter, other_layer, other_queues) == (last.exporter, layer, queues);
            is_alike && may_end(beside) && (other_counts || !counts) && !other.scenario.last_in_process
        })
    }

    /// What all scenarios of a process have in common.
    fn kind(self, case: &Case<'_>) -> (Beside, [bool; 3]) {
        let Scenario { counts_resources, signals_by_host, many_streams, .. } = *case.scenario;
        let without_layer = signals_by_host && self.validated && case.exporter == Some(ExporterName::Vulkan);
        (self.beside(case.scenario), [counts_resources, without_layer, many_streams])
    }
}

/// Distributes cases over processes: one exporter a process, a group such as `memory.*` together. A scenario marked
/// `last_in_process` is the last one of a process of others, which saves a start, as far as there are such processes. The
/// units that take longest come first, so that all processes end together.
pub(super) fn units(
    isolation: Isolation,
    jobs: usize,
    machine: Machine,
    cases: &[Case<'_>],
    indices: &[usize],
) -> Vec<Vec<usize>> {
    let durations = Durations::built_in();
    let cost = |unit: &Vec<usize>| unit.iter().map(|index| durations.of(&cases[*index])).sum::<u64>();
    let (mut units, mut last) = (Vec::new(), Vec::new());
    let mut groups = BTreeMap::<_, BTreeMap<&str, Vec<usize>>>::new();
    for index in indices {
        let case = &cases[*index];
        let scenario = case.scenario;
        if isolation != Isolation::Shared {
            units.push(vec![*index]);
            continue;
        }
        if scenario.last_in_process {
            last.push(*index);
            continue;
        }
        let group = scenario.id.split('.').next().unwrap_or_default();
        groups.entry((machine.kind(case), case.exporter)).or_default().entry(group).or_default().push(*index);
    }
    for (((beside, _), _), groups) in groups {
        let mut groups: Vec<_> = groups.into_values().collect();
        let worth = groups.iter().map(Vec::len).sum::<usize>().div_ceil(WORTH_A_PROCESS);
        let mut shared = vec![(0, Vec::new()); if beside >= Beside::Waiting { 1 } else { worth.min(2 * jobs) }];
        // The longest group first, each to the shortest unit.
        groups.sort_by_cached_key(|group| Reverse(cost(group)));
        for group in groups {
            if let Some((taken, least)) = shared.iter_mut().min_by_key(|(taken, _)| *taken) {
                *taken += cost(&group);
                least.extend(group);
            }
        }
        units.extend(shared.into_iter().map(|(_, unit)| unit).filter(|unit| !unit.is_empty()));
    }
    units.sort_by_cached_key(|unit| Reverse(cost(unit)));
    last.sort_by_cached_key(|index| Reverse(durations.of(&cases[*index])));
    for index in last {
        let fits =
            |unit: &&mut Vec<usize>| machine.may_end_with(unit.iter().map(|index| &cases[*index]), &cases[index]);
        match units.iter_mut().find(fits) {
            Some(unit) => unit.push(index),
            None => units.push(vec![index]),
        }
    }
    units.sort_by_cached_key(|unit| Reverse(cost(unit)));
    units
}

#[cfg(test)]
mod tests {
    use gpu_interop_conformance::Suite;

    use super::*;

    /// Each scenario with each exporter.
    fn cases(scenarios: &[Scenario]) -> Vec<Case<'_>> {
        let exporters = [None, Some(ExporterName::Native), Some(ExporterName::Vulkan)];
        scenarios.iter().flat_map(|scenario| exporters.map(|exporter| Case { scenario, exporter })).collect()
    }

    #[test]
    fn every_case_is_in_one_unit_with_others_of_its_kind() {
        let suite = Suite::standard();
        let cases = cases(suite.scenarios());
        let indices: Vec<usize> = (0..cases.len()).collect();
        let plans = [
            (Isolation::Shared, 1, true, false),
            (Isolation::Shared, 2, false, false),
            (Isolation::Shared, 4, true, true),
            (Isolation::Scenario, 4, true, false),
        ];
        for (isolation, jobs, validated, cpu) in plans {
            let machine = Machine { validated, cpu };
            let units = units(isolation, jobs, machine, &cases, &indices);
            let mut all = units.concat();
            all.sort_unstable();
            assert_eq!(all, indices, "{isolation:?}, {jobs}");
            for unit in &units {
                let kind = |index: &usize| (machine.kind(&cases[*index]), cases[*index].exporter);
                let is_last = |index: &usize| cases[*index].scenario.last_in_process;
                let (last, others) = unit.split_last().expect("no empty unit");
                assert!(others.iter().all(|index| kind(index) == kind(&unit[0]) && !is_last(index)), "{unit:?}");
                assert!(is_last(last) || kind(last) == kind(&unit[0]), "{unit:?}");
                assert!(others.is_empty() || isolation == Isolation::Shared, "{unit:?}");
                if let Some(first) = others.first().filter(|_| is_last(last)) {
                    let ((beside, [_, layer, queues]), exporter) = kind(first);
                    let ((last_beside, [_, last_layer, last_queues]), last_exporter) = kind(last);
                    assert_eq!((layer, queues, exporter), (last_layer, last_queues, last_exporter), "{unit:?}");
                    assert!(beside <= last_beside && last_beside <= Beside::All, "{unit:?}");
                }
            }
            // Starts are saved.
            let alone = units.iter().filter(|unit| cases[unit[0]].scenario.last_in_process).count();
            let all = cases.iter().filter(|case| case.scenario.last_in_process).count();
            assert!(
                if isolation == Isolation::Shared { 3 * alone < 2 * all } else { alone == all },
                "{alone} of {all}"
            );
            let durations = Durations::built_in();
            let costs: Vec<u64> =
                units.iter().map(|unit| unit.iter().map(|index| durations.of(&cases[*index])).sum()).collect();
            assert!(costs.is_sorted_by(|a, b| a >= b), "{costs:?}");
        }
    }
}
