//! The suite on the backend, and the expected results.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpu_interop::Backend;
use gpu_interop_conformance::{BackendUnderTest, ExporterName, Outcome, Suite, host_semaphore};
use gpu_interop_conformance_cli::Report;
use gpu_interop_test_support::{build, this_program};
use libtest_mimic::{Failed, Trial};

use crate::api::LIBRARY_VARIABLE;
use crate::backend::{CBackend, NAME, NO_GRAPHS};

pub(crate) fn suite() -> Suite {
    let backend = BackendUnderTest::new(NAME, || Ok(Arc::new(CBackend::load()?) as Arc<dyn Backend>))
        .with_semaphores(host_semaphore)
        .with_system_objects();
    Suite::standard().with_backend(backend)
}

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("the_suite_passes_through_c", the_suite_passes_through_c),
        Trial::test("without_the_library_nothing_passes", without_the_library_nothing_passes),
    ]
}

/// Reasons of the host backend and its exporters, and the only one of the interface. Those with Vulkan depend on the machine.
const UNSUPPORTED: [&str; 10] = [
    NO_GRAPHS,
    "the host backend maps linear memory only",
    "raw calls of CUDA's driver",
    "variables that hide devices",
    "free memory of the device",
    "NvSciBuf object: the backend does not implement it",
    "needs two devices that differ",
    "native memory has one form",
    "the suite has no images of this exporter",
    "OpenGL",
];

/// Least number of scenarios that pass with the device's own memory alone.
const LEAST: usize = 150;

fn the_suite_passes_through_c() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("report.json");
    let mut command = this_program()?;
    command.env(LIBRARY_VARIABLE, build("gpu-interop-capi")?);
    command.args(["run", "--backend", NAME, "--quiet", "--jobs", "2", "--require", "native", "--json"]).arg(&json);
    if cfg!(debug_assertions) {
        // Without `size.*`, which takes a minute unless it is optimised.
        command.args(["--filter", "{[!s]*,st*,se*}"]);
    }
    let output = command.output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report: Report = serde_json::from_str(&std::fs::read_to_string(&json).unwrap_or_default())
        .map_err(|error| format!("{error}: {}\n{text}", output.status))?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for case in &report.results {
        *counts.entry(format!("{:?}", case.outcome)).or_default() += 1;
    }
    println!("{counts:?}");
    let failed = report.results.iter().filter(|case| case.outcome.is_failure()).count();
    let passed = report.results.iter().filter(|case| case.outcome == Outcome::Passed).count();
    if failed > 0 || passed < LEAST || !output.status.success() {
        return Err(format!("{counts:?}, {}\n{text}", output.status).into());
    }
    let machine_independent = |exporter: Option<ExporterName>| exporter != Some(ExporterName::Vulkan);
    for case in report.results.iter().filter(|case| case.outcome == Outcome::Unsupported) {
        let reason = case.reason.as_deref().unwrap_or_default();
        let expected = UNSUPPORTED.iter().any(|part| reason.contains(part));
        if machine_independent(case.exporter) && !expected {
            return Err(format!("{case:?}").into());
        }
    }
    Ok(())
}

/// The negative control: the backend has no other way to the device.
fn without_the_library_nothing_passes() -> Result<(), Failed> {
    let mut command = this_program()?;
    command.env(LIBRARY_VARIABLE, "/nonexistent/libgpu_interop.so");
    command.args(["run", "--backend", NAME, "--quiet", "--exporter", "native", "--filter", "memory.*"]);
    let output = command.output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() || !text.contains("dlopen") {
        return Err(text.into());
    }
    Ok(())
}
