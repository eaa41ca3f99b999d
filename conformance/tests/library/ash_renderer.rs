//! The example `ash_renderer` on the simulators of both vendors' drivers and on HIP over CUDA, over the bridge. It
//! verifies each frame, and compares the last one with the committed picture.
//!
//! Without Vulkan's driver for the CPU, the simulators, or the built example, the test prints `skipped:` and the reason.
//! With `GPU_INTEROP_REQUIRE_C`, a missing example is a failure.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic)]

use gpu_interop::DeviceKind;
use gpu_interop::vulkan::HeadlessContext;
use gpu_interop_test_support::{build, code_and_text, example};

#[test]
fn the_simulators_mirror_what_vulkan_renders() {
    let devices = HeadlessContext::devices().unwrap_or_default();
    let cpu = devices.into_iter().find(|device| device.kind == DeviceKind::Cpu).and_then(|device| device.uuid);
    let Some(uuid) = cpu else { return println!("skipped: Vulkan has no driver for the CPU") };
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
        let Some(mut command) = example("ash_renderer", "") else { return };
        command.arg("1").arg(folder.path().join("last.png")).env("GPU_INTEROP_BACKEND", backend);
        command.env("GPU_INTEROP_SIM_CUDA_LIBRARY", cuda);
        command.env(variable, library).env("GPU_INTEROP_SIM_UUID", uuid.to_string());
        let (code, text) = code_and_text(command);
        assert_eq!(code, Some(0), "{package}: {text}");
        assert!(text.contains("60 frames by strategy bridge"), "{package}: {text}");
    }
}
