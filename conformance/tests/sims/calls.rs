//! The driver calls of failed scenarios in the report, also after a crash in one.

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::{Call, CallTrace, CaseReport};
use libtest_mimic::{Failed, Trial};

use crate::cuda::{NATIVE_IMPORT, NATIVE_MAP};
use crate::run::{Ran, Run, check};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("calls_of_a_failure_end_with_the_code", failed),
        Trial::test("calls_of_a_crash_end_with_one_that_did_not_return", crashed),
        Trial::test("calls_of_a_hang_end_with_one_that_did_not_return", hung),
        Trial::test("calls_are_those_of_the_scenario_that_failed", only_its_own),
        Trial::test("calls_of_hip_are_reported_too", hip),
        Trial::test("calls_are_kept_in_one_process_too", without_isolation),
        Trial::test("calls_are_not_recorded_unless_asked_for", not_asked),
    ]
}

const SCENARIO: &str = "memory.round_trip";

/// The only scenario of a run, and its calls.
fn trace(report: &Ran) -> Result<(&CaseReport, &CallTrace), Failed> {
    let [case] = report.results.as_slice() else { return Err(format!("{:?}", report.results).into()) };
    case.calls.as_ref().map(|calls| (case, calls)).ok_or_else(|| format!("no calls: {case:?}").into())
}

fn cuda() -> Run {
    Run::cuda().exporter("native")
}

fn with(run: Run, fault: &str) -> Result<Ran, Failed> {
    run.filter(SCENARIO).arg("--verbose").env("GPU_INTEROP_SIM_FAIL", fault).run()
}

fn last<'a>(calls: &'a CallTrace, function: &str) -> Result<&'a Call, Failed> {
    let found = calls.newest.iter().rfind(|call| call.function == function);
    found.ok_or_else(|| format!("no {function} in {calls:?}").into())
}

fn code(call: &Call) -> Option<u32> {
    call.returned.as_ref().map(|returned| returned.code)
}

fn failed() -> Result<(), Failed> {
    let report = with(cuda(), &format!("{NATIVE_IMPORT}:1:999"))?;
    let (case, calls) = trace(&report)?;
    check(case.outcome == Outcome::Failed, format!("{case:?}"))?;
    let import = last(calls, NATIVE_IMPORT)?;
    check(code(import) == Some(999), format!("{import:?}"))?;
    let (kind, native) = (import.arguments.contains("{type 2, "), import.arguments.ends_with(", 1"));
    check(if cfg!(unix) { native } else { kind }, &*import.arguments)?;
    // The allocation succeeded, and the call shows the address.
    let reserve = last(calls, "cuMemAddressReserve")?;
    let made = reserve.returned.as_ref().map(|returned| returned.made.as_str()).unwrap_or_default();
    check(code(reserve) == Some(0) && made.starts_with("0x"), format!("{reserve:?}"))?;
    check(reserve.arguments.contains(", 2097152, 0, 0, 0"), &*reserve.arguments)?;
    let order =
        calls.newest.is_sorted_by_key(|call| call.number) && calls.newest.is_sorted_by_key(|call| call.began_us);
    check(order && calls.newest.iter().all(|call| call.thread > 0 && call.returned.is_some()), format!("{calls:?}"))?;
    // The same in the text.
    check(report.text().contains(&format!("{NATIVE_IMPORT}({}) = 999", import.arguments)), report.text())
}

fn crashed() -> Result<(), Failed> {
    let report = with(cuda(), &format!("{NATIVE_MAP}:abort"))?;
    let (case, calls) = trace(&report)?;
    check(case.outcome == Outcome::Crashed, format!("{case:?}"))?;
    let (last_one, others) = calls.newest.split_last().ok_or("no calls")?;
    check(
        Some(&*last_one.function) == NATIVE_MAP.split(':').next() && last_one.returned.is_none(),
        format!("{last_one:?}"),
    )?;
    check(!others.is_empty() && others.iter().all(|call| call.returned.is_some()), format!("{others:?}"))?;
    check(
        report.text().contains(if cfg!(unix) { ", 0) DID NOT RETURN" } else { "flags 0}) DID NOT RETURN" }),
        report.text(),
    )
}

fn hung() -> Result<(), Failed> {
    let run = cuda().arg("--timeout").arg("12");
    let report = with(run, &format!("{NATIVE_MAP}:hang"))?;
    let (case, calls) = trace(&report)?;
    check(case.outcome == Outcome::TimedOut, format!("{case:?}"))?;
    let running: Vec<&str> =
        calls.newest.iter().filter(|call| call.returned.is_none()).map(|call| call.function.as_str()).collect();
    check(running == NATIVE_MAP.split(':').take(1).collect::<Vec<_>>(), format!("{running:?}"))
}

/// Passed scenarios have no calls, and calls of other scenarios of the process are not attributed to them.
fn only_its_own() -> Result<(), Failed> {
    // The third scenario runs in a separate process, whose first import it is.
    let run = cuda().filter("memory.{read_device_local,write_device_local,round_trip}");
    let report = run.arg("--verbose").env("GPU_INTEROP_SIM_FAIL", &format!("{NATIVE_IMPORT}:2:999")).run()?;
    let outcomes: Vec<Outcome> = report.results.iter().map(|case| case.outcome).collect();
    check(outcomes == [Outcome::Passed, Outcome::Failed, Outcome::Passed], format!("{outcomes:?}"))?;
    let traces: Vec<&CallTrace> = report.results.iter().filter_map(|case| case.calls.as_ref()).collect();
    let [calls] = traces.as_slice() else { return Err(format!("{} traces", traces.len()).into()) };
    check(calls.newest.first().is_some_and(|call| call.number > 1), "counted from the process's first")?;
    let of = |function: &str| calls.newest.iter().filter(|call| call.function == function).count();
    check(of(NATIVE_IMPORT) == 1 && of("cuInit") == 0, format!("{calls:?}"))?;
    // The calls include frees within the scenario, but not those at the end of the process.
    check(of("cuMemRelease") == 1 && of("cuDevicePrimaryCtxRelease") == 0, format!("{calls:?}"))
}

fn hip() -> Result<(), Failed> {
    let report = with(Run::hip_with_exporter(), "hipExternalMemoryGetMappedBuffer:1:abort")?;
    let (_, calls) = trace(&report)?;
    let last_one = calls.newest.last().ok_or("no calls")?;
    check(last_one.function == "hipExternalMemoryGetMappedBuffer" && last_one.returned.is_none(), format!("{calls:?}"))
}

fn without_isolation() -> Result<(), Failed> {
    let report = with(cuda().in_one_process(), &format!("{NATIVE_IMPORT}:1:999"))?;
    let (_, calls) = trace(&report)?;
    check(code(last(calls, NATIVE_IMPORT)?) == Some(999), format!("{calls:?}"))
}

fn not_asked() -> Result<(), Failed> {
    let run = cuda().filter(SCENARIO).env("GPU_INTEROP_SIM_FAIL", &format!("{NATIVE_IMPORT}:1:999"));
    let report = run.run()?;
    check(report.results.iter().all(|case| case.outcome == Outcome::Failed && case.calls.is_none()), report.text())?;
    check(!report.text().contains("microseconds and thread"), report.text())
}
