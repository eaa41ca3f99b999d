//! Parts of the tests on real user-space drivers: Mesa's drivers, processes with a time limit, images.

#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use ash::vk;

/// Runs a command, and kills it when it takes too long.
pub(crate) fn output(mut command: Command, limit: Duration) -> std::io::Result<Output> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let process = rustix::process::Pid::from_child(&child);
    let (ended, wait) = std::sync::mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if wait.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // The process was not waited for yet, so its number is still valid.
            _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        }
    });
    let output = child.wait_with_output();
    drop(ended);
    _ = guard.join();
    output
}

/// The variable that names a manifest of RADV.
pub(crate) const RADV: &str = "GPU_INTEROP_SIM_AMDGPU_TEST_RADV";

/// The first manifest with one of these names in the folders of the Vulkan loader.
pub(crate) fn manifest(names: &[&str]) -> Option<PathBuf> {
    let folders = ["/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"];
    let files = folders.iter().flat_map(|folder| names.iter().map(move |name| Path::new(folder).join(name)));
    files.into_iter().find(|path| path.exists())
}

/// RADV's manifest.
pub(crate) fn radv() -> Option<PathBuf> {
    match std::env::var_os(RADV).filter(|named| !named.is_empty()) {
        Some(named) => Some(named.into()),
        None => manifest(&["radeon_icd.json", "radeon_icd.x86_64.json"]),
    }
}

/// A process with the driver of a manifest as the only one.
pub(crate) fn use_driver(command: &mut Command, manifest: &Path) {
    for name in ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"] {
        command.env(name, manifest);
    }
    // Programs that are compiled here are not taken from, or left in, the user's cache.
    command.env("MESA_SHADER_CACHE_DISABLE", "true");
}

/// A process with this emulation, of these GPUs.
pub(crate) fn emulate(command: &mut Command, gpus: &str) -> Result<(), String> {
    let library = gpu_interop_test_support::build(env!("CARGO_PKG_NAME"))?;
    command.env("LD_PRELOAD", library).env("GPU_INTEROP_SIM_AMDGPU_DEVICES", gpus);
    Ok(())
}

/// The only level and layer of an image.
pub(crate) const COLOR: vk::ImageSubresourceRange = vk::ImageSubresourceRange {
    aspect_mask: vk::ImageAspectFlags::COLOR,
    base_mip_level: 0,
    level_count: 1,
    base_array_layer: 0,
    layer_count: 1,
};

/// Moves an image from its undefined layout to the general one.
pub(crate) fn to_general(device: &ash::Device, commands: vk::CommandBuffer, image: vk::Image) {
    let barrier = [vk::ImageMemoryBarrier::default()
        .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE)
        .new_layout(vk::ImageLayout::GENERAL)
        .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
        .image(image)
        .subresource_range(COLOR)];
    let stage = vk::PipelineStageFlags::ALL_COMMANDS;
    // SAFETY: the command buffer is being recorded.
    unsafe { device.cmd_pipeline_barrier(commands, stage, stage, vk::DependencyFlags::empty(), &[], &[], &barrier) };
}
