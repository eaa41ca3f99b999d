//! Lines of the journal.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::report::{CaseReport, Report};

/// A line of the journal. `device` is the ordinal, `at_us` the time since the run on the device began or continued,
/// microseconds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// The run on a device begins.
    Run {
        device: usize,
        /// The report without results.
        report: Box<Report>,
        /// The names of all cases, in order.
        cases: Vec<String>,
    },
    /// A killed run continues.
    Resumed { device: usize, at: DateTime<Utc> },
    /// The first run of a case that runs again, before expectations.
    Failed { device: usize, at_us: u64, case: CaseReport },
    /// The result of a case.
    Case { device: usize, at_us: u64, case: CaseReport },
}
