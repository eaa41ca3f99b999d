//! `--simulate`: a simulator instead of a vendor's driver, on a machine without a GPU.
//!
//! The commands that load a backend call [`SimulateArgs::enter`] first. It finds or builds the simulator and replaces
//! this process by itself, with the simulator and the identity of Vulkan's CPU device in its environment, because
//! drivers read both when they are loaded. Every report says SIMULATED, because a backend recognises a simulator.

mod library;
mod release;
mod start;
#[cfg(target_os = "linux")]
mod vulkan;

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use clap::Args;
use gpu_interop_conformance::Verdict;
use gpu_interop_conformance::system::set_variable;

use release::Release;
#[cfg(target_os = "linux")]
pub use vulkan::simulated_identity;

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
            variables.push((*variable, library::find(package, program)?.into_os_string()));
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
        start::enter(&simulation.to_string(), |program| simulation.variables(program))
    }

    /// The option as given, and its backend.
    pub(crate) fn backend(&self) -> Option<(String, &'static str)> {
        self.simulate.as_ref().map(|simulation| (simulation.to_string(), simulation.driver.backend))
    }
}

#[cfg(test)]
mod tests {
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
}
