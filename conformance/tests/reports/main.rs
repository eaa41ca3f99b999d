//! Output of the `conformance` command: the JSON, its schema, merged reports, and its manual.

mod baseline;
#[cfg(unix)]
mod bench_diff;
#[cfg(target_os = "linux")]
mod browser;
#[cfg(target_os = "linux")]
mod capabilities;
mod diff;
#[cfg(target_os = "linux")]
mod doctor;
#[cfg(target_os = "linux")]
mod evidence;
#[cfg(target_os = "linux")]
mod hostile;
mod html;
mod manual;
mod merge;
#[cfg(unix)]
mod next_step;
mod page;
mod plots;
mod readme;
mod schema;
mod simulated;
mod site;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gpu_interop_conformance_cli::Report;
use serde_json::Value;

type Tested<T = ()> = Result<T, Box<dyn Error>>;

/// The command, without a vendor's driver.
fn conformance(arguments: &[&str]) -> Tested<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conformance"));
    command
        .args(arguments)
        .env_remove("GPU_INTEROP_BACKEND")
        .env("GPU_INTEROP_CUDA_LIBRARY", "/nonexistent/libcuda.so.1");
    command.env("GPU_INTEROP_HIP_LIBRARY", "/nonexistent/libamdhip64.so.7").output().map_err(Into::into)
}

/// The output of the command; fails with its messages if it does not exit successfully.
fn printed(arguments: &[&str]) -> Tested<String> {
    let output = conformance(arguments)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "conformance {}: {}\n{errors}", arguments.join(" "), output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// The committed reports, of `run` or of `bench`, in the order of their names.
fn committed(benches: bool) -> Tested<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in Path::new(env!("CARGO_MANIFEST_DIR")).join("../results").read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json")
            && json(&path)?.get("measurements").is_some() == benches
        {
            files.push(path);
        }
    }
    files.sort();
    assert!(files.len() >= 2, "{files:?}");
    Ok(files)
}

fn json(path: &Path) -> Tested<Value> {
    Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

fn report(path: &Path) -> Tested<Report> {
    Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

/// The committed report with the most results.
fn full_report() -> Tested<Report> {
    let reports: Vec<Report> = committed(false)?.iter().map(|path| report(path)).collect::<Tested<_>>()?;
    let full = reports.into_iter().max_by_key(|report| report.results.len()).ok_or("no report")?;
    assert!(full.results.len() > 100 && full.results.iter().any(|case| case.exporter.is_some()));
    Ok(full)
}

fn text(path: &Path) -> Tested<&str> {
    path.to_str().ok_or_else(|| format!("{}: no text", path.display()).into())
}
