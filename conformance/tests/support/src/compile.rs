//! Compiles C libraries that tests load: mocks and fakes of drivers.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Library in a temporary folder, which is removed on drop.
#[derive(Debug)]
pub struct CompiledLibrary {
    folder: TempDir,
    file: String,
}

impl CompiledLibrary {
    /// Compiles `source` with the given switches and the C compiler that Rust links with. A missing compiler is a
    /// failure, because it would have prevented building the tests.
    ///
    /// # Panics
    /// If it does not compile.
    pub fn compile(source: &str, switches: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder for the library");
        let name = Path::new(source).file_stem().expect("a file").to_string_lossy();
        let file = format!("lib{name}.so");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let output = Command::new(&compiler)
            .args(["-std=gnu11", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .arg(folder.path().join(&file))
            .args(switches)
            .arg(source)
            .arg("-lpthread")
            .output()
            .unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
        Self { folder, file }
    }

    /// File of the library.
    pub fn library(&self) -> PathBuf {
        self.folder.path().join(&self.file)
    }
}

/// Returns the path of a source in the folder `c` of this crate.
pub fn source(name: &str) -> String {
    format!("{}/c/{name}", env!("CARGO_MANIFEST_DIR"))
}
