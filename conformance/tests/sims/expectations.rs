//! Expectations for a driver's release, which its file name contains.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use gpu_interop_conformance::Outcome;
use libtest_mimic::{Failed, Trial};

use crate::cuda::NATIVE_IMPORT;
use crate::run::{GPU_INTEROP_SIM_CUDA, Ran, Run, check};

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("expectations_are_for_releases_of_a_driver", releases),
        Trial::test("expectations_for_no_scenario_are_reported", stale),
    ]
}

/// One failing scenario, with sim-cuda under the file name of a driver's release, and a file of expectations.
fn run(folder: &Path, expectations: &str) -> Result<Ran, Failed> {
    let file = folder.join("expectations.toml");
    fs::write(&file, expectations)?;
    fs::copy(gpu_interop_test_support::build(GPU_INTEROP_SIM_CUDA)?, folder.join("libcuda.so.580.159.04"))?;
    let link = folder.join("libcuda.so.1");
    if !link.exists() {
        symlink("libcuda.so.580.159.04", &link)?;
    }
    let run = Run::cuda().env("GPU_INTEROP_CUDA_LIBRARY", &link.to_string_lossy());
    let run = run.exporter("native").filter("memory.round_trip").arg("--expectations").arg(&file.to_string_lossy());
    run.env("GPU_INTEROP_SIM_FAIL", &format!("{NATIVE_IMPORT}:1:999")).run()
}

fn releases() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    for (field, expected) in [
        ("driver = { from = '580.95', before = '580.159.05' }", true),
        ("driver = { from = '580.159.05' }", false),
        ("driver = { before = '580.159.04' }", false),
        // The exporter is the same driver.
        ("exporter_driver = { from = '580' }", true),
        ("exporter_driver = { before = '580' }", false),
        ("exporter_says = 'exportable memory of cuda*'", true),
        ("exporter_says = 'radv *'", false),
        ("os = 'linux'", true),
        ("os = 'windows'", false),
    ] {
        let entry = "[[expected_failure]]\nscenario = 'memory.*'\nreason = 'known'\nmeasured = 'here'";
        let report = run(folder.path(), &format!("{entry}\n{field}"))?;
        check(report.backend.driver == "CUDA 13.0, driver 580.159.04", &*report.backend.driver)?;
        let outcome = if expected { Outcome::ExpectedFailure } else { Outcome::Failed };
        check(report.results.iter().all(|case| case.outcome == outcome), format!("{field}: {:?}", report.results))?;
        check(!report.text().contains("matches no scenario"), report.text())?;
    }
    Ok(())
}

fn stale() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let report = run(
        folder.path(),
        "[[unsupported]]\nscenario = 'mermory.*'\nreason = 'misspelt'\n\
         [[unsupported]]\nscenario = 'mermory.fill'\nbackend = 'hip'\nreason = 'of another backend'\n\
         [[unsupported]]\nscenario = 'stream.*'\nreason = 'left out by the filter'",
    )?;
    let reported: Vec<&str> = report.text().lines().filter(|line| line.contains("matches no scenario")).collect();
    check(reported.len() == 1 && reported[0].contains("`mermory.*`: misspelt"), format!("{reported:?}"))
}
