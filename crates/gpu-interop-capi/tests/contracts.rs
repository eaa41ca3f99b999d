//! The adapters call `unsafe` functions of the library with values of callers who see no `unsafe`. Each adapter's documentation
//! has a table of these calls with what enforces their contracts; here the tables are compared with the sources.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The code of every source in a folder, without comments and tests.
fn sources(folder: &Path, code: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("tests") && !path.ends_with("sys") && !path.ends_with("bytes") {
            sources(&path, code);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with("sys.rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
                *code += line;
                code.push('\n');
            }
        }
    }
}

fn code(folder: &str) -> String {
    let mut code = String::new();
    sources(&root().join(folder), &mut code);
    code
}

/// The word at the start of a text.
fn word(text: &str) -> &str {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default()
}

/// The `unsafe` functions that applications and adapters can call.
fn unsafe_functions() -> BTreeSet<String> {
    let crates = ["core", "vulkan", "nvsci"].map(|name| code(&format!("crates/gpu-interop-{name}/src")));
    let public = crates.iter().flat_map(|code| {
        let functions = ["pub unsafe fn ", "pub const unsafe fn "];
        functions.into_iter().flat_map(move |start| code.split(start).skip(1).map(word))
    });
    let backend = fs::read_to_string(root().join("crates/gpu-interop-core/src/backend/mod.rs")).expect("a source");
    let methods = backend.split("\n    unsafe fn ").skip(1).map(word);
    public.chain(methods).map(str::to_owned).collect()
}

/// The names that are called inside the blocks `unsafe { .. }`.
fn calls(code: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for block in code.split("unsafe {").skip(1) {
        let mut depth = 1;
        let end = block.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0
        });
        let block = &block[..end.unwrap_or(block.len())];
        let called = block.match_indices('(').map(|(at, _)| &block[..at]);
        names.extend(called.map(|text| {
            let start = text.rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map_or(0, |at| at + 1);
            &text[start..]
        }));
    }
    names
}

/// Names that also functions of pointers, slices and the adapters have.
const COMMON: [&str; 5] = ["new", "read", "write", "get", "import"];

/// The `unsafe` functions of the library with such a name, and their types: `MemoryImport::new`.
fn common_functions() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for code in ["core", "vulkan", "nvsci"].map(|name| code(&format!("crates/gpu-interop-{name}/src"))) {
        for name in COMMON {
            for start in ["pub unsafe fn ", "pub const unsafe fn "].map(|start| format!("{start}{name}(")) {
                found.extend(code.match_indices(&start).filter_map(|(at, _)| {
                    let (_, implementation) = code[..at].rsplit_once("\nimpl")?;
                    let of = implementation.trim_start_matches(|c| c != ' ').trim_start();
                    Some(format!("{}::{name}", word(of)))
                }));
            }
        }
    }
    found
}

/// The functions in the first column of the table, with their types.
fn documented(file: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(file)).expect("a source");
    let table = text.split("# Contracts of unsafe calls").nth(1).expect("the table");
    let rows = table.lines().skip(1).take_while(|line| *line == "//!" || !line.starts_with("//! #"));
    let rows = rows.filter_map(|line| line.strip_prefix("//! | `")?.split('|').next());
    rows.flat_map(|cell| cell.split('`').filter(|name| name.contains("::")).map(str::to_owned)).collect()
}

#[test]
fn the_tables_of_contracts_have_every_unsafe_call() {
    let functions = unsafe_functions();
    assert!(functions.len() > 60, "{functions:?}");
    let common = common_functions();
    for path in ["BinaryImage::new", "MemoryImport::new", "SemaphoreImport::new"] {
        assert!(common.contains(path), "{common:?}");
    }
    for (folder, file, fewest) in [
        ("crates/gpu-interop-capi/src", "crates/gpu-interop-capi/src/lib.rs", 20),
        ("crates/gpu-interop-python/src", "crates/gpu-interop-python/src/lib.rs", 10),
        ("crates/gpu-interop/src/cudarc", "crates/gpu-interop/src/cudarc/mod.rs", 2),
    ] {
        let (code, documented) = (code(folder), documented(file));
        let name = |path: &str| path.split_once("::").map_or(String::new(), |(_, name)| name.to_owned());
        // `sys.rs` of cudarc calls the library, too.
        let code = code + &fs::read_to_string(root().join(folder).join("sys.rs")).unwrap_or_default();
        let called: BTreeSet<_> = calls(&code).into_iter().filter(|name| functions.contains(*name)).collect();
        let names: BTreeSet<String> = documented.iter().map(|path| name(path)).collect();
        let missing: Vec<_> = called.iter().filter(|name| !names.contains(**name) && !COMMON.contains(name)).collect();
        assert!(missing.is_empty(), "{file}: the table of contracts lacks {missing:?}");
        for path in &common {
            let is_called = code.contains(&format!("{path}("));
            assert_eq!(documented.contains(path), is_called, "{file}: {path} in the table, and whether it is called");
        }
        let gone: Vec<_> = names.iter().filter(|name| !called.contains(name.as_str())).collect();
        assert!(gone.is_empty(), "{file}: the table has {gone:?}, which is not called");
        assert!(called.len() >= fewest, "{called:?}");
    }
}
