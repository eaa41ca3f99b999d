//! The state of an AMD GPU from the files of its kernel driver, which AMD SMI reads, too.

use std::path::{Path, PathBuf};

use super::gpu::{Gpu, Sensors};
use crate::examined::System;

/// The state of the GPU with this PCI address; `None` if it is not of amdgpu.
pub(super) fn read(system: &System, pci: &str) -> Option<Gpu> {
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
        let gpu = read(&system, "0000:03:00.0").expect("a GPU");
        assert_eq!(gpu.firmware.as_deref(), Some("113-D67301"));
        assert_eq!(gpu.sensors.to_string(), "43 °C, 95 W, graphics 1700 MHz");
        assert_eq!(gpu.max_clocks_mhz["graphics"], 2100);
        assert_eq!(read(&system, "0000:04:00.0"), None);
    }
}
