//! The fault campaign: every driver function that a backend calls fails in every possible way, while the whole public
//! API is used. The library must never crash, hang, leak, lose a handle, or fail without naming the failed call.
//!
//! The drivers are simulators. This program is the tests and, with arguments of its own, the processes in which faults
//! are injected, so that a crash is the result of one fault.

#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

mod campaign;
mod checks;
mod child;
mod exceptions;
mod exercise;
mod fault;
mod library_search;
mod missing_symbols;
mod outcome;
mod sabotage;
mod simulator;

use std::process::ExitCode;
use std::time::Duration;

use gpu_interop_test_support::{build, run_tests};
use libtest_mimic::{Failed, Trial};

use crate::campaign::{Job, Report};
use crate::child::Task;
use crate::fault::EVERY_FUNCTION;
use crate::sabotage::Sabotage;
use crate::simulator::{DRIVERS, Driver};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [campaign::CHILD, task] => child::main(&serde_json::from_str(task).expect("a task")),
        [outcome::SHOW, driver, library] => outcome::main(driver, library.as_ref()),
        [outcome::LOAD, driver] => outcome::load(driver),
        [library_search::FIND] => library_search::main(None),
        [library_search::FIND, before] => library_search::main(Some(before.as_ref())),
        _ => return run_tests(tests(), None),
    }
    ExitCode::SUCCESS
}

fn tests() -> Vec<Trial> {
    vec![
        Trial::test("every_fault_is_survived_and_told", every_fault),
        Trial::test("every_missing_symbol_is_named", missing_symbols::every_symbol),
        Trial::test("files_that_are_no_driver_are_named", missing_symbols::not_drivers),
        Trial::test("the_newest_runtime_or_the_one_in_the_process", library_search::majors),
        Trial::test("what_is_broken_on_purpose_is_found", negative_controls),
    ]
}

/// Minimum number of faults of a whole campaign.
const FEWEST: usize = 500;
/// Faults per process. A lost device keeps all objects, so that fewer fit in a process.
const SOME: usize = 400;
const FEW: usize = 40;

/// The variable that names one function to try, as the driver's symbol, or `*` for lost devices.
const ONLY: &str = "FAULT_CAMPAIGN_FUNCTION";
/// The variable that makes every call of every function fail. Takes some minutes.
const EVERY_USE: &str = "FAULT_CAMPAIGN_EVERY_USE";

fn every_fault() -> Result<(), Failed> {
    let every_use = std::env::var_os(EVERY_USE).is_some();
    let mut jobs = Vec::new();
    let mut copies = Vec::new();
    for driver in &DRIVERS {
        let library = outcome::library(driver, &build(driver.vendor.package())?, &mut copies)?;
        let task = |function: &str, most| Task { every_use, ..Task::new(driver, &library, function, most) };
        jobs.push(Job { task: task(EVERY_FUNCTION, FEW), variables: Vec::new() });
        for function in outcome::functions(driver, &library)? {
            let job = |variables| Job { task: task(&function, SOME), variables };
            jobs.push(job(Vec::new()));
            if function.contains("ImportExternal") {
                // With each handling of a failed import's descriptor.
                let variable = |fate: &str| vec![("GPU_INTEROP_SIM_FD_ON_FAILURE", fate.to_owned())];
                jobs.extend(["closed", "open"].map(|fate| job(variable(fate))));
            }
        }
    }
    // Queries before each call, whose failure is that call's. The suite's `reset.*` covers their results.
    jobs.retain(|job| !["cuCtxGetId", "hipPointerGetAttribute"].contains(&job.task.function.as_str()));
    let only = std::env::var(ONLY).ok();
    jobs.retain(|job| only.as_ref().is_none_or(|only| *only == job.task.function));
    let report = campaign::run(jobs)?;
    println!("fault campaign: {report}");
    clean(&report)?;
    if only.is_none() && report.faults < FEWEST { Err(format!("only {} faults", report.faults).into()) } else { Ok(()) }
}

fn clean(report: &Report) -> Result<(), Failed> {
    /// Further codes would add nothing.
    const SHOWN: usize = 4000;
    if report.findings.is_empty() {
        return Ok(());
    }
    let findings: Vec<String> = report.findings.iter().take(SHOWN).map(ToString::to_string).collect();
    Err(format!("{report}\n{}", findings.join("\n")).into())
}

/// The campaign finds each sabotage as the expected defect, and none without sabotage.
fn negative_controls() -> Result<(), Failed> {
    let driver = Driver::named("cuda");
    let library = build(driver.vendor.package())?;
    let run = |function: &str, sabotage| {
        let mut task = Task { until: Some(2), sabotage, ..Task::new(driver, &library, function, 2) };
        if sabotage == Some(Sabotage::Hang) {
            task.limit = Duration::from_secs(4);
        }
        campaign::run(vec![Job { task, variables: Vec::new() }])
    };
    for (sabotage, defect) in Sabotage::ALL {
        let function = sabotage.function();
        let sound = run(function, None)?;
        if !sound.findings.is_empty() {
            return Err(format!("{function} without sabotage: {:?}", sound.findings).into());
        }
        let broken = run(function, Some(sabotage))?;
        if broken.count(defect) == 0 {
            return Err(format!("{sabotage:?} is not found as {defect:?}: {:?}", broken.findings).into());
        }
    }
    Ok(())
}
