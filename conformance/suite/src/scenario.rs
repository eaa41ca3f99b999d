//! The type of a scenario, and tables of scenarios.

use std::time::Duration;

use crate::context::Context;
use crate::need::{Need, Setup};
use crate::outcome::Verdict;
use crate::peer::Channel;

/// The exporters that a scenario runs with, each as a case of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exporters {
    /// The scenario needs no exporter.
    None,
    /// Every available exporter.
    Any,
}

/// Whether other scenarios may run at the same time, in other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concurrency {
    /// They may.
    Shared,
    /// They may not: the scenario needs most of the machine's memory, or measures the free memory of the GPU.
    Exclusive,
}

/// The work of another process of a scenario, selected by name.
pub(crate) type Role = fn(&Context, &Channel) -> Verdict;

/// A scenario: written once with the safe objects, run on every backend.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Scenario {
    /// Stable name: `group.what`.
    pub id: &'static str,
    /// One sentence: the statement that holds if the scenario passes.
    pub purpose: &'static str,
    /// The exporters it runs with.
    pub exporters: Exporters,
    /// The requirements of its table, and its own.
    needs: [&'static [Need]; 2],
    /// The time after which it is stopped.
    pub time_limit: Duration,
    /// Whether other scenarios may run at the same time.
    pub concurrency: Concurrency,
    /// `true` if it counts the descriptors, mappings, threads or memory of its process during many cycles. It shares its
    /// process with such scenarios only, because late releases of others would be counted.
    pub counts_resources: bool,
    /// `true` if no other scenario may run after it in its process: it leaves work or threads behind.
    pub last_in_process: bool,
    /// `true` if a host thread signals a timeline while another waits for it, which deadlocks old validation layers of
    /// Vulkan.
    pub signals_by_host: bool,
    /// `true` if the number of streams that wait for each other exceeds a driver's default number of hardware queues.
    pub many_streams: bool,
    /// The equivalent elsewhere, if any: a test of a public suite, or a written contract.
    pub source: Option<&'static str>,
    /// The function that runs it.
    pub run: fn(&Context) -> Verdict,
}

impl Scenario {
    /// The time limit of most scenarios.
    pub const TIME_LIMIT: Duration = Duration::from_secs(60);

    /// A scenario without requirements, which may share its process. `purpose` is the statement that holds if it
    /// passes.
    #[must_use]
    pub const fn new(
        id: &'static str,
        exporters: Exporters,
        purpose: &'static str,
        run: fn(&Context) -> Verdict,
    ) -> Self {
        Self {
            id,
            purpose,
            exporters,
            needs: [&[]; 2],
            time_limit: Self::TIME_LIMIT,
            concurrency: Concurrency::Shared,
            counts_resources: false,
            last_in_process: false,
            signals_by_host: false,
            many_streams: false,
            source: None,
            run,
        }
    }

    /// The requirements.
    pub fn requirements(&self) -> impl Iterator<Item = Need> {
        self.needs.into_iter().flatten().copied()
    }

    /// The reason why it is unsupported in `setup`, according to its requirements; `None` if it can be tried.
    #[must_use]
    pub fn unsupported(&self, setup: &Setup<'_>) -> Option<String> {
        self.requirements().find_map(|need| need.unmet(setup))
    }
}

// The options of a row, by name.
#[allow(unused, reason = "not every system has scenarios with each of them")]
impl Scenario {
    /// Sets its own requirements.
    pub(crate) const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs: [self.needs[0], needs], ..self }
    }

    /// Sets the requirements of its table.
    pub(crate) const fn with_common_needs(self, needs: &'static [Need]) -> Self {
        Self { needs: [needs, self.needs[1]], ..self }
    }

    /// Sets its time limit, seconds.
    pub(crate) const fn within(self, seconds: u64) -> Self {
        Self { time_limit: Duration::from_secs(seconds), ..self }
    }

    /// Names its equivalent elsewhere.
    pub(crate) const fn mirrors(self, source: &'static str) -> Self {
        Self { source: Some(source), ..self }
    }

    pub(crate) const fn exclusive(self) -> Self {
        Self { concurrency: Concurrency::Exclusive, ..self }
    }

    pub(crate) const fn counts_resources(self) -> Self {
        Self { counts_resources: true, ..self }
    }

    pub(crate) const fn last_in_process(self) -> Self {
        Self { last_in_process: true, ..self }
    }

    pub(crate) const fn signals_by_host(self) -> Self {
        Self { signals_by_host: true, ..self }
    }

    pub(crate) const fn many_streams(self) -> Self {
        Self { many_streams: true, ..self }
    }
}

/// Builds the constant `SCENARIOS`, a table of scenarios.
///
/// A row is `id, exporters, purpose, function` and options in any order: `needs [...]` (see
/// [`need!`](crate::need::need)), `within(seconds)`, `mirrors("...")`, `exclusive`, `counts_resources`, `last_in_process`,
/// `signals_by_host`, `many_streams`. The function is a path or a closure that captures nothing. A table may begin with
/// `all need [...];`.
macro_rules! scenarios {
    (all need [$($common:tt)*]; $($rows:tt)+) => {
        $crate::scenario::scenarios! { @rows [$($common)*] $($rows)+ }
    };
    (@rows $common:tt $( $id:expr, $exporters:ident, $purpose:expr, $run:expr
        $(, $option:ident $([$($need:tt)*])? $(($value:expr))? )*; )+) => {
        /// The scenarios of this table.
        pub(crate) const SCENARIOS: &[$crate::scenario::Scenario] = &[$(
            $crate::scenario::Scenario::new($id, $crate::scenario::Exporters::$exporters, $purpose, $run)
                .with_common_needs($crate::scenario::need_list! $common)
                $( .$option($($crate::scenario::need_list! [$($need)*])? $($value)?) )*,
        )+];
    };
    ($($rows:tt)+) => {
        $crate::scenario::scenarios! { @rows [] $($rows)+ }
    };
}
pub(crate) use scenarios;

/// Requirements, separated by commas, as a constant.
macro_rules! need_list {
    ($( $($need:ident)+ ),* $(,)?) => {
        const { &[$($crate::need::need!($($need)+)),*] as &[$crate::need::Need] }
    };
}
pub(crate) use need_list;
