//! Finds or builds the library of a simulator.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gpu_interop_conformance::{Stop, Verdict};

use crate::files::beside;

/// The library of `package` beside `program`. If it does not exist but its sources do, Cargo builds it.
///
/// # Errors
/// If neither exists, with the command that builds the library.
pub(super) fn find(package: &str, program: &Path) -> Verdict<PathBuf> {
    let file = format!("{DLL_PREFIX}{}{DLL_SUFFIX}", package.replace('-', "_"));
    let here = std::env::current_dir().unwrap_or_default();
    if beside(program, &file).is_none()
        && let Some(mut cargo) = build(package, program, &here)
    {
        eprintln!("conformance: building {package}");
        // A failure has been printed by Cargo.
        let _ = cargo.stdout(Stdio::null()).status();
    }
    beside(program, &file).ok_or_else(|| {
        let folder = program.parent().unwrap_or(program).display();
        Stop::failed(format!(
            "the simulator {file} is not in {folder}; build it with the same profile as this program: cargo build \
             --release -p {package}"
        ))
    })
}

/// The command that builds a package with the profile of `program`, if the program is in a target folder of Cargo, and
/// the sources are in a folder above it or above `here`.
fn build(package: &str, program: &Path, here: &Path) -> Option<Command> {
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").is_file())?;
    let profile = program.strip_prefix(target).ok()?.iter().next()?.to_str()?;
    let has_sources = |folder: &&Path| folder.join("conformance/sim/abi/Cargo.toml").is_file();
    let root = program.ancestors().chain(here.ancestors()).find(has_sources)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--package", package, "--profile", if profile == "debug" { "dev" } else { profile }]);
    cargo.arg("--manifest-path").arg(root.join("Cargo.toml")).arg("--target-dir").arg(target);
    Some(cargo)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    const PACKAGE: &str = "gpu-interop-sim-cuda";

    #[test]
    fn a_library_is_found_beside_the_program_or_the_error_says_how_to_build_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("conformance");
        let stop = find(PACKAGE, &program).expect_err("none there");
        assert!(stop.reason().contains("cargo build --release -p gpu-interop-sim-cuda"), "{stop}");
        let library = folder.path().join(format!("{DLL_PREFIX}gpu_interop_sim_cuda{DLL_SUFFIX}"));
        std::fs::write(&library, "").expect("a file");
        assert_eq!(find(PACKAGE, &program), Ok(library));
    }

    #[test]
    fn it_is_built_for_a_program_of_cargo_with_sources_above() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, here) = (folder.path().join("source"), Path::new("elsewhere"));
        let target = root.join("target");
        std::fs::create_dir_all(&target).expect("folders");
        let build = |profile: &str, here: &Path| build(PACKAGE, &target.join(profile).join("conformance"), here);
        assert!(build("debug", here).is_none(), "not a target folder");
        std::fs::write(target.join("CACHEDIR.TAG"), "").expect("a file");
        assert!(build("debug", here).is_none(), "no sources");
        let sources = root.join("conformance/sim/abi");
        std::fs::create_dir_all(&sources).expect("folders");
        std::fs::write(sources.join("Cargo.toml"), "").expect("a file");
        for (profile, name) in [("debug", "dev"), ("release", "release")] {
            let cargo = build(profile, here).expect("a command");
            let arguments: Vec<_> = cargo.get_args().collect();
            let manifest = root.join("Cargo.toml");
            let expected = ["build", "--package", PACKAGE, "--profile", name, "--manifest-path"].map(OsStr::new);
            let folders = [manifest.as_os_str(), OsStr::new("--target-dir"), target.as_os_str()];
            assert_eq!(arguments, [&expected[..], &folders[..]].concat());
        }
    }
}
