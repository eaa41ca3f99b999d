//! JUnit XML, as CI systems read it.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report as JunitReport, TestCase, TestCaseStatus, TestSuite};

use super::{Report, text};
use crate::outcome::{Outcome, Stop, Verdict};

/// The report as JUnit XML: one suite a scenario group.
pub(crate) fn render(report: &Report) -> Verdict<String> {
    let mark = text::mark(&report.backend, report.emulated.as_ref()).map(|mark| format!(" {mark}")).unwrap_or_default();
    let mut junit = JunitReport::new(format!("gpu-interop conformance, {}{mark}", report.backend.name));
    let mut groups: Vec<(String, TestSuite)> = Vec::new();
    for result in &report.results {
        let group = result.id.split('.').next().unwrap_or_default().to_owned();
        let reason = result.reason.clone().unwrap_or_default();
        let mut status = match result.outcome {
            Outcome::Passed | Outcome::ExpectedFailure => TestCaseStatus::success(),
            Outcome::Unsupported | Outcome::Skipped => TestCaseStatus::skipped(),
            Outcome::Failed | Outcome::UnexpectedPass => TestCaseStatus::non_success(NonSuccessKind::Failure),
            Outcome::Crashed | Outcome::TimedOut => TestCaseStatus::non_success(NonSuccessKind::Error),
        };
        if result.outcome != Outcome::Passed && result.outcome != Outcome::ExpectedFailure {
            status.set_message(format!("{}: {reason}", result.outcome));
        }
        let mut case = TestCase::new(result.name(), status);
        case.set_classname(format!("{}.{group}", report.backend.name));
        case.set_time(Duration::from_micros(result.duration_us));
        let mut output = text::observations(result) + &text::calls(result);
        if result.outcome == Outcome::ExpectedFailure {
            output = format!("expected failure: {reason}\n{output}");
        }
        if !output.is_empty() {
            case.set_system_out(output);
        }
        if let Some(log) = &result.log {
            case.set_system_err(log);
        }
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, suite)) => {
                suite.add_test_case(case);
            }
            None => {
                let mut suite = TestSuite::new(group.clone());
                suite.add_test_case(case);
                groups.push((group, suite));
            }
        }
    }
    junit.add_test_suites(groups.into_iter().map(|(_, suite)| suite));
    junit.set_time(Duration::from_micros(report.duration_us));
    junit.to_string().map_err(|error| Stop::Failed(format!("cannot write JUnit XML: {error}")))
}
