//! Installation of the C interface, and its programs under Wine.

use std::path::{Path, PathBuf};

use crate::run::{Outcome, Run, cargo, run};
use crate::session::Session;

const FOLDER: &str = "crates/gpu-interop-capi";

/// The version of the workspace.
fn version() -> Result<String, String> {
    let manifest = std::fs::read_to_string("Cargo.toml").map_err(|error| format!("Cargo.toml: {error}"))?;
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    version.map(str::to_owned).ok_or_else(|| "Cargo.toml has no version".into())
}

/// Links and copies the files below `prefix`, from the library that cargo built.
fn files(script: &str, built: &Path, prefix: &Path) -> Outcome {
    let static_library = built.join("libgpu_interop_capi.a");
    run(&format!("{FOLDER}/install/{script}")).arg(static_library).arg(prefix).arg(version()?).check()
}

/// Builds the library and installs it below `prefix`. `DESTDIR` and `CC` have their usual meaning.
///
/// # Errors
/// The failed command.
pub(crate) fn install(session: &Session, prefix: &Path, debug: bool) -> Outcome {
    let prefix = std::path::absolute(prefix).map_err(|error| format!("{}: {error}", prefix.display()))?;
    let (profile, folder) = if debug { ("dev", "debug") } else { ("release", "release") };
    cargo("build --package gpu-interop-capi --lib --locked --profile").arg(profile).check()?;
    files("install.sh", &session.target.join(folder), &prefix)?;
    let root = std::env::var("DESTDIR").unwrap_or_default();
    let prefix = prefix.display();
    println!("installed below {root}{prefix}; for pkg-config: PKG_CONFIG_PATH={root}{prefix}/lib/pkgconfig");
    Ok(())
}

/// Programs of `tests/c` that use nothing of Linux.
const PROGRAMS: [&str; 9] =
    ["errors", "messages", "devices", "kernels", "borrowed", "threads", "log", "timelines", "win32"];

/// Links `gpu_interop.dll` from the library in `built`, and runs programs with it. `wine` runs one.
///
/// # Errors
/// The failed command.
pub(crate) fn test_for_windows(session: &Session, built: &Path, wine: impl Fn(&Path) -> Run) -> Outcome {
    let prefix: PathBuf = session.target.join("wine/capi");
    files("install-windows.sh", built, &prefix)?;
    let (include, library) = (prefix.join("include"), prefix.join("lib/libgpu_interop.dll.a"));
    for name in PROGRAMS {
        // Beside the library, where Windows looks for it.
        let program = prefix.join("bin").join(format!("{name}.exe"));
        let compiler = run("x86_64-w64-mingw32-gcc -std=gnu11 -O1 -Wall -Wextra -Werror -DROUNDS=20 -static -o");
        let source = format!("{FOLDER}/tests/c/{name}.c");
        compiler.arg(&program).arg("-I").arg(&include).arg(source).arg(&library).arg("-lpthread").check()?;
        wine(&program).check()?;
    }
    Ok(())
}
