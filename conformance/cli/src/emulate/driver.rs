//! Finds the library that emulates the kernel driver.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use gpu_interop_conformance::{Stop, Verdict};

use crate::files::beside;
use gpu_interop_conformance::ensure;

/// The variable that names the library's file.
pub(super) const VARIABLE: &str = "GPU_INTEROP_EMULATED_AMDGPU";
/// The library's name as built by Cargo.
const FILE: &str = "libgpu_interop_emulated_amdgpu.so";

/// Finds the library: the file that `named` contains, or the one beside `program`.
///
/// # Errors
/// If it does not exist, or the dynamic loader cannot preload it.
pub(super) fn find(named: Option<&OsStr>, program: &Path) -> Verdict<PathBuf> {
    let file = match named.filter(|file| !file.is_empty()) {
        Some(file) => {
            let file = std::path::absolute(file)?;
            ensure!(file.is_file(), "{VARIABLE}={}: there is no such file", file.display());
            file
        }
        None => beside(program, FILE).ok_or_else(|| missing(program))?,
    };
    // Separators of the libraries in LD_PRELOAD.
    if file.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b' ' | b':')) {
        let message = "the dynamic loader preloads no file with a space or a colon in its path";
        return Err(Stop::failed(format!("{}: {message}; copy it, and name the copy with {VARIABLE}", file.display())));
    }
    Ok(file)
}

fn missing(program: &Path) -> Stop {
    let folder = program.parent().unwrap_or(program).display();
    Stop::failed(format!(
        "the emulated kernel driver, {FILE}, is not in {folder}; build it with the same profile as this program: cargo \
         build --release -p gpu-interop-emulated-amdgpu; or name its file with {VARIABLE}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_beside_the_program_or_by_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("release/conformance");
        let test = folder.path().join("release/deps/sims-0123");
        std::fs::create_dir_all(test.parent().expect("a folder")).expect("folders");
        let stop = find(None, &program).expect_err("none there");
        for part in ["release; build it", "cargo build --release -p gpu-interop-emulated-amdgpu", VARIABLE] {
            assert!(stop.reason().contains(part), "{stop}");
        }
        let library = folder.path().join("release").join(FILE);
        std::fs::write(&library, "").expect("a file");
        assert_eq!(find(None, &program), Ok(library.clone()));
        assert_eq!(find(None, &test), Ok(library.clone()));
        assert_eq!(find(Some(OsStr::new("")), &program), Ok(library), "an empty variable names nothing");

        let other = folder.path().join("other.so");
        let stop = find(Some(other.as_os_str()), &program).expect_err("not there");
        assert!(stop.reason().contains("there is no such file"), "{stop}");
        std::fs::write(&other, "").expect("a file");
        assert_eq!(find(Some(other.as_os_str()), &program), Ok(other));
        let spaced = folder.path().join("a b.so");
        std::fs::write(&spaced, "").expect("a file");
        let stop = find(Some(spaced.as_os_str()), &program).expect_err("a space");
        assert!(stop.reason().contains("a space or a colon"), "{stop}");
    }
}
