//! Symbols of the shared library.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::build::{crate_folder, run};

/// Functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(crate_folder().join("include/gpu_interop.h")).expect("the header");
    let lines = header.lines().filter(|line| !line.starts_with([' ', '/', '#', '}']) && !line.starts_with("typedef"));
    let lines = lines.filter(|line| !line.starts_with("static"));
    let name = |line: &str| {
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        name.starts_with("gpi_").then(|| name.to_owned())
    };
    lines.filter_map(name).collect()
}

/// Exactly the functions of the header are exported, with the version, and the soname is that of this version.
pub(crate) fn check(library: &Path) {
    let symbols = run(Command::new("nm").args(["--dynamic", "--defined-only", "--with-symbol-versions"]).arg(library));
    let mut exported = BTreeSet::new();
    for line in symbols.lines() {
        let symbol = line.rsplit(' ').next().unwrap_or_default();
        if symbol.starts_with("GPU_INTEROP_") {
            // The version itself.
            continue;
        }
        let name = symbol.strip_suffix("@@GPU_INTEROP_0.1").unwrap_or_else(|| panic!("{line}: no version"));
        exported.insert(name.to_owned());
    }
    let declared = declared();
    assert!(declared.len() > 100, "{declared:?}");
    assert_eq!(exported, declared);
    let dynamic = run(Command::new("readelf").args(["--dynamic", "--wide"]).arg(library));
    assert!(dynamic.contains("Library soname: [libgpu_interop.so.0]"), "{dynamic}");
    assert!(!dynamic.contains("libcuda") && !dynamic.contains("libvulkan"), "{dynamic}");
}
