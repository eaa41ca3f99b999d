//! The tests.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use crate::campaign::{self, Job};
use crate::child::Task;
use crate::driver::{DRIVERS, Driver};
use crate::fault::EVERY_FUNCTION;
use crate::report::Report;
use crate::sabotage::Sabotage;
use crate::{library_search, missing_symbols, not_a_driver, outcome};
use gpu_interop_test_support::build;

pub(crate) fn all() -> Vec<Trial> {
    vec![
        Trial::test("every_fault_is_survived_and_told", every_fault),
        Trial::test("every_missing_symbol_is_named", missing_symbols::every_symbol),
        Trial::test("files_that_are_no_driver_are_named", not_a_driver::files),
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
