//! Compares the guide with the sources of the published crates and of `conformance`: environment variables, quoted messages,
//! and names of faults.
//!
//! On Linux only, because the sources are the same on every system.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, reason = "this is a test, also outside of the test function")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[path = "../src/guide/environment.rs"]
#[allow(unreachable_pub, reason = "the page is public in the library")]
mod page;

/// Folders below the repository's root. A file is searched up to its unit tests, and without comments.
const SOURCES: [&str; 6] =
    ["crates", "backends", "kernels", "conformance/bench", "conformance/cli", "conformance/suite"];
/// Folders without code of the library or the command.
const SKIPPED: [&str; 6] = ["tests", "target", "examples", "benches", "install", "results"];
/// What the name of a variable follows: calls, and an attribute of `clap`.
const READERS: [&str; 7] = ["env::var(", "env::var_os(", "variable(", ".list(", "getenv(", "environ[", ", env = "];
/// The same, in the descriptions of the search for a library.
const SEARCHES: [&str; 2] = ["variable: ", "(Some("];
/// Other names in capitals, by their beginnings.
const NOT_VARIABLES: [&str; 5] = ["CARGO_", "CUDA_ERROR_", "DXGI_ERROR_", "VK_ERROR_", "WAIT_"];
/// Names of other crates.
const FOREIGN: [(&str, &str); 1] = [("EnvFilter::DEFAULT_ENV", "RUST_LOG")];

/// The sources, by path.
fn sources(root: &Path) -> BTreeMap<String, String> {
    let mut folders: Vec<_> = SOURCES.iter().map(|folder| root.join(folder)).collect();
    let mut sources = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if path.is_dir() {
                if !SKIPPED.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if (name.ends_with(".rs") || name.ends_with(".py"))
                && !["build.rs", "tests.rs", "environment.rs"].contains(&name.as_str())
                || path.ends_with("scenarios/environment.rs")
            {
                let text = std::fs::read_to_string(&path).expect("a source");
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                let code: Vec<_> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
                sources.insert(path.display().to_string(), code.join("\n"));
            }
        }
    }
    sources
}

/// The string literals without spaces in `code`.
fn literals(code: &str) -> impl Iterator<Item = &str> {
    code.split('"').filter(|text| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// `true` for `TWO_WORDS`.
fn is_in_capitals(name: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    name.contains('_') && name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(is_valid)
}

/// The variable that an argument names: a literal, or a constant of a file.
fn named<'a>(argument: &'a str, code: &'a str) -> Option<&'a str> {
    let argument = argument.trim_start_matches(['(', '&', ' ']);
    if let Some(literal) = argument.strip_prefix('"') {
        return literal.split('"').next();
    }
    let end = argument.find(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c)).unwrap_or(argument.len());
    let path = &argument[..end];
    if let Some((_, name)) = FOREIGN.iter().find(|(foreign, _)| *foreign == path) {
        return Some(name);
    }
    let constant = format!("const {}: &str = \"", path.rsplit("::").next()?);
    code.split(&constant).nth(1)?.split('"').next()
}

/// The variables that a file reads, as far as its text shows them.
fn read(code: &str, all: &str) -> BTreeSet<String> {
    let searches: &[&str] = if code.contains("LibrarySearch") { &SEARCHES } else { &[] };
    let arguments = READERS.iter().chain(searches).flat_map(|reader| code.split(reader).skip(1));
    arguments.filter_map(|argument| named(argument, code).or_else(|| named(argument, all))).map(str::to_owned).collect()
}

#[test]
fn the_table_has_every_variable_that_is_read_and_no_other() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = sources(&root);
    assert!(sources.len() > 300, "{} sources", sources.len());
    let table: BTreeSet<&str> = page::VARIABLES.iter().copied().collect();
    assert_eq!(table.len(), page::VARIABLES.len(), "a variable is listed twice");
    let all: String = sources.values().cloned().collect();
    let mut missing = Vec::new();
    let mut seen = BTreeSet::new();
    for (path, code) in &sources {
        let mut names = read(code, &all);
        // A name may reach its reader by a table or a parameter. Texts of formats and errors of the libraries are no variables.
        let reads = path.contains("/conformance/") || READERS.iter().any(|reader| code.contains(reader));
        let is_variable = |name: &&str| {
            name.starts_with("GPU_INTEROP_")
                || reads && is_in_capitals(name) && !NOT_VARIABLES.iter().any(|other| name.starts_with(other))
        };
        names.extend(literals(code).filter(is_variable).map(str::to_owned));
        missing
            .extend(names.iter().filter(|name| !table.contains(name.as_str())).map(|name| format!("{path}: {name}")));
        seen.extend(names);
    }
    assert!(missing.is_empty(), "not in src/guide/environment.rs:\n{}", missing.join("\n"));
    let stale: Vec<_> = table.iter().filter(|name| !seen.contains(**name)).collect();
    assert!(stale.is_empty(), "in src/guide/environment.rs, but read nowhere: {stale:?}");
}

/// The parts of a quoted message that the sources have as they are: without placeholders and numbers, and without the names
/// and keys that a message gets when it is made.
fn fixed_parts(message: &str) -> Vec<&str> {
    let placeholders = ["...", ": ", "CUDA driver", "HIP runtime"];
    let start: Vec<_> = message.split(|c: char| c.is_ascii_digit()).collect();
    let parts =
        placeholders.iter().fold(start, |parts, at| parts.into_iter().flat_map(|part| part.split(at)).collect());
    let trimmed = parts.into_iter().map(|part| part.trim_matches([' ', ':', ';', ',']));
    trimmed.filter(|part| part.contains(' ')).collect()
}

/// The texts between two marks, in the first columns of the tables.
fn quoted(page: &str) -> impl Iterator<Item = &str> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    rows.flat_map(|cell| cell.split('`').skip(1).step_by(2))
}

#[test]
fn the_sources_have_every_quoted_message_and_fault() {
    const LEAST: (usize, usize) = (40, 15);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("crates/gpu-interop/src/guide/troubleshooting.md")).expect("the page");
    let sources: Vec<_> = sources(&root).into_values().collect();
    // A literal may continue on the next line.
    let all = sources.join("\n").replace("\\\n", "\n").split_whitespace().collect::<Vec<_>>().join(" ");
    let messages: Vec<_> = quoted(&page).flat_map(fixed_parts).collect();
    let is_fault = |name: &&str| {
        name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let faults: Vec<_> = rows.flat_map(|row| row.split('*').skip(1).step_by(2)).filter(is_fault).collect();
    assert!(messages.len() > LEAST.0 && faults.len() > LEAST.1, "{} messages, {} faults", messages.len(), faults.len());
    let is_absent = |text: &&&str| !all.contains(**text);
    let absent: Vec<_> = messages.iter().chain(&faults).filter(is_absent).collect();
    assert!(absent.is_empty(), "the guide quotes what no source has: {absent:#?}");
}
