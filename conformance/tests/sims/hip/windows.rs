//! HIP on Windows: external semaphores, and no exportable memory.

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::CaseReport;
use libtest_mimic::{Failed, Trial};

use super::rows::NATIVE;
use crate::run::{Run, check};

pub(super) fn own_tests() -> Vec<Trial> {
    vec![Trial::test("hip_exports_nothing_on_windows", exports_nothing), Trial::test("d3d_hip", with_direct3d)]
}

/// Scenarios that need HIP's own memory report why there is none. The others run.
fn exports_nothing() -> Result<(), Failed> {
    let run = Run::hip().arg("--exporter").arg("native").filter("{identity,memory,semaphore,timeline}.*");
    let report = run.run()?;
    let unsupported = |case: &&CaseReport| case.outcome == Outcome::Unsupported;
    let all = report.results.iter().filter(|case| case.exporter.is_some());
    let (unsupported, all) = (all.clone().filter(unsupported).count(), all.count());
    check(unsupported == all && all >= 70, format!("{unsupported} of {all}\n{}", report.text()))?;
    report.at_least(&[("identity.", 3)])?;
    report.sound(&["hip_exports_nothing_on_windows"])
}

/// HIP supports memory and fences of Direct3D 12, and buffers and textures of 11, but no keyed mutexes and no fences of
/// 11. It has no other exporter here.
fn with_direct3d() -> Result<(), Failed> {
    let report = Run::hip_d3d().exporter("d3d12").whole().run()?;
    report.at_least(&[
        ("d3d.", 15),
        ("d3d.texture_1", 2),
        ("d3d.buffer_11", 2),
        ("memory.", 11),
        ("map.", 10),
        ("lifetime.", 6),
        ("process.", 3),
        ("stream.", 10),
        ("graph.", 10),
        ("semaphore.", 17),
        ("timeline.", 26),
        ("property.", 3),
        ("environment.", 2),
        ("import.win32_", 24),
    ])?;
    report.sound(&[NATIVE])
}
