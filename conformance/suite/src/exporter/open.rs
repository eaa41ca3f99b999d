//! Opens an exporter by its name.

use gpu_interop::Device;

#[cfg(windows)]
use super::d3d12;
use super::{Exporter, ExporterName, native, vulkan};
use crate::backend_under_test::BackendUnderTest;
#[cfg(not(windows))]
use crate::outcome::Stop;
use crate::outcome::Verdict;

/// Opens an exporter for `device`; with `signals_by_host`, one whose own checks allow a thread of the host to signal a
/// timeline that another waits for.
///
/// # Errors
/// [`Stop::Unsupported`](crate::Stop::Unsupported) if the device has no such exporter,
/// [`Stop::Skipped`](crate::Stop::Skipped) with what to install if the machine lacks it.
pub(crate) fn open(
    name: ExporterName,
    backend: &BackendUnderTest,
    device: &Device,
    signals_by_host: bool,
) -> Verdict<Box<dyn Exporter>> {
    match name {
        ExporterName::Native => Ok(Box::new(native::NativeExporter::open(backend, device)?)),
        ExporterName::Vulkan => Ok(Box::new(vulkan::VulkanExporter::open(backend, device, signals_by_host)?)),
        #[cfg(windows)]
        ExporterName::D3d12 => Ok(Box::new(d3d12::D3d12Exporter::open(backend, device)?)),
        #[cfg(not(windows))]
        ExporterName::D3d12 => Err(Stop::Unsupported("Direct3D is part of Windows".into())),
    }
}
