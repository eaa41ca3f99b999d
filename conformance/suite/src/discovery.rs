//! Discovery of a backend, its devices and the exporters.

use gpu_interop::{BackendInfo, Capabilities, Device, DeviceIdentity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend_under_test::BackendUnderTest;
use crate::exporter::{self, ExporterName};
use crate::outcome::{Stop, Verdict};

/// Devices and exporters of a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Discovery {
    /// The backend.
    pub backend: BackendInfo,
    /// The requested device.
    pub device: DeviceIdentity,
    /// Every device of the backend.
    pub devices: Vec<DeviceIdentity>,
    /// The device's capabilities.
    pub capabilities: Capabilities,
    /// The requested exporters.
    pub exporters: Vec<ExporterReport>,
}

/// An exporter, and whether it can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExporterReport {
    /// The exporter.
    pub name: ExporterName,
    /// The exporting device and driver, if it can be used.
    pub available: Option<ExporterDetail>,
    /// The reason why it is unavailable: unsupported by the device, missing with the package to install, or broken.
    #[serde(flatten, skip_serializing_if = "Option::is_none", default)]
    pub stop: Option<Stop>,
}

/// A usable exporter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExporterDetail {
    /// Its device.
    pub device: DeviceIdentity,
    /// Its driver.
    pub driver: String,
}

/// Loads a backend, opens its device of this ordinal, and tries to open each exporter for it.
///
/// # Errors
/// If the backend does not load, or the device is unknown.
pub fn discover(under_test: &BackendUnderTest, device: usize, exporters: &[ExporterName]) -> Verdict<Discovery> {
    let backend = under_test.load()?;
    let devices = backend.devices()?;
    let device = Device::open(&*backend, device)?;
    let exporters = exporters
        .iter()
        .map(|name| match exporter::open(*name, under_test, &device, false) {
            Ok(opened) => ExporterReport {
                name: *name,
                available: Some(ExporterDetail { device: opened.identity().clone(), driver: opened.describe() }),
                stop: None,
            },
            Err(stop) => ExporterReport { name: *name, available: None, stop: Some(stop) },
        })
        .collect();
    Ok(Discovery {
        backend: backend.info().clone(),
        device: device.identity().clone(),
        devices,
        capabilities: device.capabilities().clone(),
        exporters,
    })
}
