//! The committed header is the one of the sources. `GPU_INTEROP_RECORD=1 cargo test -p gpu-interop-capi --test header` writes
//! it.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

use std::path::{Path, PathBuf};
use std::{env, fs};

use gpu_interop_test_support::committed;

/// Order of the sources, which is that of the functions in the header.
const SOURCES: [&str; 25] = [
    "constants",
    "status",
    "last_error",
    "handle",
    "identity",
    "backend",
    "device",
    "capability",
    "array_desc",
    "import_memory",
    "import_semaphore",
    "nv_sci",
    "memory",
    "buffer",
    "array",
    "stream",
    "transfer",
    "array_copy",
    "kernel",
    "semaphore",
    "callback_timeline",
    "exported_semaphore",
    "timeline",
    "release",
    "log",
];

fn crate_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source(name: &str) -> PathBuf {
    crate_folder().join("src").join(name)
}

/// The files that are read. The modules of a folder are read with its `mod.rs`.
fn sources() -> Vec<PathBuf> {
    SOURCES.iter().map(|name| source(&format!("{name}.rs"))).chain([source("vulkan/mod.rs")]).collect()
}

fn generate() -> String {
    let config = cbindgen::Config::from_file(crate_folder().join("cbindgen.toml")).expect("a configuration");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in sources() {
        builder = builder.with_src(file);
    }
    let mut text = Vec::new();
    builder.generate().expect("bindings").write(&mut text);
    let text = String::from_utf8(text).expect("UTF-8");
    // Rust's sections, in C's words.
    text.replace(" *\n * # Safety\n * The requirement on pointers.\n", "").replace(" * # Safety\n * ", " * Requires: ")
}

#[test]
fn the_header_is_that_of_the_sources() {
    let file = crate_folder().join("include/gpu_interop.h");
    let generated = generate();
    committed(&file, &generated).unwrap_or_else(|error| panic!("{error}"));
}

/// Every function of the sources is declared, once.
#[test]
fn every_function_is_declared_once() {
    let header = generate();
    let mut functions = 0;
    for folder in [source(""), source("vulkan")] {
        for entry in fs::read_dir(folder).expect("a folder") {
            let text = fs::read_to_string(entry.expect("an entry").path()).unwrap_or_default();
            for exported in text.split("#[unsafe(no_mangle)]").skip(1) {
                let name = exported.split_once("fn ").and_then(|(_, rest)| rest.split_once('(')).expect("a function").0;
                assert_eq!(header.matches(&format!("{name}(")).count() - mentions(&header, name), 1, "{name}");
                functions += 1;
            }
        }
    }
    assert!(functions > 100, "{functions}");
}

/// A wrong unit is an error of a thousand times that a return code does not show.
#[test]
fn every_duration_is_measured() {
    let declared = generate().lines().filter(|line| line.contains("uint64_t timeout_ns")).count();
    let why = "measure the new duration in tests/c/durations.c, or convert it in a unit test as src/semaphore.rs does";
    // A field, a function of the application, and the three waits of the host.
    assert_eq!(declared, 5, "{why}");
}

/// Number of times that a comment names a function with its parentheses.
fn mentions(header: &str, name: &str) -> usize {
    let call = format!("{name}(");
    header.lines().filter(|line| line.trim_start().starts_with('*')).map(|line| line.matches(&call).count()).sum()
}
