//! The state of a GPU, from NVIDIA's management library or the files of amdgpu, read by another process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use clap::Args;
use gpu_interop::sync::lock;
use gpu_interop::{DeviceIdentity, DeviceKind};
use gpu_interop_conformance::process::this_program;
use gpu_interop_conformance::system::Received;
use gpu_interop_conformance::{Channel, Incoming, Stop, Verdict, system};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wait_timeout::ChildExt;

use super::sys::nvml::Nvml;
use crate::examined::System;

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

/// The hidden subcommand that reads the state.
const SUBCOMMAND: &str = "gpu-state";
/// The message that asks for the state.
const READ: &str = "read";
/// The time limit of a reading.
const LIMIT: Duration = Duration::from_secs(10);
/// Time for the process to end after it was killed.
const LEAVING: Duration = Duration::from_secs(3);
/// Maximum size of a reply, bytes.
const REPLY: usize = 16 << 10;

/// The GPU whose state is read.
#[derive(Debug, Args)]
pub(crate) struct GpuArgs {
    /// `domain:bus:device.function`.
    #[arg(long)]
    pci: Option<String>,
    #[arg(long)]
    uuid: Option<String>,
}

/// Serves the parent's requests for the state, until the parent closes the connection.
///
/// # Errors
/// If a reply cannot be sent.
pub(crate) fn examine(args: &GpuArgs) -> Verdict {
    let (channel, mut nvml) = (Channel::of_this_process()?, None);
    loop {
        match channel.next(LIMIT)? {
            Incoming::Nothing => {}
            Incoming::Gone => return Ok(()),
            Incoming::Message(..) => {
                let state = read_state(args, &mut nvml).map_err(Stop::skipped);
                channel.connection().send(&serde_json::to_vec(&state)?, &[])?;
            }
        }
    }
}

/// Reads the state in this process.
fn read_state(args: &GpuArgs, nvml: &mut Option<Nvml>) -> Result<Gpu, String> {
    if let Some(gpu) = args.pci.as_deref().and_then(|pci| read_amdgpu(&System::new(None), pci)) {
        return Ok(gpu);
    }
    let nvml = match nvml {
        Some(nvml) => nvml,
        None => nvml.insert(Nvml::load()?),
    };
    nvml.read(args.pci.as_deref(), args.uuid.as_deref())
}

/// Reads the state of the GPU under test.
///
/// Another process reads it: a management library may crash or hang with a GPU that is lost. The process stays for the
/// whole run, because such a library takes longer to start than to read.
#[derive(Debug)]
pub(crate) struct Monitor(Mutex<MonitorState>);

/// The process that reads.
#[derive(Debug)]
enum MonitorState {
    Runs(Process),
    /// There is nothing to read, or a reading has failed.
    Ended,
}

#[derive(Debug)]
struct Process {
    child: Child,
    channel: Channel,
}

impl Monitor {
    /// A monitor of a device; without a GPU it reads nothing. The process ends with the calling thread, on Linux.
    pub(crate) fn new(device: &DeviceIdentity, is_real: bool) -> Self {
        let mut arguments = vec![SUBCOMMAND.to_owned()];
        if let Some(pci) = &device.pci {
            arguments.extend(["--pci".into(), pci.to_string()]);
        }
        if let Some(uuid) = &device.uuid {
            arguments.extend(["--uuid".into(), format!("GPU-{uuid}")]);
        }
        let works = is_real && device.kind != DeviceKind::Cpu && arguments.len() > 1;
        if works { Self::start(&arguments) } else { Self(Mutex::new(MonitorState::Ended)) }
    }

    /// A monitor of the GPU at this PCI address.
    pub(crate) fn at(pci: &str) -> Self {
        Self::start(&[SUBCOMMAND, "--pci", pci].map(Into::into))
    }

    fn start(arguments: &[String]) -> Self {
        Self(Mutex::new(Process::start(arguments).map_or_else(failed, MonitorState::Runs)))
    }

    /// The present state; `None` if it cannot be read. A failed reading is the last one.
    pub(crate) fn read(&self) -> Option<Gpu> {
        let mut state = lock(&self.0);
        let MonitorState::Runs(process) = &*state else { return None };
        match process.read() {
            Ok(gpu) => Some(gpu),
            Err(stop) => {
                *state = failed(stop);
                None
            }
        }
    }
}

fn failed(stop: Stop) -> MonitorState {
    tracing::info!(reason = stop.reason(), "the GPU's state is not in the report");
    MonitorState::Ended
}

impl Process {
    fn start(arguments: &[String]) -> Verdict<Self> {
        let (channel, there) = Channel::pair()?;
        let mut command = this_program()?;
        command.args(arguments).stdin(there).stdout(Stdio::null()).stderr(Stdio::null());
        system::own_group(&mut command);
        Ok(Self { child: command.spawn()?, channel })
    }

    fn read(&self) -> Verdict<Gpu> {
        let connection = self.channel.connection();
        self.channel.send(READ, 0, &[])?;
        if !connection.wait(LIMIT)? {
            return Err(Stop::failed(format!("reading the GPU's state did not end within {LIMIT:?}")));
        }
        match connection.receive(REPLY)? {
            Received::Message(reply, _) => serde_json::from_slice::<Verdict<Gpu>>(&reply)?,
            Received::Gone => Err(Stop::failed("the process that reads the GPU's state has ended".into())),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail harmlessly if it has ended. One that hangs in its driver ends later, with this process.
        let _ = self.child.kill();
        let _ = self.child.wait_timeout(LEAVING);
    }
}

/// The state of the GPU with this PCI address; `None` if it is not of amdgpu.
fn read_amdgpu(system: &System, pci: &str) -> Option<Gpu> {
    let folder = Path::new("/sys/bus/pci/devices").join(pci);
    let driver = system.canonical(&folder.join("driver"))?;
    if driver.file_name().is_none_or(|name| name != "amdgpu") {
        return None;
    }
    let line = |name: &str| system.text(folder.join(name)).map(|text| text.trim().to_owned());
    let mut gpu = Gpu { source: "sysfs of amdgpu".into(), ..Gpu::default() };
    gpu.firmware = line("vbios_version");
    gpu.partition = line("current_compute_partition");
    let monitors: Vec<PathBuf> = system.entries(folder.join("hwmon"));
    let number = |names: &[&str]| {
        let files = monitors.iter().flat_map(|monitor| names.iter().map(|name| monitor.join(name)));
        files.into_iter().find_map(|file| system.text(file)?.trim().parse::<i64>().ok())
    };
    let mut sensors = Sensors { temperature_mc: number(&["temp1_input"]), ..Sensors::default() };
    // Microwatts. Newer GPUs have no average.
    let power = number(&["power1_average", "power1_input"]).and_then(|value| u64::try_from(value).ok());
    sensors.power_mw = power.map(|value| value / 1000);
    for (name, file) in [("graphics", "pp_dpm_sclk"), ("memory", "pp_dpm_mclk")] {
        let Some(levels) = line(file) else { continue };
        if let Some(clock) = levels.lines().find(|level| level.ends_with('*')).and_then(megahertz) {
            sensors.clocks_mhz.insert(name.into(), clock);
        }
        if let Some(clock) = levels.lines().filter_map(megahertz).max() {
            gpu.max_clocks_mhz.insert(name.into(), clock);
        }
    }
    Some(Gpu { sensors, ..gpu })
}

/// The clock rate of a level: `1: 1700Mhz *`.
fn megahertz(level: &str) -> Option<u32> {
    let (_, rest) = level.split_once(':')?;
    let digits: String = rest.trim().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_gpu_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let device = folder.path().join("sys/bus/pci/devices/0000:03:00.0");
        std::fs::create_dir_all(device.join("hwmon/hwmon4")).expect("created");
        std::fs::create_dir_all(folder.path().join("sys/bus/pci/drivers/amdgpu")).expect("created");
        std::os::unix::fs::symlink("../../drivers/amdgpu", device.join("driver")).expect("linked");
        for (name, text) in [
            ("vbios_version", "113-D67301\n"),
            ("hwmon/hwmon4/temp1_input", "43000\n"),
            ("hwmon/hwmon4/power1_input", "95000000\n"),
            ("pp_dpm_sclk", "0: 500Mhz\n1: 1700Mhz *\n2: 2100Mhz\n"),
        ] {
            std::fs::write(device.join(name), text).expect("written");
        }
        let system = System::new(Some(folder.path()));
        let gpu = read_amdgpu(&system, "0000:03:00.0").expect("a GPU");
        assert_eq!(gpu.firmware.as_deref(), Some("113-D67301"));
        assert_eq!(gpu.sensors.to_string(), "43 °C, 95 W, graphics 1700 MHz");
        assert_eq!(gpu.max_clocks_mhz["graphics"], 2100);
        assert_eq!(read_amdgpu(&system, "0000:04:00.0"), None);
    }
}
