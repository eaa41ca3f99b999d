//! HIP on Linux: no external semaphores, and timelines by a bridge.

use gpu_interop_conformance::Outcome;
use libtest_mimic::{Failed, Trial};

use super::rows::NATIVE;
use crate::run::{Run, check};

pub(super) fn own_tests() -> Vec<Trial> {
    vec![
        Trial::test("hip_native", native),
        Trial::test("hip_semaphores_that_abort_are_never_called", || aborting(Run::hip(), &[NATIVE])),
        Trial::test("hip_that_leaks_imports_is_found_by_free_memory", leaking),
    ]
}

fn native() -> Result<(), Failed> {
    let report = Run::hip_with_exporter().whole().run()?;
    report.at_least(&[("memory.", 4), ("stream.", 9), ("property.", 3), ("environment.", 2)])?;
    report.bridged(16)?;
    report.sound(&[NATIVE])
}

/// Free memory shows the leaks of a version that releases no mapped import, and none of other versions.
fn leaking() -> Result<(), Failed> {
    let run = || Run::hip_with_exporter().filter("leak.device_memory").arg("--no-default-expectations");
    for (version, leaks) in [("60443484", false), ("70253211", true)] {
        let report = run().env("GPU_INTEROP_SIM_VERSION", version).run()?;
        let [case] = report.results.as_slice() else { return Err(format!("{:?}", report.results).into()) };
        let text = case.reason.as_deref().unwrap_or_default();
        let found = case.outcome == Outcome::Failed && text.contains("of the device's memory were not freed");
        check(found == leaks && (leaks || case.outcome == Outcome::Passed), format!("{version}: {case:?}"))?;
    }
    Ok(())
}

/// A runtime with assertions aborts the process at any use of a semaphore: nothing crashes without one.
pub(crate) fn aborting(run: Run, sections: &[&str]) -> Result<(), Failed> {
    let report = run
        .exporter("native")
        .filter("{semaphore,import,timeline}.*")
        .env("GPU_INTEROP_SIM_SEMAPHORES", "abort")
        .run()?;
    report.as_recorded(sections)?;
    let semaphores = report.results.iter().filter(|case| case.id.starts_with("semaphore.")).count();
    check(semaphores >= 20, format!("only {semaphores} scenarios of semaphores"))
}
