//! The example `ash_renderer` on the simulators of both vendors' drivers and on HIP over CUDA, over the bridge. It
//! verifies each frame, and compares the last one with the committed picture.
//!
//! Without Vulkan's driver for the CPU, the simulators, or the built example, the test prints `skipped:` and the reason.
//! With `GPU_INTEROP_REQUIRE_C`, a missing example is a failure.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic)]

use std::env;
use std::process::Command;

use gpu_interop::DeviceKind;
use gpu_interop::vulkan::HeadlessContext;
use gpu_interop_test_support::{build, this_program};

#[test]
fn the_simulators_mirror_what_vulkan_renders() {
    let devices = HeadlessContext::devices().unwrap_or_default();
    let cpu = devices.into_iter().find(|device| device.kind == DeviceKind::Cpu).and_then(|device| device.uuid);
    let Some(uuid) = cpu else { return println!("skipped: Vulkan has no driver for the CPU") };
    let program = env::current_exe().expect("this program");
    let example = program.ancestors().nth(2).expect("Cargo's folder").join("examples/ash_renderer");
    if !example.is_file() {
        assert!(env::var_os("GPU_INTEROP_REQUIRE_C").is_none(), "GPU_INTEROP_REQUIRE_C is set; build the example");
        return println!("skipped: build it with cargo build --package gpu-interop --example ash_renderer");
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (backend, variable, package) in [
        ("cuda", "GPU_INTEROP_CUDA_LIBRARY", "gpu-interop-sim-cuda"),
        ("hip", "GPU_INTEROP_HIP_LIBRARY", "gpu-interop-sim-hip"),
        ("hip", "GPU_INTEROP_HIP_LIBRARY", "gpu-interop-hip-on-cuda"),
    ] {
        let (library, cuda) = match (build(package), build("gpu-interop-sim-cuda")) {
            (Ok(library), Ok(cuda)) => (library, cuda),
            (Err(error), _) | (_, Err(error)) => return println!("skipped: {error}"),
        };
        let mut command = Command::new(&example);
        // Without the variables of this machine.
        for (name, _) in this_program().expect("this program").get_envs() {
            command.env_remove(name);
        }
        command.arg("1").arg(folder.path().join("last.png")).env("GPU_INTEROP_BACKEND", backend);
        command.env("GPU_INTEROP_SIM_CUDA_LIBRARY", cuda);
        let output = command.env(variable, library).env("GPU_INTEROP_SIM_UUID", uuid.to_string()).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", example.display()));
        let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        println!("{package}: {text}");
        assert!(output.status.success(), "{package}: {}: {text}", output.status);
        assert!(text.contains("60 frames by strategy bridge"), "{package}: {text}");
    }
}
