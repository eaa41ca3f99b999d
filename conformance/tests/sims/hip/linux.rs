//! HIP on Linux: no external semaphores, and timelines by a bridge.

use libtest_mimic::{Failed, Trial};

use super::{NO_RECORDED_WORDS, bridged};
use crate::cuda::{NO_GL_OF_NATIVE, NO_NATIVE_FORMS, NO_NATIVE_IMAGES, NO_NVSCI, NO_SECOND_DEVICE};
use crate::run::{Run, check};

pub(super) fn own_tests() -> Vec<Trial> {
    vec![
        Trial::test("hip_native", native),
        Trial::test("hip_semaphores_that_abort_are_never_called", || aborting(Run::hip())),
    ]
}

pub(crate) const NO_SEMAPHORES: &str = "HIP has external semaphores on Windows only";
pub(crate) const NO_IMAGES: &str = "HIP maps images on Windows only";
pub(crate) const NO_RAW_CALLS: &str = "raw calls are those of CUDA's driver";
const NO_SEMAPHORES_OF_HIP: &str = "this backend has no exportable semaphores of its own";
/// Of the exporter, which is the runtime's own memory.
pub(super) const NO_FORMS: &str = NO_NATIVE_FORMS;
/// What HIP cannot do, or the exporter.
pub(crate) const UNSUPPORTED_NATIVE: &[&str] = &[
    NO_SEMAPHORES,
    NO_IMAGES,
    NO_RECORDED_WORDS,
    NO_RAW_CALLS,
    NO_SEMAPHORES_OF_HIP,
    NO_NATIVE_FORMS,
    NO_NATIVE_IMAGES,
    NO_SECOND_DEVICE,
    NO_NVSCI,
    NO_GL_OF_NATIVE,
];

fn native() -> Result<(), Failed> {
    let report = Run::hip_with_exporter().whole().run()?;
    report.only_unsupported(UNSUPPORTED_NATIVE)?;
    report.passed("memory.", 4)?;
    report.passed("stream.", 9)?;
    report.passed("property.", 3)?;
    report.passed("environment.", 2)?;
    bridged(&report, 16)?;
    report.nothing_alive()
}

/// A runtime with assertions ends the process that touches a semaphore: nothing crashes if nobody does.
pub(crate) fn aborting(run: Run) -> Result<(), Failed> {
    let report = run.exporter("native").filter("{semaphore,import,timeline}.*").env("SIM_SEMAPHORES", "abort").run()?;
    report.only_unsupported(&[NO_SEMAPHORES, NO_SEMAPHORES_OF_HIP, NO_NATIVE_FORMS])?;
    let semaphores = report.results.iter().filter(|case| case.id.starts_with("semaphore.")).count();
    check(semaphores >= 20, format!("only {semaphores} scenarios of semaphores"))
}
