//! Checks that a search in the documentation for a function of a driver finds the item that calls or replaces it: that some
//! public item has its name as `#[doc(alias = "...")]`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use proc_macro2::{Literal, TokenStream, TokenTree};

use crate::run::{Outcome, run};

/// Prefixes of functions: CUDA's driver and runtime, HIP, Vulkan, OpenGL.
const PREFIXES: &[&str] = &["cu", "cuda", "hip", "vk", "gl"];

/// Suffixes of symbols that the headers' names lack.
const VERSIONS: &[&str] = &["_v2", "R0600"];

/// Files whose names of functions are those that the library looks up.
const TABLES: &[&str] = &[
    "crates/gpu-interop-driver/src/functions.rs",
    "backends/cuda/src/sys.rs",
    "backends/hip/src/sys/mod.rs",
    "crates/gpu-interop-gl/src/sys.rs",
];

/// Sources whose items have aliases, and whose comments name functions.
const SOURCES: &[&str] = &["crates/*/src/*.rs", "backends/*/src/*.rs"];

#[derive(Debug, Default, PartialEq)]
struct Names {
    aliases: BTreeSet<String>,
    /// In parentheses in documentation: "(`cuStreamCreate`)".
    documented: BTreeSet<String>,
    /// Outside of documentation, as names or C strings.
    used: BTreeSet<String>,
}

/// Checks the sources in `root`.
///
/// # Errors
/// The functions that no alias names, each with a file that names it.
pub(crate) fn check(root: &Path) -> Outcome {
    let files = run("git ls-files --cached --others --exclude-standard --").args(SOURCES).text()?;
    let (mut aliases, mut needed) = (BTreeSet::new(), BTreeMap::new());
    for file in files.lines() {
        let text = fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))?;
        let mut names = Names::default();
        names.read(text.parse().map_err(|error| format!("{file}: {error}"))?);
        aliases.extend(names.aliases);
        let used = if TABLES.contains(&file) { names.used } else { BTreeSet::new() };
        needed.extend(names.documented.into_iter().chain(used).map(|name| (name, file)));
    }
    let missing = needed.iter().filter(|(name, _)| !aliases.contains(*name));
    let lines: Vec<String> = missing.map(|(name, file)| format!("\n  {name}, named in {file}")).collect();
    println!("{} aliases for {} named functions of drivers", aliases.len(), needed.len());
    if lines.is_empty() { Ok(()) } else { Err(format!("no item has `#[doc(alias = ...)]` for:{}", lines.concat())) }
}

impl Names {
    fn read(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => self.read(group.stream()),
                TokenTree::Ident(word) if word == "doc" => match tokens.peek().cloned() {
                    Some(TokenTree::Punct(punct)) if punct.as_char() == '=' => {
                        tokens.next();
                        if let Some(TokenTree::Literal(text)) = tokens.next() {
                            self.documented.extend(in_parentheses(&text.to_string()));
                        }
                    }
                    Some(TokenTree::Group(group)) => {
                        self.aliases.extend(aliases(group.stream()));
                        tokens.next();
                    }
                    _ => {}
                },
                TokenTree::Ident(word) => self.used.extend(function(&word.to_string())),
                TokenTree::Literal(literal) => self.used.extend(c_string(&literal).as_deref().and_then(function)),
                TokenTree::Punct(_) => {}
            }
        }
    }
}

/// The strings of `alias = "name"` and `alias("name", "other")`.
fn aliases(tokens: TokenStream) -> Vec<String> {
    let mut tokens = tokens.into_iter();
    if tokens.next().is_none_or(|first| first.to_string() != "alias") {
        return Vec::new();
    }
    let all = tokens.flat_map(|token| match token {
        TokenTree::Group(group) => group.stream().into_iter().collect(),
        token => vec![token],
    });
    all.filter_map(|token| Some(token.to_string().strip_prefix('"')?.strip_suffix('"')?.to_owned())).collect()
}

fn c_string(literal: &Literal) -> Option<String> {
    Some(literal.to_string().strip_prefix("c\"")?.strip_suffix('"')?.to_owned())
}

/// The functions in code within the parentheses of one line.
fn in_parentheses(text: &str) -> Vec<String> {
    let groups = text.split('(').skip(1).filter_map(|rest| rest.split(')').next());
    groups.flat_map(|group| group.split('`').skip(1).step_by(2).filter_map(function)).collect()
}

/// `name` as the headers write it, if it is a function's: a prefix, then a capital letter.
fn function(name: &str) -> Option<String> {
    let begins = |prefix: &&str| {
        name.strip_prefix(*prefix).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()))
    };
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    // Types of HIP, and constants of them in bindings for tests.
    let is_type = ["_t", "_enum"].iter().any(|end| name.ends_with(end) || name.contains(&format!("{end}_")));
    if !is_name || is_type || !PREFIXES.iter().any(begins) {
        return None;
    }
    let short = VERSIONS.iter().find_map(|version| name.strip_suffix(version)).unwrap_or(name);
    Some(short.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_in_parentheses_tables_and_aliases() {
        let source = r#"
            /// Creates a stream (`cuStreamCreate`, relaxed, or `hipStreamCreateWithFlags`); `vkOther` (`CUstream`, `hipStream_t`).
            #[doc(alias("cuStreamCreate", "cudaStreamCreateWithFlags"))]
            #[doc(alias = "vkGetMemoryFdKHR")]
            #[doc(hidden)]
            pub fn create() { table! { stream = cuStreamDestroy_v2, hipStreamDestroy; free: c"cuMemFree" custom cubes hipError_t_hipSuccess } }
        "#;
        let mut names = Names::default();
        names.read(source.parse().unwrap());
        assert_eq!(Vec::from_iter(names.aliases), ["cuStreamCreate", "cudaStreamCreateWithFlags", "vkGetMemoryFdKHR"]);
        assert_eq!(Vec::from_iter(names.documented), ["cuStreamCreate", "hipStreamCreateWithFlags"]);
        assert_eq!(Vec::from_iter(names.used), ["cuMemFree", "cuStreamDestroy", "hipStreamDestroy"]);
    }
}
