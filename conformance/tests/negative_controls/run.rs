//! Runs of this program as the suite, and what their reports say.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Output;

use gpu_interop_conformance_cli::{CaseReport, Report};
use gpu_interop_test_support::this_program;
use libtest_mimic::Failed;

use crate::sabotage::Fault;

/// The report of a run, or the end of the run without one.
pub(crate) type Reported = Result<Report, String>;

/// Runs this program as the suite with the native exporter, and reads its report. Opening Vulkan, too, would take
/// longer than most of these runs.
pub(crate) fn run(backend: &str, arguments: &[&str]) -> Result<(Output, Reported), Failed> {
    run_with::<&str>(backend, &[&["--exporter", "native"], arguments].concat(), &[])
}

/// The same with all exporters, unless `arguments` name some, and with environment variables.
pub(crate) fn run_with<V: AsRef<OsStr>>(
    backend: &str,
    arguments: &[&str],
    environment: &[(&str, V)],
) -> Result<(Output, Reported), Failed> {
    // In a folder, because Windows cannot replace a file that this process has open.
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("report.json");
    let output = this_program()?
        // A fault that is detected in one of several runs is detected.
        .args(["run", "--backend", backend, "--retries", "0", "--json"])
        .arg(&json)
        .args(arguments)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .output()?;
    let report = read(&json).map_err(|error| {
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        format!("no report ({error}): the run ended with {}\n{out}\n{err}", output.status)
    });
    Ok((output, report))
}

/// The cases of several runs in parallel, one for each filter. Most of the time is a time limit. One run would not
/// execute exclusive scenarios in parallel.
pub(crate) fn at_once(fault: Fault, filters: &[&str], arguments: &[&str]) -> Result<Vec<CaseReport>, Failed> {
    let part = |filter: &str| {
        let (_, report) = run(&fault.backend(), &[arguments, &["--filter", filter]].concat())?;
        results(&report).map(<[CaseReport]>::to_vec)
    };
    let cases = std::thread::scope(|scope| {
        let runs: Vec<_> = filters.iter().map(|filter| scope.spawn(|| part(filter))).collect();
        let ended = runs.into_iter().map(|run| run.join().unwrap_or_else(|_| Err("a run panicked".into())));
        ended.collect::<Result<Vec<_>, Failed>>()
    })?;
    Ok(cases.concat())
}

fn read(path: &Path) -> std::io::Result<Report> {
    Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

pub(crate) fn check(holds: bool, message: impl Into<String>) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message.into().into()) }
}

pub(crate) fn results(report: &Reported) -> Result<&[CaseReport], Failed> {
    Ok(report.as_ref()?.results.as_slice())
}

pub(crate) fn only(report: &Reported) -> Result<&CaseReport, Failed> {
    match results(report)? {
        [case] => Ok(case),
        other => Err(format!("expected one result, found {other:?}").into()),
    }
}

/// Runs one scenario with a file of expectations.
pub(crate) fn with_expectations(backend: &str, scenario: &str, text: &str) -> Result<(Output, Reported), Failed> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), text)?;
    run(backend, &["--filter", scenario, "--expectations", &file.path().to_string_lossy()])
}

/// The run must exit with status 2 and a message.
pub(crate) fn refused(output: &Output, sentence: &str) -> Result<(), Failed> {
    let text = String::from_utf8_lossy(&output.stderr);
    check(output.status.code() == Some(2), format!("the run ended with {}: {text}", output.status))?;
    check(text.contains(sentence), format!("`{sentence}` is not in: {text}"))
}
