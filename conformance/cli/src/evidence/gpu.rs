//! The state of a GPU, as its management interface reports it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A GPU's firmware, modes and sensors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// The interface: `NVML 13.580.159.04`, or `sysfs of amdgpu`.
    pub source: String,
    /// The version of the video BIOS.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub firmware: Option<String>,
    /// The version of the firmware of NVIDIA's system processor.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gsp_firmware: Option<String>,
    /// `true` if error correction of the memory is on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ecc: Option<bool>,
    /// `true` if the GPU is divided into instances (MIG).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub mig: Option<bool>,
    /// NVIDIA's compute mode: `default`, `exclusive thread`, `exclusive process` or `prohibited`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compute_mode: Option<String>,
    /// The mode of AMD's compute partitions: `SPX`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub partition: Option<String>,
    /// Greatest clock rates, MHz.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub max_clocks_mhz: BTreeMap<String, u32>,
    /// Temperature, power and clock rates.
    pub sensors: Sensors,
}

/// Temperature, power and clock rates of a GPU at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sensors {
    /// Temperature, thousandths of a degree Celsius.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub temperature_mc: Option<i64>,
    /// Power, milliwatts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub power_mw: Option<u64>,
    /// Clock rates, MHz: `graphics`, `memory`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub clocks_mhz: BTreeMap<String, u32>,
}

/// The sensors before and after a case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Around {
    /// Before it.
    pub before: Sensors,
    /// After it.
    pub after: Sensors,
}

impl std::fmt::Display for Sensors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let temperature = self.temperature_mc.map(|value| format!("{:.0} °C", thousandths(value)));
        let power = self.power_mw.and_then(|value| i64::try_from(value).ok());
        let power = power.map(|value| format!("{:.0} W", thousandths(value)));
        let clocks = self.clocks_mhz.iter().map(|(name, clock)| format!("{name} {clock} MHz"));
        f.write_str(&temperature.into_iter().chain(power).chain(clocks).collect::<Vec<_>>().join(", "))
    }
}

fn thousandths(value: i64) -> f64 {
    // Temperatures and powers are far below the limit of exact numbers.
    #[allow(clippy::cast_precision_loss, reason = "see above")]
    let value = value as f64;
    value / 1000.0
}
