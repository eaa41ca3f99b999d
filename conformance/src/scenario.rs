//! What a scenario is.

use std::time::Duration;

use crate::context::Context;
use crate::outcome::Verdict;

/// Which exporters a scenario runs with, each as a case of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exporters {
    /// It needs none.
    None,
    /// Every exporter there is.
    Any,
}

/// One scenario: written once against the safe objects, run on every backend.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Stable name: `group.what`.
    pub id: &'static str,
    /// One sentence: what holds if it passes.
    pub purpose: &'static str,
    /// The exporters it runs with.
    pub exporters: Exporters,
    /// How long it may take before it is stopped.
    pub time_limit: Duration,
    /// Whether no other scenario may run meanwhile: it needs most of the machine's memory.
    pub alone: bool,
    /// The scenario itself.
    pub run: fn(&Context) -> Verdict,
}

impl Scenario {
    /// The time limit of most scenarios.
    pub const TIME_LIMIT: Duration = Duration::from_secs(30);
}

/// Builds a table of scenarios: `id, exporters, "purpose", function;`, after the function `[alone]` and a time limit
/// where they differ from most.
macro_rules! scenarios {
    ($( $id:literal, $exporters:ident, $purpose:literal, $run:path $([$alone:ident])? $(, within $seconds:literal s)?; )+) => {
        /// The scenarios of this group.
        pub(super) const SCENARIOS: &[crate::scenario::Scenario] = &[$(
            #[allow(unused_mut, unused_assignments)]
            crate::scenario::Scenario {
                id: $id,
                purpose: $purpose,
                exporters: crate::scenario::Exporters::$exporters,
                time_limit: {
                    let mut limit = crate::scenario::Scenario::TIME_LIMIT;
                    $( limit = std::time::Duration::from_secs($seconds); )?
                    limit
                },
                alone: !concat!("" $(, stringify!($alone))?).is_empty(),
                run: $run,
            },
        )+];
    };
}
pub(crate) use scenarios;
