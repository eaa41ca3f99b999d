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

/// Symbols that a library exports, with their versions.
fn exported(library: &Path) -> BTreeSet<String> {
    let symbols = run(Command::new("nm").args(["--dynamic", "--defined-only", "--with-symbol-versions"]).arg(library));
    symbols.lines().filter_map(|line| Some(line.rsplit(' ').next()?.to_owned())).collect()
}

fn soname(library: &Path) {
    let dynamic = run(Command::new("readelf").args(["--dynamic", "--wide"]).arg(library));
    assert!(dynamic.contains("Library soname: [libgpu_interop.so.0]"), "{dynamic}");
    assert!(!dynamic.contains("libcuda") && !dynamic.contains("libvulkan"), "{dynamic}");
}

/// Exactly the functions of the header are exported.
pub(crate) fn check_names(library: &Path) {
    let declared = declared();
    assert!(declared.len() > 100, "{declared:?}");
    assert_eq!(exported(library), declared);
    soname(library);
}

/// As [`check_names`], each with the version of the interface.
pub(crate) fn check_versions(library: &Path) {
    // The version itself is a symbol.
    let symbols = exported(library).into_iter().filter(|symbol| !symbol.starts_with("GPU_INTEROP_"));
    let versioned: BTreeSet<String> = declared().iter().map(|name| format!("{name}@@GPU_INTEROP_0.1")).collect();
    assert_eq!(symbols.collect::<BTreeSet<_>>(), versioned);
    soname(library);
}
