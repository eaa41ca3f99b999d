//! HIP on Linux: no external semaphores, and timelines by a bridge.

use gpu_interop_conformance::Outcome;
use libtest_mimic::{Failed, Trial};

use super::lacks::{Failing, LAUNCHED_ONCE, Lack, NO_RECORDED_WORDS, NO_WORDS};
use crate::cuda::{
    NO_GL_OF_NATIVE, NO_HEAPS_OF_NATIVE, NO_NATIVE_FORMS, NO_NATIVE_IMAGES, NO_NVSCI, NO_RINGS_OF_NATIVE,
    NO_SECOND_DEVICE,
};
use crate::run::{Run, check};

pub(super) fn own_tests() -> Vec<Trial> {
    vec![
        Trial::test("hip_native", native),
        Trial::test("hip_semaphores_that_abort_are_never_called", || aborting(Run::hip())),
        Trial::test("hip_that_leaks_imports_is_found_by_free_memory", leaking),
    ]
}

pub(crate) const NO_SEMAPHORES: &str = "HIP has external semaphores on Windows only";
pub(crate) const NO_IMAGES: &str = "this HIP maps no images";
pub(crate) const NO_RAW_CALLS: &str = "raw calls of CUDA's driver";
const NO_SEMAPHORES_OF_HIP: &str = "this backend has no exportable semaphores of its own";
/// Unsupported by the exporter, which is the runtime's own memory.
pub(super) const NO_FORMS: &str = NO_NATIVE_FORMS;
pub(super) const NOT_ON_TWO: &[&str] = &[NO_FORMS];
/// Unsupported by every version, or by the exporter.
pub(super) const NEVER: &[&str] = &[
    NO_SEMAPHORES,
    NO_IMAGES,
    NO_RAW_CALLS,
    NO_SEMAPHORES_OF_HIP,
    NO_NATIVE_FORMS,
    NO_NATIVE_IMAGES,
    NO_SECOND_DEVICE,
    NO_NVSCI,
    NO_GL_OF_NATIVE,
    NO_HEAPS_OF_NATIVE,
    NO_RINGS_OF_NATIVE,
];

/// As above, of the default version.
pub(crate) fn unsupported_native() -> Vec<&'static str> {
    [NEVER, &[NO_RECORDED_WORDS]].concat()
}

/// Scenarios that run on each version, without slow ones and those of [`NEVER`].
pub(super) const ALL: usize = 84;
pub(super) const LACKS: &[Lack] = &[
    Lack { reason: NO_RECORDED_WORDS, scenarios: 1, of: |row| ((5, 5)..(7, 16)).contains(&row.minor()) },
    Lack { reason: NO_WORDS, scenarios: 17, of: |row| row.minor() < (5, 5) },
    Lack { reason: LAUNCHED_ONCE, scenarios: 1, of: |row| row.minor() < (5, 7) },
];
pub(super) const FAILING: &[Failing] = &[Failing {
    scenarios: &[
        "leak.10000_cycles",
        "leak.device_memory",
        "capture.leaks",
        "lifetime.drop_with_work_pending",
        "lifetime.every_drop_order",
        "lifetime.free_while_a_stream_waits",
        "reverse.cycles",
    ],
    of: |row| row.minor() == (7, 2),
}];

fn native() -> Result<(), Failed> {
    let report = Run::hip_with_exporter().whole().run()?;
    report.only_unsupported(&unsupported_native())?;
    report.passed("memory.", 4)?;
    report.passed("stream.", 9)?;
    report.passed("property.", 3)?;
    report.passed("environment.", 2)?;
    report.bridged(16)?;
    report.nothing_alive()
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
pub(crate) fn aborting(run: Run) -> Result<(), Failed> {
    let report = run
        .exporter("native")
        .filter("{semaphore,import,timeline}.*")
        .env("GPU_INTEROP_SIM_SEMAPHORES", "abort")
        .run()?;
    report.only_unsupported(&[NO_SEMAPHORES, NO_SEMAPHORES_OF_HIP, NO_NATIVE_FORMS])?;
    let semaphores = report.results.iter().filter(|case| case.id.starts_with("semaphore.")).count();
    check(semaphores >= 20, format!("only {semaphores} scenarios of semaphores"))
}
