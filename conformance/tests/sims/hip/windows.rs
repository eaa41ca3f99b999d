//! HIP on Windows: external semaphores, and no memory of its own to export.

use gpu_interop_conformance::{CaseReport, Outcome};
use libtest_mimic::{Failed, Trial};

// What the exporter lacks, which is Direct3D 12.
pub(super) use crate::d3d::{NO_BINARY as NO_SEMAPHORES, NO_HOST_MEMORY as NO_FORMS};
use crate::run::{Run, check};

pub(super) fn own_tests() -> Vec<Trial> {
    vec![Trial::test("hip_exports_nothing_on_windows", exports_nothing)]
}

/// Of memory.
pub(crate) const NO_EXPORT: &str =
    "on Windows HIP makes no memory that can be exported: hipMemCreate refuses Win32 handles";

/// Whatever takes memory of HIP's own says why there is none. The rest runs.
fn exports_nothing() -> Result<(), Failed> {
    let run = Run::hip().arg("--exporter").arg("native").filter("{identity,memory,semaphore,timeline}.*");
    let report = run.run()?;
    report.only_unsupported(&[NO_EXPORT])?;
    let told = |case: &&CaseReport| case.outcome == Outcome::Unsupported;
    let all = report.results.iter().filter(|case| case.exporter.is_some());
    let (told, all) = (all.clone().filter(told).count(), all.count());
    check(told == all && all >= 70, format!("{told} of {all}\n{}", report.text()))?;
    report.passed("identity.", 3)?;
    report.nothing_alive()
}
