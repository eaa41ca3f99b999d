//! Virtual environments of Python.

use std::fs;
use std::path::Path;

use crate::run::run;

/// Creates a virtual environment with the packages of `requirements`, if necessary. Returns whether it exists.
pub(crate) fn install(folder: &Path, requirements: &str) -> bool {
    let installed = folder.join("installed");
    let wanted = fs::read(requirements).unwrap_or_default();
    if fs::read(&installed).is_ok_and(|found| found == wanted) {
        return true;
    }
    run("python3 -m venv").arg(folder).succeeds()
        && run("env")
            .arg(folder.join("bin/pip"))
            .args(["--quiet", "install", "--requirement", requirements])
            .check()
            .is_ok()
        && fs::write(installed, wanted).is_ok()
}
