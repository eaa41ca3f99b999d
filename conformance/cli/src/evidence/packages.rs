//! Installed packages of drivers and runtimes.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use crate::examined::System;

/// Beginnings of the names of packages of drivers and runtimes.
const PREFIXES: [&str; 24] = [
    "amdgpu",
    "amdvlk",
    "comgr",
    "cuda-compat",
    "cuda-drivers",
    "hip",
    "hsa",
    "libamdhip",
    "libcuda",
    "libdrm",
    "libegl",
    "libgl1-mesa",
    "libhsa",
    "libnvidia",
    "libvulkan",
    "linux-firmware",
    "linux-modules-nvidia",
    "mesa-",
    "nvidia",
    "rocm",
    "rocr",
    "vulkan",
    "xserver-xorg-video-nvidia",
    "firmware-amd",
];

/// The versions of the packages, from dpkg's files, or else from `rpm`.
pub(super) fn of_drivers(system: &System) -> BTreeMap<String, String> {
    match system.text("/var/lib/dpkg/status") {
        Some(status) => of_dpkg(&status),
        None if system.exists("/var/lib/rpm") || system.exists("/usr/lib/sysimage/rpm") => of_rpm(),
        None => BTreeMap::new(),
    }
}

fn is_of_driver(name: &str) -> bool {
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn of_dpkg(status: &str) -> BTreeMap<String, String> {
    let package = |paragraph: &str| {
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let name = field("Package").filter(|name| is_of_driver(name))?;
        let is_installed = field("Status")?.ends_with(" installed");
        is_installed.then(|| Some((name.to_owned(), field("Version")?.to_owned())))?
    };
    status.split("\n\n").filter_map(package).collect()
}

fn of_rpm() -> BTreeMap<String, String> {
    let mut command = Command::new("rpm");
    command.args(["-qa", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}\n"]).stdin(Stdio::null());
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    let text = String::from_utf8_lossy(&output);
    let packages = text.lines().filter_map(|line| line.split_once(' '));
    packages.filter(|(name, _)| is_of_driver(name)).map(|(name, version)| (name.into(), version.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installed_packages_of_drivers_are_found() {
        let status = "Package: libcuda1\nStatus: install ok installed\nVersion: 580.1-1\n\n\
                      Package: bash\nStatus: install ok installed\nVersion: 5\n\n\
                      Package: mesa-vulkan-drivers\nStatus: deinstall ok config-files\nVersion: 22.3\n\n\
                      Package: libvulkan1\nStatus: install ok installed\nDepends: x\nVersion: 1.3\n";
        let found = of_dpkg(status);
        let found: Vec<(&str, &str)> = found.iter().map(|(name, version)| (name.as_str(), version.as_str())).collect();
        assert_eq!(found, [("libcuda1", "580.1-1"), ("libvulkan1", "1.3")]);
    }
}
