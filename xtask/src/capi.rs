//! Installation of the C interface.

use std::path::Path;

use crate::run::{Outcome, cargo, run};
use crate::session::Session;

/// Builds the library and installs it below `prefix`. `DESTDIR` and `CC` have their usual meaning.
///
/// # Errors
/// If it does not build, link or fit; the name of the failed command.
pub(crate) fn install(session: &Session, prefix: &Path, debug: bool) -> Outcome {
    let prefix = std::path::absolute(prefix).map_err(|error| format!("{}: {error}", prefix.display()))?;
    let profile = if debug { "dev" } else { "release" };
    cargo("build --package gpu-interop-capi --lib --locked --profile").arg(profile).check()?;
    let built = session.target.join(if debug { "debug" } else { "release" }).join("libgpu_interop_capi.a");
    // The version of the workspace.
    let manifest = std::fs::read_to_string("Cargo.toml").map_err(|error| format!("Cargo.toml: {error}"))?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    let version = version.ok_or("Cargo.toml has no version")?;
    run("crates/gpu-interop-capi/install/install.sh").arg(built).arg(prefix).arg(version).check()
}
