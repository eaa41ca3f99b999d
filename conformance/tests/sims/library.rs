//! The simulators and the shim, each built once.

use std::path::PathBuf;
use std::sync::OnceLock;

use gpu_interop_test_support::build;

/// A library's file, or why there is none.
pub(crate) type Built = Result<PathBuf, String>;

/// The simulator of NVIDIA's driver.
pub(crate) fn sim_cuda() -> Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    once(&BUILT, "gpu-interop-sim-cuda")
}

/// The simulator of Direct3D.
#[cfg(windows)]
pub(crate) fn sim_d3d() -> Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    once(&BUILT, "gpu-interop-sim-d3d")
}

/// The simulator of AMD's runtime.
pub(crate) fn sim_hip() -> Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    once(&BUILT, "gpu-interop-sim-hip")
}

#[cfg(target_os = "linux")]
/// The simulator of NvSciBuf and NvSciSync.
pub(crate) fn sim_nvsci() -> Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    once(&BUILT, "gpu-interop-sim-nvsci")
}

#[cfg(target_os = "linux")]
/// The shim: HIP's interface on NVIDIA's driver.
pub(crate) fn hip_on_cuda() -> Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    once(&BUILT, "gpu-interop-hip-on-cuda")
}

fn once(built: &OnceLock<Built>, package: &str) -> Built {
    built.get_or_init(|| build(package)).clone()
}
