//! Environment variables that are set to nothing count as not set.

use std::process::Command;

use gpu_interop_conformance_cli::Report;

use super::{Tested, report, text};

/// The report of a run with these variables.
fn with(variables: &[(&str, &str)]) -> Tested<Report> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("run.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    command.args(["run", "--exporter", "native", "--filter", "identity.json", "--json", text(&path)?]);
    command.env("GPU_INTEROP_CUDA_LIBRARY", "/nonexistent").env("GPU_INTEROP_HIP_LIBRARY", "/nonexistent");
    for name in ["GPU_INTEROP_BACKEND", "GPU_INTEROP_TIMELINE", "RUST_LOG"] {
        command.env_remove(name);
    }
    let output = command.envs(variables.iter().copied()).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{variables:?}: {said}");
    report(&path)
}

#[test]
fn an_empty_variable_is_as_one_that_is_not_set() -> Tested {
    let unset = with(&[])?;
    assert_eq!(unset.backend.name, "host");
    for name in ["GPU_INTEROP_BACKEND", "GPU_INTEROP_TIMELINE", "GPU_INTEROP_NVML_LIBRARY", "RUST_LOG"] {
        let empty = with(&[(name, "")])?;
        assert_eq!((empty.backend, empty.device), (unset.backend.clone(), unset.device.clone()), "{name}");
        assert_eq!(empty.capabilities, unset.capabilities, "{name}");
    }
    Ok(())
}
