//! The judge: after any end of a scenario, and for any wrong byte, a run reports it and exits accordingly.

use std::collections::BTreeSet;

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::CaseReport;
use libtest_mimic::{Failed, Trial};

use crate::run::{at_once, check, only, refused, results, run, with_expectations};
use crate::sabotage::Fault;

pub(crate) fn tests() -> Vec<Trial> {
    let mut tests = vec![
        Trial::test("a_requirement_is_not_met_by_what_is_unsupported", unsupported_requirement),
        Trial::test("every_case_is_in_the_report_once", every_case),
        Trial::test("every_case_has_the_expectations_of_its_exporter", own_expectations),
        Trial::test("a_failure_without_isolation_fails_the_run", without_isolation),
        Trial::test("every_format_of_report_has_the_failure", reports),
    ];
    #[cfg(unix)]
    tests.extend([
        Trial::test("a_crash_at_the_end_of_a_process_is_a_crash", crash_at_exit),
        Trial::test("a_status_at_the_end_of_a_process_is_a_crash", status_at_exit),
        Trial::test("a_process_that_does_not_end_is_a_time_out", hang_at_exit),
    ]);
    tests.extend(Fault::WRONG_BYTES.map(|fault| {
        Trial::test(format!("{fault:?}_is_found_by_every_scenario_that_reads"), move || wrong_byte(fault))
    }));
    tests
}

/// Each of several cases with its end.
fn outcomes(cases: &[CaseReport]) -> Vec<(&str, Outcome)> {
    cases.iter().map(|case| (case.id.as_str(), case.outcome)).collect()
}

/// All checks pass, and then the process crashes: alone, as the last of a group, and in a process for each scenario.
#[cfg(unix)]
fn crash_at_exit() -> Result<(), Failed> {
    at_exit(Fault::CrashesAtExit, "signal 6")
}

#[cfg(unix)]
fn status_at_exit() -> Result<(), Failed> {
    at_exit(Fault::FailsAtExit, "exit status: 3")
}

#[cfg(unix)]
fn at_exit(fault: Fault, how: &str) -> Result<(), Failed> {
    let crashed = |case: &CaseReport| {
        let reason = case.reason.as_deref().unwrap_or_default();
        let reported = reason.starts_with("after the scenario: ") && reason.contains(how);
        check(case.outcome == Outcome::Crashed && reported, format!("not a crash after the scenario: {case:?}"))
    };
    let ended = |code, output: &std::process::Output| {
        check(output.status.code() == Some(code), format!("the run ended with {}", output.status))
    };
    let (output, report) = run(&fault.backend(), &["--filter", "memory.fill@native"])?;
    crashed(only(&report)?)?;
    ended(1, &output)?;
    let group = "{memory.fill,memory.read_device_local,memory.write_device_local}@native";
    let (output, report) = run(&fault.backend(), &["--filter", group])?;
    let cases = results(&report)?;
    let (last, before) = cases.split_last().ok_or("no results")?;
    crashed(last)?;
    check(before.len() == 2 && before.iter().all(|case| case.outcome == Outcome::Passed), format!("{cases:?}"))?;
    ended(1, &output)?;
    let (output, report) = run(&fault.backend(), &["--filter", group, "--isolate-each"])?;
    let cases = results(&report)?;
    check(cases.len() == 3, format!("{cases:?}"))?;
    cases.iter().try_for_each(crashed)?;
    ended(1, &output)
}

#[cfg(unix)]
fn hang_at_exit() -> Result<(), Failed> {
    let (output, report) = run(&Fault::HangsAtExit.backend(), &["--filter", "memory.fill@native", "--timeout", "12"])?;
    let case = only(&report)?;
    let reason = case.reason.as_deref().unwrap_or_default();
    let reported = reason.starts_with("after the scenario: ") && reason.contains("did not end");
    check(case.outcome == Outcome::TimedOut && reported, format!("{case:?}"))?;
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))
}

/// The exporter can be used, its only case is unsupported, and another scenario runs.
fn unsupported_requirement() -> Result<(), Failed> {
    let text = "[[unsupported]]\nscenario = 'memory.*'\nexporter = 'native'\nreason = 'for the test'";
    let filter = "{identity.stable,memory.fill@native}";
    let (output, report) = with_expectations("host", filter, text)?;
    let expected = [("identity.stable", Outcome::Passed), ("memory.fill", Outcome::Unsupported)];
    check(outcomes(results(&report)?) == expected, format!("{report:?}"))?;
    check(output.status.success(), format!("without a requirement: {}", output.status))?;
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), text)?;
    let path = file.path().to_string_lossy();
    let arguments = ["--filter", filter, "--expectations", &path, "--require", "native"];
    refused(&run("host", &arguments)?.0, "--require native: no scenario ran with this exporter")
}

fn without_isolation() -> Result<(), Failed> {
    let arguments = ["--filter", "{identity.stable,memory.fill@native}", "--no-isolate"];
    let (output, report) = run(&Fault::FillsOneByteLess.backend(), &arguments)?;
    let expected = [("identity.stable", Outcome::Passed), ("memory.fill", Outcome::Failed)];
    check(outcomes(results(&report)?) == expected, format!("{report:?}"))?;
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))
}

/// The text, JUnit and the page report the failure, not only the JSON.
fn reports() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (junit, html) = (file("junit.xml"), file("page.html"));
    let arguments = ["--filter", "memory.fill@native", "--junit", &junit, "--html", &html, "--quiet"];
    let (output, report) = run(&Fault::FillsOneByteLess.backend(), &arguments)?;
    check(only(&report)?.outcome == Outcome::Failed && report?.summary["failed"] == 1, "the JSON says no failure")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    check(text.contains("failed") && text.contains("1 failed") && text.contains("0 passed"), text)?;
    let junit = std::fs::read_to_string(junit)?;
    check(junit.contains("failures=\"1\"") && junit.contains("<failure"), junit)?;
    let html = std::fs::read_to_string(html)?;
    check(html.contains("bytes that differ from the fills"), html)
}

/// Alone or in a group, with its own process or another's, in each way to run them.
fn every_case() -> Result<(), Failed> {
    let filter = "{identity.*,memory.fill,stream.in_order,map.offsets,leak.streams,threads.import_map_free,semaphore.peer_killed}";
    for isolation in [&["--jobs", "1"][..], &["--jobs", "3"], &["--isolate-each", "--jobs", "2"]] {
        let arguments = [&["--filter", filter][..], isolation].concat();
        let (output, report) = run("host", &arguments)?;
        let report = report?;
        let names: Vec<String> = report.results.iter().map(CaseReport::name).collect();
        for wanted in [
            "identity.stable",
            "memory.fill@native",
            "leak.streams",
            "threads.import_map_free@native",
            "semaphore.peer_killed@native",
        ] {
            let count = names.iter().filter(|name| *name == wanted).count();
            check(count == 1, format!("{wanted} is there {count} times, {isolation:?}: {names:?}"))?;
        }
        check(
            output.status.success() && !report.results.iter().any(|case| case.outcome.is_failure()),
            format!("{report:?}"),
        )?;
        let counted: usize = report.summary.values().sum();
        check(counted == names.len(), format!("{counted} of {} are counted", names.len()))?;
    }
    Ok(())
}

/// An expectation for one exporter does not apply to another, or to none.
fn own_expectations() -> Result<(), Failed> {
    let filter = "{identity.stable,memory.fill@native}";
    for (exporter, expected) in [
        ("native", [Outcome::Passed, Outcome::Unsupported]),
        ("none", [Outcome::Unsupported, Outcome::Passed]),
        ("vulkan", [Outcome::Passed, Outcome::Passed]),
    ] {
        let text = format!("[[unsupported]]\nscenario = '*'\nexporter = '{exporter}'\nreason = 'for the test'");
        let (_, report) = with_expectations("host", filter, &text)?;
        let found: Vec<Outcome> = results(&report)?.iter().map(|case| case.outcome).collect();
        check(found == expected, format!("for {exporter}: {report:?}"))?;
    }
    Ok(())
}

/// Scenarios that pass although one byte of every host read is wrong: they read nothing, or only words.
const READS_NOTHING: &[&str] = &[
    "map.overflow",
    "map.past_end",
    "map.size_zero",
    "process.handles_not_inherited",
    "property.semaphores",
    "semaphore.backwards",
    "semaphore.batches",
    "semaphore.cross_process_binary",
    "semaphore.empty_batch",
    "semaphore.failed_batch",
    "semaphore.import_cycles",
    "semaphore.large_values",
    "semaphore.other_device",
    "semaphore.peer_killed",
    "semaphore.prepared_batches",
    "semaphore.smaller_wait",
    "semaphore.timeout",
    "semaphore.wait_before_signal",
    "semaphore.wrong_kind",
    "semaphore.wrong_parameters",
    "stream.host_function_panics",
    "stream.many",
    "stream.timeout",
    "stream.wait_value_64",
    "timeline.environment",
    "timeline.no_timeline.bridge",
    "timeline.no_timeline.native",
];

fn wrong_byte(fault: Fault) -> Result<(), Failed> {
    // Several runs, because scenarios of one group follow each other and some reach a time limit.
    let filters = [
        "{map,memory,lifetime,graph,reverse,process,threads,capture,property}.*@native",
        "{stream,semaphore}.*@native",
        "timeline.*.native@native",
        "timeline.[a-s]*.bridge@native",
        "timeline.{[!a-s]*.bridge,*[!e]}@native",
    ];
    let cases = at_once(fault, &filters, &["--jobs", "4"])?;
    let names: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    check(names.len() == cases.len(), "a case ran twice")?;
    // A scenario that did not end has seen nothing.
    let ended = |case: &&CaseReport| !matches!(case.outcome, Outcome::TimedOut | Outcome::Crashed);
    check(cases.iter().all(|case| ended(&case)), format!("with {fault:?} not all end: {cases:?}"))?;
    let blind = |case: &&CaseReport| case.outcome == Outcome::Passed && !READS_NOTHING.contains(&case.id.as_str());
    let blind: Vec<&str> = cases.iter().filter(blind).map(|case| case.id.as_str()).collect();
    check(blind.is_empty(), format!("with {fault:?} these pass: {blind:?}"))?;
    let failed = cases.iter().filter(|case| case.outcome == Outcome::Failed).count();
    check(failed >= 60, format!("with {fault:?} only {failed} of {} fail", cases.len()))
}
