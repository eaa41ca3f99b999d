//! The committed header is the one of the sources. `GPU_INTEROP_RECORD=1 cargo test -p gpu-interop-capi --test header` writes
//! it.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Order of the sources, which is that of the functions in the header.
const SOURCES: [&str; 26] = [
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
    "memory",
    "buffer",
    "array",
    "stream",
    "transfer",
    "array_copy",
    "word",
    "event",
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

fn sources() -> Vec<PathBuf> {
    let file = |name: &str| crate_folder().join("src").join(name);
    let mut files: Vec<PathBuf> = SOURCES.iter().map(|name| file(&format!("{name}.rs"))).collect();
    files.extend(
        ["mod", "export", "buffer", "image", "semaphore", "barrier"].map(|name| file(&format!("vulkan/{name}.rs"))),
    );
    files
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
    if env::var_os("GPU_INTEROP_RECORD").is_some() {
        fs::write(&file, &generated).expect("written");
    }
    let committed = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == generated,
        "include/gpu_interop.h differs from the sources: run \
         `GPU_INTEROP_RECORD=1 cargo test -p gpu-interop-capi --test header` and commit it"
    );
}

/// Every source with an exported function is in the header.
#[test]
fn no_source_is_forgotten() {
    let listed = sources();
    let folders = [crate_folder().join("src"), crate_folder().join("src/vulkan")];
    for entry in folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder")) {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        if text.contains("no_mangle") || text.contains("pub const GPI_") || text.contains("pub struct gpi_") {
            assert!(listed.contains(&path), "{}", path.display());
        }
    }
}
