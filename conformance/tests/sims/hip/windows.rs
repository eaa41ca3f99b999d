//! HIP on Windows: external semaphores, and no memory of its own to export.

use gpu_interop_conformance::{CaseReport, Outcome};
use libtest_mimic::{Failed, Trial};

// What the exporter lacks, which is Direct3D 12.
pub(super) use crate::d3d::{NO_BINARY as NO_SEMAPHORES, NO_HOST_MEMORY as NO_FORMS};
use crate::run::{Run, check};

pub(super) fn own_tests() -> Vec<Trial> {
    let rows = ROWS.iter().map(|(version, below, unsupported)| {
        Trial::test(format!("hip_on_windows_{version}_{below}"), move || row(version, below, unsupported))
    });
    rows.chain([Trial::test("hip_exports_nothing_on_windows", exports_nothing)]).collect()
}

/// Versions between which the table of the stand-in (`gpu_interop_stand_in::hip::behaviour`) tells differences, what the
/// runtime is above, and what it cannot do beyond what every row cannot. Not those before 6.1, which take no names, and those
/// from 7.2 on, which keep what is mapped: scenarios of names and of handles fail there.
const ROWS: &[(&str, &str, &[&str])] = &[("60140091", "pal", &[]), ("60241133", "pal", &[]), ("60342131", "pal", &[])];

pub(super) const NOT_ON_TWO: &[&str] = &[NO_FORMS, NO_EXPORT];

/// Imports and semaphores of Direct3D on one version.
fn row(version: &str, below: &str, unsupported: &[&str]) -> Result<(), Failed> {
    let run = Run::hip_with_exporter().filter("{d3d,import,map,semaphore}.*").env("SIM_VERSION", version);
    let report = run.env("SIM_HIP_DRIVER", below).run()?;
    report.only_unsupported(&[crate::d3d::NOT_OF_HIP, unsupported].concat())?;
    report.passed("semaphore.", 17)?;
    report.passed("d3d.", 8)?;
    report.passed("map.", 10)?;
    report.passed("import.win32_", 20)
}

/// Of memory.
pub(crate) const NO_EXPORT: &str =
    "on Windows HIP makes no memory that can be exported: hipMemCreate refuses Win32 handles";

/// Whatever takes memory of HIP's own says why there is none. The rest runs.
fn exports_nothing() -> Result<(), Failed> {
    let run = Run::hip().arg("--exporter").arg("native").filter("{identity,memory,semaphore,timeline}.*");
    let report = run.run()?;
    report.only_unsupported(&[NO_EXPORT, "needs two devices"])?;
    let told = |case: &&CaseReport| case.outcome == Outcome::Unsupported;
    let all = report.results.iter().filter(|case| case.exporter.is_some());
    let (told, all) = (all.clone().filter(told).count(), all.count());
    check(told == all && all >= 70, format!("{told} of {all}\n{}", report.text()))?;
    report.passed("identity.", 3)?;
    report.nothing_alive()
}
