//! Vulkan CPU drivers, and the settings that give a simulator's device their identity.

use std::path::PathBuf;

use gpu_interop::vulkan::{BufferOptions, DeviceChoice, ExportableBuffer, HeadlessContext, HeadlessOptions, ash::vk};
use gpu_interop::{DeviceKind, ErrorKind};
use libtest_mimic::{Completion, Failed};

/// Settings that give a simulator's device the exporter's identity.
#[derive(Debug)]
pub(crate) struct Peer {
    /// `GPU_INTEROP_SIM_UUID`.
    pub(crate) uuid: String,
    /// `GPU_INTEROP_SIM_EXPORT_HEADER`.
    pub(crate) header: String,
}

/// The device; `None` without Vulkan or a CPU device.
fn vulkan() -> Result<Option<Peer>, Failed> {
    let devices = match HeadlessContext::devices() {
        Ok(devices) => devices,
        Err(error) if matches!(error.kind(), ErrorKind::DriverNotFound | ErrorKind::DriverTooOld) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(cpu) = devices.into_iter().find(|device| device.kind == DeviceKind::Cpu) else { return Ok(None) };
    let uuid = cpu.uuid.ok_or("a device of Vulkan has a UUID")?.to_string();
    let context = HeadlessContext::new(&HeadlessOptions::default().device(DeviceChoice::Identity(cpu)))?;
    let options = BufferOptions::new(4096, vk::BufferUsageFlags::TRANSFER_SRC);
    let request = ExportableBuffer::new(context.interop(), &options)?.import_request()?;
    let mut start = [0; 32];
    rustix::io::pread(request.handle().as_fd().ok_or("a descriptor")?, &mut start[..], 0)?;
    let header = start[16..].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(Peer { uuid, header }))
}

/// Runs a test with the device, which ignores it if there is none.
pub(crate) fn with_vulkan(test: fn(&Peer) -> Result<(), Failed>) -> Result<Completion, Failed> {
    let Some(vulkan) = vulkan()? else {
        return Ok(Completion::ignored_with("Vulkan has no device that is a CPU; install mesa-vulkan-drivers"));
    };
    test(&vulkan).map(|()| Completion::Completed)
}

/// SwiftShader's device, the same in every version.
pub(crate) const SWIFTSHADER_UUID: &str = "53776966745368616465725555494400";

pub(crate) const NO_SWIFTSHADER: &str =
    "no SwiftShader: name its libvk_swiftshader.so with SWIFTSHADER_LIBRARY (Debian has it in chromium-common)";

/// SwiftShader's library.
pub(crate) fn swiftshader_library() -> Option<PathBuf> {
    let named = std::env::var_os("SWIFTSHADER_LIBRARY").map(PathBuf::from);
    let installed = PathBuf::from("/usr/lib/chromium/libvk_swiftshader.so");
    named.or_else(|| installed.is_file().then_some(installed))
}
