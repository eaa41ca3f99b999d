//! What a run does, and with which cases.

use std::num::NonZeroUsize;
use std::time::Duration;

use globset::GlobMatcher;
use gpu_interop_conformance::{Expectations, ExporterName, Exporters, Scenario, Seeds};

use super::case::Case;
use super::place::{Drivers, NO_EXPORTER};
use crate::case_list::CaseList;
use crate::report::{Environment, Shard, case_name};

/// The options of a run.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The ordinal of the device under test.
    pub(crate) device: usize,
    pub(crate) seeds: Seeds,
    pub(crate) filter: Option<GlobMatcher>,
    /// The list of `--cases` or `--tier`.
    pub(crate) list: Option<CaseList>,
    pub(crate) exporters: Vec<ExporterName>,
    pub(crate) isolation: Isolation,
    pub(crate) timeout: Option<Duration>,
    /// The number of processes that run scenarios at the same time.
    pub(crate) jobs: NonZeroUsize,
    pub(crate) expectations: Expectations,
    /// How often a case that fails unexpectedly runs again; 0 without isolation.
    pub(crate) retries: u32,
    /// Stops the run after this number of failures.
    pub(crate) max_failures: Option<NonZeroUsize>,
    /// `true` if reports have the driver calls of failed cases.
    pub(crate) calls: bool,
    /// The shard that the cases are.
    pub(crate) shard: Option<Shard>,
}

/// How scenarios are isolated from each other's crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolation {
    /// A few processes for many scenarios each, with a new one after each failure.
    Shared,
    /// A process for each scenario.
    Scenario,
    /// No isolation: all scenarios run in this process.
    None,
}

impl Plan {
    /// The cases that match the filter and are in the list.
    pub(crate) fn cases<'a>(&self, scenarios: &'a [Scenario]) -> Vec<Case<'a>> {
        let is_listed = |case: &Case<'_>| self.list.as_ref().is_none_or(|list| list.has(case.scenario, case.exporter));
        let matches = |case: &Case<'_>| {
            self.filter.as_ref().is_none_or(|filter| {
                let matches = |id| filter.is_match(id) || filter.is_match(case_name(id, case.exporter));
                case.scenario.names().any(matches)
            })
        };
        scenarios
            .iter()
            .flat_map(|scenario| {
                let exporters = match scenario.exporters {
                    Exporters::None => vec![None],
                    Exporters::Any => self.exporters.iter().copied().map(Some).collect(),
                };
                exporters.into_iter().map(move |exporter| Case { scenario, exporter })
            })
            .filter(|case| is_listed(case) && matches(case))
            .collect()
    }

    /// Expectations for this machine that match no scenario at all.
    pub(crate) fn stale_expectations(&self, environment: &Environment, scenarios: &[Scenario]) -> Vec<String> {
        let everything = || {
            scenarios.iter().flat_map(|scenario| {
                let exporters = match scenario.exporters {
                    Exporters::None => vec![NO_EXPORTER],
                    Exporters::Any => ExporterName::ALL.iter().map(|exporter| exporter.name()).collect(),
                };
                let cases = move |exporter| scenario.names().map(move |id| (id, exporter));
                exporters.into_iter().flat_map(cases)
            })
        };
        let drivers = Drivers::of(environment);
        self.expectations.stale(&drivers.machine(environment), everything)
    }

    /// `true` if scenarios run in other processes.
    pub(super) fn is_isolated(&self) -> bool {
        self.isolation != Isolation::None
    }
}
