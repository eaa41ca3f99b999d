//! Builds the libraries of this workspace that play drivers. Included by the tests that load one.
//!
//! Where there is no Cargo, as under Wine, `GPU_INTEROP_STAND_INS` names the folder that they were built in.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use libtest_mimic::Failed;
use serde_json::Value;

/// The file of a library of this workspace, built with the profile of this program. Cargo builds what tests link
/// with, and nothing links with these.
pub(crate) fn build(package: &str) -> Result<PathBuf, Failed> {
    let target = package.replace('-', "_");
    if let Some(folder) = std::env::var_os("GPU_INTEROP_STAND_INS") {
        let file = PathBuf::from(folder).join(format!("{DLL_PREFIX}{target}{DLL_SUFFIX}"));
        return if file.is_file() { Ok(file) } else { Err(format!("{} is not there", file.display()).into()) };
    }
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
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == target.as_str())
        // Beside the library there may be one for Rust.
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().filter(|file| file.ends_with(DLL_SUFFIX)).map(PathBuf::from))
        .next_back()
        .ok_or_else(|| format!("cargo did not say where it put {package}").into())
}
