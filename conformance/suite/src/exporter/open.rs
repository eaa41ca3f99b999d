//! Opens an exporter by its name.

use gpu_interop::Device;

#[cfg(windows)]
use super::d3d12;
use super::{Exporter, ExporterName, native, vulkan};
use crate::backend_under_test::BackendUnderTest;
#[cfg(not(windows))]
use crate::outcome::Stop;
use crate::outcome::Verdict;

/// Opens an exporter for `device`. With `signals_by_host`, its own checks must support a host thread that signals a
/// timeline while another waits for it.
///
/// # Errors
/// [`Stop::unsupported`](crate::Stop::unsupported) if the device does not support the exporter,
/// [`Stop::skipped`](crate::Stop::skipped) with the packages to install if the machine lacks it.
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
        ExporterName::D3d12 => Err(Stop::unsupported("Direct3D is part of Windows".into())),
    }
}
