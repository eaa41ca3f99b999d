//! The computer of a run, and its installed packages of drivers.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::gpu::Gpu;
use crate::examined::System;

/// The computer of a run, and its software below the library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The operating system, as Rust names it: `linux`.
    pub os: String,
    /// The processor architecture: `x86_64`.
    pub architecture: String,
    /// The kernel's release and version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub kernel: Option<String>,
    /// The distribution: `Debian GNU/Linux 12 (bookworm)`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub distribution: Option<String>,
    /// The processor's model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub processor: Option<String>,
    /// The number of processor cores that this process may use.
    pub cores: usize,
    /// Main memory, bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
    /// The kind of container: `docker`, `podman`, `kubernetes`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub container: Option<String>,
    /// The versions of the loaded kernel modules of GPUs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub kernel_modules: BTreeMap<String, String>,
    /// The versions of the installed packages of drivers and runtimes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub packages: BTreeMap<String, String>,
    /// The GPU at the start of the run, if a management library or the kernel describes it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub gpu: Option<Gpu>,
    /// SHA-256 of the command's file, hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub command_sha256: Option<String>,
}

/// Kernel modules of GPUs.
const MODULES: [&str; 6] = ["nvidia", "nvidia_drm", "nouveau", "amdgpu", "i915", "xe"];

/// Describes a system, but for its GPU and the command.
pub(crate) fn host(system: &System) -> Host {
    let line = |path: &str| system.text(path).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let kernel = line("/proc/sys/kernel/osrelease").map(|release| {
        let version = line("/proc/sys/kernel/version").unwrap_or_default();
        format!("{release} {version}").trim_end().to_owned()
    });
    let release = system.text("/etc/os-release").unwrap_or_default();
    let distribution = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let modules = MODULES.into_iter().filter(|name| system.exists(format!("/sys/module/{name}")));
    let version = |name: &str| line(&format!("/sys/module/{name}/version")).unwrap_or_else(|| "of the kernel".into());
    Host {
        os: std::env::consts::OS.into(),
        architecture: std::env::consts::ARCH.into(),
        kernel,
        distribution: distribution.map(|name| name.trim_matches('"').to_owned()),
        processor: after_colon(&system.text("/proc/cpuinfo").unwrap_or_default(), "model name"),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        memory_bytes: memory(&system.text("/proc/meminfo").unwrap_or_default()),
        container: system.container(),
        kernel_modules: modules.map(|name| (name.to_owned(), version(name))).collect(),
        packages: of_drivers(system),
        gpu: None,
        command_sha256: None,
    }
}

/// The first value of a field in a list of fields and values.
fn after_colon(text: &str, field: &str) -> Option<String> {
    let (_, value) = text.lines().find(|line| line.starts_with(field))?.split_once(':')?;
    Some(value.trim().to_owned())
}

fn memory(meminfo: &str) -> Option<u64> {
    let kilobytes: u64 = after_colon(meminfo, "MemTotal")?.trim_end_matches("kB").trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

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
fn of_drivers(system: &System) -> BTreeMap<String, String> {
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
    fn a_system_is_described() {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n"),
            ("proc/sys/kernel/version", "#1 SMP\n"),
            ("proc/cpuinfo", "processor : 0\nmodel name\t: A Processor\n"),
            ("proc/meminfo", "MemTotal:       16 kB\n"),
            ("etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"),
            ("sys/module/nvidia/version", "580.159.04\n"),
            ("sys/module/amdgpu/refcnt", "1"),
            ("run/.containerenv", "engine=\"podman-4.3\"\n"),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            std::fs::write(path, text).expect("written");
        }
        let host = host(&System::new(Some(folder.path())));
        assert_eq!(host.kernel.as_deref(), Some("6.1.0-13-amd64 #1 SMP"));
        assert_eq!(host.distribution.as_deref(), Some("Debian GNU/Linux 12"));
        assert_eq!((host.processor.as_deref(), host.memory_bytes), (Some("A Processor"), Some(16 << 10)));
        assert_eq!(host.container.as_deref(), Some("podman-4.3"));
        let modules: Vec<(&str, &str)> =
            host.kernel_modules.iter().map(|(name, version)| (name.as_str(), version.as_str())).collect();
        assert_eq!(modules, [("amdgpu", "of the kernel"), ("nvidia", "580.159.04")]);
    }

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
