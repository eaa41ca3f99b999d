//! Builds the libraries that play drivers.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use libtest_mimic::Failed;
use serde_json::Value;

/// A library's file, or why there is none.
pub(crate) type Built = Result<PathBuf, String>;

/// What plays NVIDIA's driver.
pub(crate) fn sim_cuda() -> Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    once(&BUILT, "gpu-interop-sim-cuda")
}

/// What plays AMD's runtime.
pub(crate) fn sim_hip() -> Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    once(&BUILT, "gpu-interop-sim-hip")
}

/// What plays AMD's runtime with NVIDIA's driver.
pub(crate) fn hip_on_cuda() -> Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    once(&BUILT, "gpu-interop-hip-on-cuda")
}

fn once(built: &OnceLock<Built>, package: &str) -> Built {
    built.get_or_init(|| build(package).map_err(|failed| failed.message().unwrap_or_default().into())).clone()
}

/// The file of a library of this workspace, built with the profile of this program. Cargo builds what tests link
/// with, and nothing links with these.
fn build(package: &str) -> Result<PathBuf, Failed> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--message-format=json-render-diagnostics", "--package", package]);
    cargo.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "--target-dir"]);
    // The folder that Cargo gives to tests is in the folder that it builds in.
    cargo.arg(concat!(env!("CARGO_TARGET_TMPDIR"), "/.."));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("cargo build --package {package}: {}", output.status).into());
    }
    let target = package.replace('-', "_");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == target.as_str())
        .filter_map(|message| message["filenames"].as_array()?.first()?.as_str().map(PathBuf::from))
        .next_back()
        .ok_or_else(|| format!("cargo did not say where it put {package}").into())
}
