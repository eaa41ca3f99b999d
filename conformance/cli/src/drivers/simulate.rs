//! `--simulate`: a simulator instead of a vendor's driver, on a machine without a GPU.
//!
//! The commands that load a backend call [`SimulateArgs::enter`] first. It finds or builds the simulator and replaces
//! this process by itself, with the simulator and the identity of Vulkan's CPU device in its environment, because
//! drivers read both when they are loaded. Every report says SIMULATED, because a backend recognises a simulator.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::str::FromStr;

use clap::Args;
#[cfg(target_os = "linux")]
use gpu_interop::vulkan::{BufferOptions, DeviceChoice, ExportableBuffer, HeadlessContext, HeadlessOptions, ash::vk};
#[cfg(target_os = "linux")]
use gpu_interop::{DeviceIdentity, DeviceKind, Result};
use gpu_interop_conformance::system::set_variable;
use gpu_interop_conformance::{Stop, Verdict};

use super::restart;
use crate::files::beside;

/// Marks the process on the simulator; its value is the option.
const SESSION: &str = "GPU_INTEROP_SIMULATE_SESSION";
/// The version that the simulator of AMD's runtime simulates.
const VERSION: &str = "GPU_INTEROP_SIM_VERSION";

/// The option of the simulation, shared by the commands that load a backend.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// Use a simulator of the driver, on the CPU: `cuda`, `hip`, or `hip:VERSION`, such as hip:5.7.1; on Linux also
    /// `nvsci`, with CUDA, and `hip-on-cuda`, AMD's interface on NVIDIA's driver. The report says SIMULATED.
    #[arg(long, value_name = "DRIVER", conflicts_with = "emulate")]
    simulate: Option<Simulation>,
}

/// A simulated driver.
#[derive(Debug, PartialEq, Eq)]
struct Driver {
    name: &'static str,
    backend: &'static str,
    /// Variables that name a library, with the library's package.
    libraries: &'static [(&'static str, &'static str)],
    /// Settings of the simulator.
    settings: &'static [(&'static str, &'static str)],
    /// The device has the identity of Vulkan's CPU device.
    is_cpu: bool,
}

/// Simulates Direct3D as well, which every driver supports on Windows.
#[cfg(windows)]
const D3D: (&str, &str) = ("GPU_INTEROP_D3D_LIBRARY", "gpu-interop-sim-d3d");
const CUDA: (&str, &str) = ("GPU_INTEROP_CUDA_LIBRARY", "gpu-interop-sim-cuda");
const HIP: (&str, &str) = ("GPU_INTEROP_HIP_LIBRARY", "gpu-interop-sim-hip");

/// The simulated drivers of this system.
const DRIVERS: &[Driver] = &[
    Driver {
        name: "cuda",
        backend: "cuda",
        #[cfg(windows)]
        libraries: &[CUDA, D3D],
        #[cfg(not(windows))]
        libraries: &[CUDA],
        settings: &[],
        is_cpu: true,
    },
    Driver {
        name: "hip",
        backend: "hip",
        #[cfg(windows)]
        libraries: &[HIP, D3D],
        #[cfg(not(windows))]
        libraries: &[HIP],
        settings: &[],
        is_cpu: true,
    },
    #[cfg(target_os = "linux")]
    Driver {
        name: "nvsci",
        backend: "cuda",
        libraries: &[
            CUDA,
            ("GPU_INTEROP_NVSCIBUF_LIBRARY", "gpu-interop-sim-nvsci"),
            ("GPU_INTEROP_NVSCISYNC_LIBRARY", "gpu-interop-sim-nvsci"),
        ],
        // An integrated GPU: NvSci exists only on embedded systems.
        settings: &[("GPU_INTEROP_SIM_ATTRIBUTES", "18:1")],
        is_cpu: true,
    },
    #[cfg(target_os = "linux")]
    Driver {
        name: "hip-on-cuda",
        backend: "hip",
        libraries: &[("GPU_INTEROP_HIP_LIBRARY", "gpu-interop-hip-on-cuda")],
        settings: &[],
        is_cpu: false,
    },
];

/// The value of `--simulate`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Simulation {
    driver: &'static Driver,
    release: Option<Release>,
}

impl FromStr for Simulation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, version) = text.split_once(':').map_or((text, None), |(name, version)| (name, Some(version)));
        let driver = DRIVERS.iter().find(|driver| driver.name == name).ok_or_else(|| {
            let names: Vec<_> = DRIVERS.iter().map(|driver| driver.name).collect();
            format!("no simulator of `{name}` on this system; use {}", names.join(", "))
        })?;
        let release = match version {
            None => None,
            Some(_) if name != "hip" => return Err(format!("{name} has no versions to simulate; hip has")),
            Some(version) => Some(version.parse()?),
        };
        Ok(Self { driver, release })
    }
}

impl fmt::Display for Simulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--simulate {}", self.driver.name)?;
        self.release.iter().try_for_each(|release| write!(f, ":{release}"))
    }
}

impl Simulation {
    /// The environment of the simulation. The user's settings are kept, except for a version that the option names.
    ///
    /// # Errors
    /// If a simulator is missing and cannot be built.
    fn variables(&self, program: &Path) -> Verdict<Vec<(&'static str, OsString)>> {
        let mut variables = Vec::new();
        for (variable, package) in self.driver.libraries {
            variables.push((*variable, find_library(package, program)?.into_os_string()));
        }
        let mut settings: Vec<_> = self.driver.settings.iter().map(|(name, value)| (*name, (*value).into())).collect();
        #[cfg(target_os = "linux")]
        if self.driver.is_cpu {
            settings.extend(simulated_identity());
        }
        settings.retain(|(name, _): &(_, OsString)| set_variable(name).is_none());
        variables.append(&mut settings);
        variables.extend(self.release.map(|release| (VERSION, release.number().to_string().into())));
        Ok(variables)
    }
}

impl SimulateArgs {
    /// Starts the requested simulation: this process is replaced by itself, and calls this function again.
    ///
    /// # Errors
    /// If a simulator is missing and cannot be built, or this program cannot be started again.
    pub(crate) fn enter(&self) -> Verdict {
        let Some(simulation) = &self.simulate else { return Ok(()) };
        let option = simulation.to_string();
        if std::env::var_os(SESSION).is_some_and(|present| present == option.as_str()) {
            return Ok(());
        }
        let program = std::env::current_exe()?;
        let mut command = Command::new(&program);
        command.env(SESSION, &option).envs(simulation.variables(&program)?);
        Err(restart(&mut command, &option))
    }

    /// The option as given, and its backend.
    pub(crate) fn backend(&self) -> Option<(String, &'static str)> {
        self.simulate.as_ref().map(|simulation| (simulation.to_string(), simulation.driver.backend))
    }
}

/// The library of `package` in the folder of `program`. If it does not exist but its sources do, Cargo builds it.
///
/// # Errors
/// If neither exists, with the command that builds the library.
fn find_library(package: &str, program: &Path) -> Verdict<PathBuf> {
    let file = format!("{DLL_PREFIX}{}{DLL_SUFFIX}", package.replace('-', "_"));
    let here = std::env::current_dir().unwrap_or_default();
    if beside(program, &file).is_none()
        && let Some(mut cargo) = build(package, program, &here)
    {
        eprintln!("conformance: building {package}");
        // A failure has been printed by Cargo.
        let _ = cargo.stdout(Stdio::null()).status();
    }
    beside(program, &file).ok_or_else(|| {
        let folder = program.parent().unwrap_or(program).display();
        Stop::failed(format!(
            "the simulator {file} is not in {folder}; build it with the same profile as this program: cargo build \
             --release -p {package}"
        ))
    })
}

/// The command that builds a package with the profile of `program`, if the program is in a target folder of Cargo, and
/// the sources are in a folder above it or above `here`.
fn build(package: &str, program: &Path, here: &Path) -> Option<Command> {
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file())?;
    let profile = program.strip_prefix(target).ok()?.iter().next()?.to_str()?;
    let has_sources = |folder: &&Path| folder.join("conformance/sim/abi/Cargo.toml").is_file();
    let root = program.ancestors().chain(here.ancestors()).find(has_sources)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--package", package, "--profile", if profile == "debug" { "dev" } else { profile }]);
    cargo.arg("--manifest-path").arg(root.join("Cargo.toml")).arg("--target-dir").arg(target);
    Some(cargo)
}

/// Releases, oldest first, with the version number that the runtime reports: those with which the simulator's tests run
/// the suite.
const RELEASES: &[(&str, u32)] = &[
    ("5.2.3", 50_221_153),
    ("5.6.0", 50_631_061),
    ("5.7.1", 50_731_921),
    ("6.0.0", 60_032_830),
    ("6.1.0", 60_140_091),
    ("6.2.0", 60_241_133),
    ("6.3.0", 60_342_131),
    ("6.4.3", 60_443_484),
    ("7.2.4", 70_253_211),
    ("7.13", 71_300_000),
    ("7.14", 71_400_000),
    ("7.16", 71_600_000),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Release {
    name: &'static str,
    number: u32,
}

impl Release {
    /// The version number, as the runtime reports it.
    const fn number(self) -> u32 {
        self.number
    }
}

impl FromStr for Release {
    type Err = String;

    /// Finds a release by its numbers, or the newest one that begins with these numbers.
    fn from_str(text: &str) -> Result<Self, String> {
        let begins = |name: &str| name.strip_prefix(text).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        match RELEASES.iter().rfind(|(name, _)| begins(name)) {
            Some((name, number)) => Ok(Self { name, number: *number }),
            None => {
                let names: Vec<_> = RELEASES.iter().map(|(name, _)| *name).collect();
                Err(format!("`{text}` is not simulated; use one of {}", names.join(", ")))
            }
        }
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Settings for a simulator's environment, by which its device has the identity of Vulkan's CPU device and imports its
/// memory. Empty without such a device: the exporter then reports the packages to install.
#[cfg(target_os = "linux")]
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
#[cfg(target_os = "linux")]
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

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_driver_is_named_with_or_without_a_version() {
        for (text, backend, shown) in [
            ("cuda", "cuda", "cuda"),
            ("hip", "hip", "hip"),
            ("hip:5.7.1", "hip", "hip:5.7.1"),
            ("hip:7.2", "hip", "hip:7.2.4"),
            #[cfg(target_os = "linux")]
            ("nvsci", "cuda", "nvsci"),
            #[cfg(target_os = "linux")]
            ("hip-on-cuda", "hip", "hip-on-cuda"),
        ] {
            let simulation: Simulation = text.parse().expect(text);
            assert_eq!((simulation.driver.backend, simulation.to_string()), (backend, format!("--simulate {shown}")));
        }
        for (text, part) in [
            ("metal", "no simulator of `metal` on this system; use cuda, hip"),
            ("cuda:13", "cuda has no versions to simulate"),
            ("hip:4.5", "`4.5` is not simulated; use one of 5.2.3, "),
            ("hip:", "`` is not simulated"),
        ] {
            let error = text.parse::<Simulation>().expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    const PACKAGE: &str = "gpu-interop-sim-cuda";

    #[test]
    fn a_library_is_found_beside_the_program_or_the_error_says_how_to_build_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("conformance");
        let stop = find_library(PACKAGE, &program).expect_err("none there");
        assert!(stop.reason().contains("cargo build --release -p gpu-interop-sim-cuda"), "{stop}");
        let library = folder.path().join(format!("{DLL_PREFIX}gpu_interop_sim_cuda{DLL_SUFFIX}"));
        std::fs::write(&library, "").expect("a file");
        assert_eq!(find_library(PACKAGE, &program), Ok(library));
    }

    #[test]
    fn it_is_built_for_a_program_of_cargo_with_sources_above() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, here) = (folder.path().join("source"), Path::new("elsewhere"));
        let target = root.join("target");
        std::fs::create_dir_all(&target).expect("folders");
        let build = |profile: &str, here: &Path| build(PACKAGE, &target.join(profile).join("conformance"), here);
        assert!(build("debug", here).is_none(), "not a target folder");
        std::fs::write(target.join("CACHEDIR.TAG"), "").expect("a file");
        assert!(build("debug", here).is_none(), "no sources");
        let sources = root.join("conformance/sim/abi");
        std::fs::create_dir_all(&sources).expect("folders");
        std::fs::write(sources.join("Cargo.toml"), "").expect("a file");
        for (profile, name) in [("debug", "dev"), ("release", "release")] {
            let cargo = build(profile, here).expect("a command");
            let arguments: Vec<_> = cargo.get_args().collect();
            let manifest = root.join("Cargo.toml");
            let expected = ["build", "--package", PACKAGE, "--profile", name, "--manifest-path"].map(OsStr::new);
            let folders = [manifest.as_os_str(), OsStr::new("--target-dir"), target.as_os_str()];
            assert_eq!(arguments, [&expected[..], &folders[..]].concat());
        }
    }

    #[test]
    fn first_numbers_are_the_newest_such_release() {
        for (text, name) in [("5.7.1", "5.7.1"), ("6", "6.4.3"), ("7", "7.16"), ("7.1", ""), ("5.", "")] {
            let release = text.parse::<Release>().map(|release| release.to_string());
            assert_eq!(release.unwrap_or_default(), name, "{text}");
        }
    }

    #[cfg(any(target_os = "linux", windows))]
    #[test]
    fn all_that_the_simulator_is_tested_as_are_here() {
        for row in gpu_interop_sim_abi::hip::version::tested_versions() {
            let known = RELEASES.iter().any(|(_, number)| i64::from(*number) == i64::from(row.version));
            assert!(known, "{}", row.name());
        }
        for (name, number) in RELEASES {
            let minor = format!("{}.{}", number / 10_000_000, number / 100_000 % 100);
            assert!(name.starts_with(&minor), "{name}: {number}");
        }
        assert!(RELEASES.is_sorted_by_key(|(_, number)| number));
    }
}
