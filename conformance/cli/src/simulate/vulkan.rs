//! Settings that give a simulator's device the identity of Vulkan's CPU device.

use std::ffi::OsString;

use gpu_interop::vulkan::{BufferOptions, DeviceChoice, ExportableBuffer, HeadlessContext, HeadlessOptions, ash::vk};
use gpu_interop::{DeviceIdentity, DeviceKind, Result};

/// Settings for a simulator's environment, by which its device has the identity of Vulkan's CPU device and imports its
/// memory. Empty without such a device: the exporter then reports the packages to install.
#[must_use]
pub fn simulated_identity() -> Vec<(&'static str, OsString)> {
    let devices = HeadlessContext::devices().unwrap_or_default();
    let Some(cpu) = devices.into_iter().find(|device| device.kind == DeviceKind::Cpu) else { return Vec::new() };
    let uuid = cpu.uuid.map(|uuid| ("GPU_INTEROP_SIM_UUID", uuid.to_string().into()));
    let export = exported(cpu).ok().map(|header| match header.map(|bytes| format!("{bytes:02x}")).concat() {
        header if header.bytes().all(|digit| digit == b'0') => ("GPU_INTEROP_SIM_EXPORT", "plain".into()),
        header => ("GPU_INTEROP_SIM_EXPORT_HEADER", header.into()),
    });
    uuid.into_iter().chain(export).collect()
}

/// Bytes 16 to 31 of the device's exported memory, by which lavapipe recognises its own memory; data begins after them.
/// Zeros mean that data begins with the first byte.
fn exported(device: DeviceIdentity) -> Result<[u8; 16]> {
    let context = HeadlessContext::new(&HeadlessOptions::default().device(DeviceChoice::Identity(device)))?;
    let options = BufferOptions::new(4096, vk::BufferUsageFlags::TRANSFER_SRC);
    let request = ExportableBuffer::new(context.interop(), &options)?.import_request()?;
    let mut header = [0; 16];
    if let Some(fd) = request.handle().as_fd() {
        // A short or failed read leaves zeros.
        let _ = rustix::io::pread(fd, &mut header[..], 16);
    }
    Ok(header)
}
