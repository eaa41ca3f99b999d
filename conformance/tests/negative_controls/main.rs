//! The suite must be able to fail: backends broken on purpose, each detected by the expected scenarios.
//!
//! This program has two functions. With the suite's own arguments it is the suite, with the broken backends added;
//! without them it runs the tests, which start it as the suite.

mod judge;
mod run;
mod sabotage;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode, Output};
use std::sync::{Arc, OnceLock};

use gpu_interop::cuda::CudaBackend;
use gpu_interop::hip::HipBackend;
use gpu_interop::host::ExporterHeader;
use gpu_interop_conformance::{BackendUnderTest, Outcome, Suite};
use gpu_interop_conformance_cli::CaseReport;
use gpu_interop_test_support::{build, committed, run_tests, this_program};
use libtest_mimic::{Completion, Failed, Trial};

use crate::run::{at_once, check, only, refused, results, run, run_with, with_expectations};
use crate::sabotage::{CAUGHT, CAUGHT_WITH_VULKAN, Fault, RARE_LENGTH};

const IGNORES_HEADER: &str = "host-ignores-header";
/// The scenario that detects it.
const READ: &str = "memory.read_device_local";
const BLOCKING_CUDA: &str = "cuda-waits-in-host-functions";
const BLOCKING_HIP: &str = "hip-waits-in-host-functions";
/// Filters that divide all scenarios among several runs.
const EVERYTHING: [&str; 6] = ["[!st]*", "[s]*", "t[!i]*", "timeline.[a-c]*", "timeline.[d-f]*", "timeline.[g-z]*"];
/// Number of parallel tests. Most of their time is the time limit of a scenario whose wait never ends; under Wine,
/// handles and processes take most of it.
const THREADS: usize = if cfg!(windows) { 4 } else { 16 };

/// Parts of the names of the tests that take longest. They begin first.
const LONG: [&str; 6] = [
    "does_nothing",
    "waiting_in_host_functions",
    "SkipsSignals",
    "by_every_scenario",
    "LeaksDescriptors_is_caught_by_property.objects",
    "rare_length",
];

fn main() -> ExitCode {
    if gpu_interop_conformance_cli::is_called() {
        let with_header_bug = BackendUnderTest::new(IGNORES_HEADER, || {
            // SAFETY: it overwrites the headers of the exporter's memory in this process, which the test detects.
            unsafe { BackendUnderTest::host_with(ExporterHeader::None) }.load()
        });
        let blocking = Fault::WaitsInHostFunctions;
        let suite = Suite::standard()
            .with_backend(with_header_bug)
            .with_backend(blocking.on(BLOCKING_CUDA, || Ok(Arc::new(CudaBackend::load()?))))
            .with_backend(blocking.on(BLOCKING_HIP, || Ok(Arc::new(HipBackend::load()?))));
        let suite = Fault::ALL.iter().fold(suite, |suite, fault| suite.with_backend(fault.under_test()));
        return gpu_interop_conformance_cli::main_of_test(&suite);
    }
    run_tests(tests(), Some(THREADS))
}

fn tests() -> Vec<Trial> {
    let mut tests = vec![
        Trial::test("a_backend_that_does_nothing_passes_only_what_needs_no_work", does_nothing),
        Trial::test("the_sound_backend_passes_what_the_broken_ones_fail", sound_backend),
        Trial::ignorable_test("ignoring_the_exporters_header_is_caught", || caught_with_vulkan(IGNORES_HEADER, READ)),
        Trial::test("host_functions_of_the_host_may_wait", host_functions_may_wait),
        Trial::ignorable_test("waiting_in_host_functions_deadlocks_cuda", || {
            waiting_in_host_functions("cuda", BLOCKING_CUDA)
        }),
        Trial::ignorable_test("waiting_in_host_functions_deadlocks_hip", || {
            waiting_in_host_functions("hip", BLOCKING_HIP)
        }),
        Trial::test("a_rare_length_is_found_made_smaller_and_found_again", rare_length),
        Trial::test("repeated_scenarios_pass_every_time", repeated),
        Trial::test("a_broken_exporter_fails_its_scenarios", broken_exporter),
        Trial::test("a_crash_is_an_outcome_and_the_rest_still_runs", crash),
        Trial::test("a_group_goes_on_after_a_crash", crash_in_a_group),
        Trial::test("a_hang_is_an_outcome_and_the_rest_still_runs", hang),
        Trial::test("an_unexpected_pass_fails_the_run", unexpected_pass),
        Trial::test("an_expected_failure_does_not_fail_the_run", expected_failure),
        Trial::test("an_expectation_without_a_reason_is_refused", expectation_without_reason),
        Trial::test("nothing_matching_the_filter_fails_the_run", no_match),
        Trial::test("a_run_of_nothing_but_skips_fails", nothing_ran),
        Trial::test("a_missing_requirement_fails_the_run", requirements),
        Trial::test("an_unknown_backend_fails_the_run", unknown_backend),
        Trial::test("a_missing_driver_is_named_with_the_path_tried", missing_driver),
        Trial::test("doctor_says_what_to_do_about_variables", advice),
        Trial::test("a_library_that_is_no_driver_is_named_with_the_missing_symbol", not_a_driver),
    ];
    tests.extend(judge::tests());
    tests.extend(CAUGHT_WITH_VULKAN.iter().map(|&(fault, scenario)| {
        Trial::ignorable_test(format!("{fault:?}_is_caught_by_{scenario}"), move || {
            caught_with_vulkan(&fault.backend(), scenario)
        })
    }));
    tests.extend(CAUGHT.iter().map(|&(fault, scenario, outcome, reason)| {
        Trial::test(format!("{fault:?}_is_caught_by_{scenario}"), move || {
            let (output, report) = run(&fault.backend(), &["--filter", &format!("{scenario}@native")])?;
            let case = only(&report)?;
            let found = [&case.reason, &case.log].map(|text| text.as_deref().unwrap_or_default());
            let says = |words| found.iter().any(|text| text.contains(words));
            // A descriptor that is closed between its check and its owner's drop: Rust's standard library sees it
            // first.
            let is_aborted =
                fault == Fault::ClosesTwice && case.outcome == Outcome::Crashed && says("IO Safety violation");
            check(
                (case.outcome == outcome && says(reason)) || is_aborted,
                format!("{scenario} saw something else: {case:?}"),
            )?;
            check(output.status.code() == Some(1), format!("the run ended with {}", output.status))
        })
    }));
    tests.sort_by_key(|test| !LONG.iter().any(|part| test.name().contains(part)));
    tests
}

/// Without this, a scenario that always fails would count as a good control.
fn sound_backend() -> Result<(), Failed> {
    // Each once, because several faults are detected by the same one.
    let scenarios: BTreeSet<&str> = CAUGHT.iter().map(|(_, scenario, _, _)| *scenario).collect();
    let names: Vec<String> = scenarios.iter().map(|scenario| format!("{scenario}@native")).collect();
    let filter = format!("{{{}}}", names.join(","));
    // In processes of their own, as with the faults.
    let (output, report) = run("host", &["--isolate-each", "--jobs", "4", "--filter", &filter])?;
    let results = results(&report)?;
    let passed = |case: &&CaseReport| case.outcome == Outcome::Passed;
    let passed: BTreeSet<&str> = results.iter().filter(passed).map(|case| case.id.as_str()).collect();
    check(passed == scenarios && results.len() == scenarios.len(), format!("{results:?}"))?;
    check(output.status.success(), format!("the run ended with {}", output.status))
}

/// The scenarios of [`CAUGHT_WITH_VULKAN`] with a sound backend, in one run for all tests.
fn sound_with_vulkan() -> Result<&'static [CaseReport], String> {
    static SOUND: OnceLock<Result<Vec<CaseReport>, String>> = OnceLock::new();
    let sound = || {
        let scenarios = CAUGHT_WITH_VULKAN.iter().map(|(_, scenario)| *scenario).chain([READ]);
        let scenarios: BTreeSet<&str> = scenarios.collect();
        let filter = format!("{{{}}}", scenarios.into_iter().collect::<Vec<_>>().join(","));
        let ran = run_with::<&str>("host", &["--exporter", "vulkan", "--filter", &filter], &[]);
        let (_, report) = ran.map_err(|failed| failed.message().unwrap_or_default().to_owned())?;
        report.map(|report| report.results)
    };
    SOUND.get_or_init(sound).as_deref().map_err(Clone::clone)
}

/// No scenario tries this length on purpose. Some seed does, and the failing request is shrunk and reported with the
/// seed that reproduces it.
fn rare_length() -> Result<(), Failed> {
    let arguments = ["--filter", "property.slices@native", "--repeat", "200"];
    let (_, sound) = run("host", &arguments)?;
    check(only(&sound)?.outcome == Outcome::Passed, format!("with a sound backend: {sound:?}"))?;
    let broken = Fault::FillsARareLengthShort.backend();
    let (output, found) = run(&broken, &arguments)?;
    let found = only(&found)?.reason.clone().unwrap_or_default();
    check(output.status.code() == Some(1), format!("the run ended with {}: {found}", output.status))?;
    let smallest = format!("with [Fill(Part {{ within: 0, start: 0, length: {RARE_LENGTH} }}");
    check(
        found.contains("1 of 10025 bytes differ") && found.contains(&smallest),
        format!("not the smallest: {found}"),
    )?;
    let seed = found.split("--seed ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let seed = seed.ok_or_else(|| format!("no seed: {found}"))?;
    for _ in 0..2 {
        let (_, again) = run(&broken, &["--filter", "property.slices@native", "--seed", seed])?;
        let again = only(&again)?.reason.clone().unwrap_or_default();
        let whole = found.split(" [run ").next().unwrap_or_default();
        check(
            again == whole,
            format!(
                "another failure with the same seed: {again}
{found}"
            ),
        )?;
    }
    Ok(())
}

fn repeated() -> Result<(), Failed> {
    let arguments = ["--filter", "{memory.read_device_local,identity.stable}", "--repeat", "3"];
    let (output, report) = run("host", &[&arguments[..], &["--seed", "7"]].concat())?;
    let report = report?;
    check(output.status.success() && report.repeat.get() == 3, format!("{report:?}"))?;
    check(report.summary["passed"] == 2, format!("{report:?}"))?;
    let (output, report) = run(&Fault::SkipsReads.backend(), &arguments)?;
    let report = report?;
    let reasons: Vec<&str> = report.results.iter().filter_map(|case| case.reason.as_deref()).collect();
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))?;
    check(reasons.len() == 1 && reasons[0].contains("[run 1 of 3, --seed 1]"), format!("{reasons:?}"))
}

/// A scenario that a broken backend must fail on data; ignored where there is no Vulkan.
fn caught_with_vulkan(broken: &str, scenario: &str) -> Result<Completion, Failed> {
    let sound = sound_with_vulkan()?.iter().find(|case| case.id == scenario);
    match sound.ok_or_else(|| format!("{scenario} is not in the report"))? {
        case if case.outcome == Outcome::Skipped => {
            return Ok(Completion::ignored_with(case.reason.clone().unwrap_or_default()));
        }
        case => check(case.outcome == Outcome::Passed, format!("with a sound backend: {case:?}"))?,
    }
    let (output, report) = run_with::<&str>(broken, &["--exporter", "vulkan", "--filter", scenario], &[])?;
    let case = only(&report)?;
    check(case.outcome == Outcome::Failed, format!("with {broken}: {case:?}"))?;
    let reason = case.reason.as_deref().unwrap_or_default();
    check(reason.contains("bytes differ"), format!("the reason does not speak of the data: {reason}"))?;
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))?;
    Ok(Completion::Completed)
}

fn does_nothing() -> Result<(), Failed> {
    const BEGINNING: &str = "\
# Scenarios that pass on a backend that drops all work: none of them verifies data, order or progress. `cargo xtask record`
# writes this file. A line that is added here is a scenario that verifies none of these.
";
    let results = at_once(Fault::DoesNothing, &EVERYTHING, &["--jobs", "8", "--isolate-each"])?;
    // Wine does not count the handles of another process.
    let untold = |case: &CaseReport| {
        cfg!(windows) && case.id == "process.handles_not_inherited" && case.outcome == Outcome::Skipped
    };
    let passed = results.iter().filter(|case| case.outcome == Outcome::Passed || untold(case));
    let passed: BTreeSet<&str> = passed.map(|case| case.id.as_str()).collect();
    let lines: String = passed.iter().map(|id| format!("{id}\n")).collect();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/negative_controls/needs_no_work");
    let file = folder.join(std::env::consts::OS).with_extension("txt");
    Ok(committed(&file, &format!("{BEGINNING}{lines}"))?)
}

/// Control of the next test: the streams of the host backend call their functions independently, so the fault is not
/// detected there.
fn host_functions_may_wait() -> Result<(), Failed> {
    let (_, report) =
        run(&Fault::WaitsInHostFunctions.backend(), &["--filter", "timeline.dependencies.bridge@native"])?;
    check(only(&report)?.outcome == Outcome::Passed, format!("{report:?}"))
}

/// Drivers may call the functions of all streams in sequence, as the simulators do: a function that waits for another
/// stream's work blocks that work.
fn waiting_in_host_functions(sound: &str, broken: &str) -> Result<Completion, Failed> {
    if cfg!(windows) && std::env::var_os("GPU_INTEROP_SIMULATORS").is_none() {
        return Ok(Completion::ignored_with("GPU_INTEROP_SIMULATORS names no folder with simulators"));
    }
    let variable = format!("GPU_INTEROP_{}_LIBRARY", sound.to_uppercase());
    let mut libraries = vec![(variable.as_str(), build(&format!("gpu-interop-sim-{sound}"))?)];
    let mut exporter = "native";
    if cfg!(windows) && sound == "hip" {
        // HIP exports nothing there.
        libraries.push(("GPU_INTEROP_D3D_LIBRARY", build("gpu-interop-sim-d3d")?));
        exporter = "d3d12";
    }
    let filter = format!("timeline.dependencies.bridge@{exporter}");
    let arguments = ["--exporter", exporter, "--filter", &filter];
    let (_, report) = run_with(sound, &arguments, &libraries)?;
    check(only(&report)?.outcome == Outcome::Passed, format!("with a sound backend: {report:?}"))?;
    let (_, report) = run_with(broken, &arguments, &libraries)?;
    let case = only(&report)?;
    let reason = case.reason.as_deref().unwrap_or_default();
    check(
        case.outcome == Outcome::Failed && reason.contains("work is still pending on the stream"),
        format!("{case:?}"),
    )?;
    Ok(Completion::Completed)
}

fn broken_exporter() -> Result<(), Failed> {
    let arguments = ["--filter", "{memory.fill,identity.json}"];
    let (output, report) = run(&Fault::HasNoStreams.backend(), &arguments)?;
    let outcomes: Vec<_> = results(&report)?.iter().map(|case| (case.id.as_str(), case.outcome)).collect();
    let expected = [("identity.json", Outcome::Passed), ("memory.fill", Outcome::Failed)];
    check(outcomes == expected, format!("{outcomes:?}"))?;
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))
}

fn crash() -> Result<(), Failed> {
    let (output, report) = run(&Fault::CrashesOnImport.backend(), &["--filter", "{memory.fill@native,identity.*}"])?;
    let results = results(&report)?;
    let crashed = |case: &CaseReport| case.outcome == Outcome::Crashed;
    let fill = results.iter().find(|case| case.id == "memory.fill").ok_or("memory.fill is not in the report")?;
    check(crashed(fill), format!("{fill:?}"))?;
    let reason = fill.reason.as_deref().unwrap_or_default();
    let how = if cfg!(windows) { "exception 0x" } else { "signal 6" };
    check(reason.contains(how), format!("the reason does not say how it crashed: {reason}"))?;
    let survivors = results.iter().filter(|case| case.id == "identity.json" && case.outcome == Outcome::Passed);
    check(survivors.count() == 1, format!("the other scenarios did not run: {results:?}"))?;
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))
}

/// Scenarios after a crash in the same group run in a new process.
fn crash_in_a_group() -> Result<(), Failed> {
    let (_, report) = run(&Fault::CrashesOnImport.backend(), &["--filter", "import.*@native"])?;
    let outcomes: Vec<_> = results(&report)?.iter().map(|case| (case.id.as_str(), case.outcome)).collect();
    let with = |outcome| outcomes.iter().filter(|case| case.1 == outcome).count();
    check(with(Outcome::Crashed) + with(Outcome::Passed) == outcomes.len(), format!("{outcomes:?}"))?;
    check(with(Outcome::Crashed) > 1, format!("a crash ended the group: {outcomes:?}"))?;
    // The last scenario has no import that reaches the backend.
    let last = ("import.failures_leak_nothing", Outcome::Passed);
    check(outcomes.last() == Some(&last), format!("{outcomes:?}"))
}

fn hang() -> Result<(), Failed> {
    let arguments = ["--filter", "{memory.fill@native,identity.json}", "--timeout", "12"];
    let (output, report) = run(&Fault::HangsOnImport.backend(), &arguments)?;
    let outcomes: Vec<_> = results(&report)?.iter().map(|case| (case.id.as_str(), case.outcome)).collect();
    let expected = [("identity.json", Outcome::Passed), ("memory.fill", Outcome::TimedOut)];
    check(outcomes == expected, format!("{outcomes:?}"))?;
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))
}

fn unexpected_pass() -> Result<(), Failed> {
    let text =
        "[[expected_failure]]\nscenario = 'identity.*'\nbackend = 'host'\nreason = 'fixed since'\nmeasured = 'once'";
    let (output, report) = with_expectations("host", "identity.stable", text)?;
    let case = only(&report)?;
    check(case.outcome == Outcome::UnexpectedPass, format!("{case:?}"))?;
    check(output.status.code() == Some(1), format!("the run ended with {}", output.status))
}

fn expected_failure() -> Result<(), Failed> {
    let backend = Fault::ForgetsItsIdentity.backend();
    let (output, report) = run(&backend, &["--filter", "identity.stable"])?;
    check(only(&report)?.outcome == Outcome::Failed && output.status.code() == Some(1), "not noticed at all")?;
    let text = format!(
        "[[expected_failure]]\nscenario = 'identity.stable'\nbackend = '{backend}'\nreason = 'known'\nlink = 'https://x'"
    );
    let (output, report) = with_expectations(&backend, "identity.stable", &text)?;
    let case = only(&report)?;
    check(case.outcome == Outcome::ExpectedFailure, format!("{case:?}"))?;
    check(case.reason.as_deref().is_some_and(|reason| reason.starts_with("known [https://x] (")), format!("{case:?}"))?;
    check(output.status.success(), format!("the run ended with {}", output.status))
}

fn expectation_without_reason() -> Result<(), Failed> {
    let text = "[[unsupported]]\nscenario = '*'\nreason = ' '";
    refused(&with_expectations("host", "identity.stable", text)?.0, "needs a reason")
}

fn no_match() -> Result<(), Failed> {
    refused(&run("host", &["--filter", "no.such.*"])?.0, "no scenario matches `no.such.*`")
}

fn nothing_ran() -> Result<(), Failed> {
    let text = "[[unsupported]]\nscenario = '*'\nreason = 'everything is'";
    refused(&with_expectations("host", "identity.stable", text)?.0, "nothing ran")
}

fn requirements() -> Result<(), Failed> {
    let one = ["--filter", "identity.exporter_matches@native"];
    // With all exporters, as by default.
    let with = |names: &str| run_with::<&str>("host", &[&one[..], &["--require", names]].concat(), &[]);
    check(with("host,native")?.0.status.success(), "what is there was not found")?;
    refused(&with("cuda")?.0, "--require cuda")?;
    refused(&with("nonsense")?.0, "unknown backend or exporter")?;
    if cfg!(not(windows)) {
        refused(&with("d3d12")?.0, "--require d3d12: Direct3D is part of Windows")?;
    }
    refused(&run("host", &["--require", "vulkan"])?.0, "--require vulkan")?;
    // Usable, but no scenario of this run uses it.
    refused(&run("host", &["--filter", "identity.stable", "--require", "native"])?.0, "no scenario ran")
}

fn unknown_backend() -> Result<(), Failed> {
    refused(&run("no-such-backend", &[])?.0, "no backend `no-such-backend`")
}

/// Runs with the CUDA driver's file named.
fn with_cuda_library(file: &str) -> Result<Output, Failed> {
    let mut command = this_program()?;
    Ok(command.args(["run", "--backend", "cuda"]).env("GPU_INTEROP_CUDA_LIBRARY", file).output()?)
}

fn missing_driver() -> Result<(), Failed> {
    // No other file is tried: a machine with a driver has the same result.
    let output = with_cuda_library("/nonexistent/libcuda.so.1")?;
    refused(&output, "no CUDA driver was found: GPU_INTEROP_CUDA_LIBRARY names a file that does not load")?;
    refused(&output, "tried: /nonexistent/libcuda.so.1: ")
}

fn advice() -> Result<(), Failed> {
    for (variable, value, advice) in [
        ("GPU_INTEROP_BACKEND", "vulkan", "unknown backend; set it to cuda, hip, host or auto, or unset it"),
        ("GPU_INTEROP_BACKEND", "host", "no other backend is used"),
        (
            "GPU_INTEROP_BACKEND",
            "cuda",
            "no other backend is used, which is not usable, as below; unset it to use another",
        ),
        ("GPU_INTEROP_TIMELINE", "fast", "unknown strategy; set it to native, bridge or auto, or unset it"),
    ] {
        // This program would open a backend for each fault.
        let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
        command.arg("doctor").env("GPU_INTEROP_CUDA_LIBRARY", "/nonexistent/libcuda.so.1").env(variable, value);
        let output = command.output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = format!("{variable}={value}: {advice}");
        check(output.status.success() && text.lines().any(|found| found == line), format!("no `{line}` in {text}"))?;
    }
    Ok(())
}

fn not_a_driver() -> Result<(), Failed> {
    let library = if cfg!(windows) { "kernel32.dll" } else { "libc.so.6" };
    let output = with_cuda_library(library)?;
    refused(&output, "symbol missing: the library has no cuInit")?;
    refused(&output, &format!("library: {library}"))
}
