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
    /// Whether no other scenario may run meanwhile: it needs most of the machine's memory, or two processes on one GPU
    /// would make it wait for time slices.
    pub alone: bool,
    /// Whether it must not share its process with other scenarios: it leaves something behind that could disturb them.
    pub own_process: bool,
    /// Whether one thread of the host signals a timeline while another waits for it, which old validation layers of
    /// Vulkan do not survive.
    pub signals_by_host: bool,
    /// Whether streams wait for each other that are more than a driver gives hardware queues to by default.
    pub many_streams: bool,
    /// Where others ask for the same, as far as somebody does: the name of a public suite and of what it has there, or
    /// a written contract.
    pub source: Option<&'static str>,
    /// The scenario itself.
    pub run: fn(&Context) -> Verdict,
}

impl Scenario {
    /// The time limit of most scenarios.
    pub const TIME_LIMIT: Duration = Duration::from_secs(60);
}

/// Whether `marks` has `mark`; for tables that are built while compiling.
pub(crate) const fn has_mark(marks: &[&str], mark: &str) -> bool {
    let mut index = 0;
    while index < marks.len() {
        let (here, wanted) = (marks[index].as_bytes(), mark.as_bytes());
        let mut same = 0;
        while same < here.len() && same < wanted.len() && here[same] == wanted[same] {
            same += 1;
        }
        if same == here.len() && same == wanted.len() {
            return true;
        }
        index += 1;
    }
    false
}

/// Builds a table of scenarios: `id, exporters, "purpose", function;`, after the function `[alone]`, `[own_process]`,
/// `[signals_by_host]` and `[many_streams]` or several of them, and a time limit, where they differ from most; last,
/// after `mirrors`, what else asks for the same.
macro_rules! scenarios {
    ($( $id:expr, $exporters:ident, $purpose:literal, $run:path $([$($mark:ident),+])? $(, within $seconds:literal s)?
        $(, mirrors $source:literal)?; )+) => {
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
                alone: crate::scenario::has_mark(&[$($(stringify!($mark)),+)?], "alone"),
                own_process: crate::scenario::has_mark(&[$($(stringify!($mark)),+)?], "own_process"),
                signals_by_host: crate::scenario::has_mark(&[$($(stringify!($mark)),+)?], "signals_by_host"),
                many_streams: crate::scenario::has_mark(&[$($(stringify!($mark)),+)?], "many_streams"),
                source: {
                    let mut source: Option<&str> = None;
                    $( source = Some($source); )?
                    source
                },
                run: $run,
            },
        )+];
    };
}
pub(crate) use scenarios;

#[cfg(test)]
mod tests {
    use super::has_mark;

    #[test]
    fn marks_are_compared_whole() {
        assert!(has_mark(&["alone"], "alone") && has_mark(&["own_process", "alone"], "alone"));
        assert!(!has_mark(&[], "alone") && !has_mark(&["al", "alonely"], "alone"));
    }
}
