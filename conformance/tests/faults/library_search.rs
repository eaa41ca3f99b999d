//! Several major versions of HIP in one folder: the newest that the linker loads is used, unless the process has loaded
//! one before. Errors of that library are final; no older one is tried.

use std::path::Path;

use gpu_interop::hip::HipBackend;
use gpu_interop::{Backend as _, ErrorKind};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use libtest_mimic::Failed;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::outcome::Shown;
use gpu_interop_test_support::{CompiledLibrary, PartialLibrary, source, this_program};

/// The argument of the process that searches for a library. A library to load before may follow.
pub(crate) const FIND: &str = "find-a-library";

const VERSIONS: [(u32, &str); 3] = [(5, "50731921"), (6, "60443484"), (7, "70125424")];

/// The version and the file of the runtime that was found, or the error.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Found {
    Driver { version: String, file: String },
    Error(Shown),
}

/// The process.
pub(crate) fn main(before: Option<&Path>) {
    if let Some(before) = before {
        // SAFETY: a mock, which supports loading at run time.
        std::mem::forget(unsafe { Library::open(Some(before), RTLD_NOW | RTLD_LOCAL) }.expect("a library"));
    }
    let found = match HipBackend::load() {
        Ok(backend) => {
            let info = backend.info();
            let file = info.library.as_ref().map(|file| file.display().to_string()).unwrap_or_default();
            Found::Driver { version: info.driver.clone(), file }
        }
        Err(error) => Found::Error(Shown::of("load", &error)),
    };
    println!("{}", serde_json::to_string(&found).expect("a line"));
}

/// A folder with mock runtimes, with the names and SONAMEs of a real system.
struct Folder(TempDir);

impl Folder {
    fn new() -> Result<Self, Failed> {
        Ok(Self(tempfile::tempdir()?))
    }

    fn name(&self, major: u32) -> std::path::PathBuf {
        self.0.path().join(format!("libamdhip64.so.{major}"))
    }

    /// Adds a runtime of a major version, without some functions.
    fn add(self, major: u32, without: &[&str]) -> Result<Self, Failed> {
        let version = VERSIONS.iter().find(|(known, _)| *known == major).map(|(_, version)| *version);
        let version = format!("-DVERSION={}", version.ok_or("a major version")?);
        let name = format!("-Wl,-soname,libamdhip64.so.{major}");
        let built = CompiledLibrary::compile(&source("recorder.c"), &["-DHIP", &version, &name]);
        let mut partial = PartialLibrary::of(&built.library())?;
        without.iter().try_for_each(|function| partial.hide(function))?;
        std::fs::copy(partial.path(), self.name(major))?;
        Ok(self)
    }

    /// The runtime found by a process whose linker searches this folder, with `hipInit` returning `code`. `before` is
    /// loaded first.
    fn find(&self, before: Option<u32>, code: u32) -> Result<Found, Failed> {
        let [calls, simulator] = ["calls", "simulator"].map(|name| self.0.path().join(name));
        std::fs::write(&simulator, format!("fail hipInit {code}\n"))?;
        let mut command = this_program()?;
        command.arg(FIND).args(before.map(|major| self.name(major))).env("LD_LIBRARY_PATH", self.0.path());
        command.env_remove("GPU_INTEROP_HIP_LIBRARY").env("RECORDER_LOG", calls).env("RECORDER_CONTROL", simulator);
        let output = command.output()?;
        if !output.status.success() {
            return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

impl Found {
    /// Fails unless this is the runtime of this version in the folder.
    fn is(&self, folder: &Folder, major: u32, version: &str) -> Result<(), Failed> {
        let path = folder.name(major).display().to_string();
        match self {
            Self::Driver { version: found, file } if found == version && *file == path => Ok(()),
            other => Err(format!("not {version} in {path}: {other:?}").into()),
        }
    }

    /// Fails unless this is an error of this kind that contains these texts.
    fn is_error(&self, kind: ErrorKind, parts: &[&str]) -> Result<(), Failed> {
        match self {
            Self::Error(error) if error.kind == kind && parts.iter().all(|part| error.text.contains(part)) => Ok(()),
            other => Err(format!("not {kind:?} with {parts:?}: {other:?}").into()),
        }
    }
}

pub(crate) fn majors() -> Result<(), Failed> {
    // All three majors: no runtime of the machine is newer.
    let folder = Folder::new()?.add(5, &[])?.add(6, &[])?.add(7, &[])?;
    folder.find(None, 0)?.is(&folder, 7, "HIP 7.1")?;

    // A runtime that the process has loaded is used: another would be a second runtime in the process.
    for (major, version) in [(5, "HIP 5.7"), (6, "HIP 6.4")] {
        folder.find(Some(major), 0)?.is(&folder, major, version)?;
    }

    // A file that the linker cannot load is skipped.
    std::fs::write(folder.name(7), "not a library")?;
    folder.find(None, 0)?.is(&folder, 6, "HIP 6.4")?;
    std::fs::write(folder.name(6), "not a library")?;
    folder.find(None, 0)?.is(&folder, 5, "HIP 5.7")?;

    // A library that loads is used: its defect is reported, and no older one is used silently.
    let broken = Folder::new()?.add(6, &[])?.add(7, &["hipMemsetD32Async"])?;
    broken
        .find(None, 0)?
        .is_error(ErrorKind::SymbolMissing, &["no hipMemsetD32Async", "HIP 7.1", "libamdhip64.so.7"])?;
    let path = broken.name(7).display().to_string();
    let sound = Folder::new()?.add(6, &[])?.add(7, &[])?;
    for (code, kind) in [(100, ErrorKind::NoDevice), (101, ErrorKind::NoDevice), (999, ErrorKind::Driver)] {
        let path = path.replace(&*broken.0.path().to_string_lossy(), &sound.0.path().to_string_lossy());
        sound.find(None, code)?.is_error(kind, &["hipInit", "HIP 7.1", &path])?;
    }
    // Without the failure it is found.
    sound.find(None, 0)?.is(&sound, 7, "HIP 7.1")
}
