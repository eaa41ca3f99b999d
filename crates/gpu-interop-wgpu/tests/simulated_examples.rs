//! The examples on the simulators of both vendors' drivers and on the shim of HIP, over the bridge. Their kernels are built
//! for the CPU from the same source in C. Each example compares its last frame with the committed picture.
//!
//! Without Vulkan's driver for the CPU, clang-19, the simulators, or the built examples, a test prints `skipped:` and the
//! reason. With `GPU_INTEROP_REQUIRE_C`, a missing compiler or example is a failure.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic)]

use std::env;
use std::path::PathBuf;
use std::process::Command;

use gpu_interop_test_support::{build, this_program};
use gpu_interop_wgpu::gpu_interop::DeviceKind;
use gpu_interop_wgpu::gpu_interop::vulkan::HeadlessContext;
use tempfile::TempDir;

const KERNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels");
const CUDA: &str = "GPU_INTEROP_CUDA_LIBRARY";
const HIP: &str = "GPU_INTEROP_HIP_LIBRARY";

/// A driver: the backend, the variable that names its library, and the library's package.
const DRIVERS: [[&str; 3]; 3] = [
    ["cuda", CUDA, "gpu-interop-sim-cuda"],
    ["hip", HIP, "gpu-interop-sim-hip"],
    // Above the simulator of CUDA.
    ["hip", HIP, "gpu-interop-hip-on-cuda"],
];

const FILTER: (&str, &str) = ("wgpu_filter", "--headless --linear --size 256 --frames 4");
const PARTICLES: (&str, &str) = ("wgpu_particles", "--headless --size 256 --frames 30");

/// Builds a library of kernels: that of `kernels/build.sh`, or from a source in place of `kernels/simulated.c`.
fn build_kernels(source: Option<&str>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("libkernels.so");
    let mut compiler = match source {
        None => Command::new(format!("{KERNELS}/build.sh")),
        Some(_) => Command::new("clang-19"),
    };
    if let Some(source) = source {
        let file = folder.path().join("kernels.c");
        std::fs::write(&file, source).expect("written");
        compiler.args(["-std=c17", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-I", KERNELS]);
        compiler.arg(format!("-I{KERNELS}/../../../../kernels/device")).arg(file).arg("-o").arg(&library);
    } else {
        compiler.arg("--simulated").arg(&library);
    }
    let output = compiler.output().expect("a process");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (folder, library)
}

/// Prints what to do, or fails with it if nothing may be missing.
fn missing<T>(remedy: &str) -> Option<T> {
    assert!(env::var_os("GPU_INTEROP_REQUIRE_C").is_none(), "GPU_INTEROP_REQUIRE_C is set; {remedy}");
    println!("skipped: {remedy}");
    None
}

/// What a simulator's device needs.
struct Simulated {
    /// That of Vulkan's driver for the CPU.
    uuid: String,
    kernels: PathBuf,
    _folder: TempDir,
}

impl Simulated {
    /// With kernels as [`build_kernels`] builds them. `None`, with a printed reason, if something is missing.
    fn new(source: Option<&str>) -> Option<Self> {
        let devices = HeadlessContext::devices().unwrap_or_default();
        let cpu = devices.into_iter().find(|device| device.kind == DeviceKind::Cpu).and_then(|device| device.uuid);
        let Some(uuid) = cpu else {
            println!("skipped: Vulkan has no driver for the CPU");
            return None;
        };
        if Command::new("clang-19").arg("--version").output().is_err() {
            return missing("install clang-19");
        }
        let (folder, kernels) = build_kernels(source);
        Some(Self { uuid: uuid.to_string(), kernels, _folder: folder })
    }
}

/// Runs an example on a driver. `None`, with a printed reason, without the driver's sources.
fn run(
    [backend, variable, package]: [&str; 3],
    (example, options): (&str, &str),
    simulated: &Simulated,
) -> Option<(bool, String)> {
    let library = |package| build(package).inspect_err(|error| println!("skipped: {error}")).ok();
    // Cargo's folder of programs, above that of tests.
    let program = env::current_exe().expect("this program");
    let folder = program.ancestors().nth(2).expect("Cargo's folder");
    let program = folder.join("examples").join(example);
    if !program.is_file() {
        return missing("build the examples: cargo build --package gpu-interop-wgpu --examples");
    }
    // Without the variables of this machine.
    let mut command = Command::new(program);
    for (name, _) in this_program().expect("this program").get_envs() {
        command.env_remove(name);
    }
    command.args(options.split(' ')).env("GPU_INTEROP_BACKEND", backend).env(variable, library(package)?);
    command.env("GPU_INTEROP_SIM_CUDA_LIBRARY", library("gpu-interop-sim-cuda")?).env("GPU_INTEROP_SIM_PTX", KERNELS);
    command.env("GPU_INTEROP_SIM_UUID", &simulated.uuid).env("GPU_INTEROP_SIM_KERNELS", &simulated.kernels);
    let output = command.output().unwrap_or_else(|error| panic!("{example}: {error}"));
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    println!("{package}: {example}: {}\n{text}", output.status);
    Some((output.status.success(), text))
}

/// Runs an example on each driver.
fn draws(example: (&str, &str), also_said: &str) {
    let Some(simulated) = Simulated::new(None) else { return };
    for driver in DRIVERS {
        let Some((success, text)) = run(driver, example, &simulated) else { return };
        assert!(success, "{driver:?}: {text}");
        let compute = format!(", {} on simulated GPU ", driver[0]);
        for expected in [&compute, "strategy bridge", "the last frame differs from the expected picture by", also_said]
        {
            assert!(text.contains(expected), "{driver:?}: no `{expected}` in {text}");
        }
    }
}

#[test]
fn the_filter_draws_its_picture() {
    draws(FILTER, "wgpu_filter: 0 of 65536 texels differ from the CPU's result");
}

#[test]
fn the_particles_draw_their_picture() {
    draws(PARTICLES, "wgpu_particles: 30 frames of 256 x 256");
}

/// The kernels with a wrong distance and a wrong mass.
const WRONG: &str = "
#define edges right_edges
#define advance right_advance
#include \"edges.c\"
#include \"particles.c\"
#undef edges
#undef advance
KERNEL void edges(uint64_t from, uint64_t from_pitch, uint64_t to, uint64_t to_pitch, int32_t size, int32_t radius) {
    right_edges(from, from_pitch, to, to_pitch, size, radius + 1);
}
KERNEL void advance(GLOBAL float4 *states, GLOBAL float4 *vertices, uint64_t count, struct step step) {
    step.cores[0][3] *= 2.0f;
    right_advance(states, vertices, count, step);
}
SIMULATED_KERNEL_6(edges, uint64_t, uint64_t, uint64_t, uint64_t, int32_t, int32_t)
SIMULATED_KERNEL_4(advance, GLOBAL float4 *, GLOBAL float4 *, uint64_t, struct step)
";

/// Negative control: with a wrong kernel, each example fails.
#[test]
fn wrong_kernels_draw_other_pictures() {
    let Some(simulated) = Simulated::new(Some(WRONG)) else { return };
    for (example, said) in [(FILTER, "the kernel's result is wrong"), (PARTICLES, "the last frame is wrong")] {
        let Some((success, text)) = run(DRIVERS[0], example, &simulated) else { return };
        assert!(!success && text.contains(said), "{text}");
    }
}

/// Without a kernel, each driver fails with the code of the vendor's.
#[test]
fn unknown_kernels_are_not_found() {
    let Some(simulated) = Simulated::new(Some("int nothing;")) else { return };
    let functions = ["cuModuleGetFunction", "hipModuleLoadData", "hipModuleGetFunction"];
    for (driver, function) in DRIVERS.into_iter().zip(functions) {
        let Some((success, text)) = run(driver, FILTER, &simulated) else { return };
        assert!(!success && text.contains(&format!("Error: {function}: ")), "{driver:?}: {text}");
    }
}
