//! JUnit XML for CI systems.

use std::time::Duration;

use gpu_interop_conformance::{Outcome, Stop, Verdict};
use quick_junit::{
    FlakyOrRerun, NonSuccessKind, Report as JunitReport, TestCase, TestCaseStatus, TestRerun, TestSuite,
};

use super::{CaseReport, Report, Sourced, text};
use crate::output::visible;
use crate::requirement::Flakes;

/// The reports of one run as JUnit XML: one suite for each scenario group and device.
pub(crate) fn render(reports: &[Sourced<Report>], flakes: Flakes) -> Verdict<String> {
    let first = reports.first().map(|sourced| &sourced.report);
    let mark = first.and_then(|report| text::mark(&report.backend, report.emulated.as_ref()));
    let mark = mark.map(|mark| format!(" {mark}")).unwrap_or_default();
    let backend = first.map(|report| report.backend.name.as_str()).unwrap_or_default();
    let mut junit = JunitReport::new(format!("gpu-interop conformance, {backend}{mark}"));
    for Sourced { source, report } in reports {
        junit.add_test_suites(suites(source, report, flakes));
    }
    // A continued run has the durations of its journal.
    let total_us = reports.iter().fold(0, |total: u64, sourced| total.saturating_add(sourced.report.duration_us));
    junit.set_time(Duration::from_micros(total_us));
    let text = junit.to_string().map_err(|error| Stop::failed(format!("cannot write JUnit XML: {error}")))?;
    Ok(visible(&text).into_owned())
}

fn suites(device: &str, report: &Report, flakes: Flakes) -> impl Iterator<Item = TestSuite> {
    let mut groups: Vec<(String, TestSuite)> = Vec::new();
    for result in &report.results {
        let group = result.group();
        let group = if device.is_empty() { group.to_owned() } else { format!("{device}.{group}") };
        let reason = result.reason.clone().unwrap_or_default();
        let mut status = match result.outcome {
            Outcome::Flaky if flakes.fails(result) => TestCaseStatus::non_success(NonSuccessKind::Failure),
            Outcome::Passed | Outcome::ExpectedFailure | Outcome::Flaky => TestCaseStatus::success(),
            Outcome::Unsupported | Outcome::Skipped => TestCaseStatus::skipped(),
            Outcome::Failed | Outcome::UnexpectedPass => TestCaseStatus::non_success(NonSuccessKind::Failure),
            Outcome::Crashed | Outcome::TimedOut => TestCaseStatus::non_success(NonSuccessKind::Error),
        };
        status.add_reruns(reruns(result));
        if result.outcome == Outcome::Flaky {
            status.set_rerun_kind(FlakyOrRerun::Flaky);
        }
        if result.outcome != Outcome::Passed && result.outcome != Outcome::ExpectedFailure {
            status.set_message(format!("{}: {reason}", result.outcome));
        }
        let mut case = TestCase::new(result.name(), status);
        case.set_classname(format!("{}.{group}", report.backend.name));
        case.set_time(Duration::from_micros(result.duration_us));
        let kernel = text::kernel(&result.kernel_log);
        let mut output = text::observations(result) + &kernel + &text::calls(result.calls.as_ref());
        if result.outcome == Outcome::ExpectedFailure {
            output = format!("expected failure: {reason}\n{output}");
        }
        if result.outcome == Outcome::Flaky {
            output = format!("flaky: {reason}\n{output}");
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
    groups.into_iter().map(|(_, suite)| suite)
}

/// The failed runs of a case that ran again, which JUnit calls `flakyFailure` or `rerunFailure`: those before the pass of
/// a flaky case, those after the first run of a failed one.
fn reruns(result: &CaseReport) -> impl Iterator<Item = TestRerun> {
    let first = usize::from(result.outcome != Outcome::Flaky);
    result.attempts.iter().skip(first).filter(|attempt| attempt.outcome.is_failure()).map(|attempt| {
        let kind = match attempt.outcome {
            Outcome::Crashed | Outcome::TimedOut => NonSuccessKind::Error,
            _ => NonSuccessKind::Failure,
        };
        let mut rerun = TestRerun::new(kind);
        rerun.set_time(Duration::from_micros(attempt.duration_us));
        rerun.set_message(format!("{}: {}", attempt.outcome, attempt.reason.as_deref().unwrap_or_default()));
        let calls = text::calls(attempt.calls.as_ref());
        if !calls.is_empty() {
            rerun.set_system_out(calls);
        }
        if let Some(log) = &attempt.log {
            rerun.set_system_err(log);
        }
        rerun
    })
}

#[cfg(test)]
mod tests {
    use roxmltree::{Document, Node};

    use super::*;
    use crate::report::Attempt;

    /// The counts that CI systems read.
    #[test]
    fn every_outcome_is_what_ci_systems_know() {
        let mut report = crate::report::example();
        let attempt = |outcome| Attempt {
            outcome,
            reason: Some("r".into()),
            error: None,
            log: None,
            calls: None,
            duration_us: 1,
        };
        let runs = [Outcome::TimedOut, Outcome::Failed, Outcome::Passed].map(attempt).to_vec();
        for (outcome, flakes, expected) in [
            (Outcome::Passed, Flakes::Fail, &[][..]),
            (Outcome::Failed, Flakes::Report, &["failure", "rerunFailure"]),
            (Outcome::UnexpectedPass, Flakes::Report, &["failure", "rerunFailure"]),
            (Outcome::Crashed, Flakes::Report, &["error", "rerunFailure"]),
            (Outcome::TimedOut, Flakes::Report, &["error", "rerunFailure"]),
            (Outcome::Skipped, Flakes::Fail, &["skipped"]),
            (Outcome::Unsupported, Flakes::Fail, &["skipped"]),
            (Outcome::ExpectedFailure, Flakes::Fail, &[]),
            (Outcome::Flaky, Flakes::Report, &["flakyError", "flakyFailure"]),
            (Outcome::Flaky, Flakes::Fail, &["failure", "flakyError", "flakyFailure"]),
        ] {
            report.results.truncate(1);
            report.results[0].outcome = outcome;
            report.results[0].reason = Some("r".into());
            report.results[0].attempts =
                if outcome.is_failure() || outcome == Outcome::Flaky { runs.clone() } else { Vec::new() };
            let reports = [Sourced { source: String::new(), report: report.clone() }];
            let xml = render(&reports, flakes).expect("XML");
            let document = Document::parse(&xml).expect("valid");
            let case = document.descendants().find(|node| node.has_tag_name("testcase")).expect("a case");
            let kinds: Vec<&str> = case
                .children()
                .filter(|node| node.is_element() && !node.tag_name().name().starts_with("system-"))
                .map(|node: Node<'_, '_>| node.tag_name().name())
                .collect();
            assert_eq!(kinds, expected, "{outcome}, {flakes:?}: {xml}");
            let counts = ["failures", "errors"]
                .map(|name| document.root_element().attribute(name).unwrap_or_default().to_owned());
            let counted = |kind| u8::from(expected.contains(&kind)).to_string();
            assert_eq!(counts, [counted("failure"), counted("error")], "{outcome}, {flakes:?}");
        }
    }
}
