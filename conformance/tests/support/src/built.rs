//! Libraries of this workspace for tests that load them: simulators and the C interface.
//!
//! Without Cargo, as under Wine, `GPU_INTEROP_SIMULATORS` names the folder of the built libraries.

use std::collections::BTreeMap;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// File of a library, or the error of building it.
type Built = Result<PathBuf, String>;

/// Builds a library of this workspace once per process, with the profile of this program, and returns its file. Cargo
/// does not build these libraries for the tests because nothing links with them.
///
/// # Errors
/// Cargo's output, or the missing file.
pub fn build(package: &str) -> Result<PathBuf, String> {
    static BUILT: Mutex<BTreeMap<String, Built>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    built.entry(package.to_owned()).or_insert_with(|| build_now(package)).clone()
}

/// The file of a library that is also a Rust library on which this program depends: Cargo built both at once.
///
/// # Errors
/// The missing file.
pub fn built_with_this_program(package: &str) -> Result<PathBuf, String> {
    existing(&dependencies()?, package)
}

fn existing(folder: &Path, package: &str) -> Built {
    let file = folder.join(format!("{DLL_PREFIX}{}{DLL_SUFFIX}", package.replace('-', "_")));
    if file.is_file() { Ok(file) } else { Err(format!("{} does not exist", file.display())) }
}

fn build_now(package: &str) -> Built {
    if let Some(folder) = std::env::var_os("GPU_INTEROP_SIMULATORS") {
        return existing(Path::new(&folder), package);
    }
    let target = package.replace('-', "_");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--locked", "--message-format=json-render-diagnostics", "--package", package]);
    cargo.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "--target-dir"]);
    // Not the folder of the tests. Cargo enables fewer features of the dependencies for one package than for the whole
    // workspace, but the library's file has the same name: each build would replace the other's.
    cargo.arg(target_folder()?.join("simulators"));
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.stderr(Stdio::inherit()).output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo build --package {package}: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == target.as_str())
        // The package may also have a Rust library.
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().filter(|file| file.ends_with(DLL_SUFFIX)).map(PathBuf::from))
        .next_back()
        .ok_or_else(|| format!("cargo reported no library of {package}"))
}

/// Cargo's target folder.
fn target_folder() -> Built {
    let dependencies = dependencies()?;
    let target = dependencies.parent().and_then(Path::parent);
    target.map(Path::to_owned).ok_or_else(|| format!("{} is not in a target folder of Cargo", dependencies.display()))
}

/// `deps`, two below the target folder, where Cargo puts the programs of tests and their dependencies.
fn dependencies() -> Built {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.ancestors().find(|folder| folder.ends_with("deps"));
    folder.map(Path::to_owned).ok_or_else(|| format!("{} is not in a target folder of Cargo", program.display()))
}
