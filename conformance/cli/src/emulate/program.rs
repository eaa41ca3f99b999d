//! A copy of this program that uses the libraries of a runtime's folder.
//!
//! Runtimes of newer Debian releases need a newer C library. A program is bound to its C library by the dynamic loader
//! that it names, so a copy names the loader and the library paths of the folder. The environment is not changed: a
//! variable such as LD_LIBRARY_PATH would also affect the system's own programs, which then fail.

use std::ffi::{CStr, OsString};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use gpu_interop_conformance::{Stop, Verdict};

use super::manifest::Manifest;

/// Folders of the system's libraries.
const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";
/// The loader, in a folder's part for the C library.
const LOADER: &str = "libc/ld-linux-x86-64.so.2";
/// The part of the folder for copies.
const COPIES: &str = "programs";
/// Time that a copy is kept after its program no longer exists.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The copy of `program` for the runtime in `folder`, created if necessary.
///
/// # Errors
/// If it cannot be created.
pub(super) fn copy_for(folder: &Path, program: &Path) -> Verdict<PathBuf> {
    let folder = folder.canonicalize()?;
    let found = std::fs::metadata(program)?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let copies = folder.join(COPIES);
    let copy = copies.join(format!("{name}-{:x}-{:x}-{:x}", found.size(), found.mtime(), found.mtime_nsec()));
    if copy.is_file() {
        return Ok(copy);
    }
    let cannot = |error: std::io::Error| Stop::failed(format!("cannot write {}: {error}", copy.display()));
    std::fs::create_dir_all(&copies).map_err(cannot)?;
    remove_old(&copies);
    // Renamed last, so that a file with this name is complete.
    let new = tempfile::Builder::new().tempfile_in(&copies).map_err(cannot)?.into_temp_path();
    std::fs::copy(program, &new).map_err(cannot)?;
    let c_library = Manifest::read(&folder).and_then(|manifest| manifest.c_library());
    change(&new, &folder, is_newer(c_library.as_deref(), &c_library_here()))?;
    new.persist(&copy).map_err(|error| cannot(error.error))?;
    Ok(copy)
}

/// Sets loader and library paths of a copy: AMD's first, then those of the newer system, the folder's or this one.
fn change(copy: &Path, folder: &Path, with_own_c_library: bool) -> Verdict {
    let part = |name: &str| folder.join(name).into_os_string();
    let mut command = Command::new("patchelf");
    let parts = if with_own_c_library {
        command.arg("--set-interpreter").arg(folder.join(LOADER));
        vec![part("amd"), part("libc"), part("lib"), SYSTEM.into()]
    } else {
        vec![part("amd"), SYSTEM.into(), part("lib")]
    };
    // RPATH instead of RUNPATH, because it also applies to the dependencies of libraries.
    command.arg("--force-rpath").arg("--set-rpath").arg(parts.join(&OsString::from(":"))).arg(copy);
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Stop::failed("patchelf is not installed (Debian: patchelf)".into()),
        _ => Stop::failed(format!("patchelf: {error}")),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Stop::failed(format!("patchelf: {}: {}", output.status, said.trim())))
}

/// The version of this process's C library.
fn c_library_here() -> String {
    // SAFETY: the function has no arguments, and returns a static NUL-terminated string.
    unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) }.to_string_lossy().into_owned()
}

/// `true` if a folder's C library, of this version, is newer than the system's. An unknown version counts as newer.
fn is_newer(folder: Option<&str>, system: &str) -> bool {
    let numbers = |version: &str| version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>();
    folder.is_none_or(|folder| numbers(folder) > numbers(system))
}

/// Removes copies of programs that have been rebuilt since. A recent copy is kept, because another process may still
/// start it.
fn remove_old(copies: &Path) {
    let now = SystemTime::now();
    for entry in std::fs::read_dir(copies).into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|found| found.modified());
        let age = made.ok().and_then(|made| now.duration_since(made).ok());
        if age.is_some_and(|age| age > KEPT) {
            // A copy that cannot be removed only takes space.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newer_c_library_is_used() {
        for (folder, system, newer) in [
            (Some("2.41"), "2.36", true),
            (Some("2.36"), "2.36", false),
            (Some("2.36"), "2.41", false),
            (Some("2.100"), "2.36", true),
            (None, "2.36", true),
        ] {
            assert_eq!(is_newer(folder, system), newer, "{folder:?} {system}");
        }
        let here = c_library_here();
        assert!(here.starts_with("2."), "{here}");
    }

    #[test]
    fn only_old_copies_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (young, old) = (folder.path().join("young"), folder.path().join("old"));
        std::fs::write(&young, "").expect("a file");
        let file = std::fs::File::create(&old).expect("a file");
        file.set_modified(SystemTime::now() - 2 * KEPT).expect("its time");
        remove_old(folder.path());
        assert!(young.exists() && !old.exists());
    }
}
