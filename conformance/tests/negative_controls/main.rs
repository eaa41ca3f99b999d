//! The suite must be able to fail: backends broken on purpose, each caught by the scenarios that should catch it.
//!
//! This program is two things. With the suite's own arguments it is the suite, with the broken backends added; without
//! them it is the tests, which start it as the suite.

mod sabotage;

use std::path::Path;
use std::process::{Command, ExitCode, Output};

use gpu_interop::host::ExporterHeader;
use gpu_interop_conformance::{BackendUnderTest, CaseReport, Outcome, Report, Suite};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use sabotage::Fault;

const SUITE_COMMANDS: [&str; 6] = ["run", "doctor", "list", "child", "discover", "peer"];
const IGNORES_HEADER: &str = "host-ignores-header";

fn main() -> ExitCode {
    let first = std::env::args().nth(1).unwrap_or_default();
    if SUITE_COMMANDS.contains(&first.as_str()) {
        let with_header_bug =
            BackendUnderTest::new(IGNORES_HEADER, || BackendUnderTest::host_with(ExporterHeader::None).load());
        return Fault::ALL
            .into_iter()
            .fold(Suite::standard().with_backend(with_header_bug), |suite, fault| {
                suite.with_backend(fault.under_test())
            })
            .main();
    }
    libtest_mimic::run(&Arguments::from_args(), tests()).exit_code()
}

fn tests() -> Vec<Trial> {
    let mut tests = vec![
        Trial::test("the_sound_backend_passes_what_the_broken_ones_fail", sound_backend),
        Trial::ignorable_test("ignoring_the_exporters_header_is_caught", header),
        Trial::test("a_crash_is_an_outcome_and_the_rest_still_runs", crash),
        Trial::test("a_hang_is_an_outcome_and_the_rest_still_runs", hang),
        Trial::test("an_unexpected_pass_fails_the_run", unexpected_pass),
        Trial::test("an_expected_failure_does_not_fail_the_run", expected_failure),
        Trial::test("an_expectation_without_a_reason_is_refused", expectation_without_reason),
        Trial::test("nothing_matching_the_filter_fails_the_run", no_match),
        Trial::test("a_run_of_nothing_but_skips_fails", nothing_ran),
        Trial::test("a_missing_requirement_fails_the_run", requirements),
        Trial::test("an_unknown_backend_fails_the_run", unknown_backend),
    ];
    tests.extend(CAUGHT.iter().map(|&(fault, scenario)| {
        Trial::test(format!("{fault:?}_is_caught_by_{scenario}"), move || {
            let (output, report) =
                run(&fault.backend(), &["--filter", &format!("{scenario}@native"), "--timeout", "8"])?;
            let case = only(&report)?;
            check(case.outcome.is_failure(), format!("{scenario} did not notice: {case:?}"))?;
            check(output.status.code() == Some(1), format!("the run ended with {}", output.status))
        })
    }));
    tests
}

/// Which scenario must notice which fault.
const CAUGHT: &[(Fault, &str)] = &[
    (Fault::SkipsWaits, "semaphore.binary_order"),
    (Fault::SkipsWaits, "semaphore.timeline_order"),
    (Fault::SkipsWaits, "semaphore.wait_before_signal"),
    (Fault::SkipsWaits, "semaphore.1000_frames"),
    (Fault::SkipsWaits, "semaphore.cross_process_timeline"),
    (Fault::SkipsSignals, "semaphore.device_to_exporter"),
    (Fault::SkipsSignals, "semaphore.two_streams"),
    (Fault::LeaksDescriptors, "import.success_closes_handle"),
    (Fault::LeaksDescriptors, "accounting.10000_cycles"),
    (Fault::LeaksDescriptors, "threads.import_map_free"),
    (Fault::MapsOneByteLate, "memory.read_device_local"),
    (Fault::MapsOneByteLate, "map.offsets"),
    (Fault::MapsOneByteLate, "map.sub_range_guards"),
    (Fault::FillsOneByteLess, "memory.fill"),
    (Fault::SkipsWordWaits, "stream.asynchronous"),
    (Fault::SkipsWordWaits, "stream.wait_value_32"),
    (Fault::SkipsWordWaits, "stream.wait_value_64"),
    (Fault::SkipsWordWaits, "lifetime.drop_with_work_pending"),
    (Fault::SkipsReads, "memory.read_device_local"),
    (Fault::SkipsReads, "process.import_sent_fd"),
];

/// Runs this program as the suite and reads its report; an empty one if it wrote none.
fn run(backend: &str, arguments: &[&str]) -> Result<(Output, Option<Report>), Failed> {
    let json = tempfile::NamedTempFile::new()?;
    let output = Command::new(std::env::current_exe()?)
        .args(["run", "--backend", backend, "--json"])
        .arg(json.path())
        .args(arguments)
        .env_remove("GPU_INTEROP_BACKEND")
        .output()?;
    let report = read(json.path());
    Ok((output, report))
}

fn read(path: &Path) -> Option<Report> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

fn check(holds: bool, message: impl Into<String>) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message.into().into()) }
}

fn results(report: &Option<Report>) -> Result<&[CaseReport], Failed> {
    report.as_ref().map(|report| report.results.as_slice()).ok_or_else(|| "the run wrote no report".into())
}

fn only(report: &Option<Report>) -> Result<&CaseReport, Failed> {
    match results(report)? {
        [case] => Ok(case),
        other => Err(format!("expected one result, found {other:?}").into()),
    }
}

/// Without this, a scenario that always fails would count as a good control.
fn sound_backend() -> Result<(), Failed> {
    for (_, scenario) in CAUGHT {
        let (output, report) = run("host", &["--filter", &format!("{scenario}@native")])?;
        check(only(&report)?.outcome == Outcome::Passed, format!("{scenario}: {report:?}"))?;
        check(output.status.success(), format!("{scenario}: {}", output.status))?;
    }
    Ok(())
}

fn header() -> Result<Completion, Failed> {
    let arguments = ["--exporter", "vulkan", "--filter", "memory.read_device_local"];
    let (_, sound) = run("host", &arguments)?;
    match only(&sound)? {
        case if case.outcome == Outcome::Skipped => {
            return Ok(Completion::ignored_with(case.reason.clone().unwrap_or_default()));
        }
        case => check(case.outcome == Outcome::Passed, format!("with the header understood: {case:?}"))?,
    }
    let (output, report) = run(IGNORES_HEADER, &arguments)?;
    let case = only(&report)?;
    check(case.outcome == Outcome::Failed, format!("with the header ignored: {case:?}"))?;
    let reason = case.reason.as_deref().unwrap_or_default();
    check(reason.contains("bytes differ"), format!("the reason does not speak of the data: {reason}"))?;
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))?;
    Ok(Completion::Completed)
}

fn crash() -> Result<(), Failed> {
    let (output, report) = run(&Fault::CrashesOnImport.backend(), &["--filter", "{memory.fill@native,identity.*}"])?;
    let results = results(&report)?;
    let crashed = |case: &CaseReport| case.outcome == Outcome::Crashed;
    let fill = results.iter().find(|case| case.id == "memory.fill").ok_or("memory.fill is not in the report")?;
    check(crashed(fill), format!("{fill:?}"))?;
    let reason = fill.reason.as_deref().unwrap_or_default();
    check(reason.contains("signal 6"), format!("the reason does not name the signal: {reason}"))?;
    let survivors = results.iter().filter(|case| case.id == "identity.json" && case.outcome == Outcome::Passed);
    check(survivors.count() == 1, format!("the scenarios beside it did not run: {results:?}"))?;
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))
}

fn hang() -> Result<(), Failed> {
    let arguments = ["--filter", "{memory.fill@native,stream.host_function_panics}", "--timeout", "2"];
    let (output, report) = run(&Fault::HangsOnImport.backend(), &arguments)?;
    let outcomes: Vec<_> = results(&report)?.iter().map(|case| (case.id.as_str(), case.outcome)).collect();
    let expected = [("memory.fill", Outcome::TimedOut), ("stream.host_function_panics", Outcome::Passed)];
    check(outcomes == expected, format!("{outcomes:?}"))?;
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))
}

/// Runs one scenario with a file of expectations.
fn with_expectations(backend: &str, scenario: &str, text: &str) -> Result<(Output, Option<Report>), Failed> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), text)?;
    run(backend, &["--filter", scenario, "--expectations", &file.path().to_string_lossy()])
}

fn unexpected_pass() -> Result<(), Failed> {
    let text = "[[expected_failure]]\nscenario = 'identity.*'\nbackend = 'host'\nreason = 'fixed meanwhile'";
    let (output, report) = with_expectations("host", "identity.stable", text)?;
    let case = only(&report)?;
    check(case.outcome == Outcome::UnexpectedPass, format!("{case:?}"))?;
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))
}

fn expected_failure() -> Result<(), Failed> {
    let backend = Fault::ForgetsItsIdentity.backend();
    let (output, report) = run(&backend, &["--filter", "identity.stable"])?;
    check(only(&report)?.outcome == Outcome::Failed && output.status.code() == Some(1), "not noticed at all")?;
    let text = format!("[[expected_failure]]\nscenario = 'identity.stable'\nbackend = '{backend}'\nreason = 'known'");
    let (output, report) = with_expectations(&backend, "identity.stable", &text)?;
    let case = only(&report)?;
    check(case.outcome == Outcome::ExpectedFailure, format!("{case:?}"))?;
    check(case.reason.as_deref().is_some_and(|reason| reason.starts_with("known (")), format!("{case:?}"))?;
    check(output.status.success(), format!("the run ended with {}", output.status))
}

fn expectation_without_reason() -> Result<(), Failed> {
    let text = "[[unsupported]]\nscenario = '*'\nreason = ' '";
    refused(&with_expectations("host", "identity.stable", text)?.0, "needs a reason")
}

/// The run must end with status 2 and a sentence.
fn refused(output: &Output, sentence: &str) -> Result<(), Failed> {
    let text = String::from_utf8_lossy(&output.stderr);
    check(output.status.code() == Some(2), format!("the run ended with {}: {text}", output.status))?;
    check(text.contains(sentence), format!("`{sentence}` is not in: {text}"))
}

fn no_match() -> Result<(), Failed> {
    refused(&run("host", &["--filter", "no.such.*"])?.0, "no scenario matches `no.such.*`")
}

fn nothing_ran() -> Result<(), Failed> {
    let text = "[[unsupported]]\nscenario = '*'\nreason = 'everything is'";
    refused(&with_expectations("host", "identity.stable", text)?.0, "nothing ran")
}

fn requirements() -> Result<(), Failed> {
    let one = ["--filter", "identity.stable"];
    let with = |names: &str| run("host", &[&one[..], &["--require", names]].concat());
    check(with("host,native")?.0.status.success(), "what is there was not found")?;
    refused(&with("cuda")?.0, "--require cuda")?;
    refused(&with("nonsense")?.0, "no backend or exporter of this name")?;
    refused(&run("host", &["--exporter", "native", "--require", "vulkan"])?.0, "--require vulkan")
}

fn unknown_backend() -> Result<(), Failed> {
    refused(&run("no-such-backend", &[])?.0, "no backend `no-such-backend`")
}
