//! The suite on the backend, and the expected results.

use std::process::Command;
use std::sync::Arc;

use gpu_interop::{Backend, ModuleImage};
use gpu_interop_conformance::{BackendUnderTest, ExporterName, Suite, host_semaphore};
use gpu_interop_conformance_cli::{CaseReport, Report, simulated_identity};
use gpu_interop_test_support::{build, built_with_this_program, recording, this_program};
use libtest_mimic::{Completion, Failed, Trial};

use crate::api::{BACKEND_VARIABLE, LIBRARY_VARIABLE};
use crate::backend::{CBackend, NAME, below};
use crate::recorded::{as_recorded, at_least};

pub(crate) fn suite() -> Suite {
    let backend = BackendUnderTest::new(NAME, || Ok(Arc::new(CBackend::load()?) as Arc<dyn Backend>));
    let backend = match below().as_str() {
        "host" => backend.with_semaphores(host_semaphore).with_system_objects(),
        // NVIDIA's driver does not import the host backend's semaphores; its simulator does.
        _ if std::env::var_os("GPU_INTEROP_CUDA_LIBRARY").is_none() => {
            backend.with_kernels(ModuleImage::Ptx(gpu_interop_kernels::ptx()))
        }
        _ => backend.with_semaphores(host_semaphore).with_kernels(ModuleImage::Ptx(gpu_interop_kernels::ptx())),
    };
    Suite::standard().with_backend(backend)
}

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        Trial::test("host_backend_through_c", host),
        Trial::ignorable_test("cuda_backend_through_c_on_its_simulator", cuda),
        Trial::test("freeing_a_part_leaves_the_whole_mapping", crate::device::freeing_a_part_leaves_the_whole_mapping),
        Trial::test("without_the_library_nothing_passes", without_the_library_nothing_passes),
    ]
}

/// A finished run.
struct Ran {
    report: Report,
    text: String,
}

impl Ran {
    /// Runs the suite through the library; only these scenarios unless the build is optimised, or the run is recorded.
    fn run(mut command: Command, filter: &str) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let json = folder.path().join("report.json");
        command.env(LIBRARY_VARIABLE, built_with_this_program("gpu-interop-capi")?);
        command.args(["--quiet", "--jobs", "4", "--retries", "0", "--json"]).arg(&json);
        if cfg!(debug_assertions) && !recording() {
            command.args(["--filter", filter]);
        }
        let output = command.output()?;
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let report: Report = serde_json::from_str(&std::fs::read_to_string(&json).unwrap_or_default())
            .map_err(|error| format!("{error}: {}\n{text}", output.status))?;
        let ran = Self { report, text };
        if !output.status.success() || ran.report.results.iter().any(|case| case.outcome.is_failure()) {
            return Err(ran.failed("a scenario failed"));
        }
        println!("{}", ran.text.lines().last().unwrap_or_default());
        Ok(ran)
    }

    fn failed(&self, what: &str) -> Failed {
        format!("{what}\n{}", self.text).into()
    }

    /// Fails unless at least so many scenarios passed whose ids have these prefixes.
    fn at_least(&self, counts: &[(&str, usize)]) -> Result<(), Failed> {
        at_least(&self.report.results, counts).map_err(|few| self.failed(&few))
    }

    /// Fails unless each case ended as recorded in this section, and passed if it names no such case.
    fn as_recorded(&self, section: &str, compared: impl Fn(&&CaseReport) -> bool) -> Result<(), Failed> {
        let cases = self.report.results.iter().filter(compared);
        as_recorded("capi", &[section], cases).map_err(|unlike| self.failed(&unlike))
    }
}

fn host() -> Result<(), Failed> {
    let mut command = this_program()?;
    command.args(["run", "--backend", NAME, "--require", "native"]);
    // Without `size.*`, which takes a minute.
    let ran = Ran::run(command, "{[!s]*,st*,se*}")?;
    // Outcomes of the host backend with Vulkan depend on the machine.
    ran.as_recorded("host", |case| case.exporter != Some(ExporterName::Vulkan))?;
    ran.at_least(&[("", 120)])
}

/// With images, on the simulator of CUDA's driver.
fn cuda() -> Result<Completion, Failed> {
    let identity = simulated_identity();
    if identity.is_empty() {
        return Ok(Completion::ignored_with("Vulkan has no device that is a CPU; install mesa-vulkan-drivers"));
    }
    let mut command = this_program()?;
    command.env(BACKEND_VARIABLE, "cuda").env("GPU_INTEROP_CUDA_LIBRARY", build("gpu-interop-sim-cuda")?);
    command.envs(identity);
    command.args(["run", "--backend", NAME, "--require", "native,vulkan"]);
    let ran = Ran::run(command, "{image_*,import,map,memory,reverse,semaphore}.*")?;
    ran.as_recorded("cuda", |_| true)?;
    ran.at_least(&[("image_", 30), ("semaphore.", 10), ("", 100)])?;
    Ok(Completion::Completed)
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
