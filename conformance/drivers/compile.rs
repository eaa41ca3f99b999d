//! Compiles stand-in drivers. Included by the tests that load one.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// A stand-in driver in a folder of its own, which goes when this is dropped.
#[derive(Debug)]
pub(crate) struct StandIn {
    folder: TempDir,
}

impl StandIn {
    /// Compiles `source` with these switches, with the C compiler that Rust links with. Where there is none, no test would
    /// have been built, so that is a failure and not a skip.
    pub(crate) fn compile(source: &str, switches: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the library");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let output = Command::new(&compiler)
            .args(["-std=gnu11", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(folder.path().join(Self::FILE))
            .args(switches)
            .arg(source)
            .arg("-lpthread")
            .output()
            .unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        Self { folder }
    }

    const FILE: &str = "libstand_in_cuda.so";

    /// The library's file.
    pub(crate) fn library(&self) -> PathBuf {
        self.folder.path().join(Self::FILE)
    }
}
