//! The suite, started above the emulated kernel driver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use gpu_interop_test_support::{build, this_program};
use libtest_mimic::Failed;

pub(super) fn check(holds: bool, message: impl Into<String>) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(message.into().into()) }
}

/// The emulated kernel driver.
pub(super) fn driver() -> Result<PathBuf, Failed> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || match std::env::var_os("GPU_INTEROP_EMULATED_AMDGPU") {
        Some(file) => Ok(file.into()),
        None => build("gpu-interop-emulated-amdgpu"),
    };
    Ok(BUILT.get_or_init(build).clone()?)
}

/// The suite, with its temporary files in `folder`.
pub(super) fn suite(folder: &Path, arguments: &[&str]) -> Result<Command, Failed> {
    let mut command = this_program()?;
    for variable in ["GPU_INTEROP_AMD_RUNTIMES", "GPU_INTEROP_HIP_LIBRARY", "LD_PRELOAD"] {
        command.env_remove(variable);
    }
    command.args(arguments).env("TMPDIR", folder);
    Ok(command)
}

/// Runs the suite on the emulated kernel driver, checks that it leaves no file, and returns its output.
pub(super) fn emulated(arguments: &[&str], variables: &[(&str, &str)]) -> Result<(Output, String), Failed> {
    let folder = tempfile::tempdir()?;
    let mut command = suite(folder.path(), arguments)?;
    // Variables that hide devices do not apply to emulated ones.
    command.env("GPU_INTEROP_EMULATED_AMDGPU", driver()?).env("HIP_VISIBLE_DEVICES", "-1");
    command.envs(variables.iter().copied());
    let output = command.output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let left: Vec<_> = fs::read_dir(folder.path())?.flatten().map(|entry| entry.path()).collect();
    check(left.is_empty(), format!("left behind: {left:?}\n{text}"))?;
    Ok((output, text))
}
