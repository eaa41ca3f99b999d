//! Checks of the table of rules (`src/rules.md`): every rule has a row, no cell is empty, and all named items exist.
#![cfg(not(loom))]
#![allow(clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const TABLE: &str = include_str!("../src/rules.md");

/// Functions of the references whose rules the table must contain.
const FUNCTIONS: [&str; 8] = [
    "ImportExternalMemory",
    "ExternalMemoryGetMappedBuffer",
    "ExternalMemoryGetMappedMipmappedArray",
    "DestroyExternalMemory",
    "ImportExternalSemaphore",
    "SignalExternalSemaphoresAsync",
    "WaitExternalSemaphoresAsync",
    "DestroyExternalSemaphore",
];

/// A row of the table, by the number in its first cell.
struct Row<'a> {
    number: &'a str,
    rule: &'a str,
    from: &'a str,
    functions: &'a str,
    kept: &'a str,
}

/// Cells of each table line, without headings and separators.
fn lines(columns: usize, heading: &str) -> impl Iterator<Item = Vec<&str>> {
    TABLE.lines().filter(|line| line.starts_with('|')).filter_map(move |line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let is_text = !cells[0].starts_with("--") && cells[0] != heading;
        (is_text && cells.len() == columns).then_some(cells)
    })
}

fn rows() -> Vec<Row<'static>> {
    let row = |cells: Vec<&'static str>| match cells[..] {
        [number, rule, from, functions, kept] => Row { number, rule, from, functions, kept },
        _ => panic!("{cells:?}"),
    };
    lines(5, "#").map(row).collect()
}

/// Texts between backquotes, in order.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Enforcement entries of a row: the word, and its text.
fn ways(row: &Row<'static>) -> Vec<(&'static str, &'static str)> {
    let way = |part: &'static str| {
        let (word, rest) = part.strip_prefix("**").and_then(|part| part.split_once("** ")).unwrap_or_else(|| {
            panic!("row {}: `{part}` does not begin with an enforcement word", row.number);
        });
        (word, rest)
    };
    row.kept.split("<br>").map(way).collect()
}

/// Names that follow `word` in an entry: `test` or `scenario`.
fn named(way: &'static str, word: &str) -> Vec<&'static str> {
    let of = move |entry: &'static str| entry.strip_prefix(word)?.strip_prefix(" `")?.strip_suffix('`');
    way.split(", ").filter_map(of).collect()
}

/// Items of an entry: links to items of this crate, and paths of other crates.
fn items(way: &'static str) -> Vec<&'static str> {
    let of = |entry: &'static str| {
        let item = entry.strip_prefix("[`").and_then(|entry| entry.strip_suffix("`]"));
        item.or_else(|| entry.strip_prefix('`')?.strip_suffix('`'))
    };
    way.split(", ").filter_map(of).collect()
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of every Rust file below a folder of the workspace.
fn sources(folder: &str) -> String {
    fn collect(folder: &Path, text: &mut String) {
        let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        for entry in entries.map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() && entry.file_name().is_none_or(|name| name != "target") {
                collect(&entry, text);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(&entry).expect("a text"));
            }
        }
    }
    let mut text = String::new();
    collect(&workspace().join(folder), &mut text);
    text
}

/// `true` if `text` has `before`, then `name` as a whole word.
fn has(text: &str, before: &str, name: &str) -> bool {
    let whole = format!("{before}{name}");
    text.match_indices(&whole).any(|(at, _)| {
        let rest = text[at + whole.len()..].chars().next();
        rest.is_none_or(|next| !next.is_alphanumeric() && next != '_')
    })
}

/// Rule numbers of each reference, by its letter.
fn references() -> BTreeMap<char, BTreeSet<u32>> {
    let mut references = BTreeMap::<char, BTreeSet<u32>>::new();
    for cells in lines(4, "letter") {
        let letter = cells[0].chars().next().expect("a letter");
        let number = |text: &str| text.parse::<u32>().unwrap_or_else(|error| panic!("{cells:?}: {error}"));
        let (first, last) = cells[3].split_once('-').unwrap_or((cells[3], cells[3]));
        let numbers = references.entry(letter).or_default();
        assert_eq!(number(first), numbers.last().map_or(1, |last| last + 1), "{cells:?} leaves numbers out");
        numbers.extend(number(first)..=number(last));
    }
    references
}

#[test]
fn every_numbered_rule_has_a_row() {
    let references = references();
    let counts: Vec<_> = references.iter().map(|(letter, numbers)| (*letter, numbers.len())).collect();
    assert_eq!(counts, [('D', 80), ('G', 98), ('H', 5), ('N', 12), ('R', 26)]);
    let mut found = BTreeMap::<char, BTreeSet<u32>>::new();
    for row in rows() {
        for from in row.from.split_whitespace().filter(|from| *from != "measured") {
            let letter = from.chars().next().expect("a letter");
            let number = from[1..].parse().unwrap_or_else(|error| panic!("row {}: {from}: {error}", row.number));
            found.entry(letter).or_default().insert(number);
        }
    }
    assert_eq!(found, references);
}

#[test]
fn no_cell_is_empty_and_the_rows_are_numbered() {
    let rows = rows();
    let marked = TABLE.lines().filter(|line| line.contains("**types**") || line.contains("**caller**"));
    let outside = marked.clone().filter(|line| !line.starts_with('|')).count();
    assert_eq!(outside, 2, "the explanation of the words");
    for (row, number) in rows.iter().zip(1..) {
        assert_eq!(row.number, number.to_string(), "{}", row.rule);
        for cell in [row.rule, row.from, row.functions, row.kept] {
            assert!(!cell.is_empty(), "row {number} has an empty cell");
        }
        assert!(row.rule.ends_with('.'), "row {number}: {}", row.rule);
    }
    assert!(rows.len() > 80, "{} rows", rows.len());
}

#[test]
fn functions_belong_to_the_reference_of_their_rule() {
    let rows = rows();
    for row in &rows {
        let functions = quoted(row.functions);
        for function in &functions {
            let vendor = ["cuda", "cu", "hip"].into_iter().find_map(|vendor| function.strip_prefix(vendor));
            let known = vendor.is_some_and(|rest| rest.starts_with(char::is_uppercase));
            assert!(known, "row {}: {function}", row.number);
        }
        for from in row.from.split_whitespace() {
            let prefix = match from.chars().next() {
                Some('R' | 'N' | 'G') => "cuda",
                Some('D') => "cu",
                Some('H') => "hip",
                _ => continue,
            };
            let is_of = |function: &&str| {
                function.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(char::is_uppercase))
            };
            assert!(functions.iter().any(is_of), "row {} is from {from}, without a function of it", row.number);
        }
    }
    for function in FUNCTIONS {
        for vendor in ["cuda", "cu"] {
            let function = format!("{vendor}{function}");
            assert!(rows.iter().any(|row| quoted(row.functions).contains(&function.as_str())), "{function}");
        }
    }
}

#[test]
fn every_enforcement_entry_is_complete() {
    let errors = fs::read_to_string(workspace().join("crates/gpu-interop-core/src/error.rs")).expect("error.rs");
    for row in rows() {
        let ways = ways(&row);
        let words: BTreeSet<_> = ways.iter().map(|(word, _)| word).collect();
        assert_eq!(words.len(), ways.len(), "row {} says the same twice", row.number);
        for (word, way) in ways {
            let evidence = named(way, "test").len() + named(way, "scenario").len();
            match word {
                "types" | "caller" => assert!(!items(way).is_empty(), "row {}: {word} of no item", row.number),
                "checked" => {
                    assert!(evidence > 0, "row {}: nothing shows the check", row.number);
                    let kind = quoted(way)[0];
                    assert!(way.starts_with(&format!("[`{kind}`](ErrorKind::{kind})")), "row {}: {way}", row.number);
                    assert!(has(&errors, "    ", kind), "row {}: there is no ErrorKind::{kind}", row.number);
                }
                _ => panic!("row {}: `{word}` is not an enforcement word", row.number),
            }
            // Every quoted text is checked by the tests below.
            let first = usize::from(word == "checked");
            assert_eq!(evidence + items(way).len() + first, quoted(way).len(), "row {}: {way}", row.number);
        }
    }
}

#[test]
fn named_tests_and_scenarios_exist() {
    let tests = ["crates", "backends", "conformance/tests"].map(sources).concat();
    let page = fs::read_to_string(workspace().join("conformance/SCENARIOS.md")).expect("SCENARIOS.md");
    // Windows scenarios, which the page omits.
    let scenarios = sources("conformance/suite/src/scenarios");
    let mut missing = Vec::new();
    for row in rows() {
        for (_, way) in ways(&row) {
            for test in named(way, "test") {
                // A test follows its attribute, also in a macro of property tests.
                let is_test = ["#[test]\nfn ", "#[test]\n    fn ", "#[test]\n        fn "]
                    .into_iter()
                    .any(|before| has(&tests, before, test));
                if !is_test {
                    missing.push(format!("row {}: test `{test}`", row.number));
                }
            }
            for scenario in named(way, "scenario") {
                let of_windows = scenario.starts_with("d3d.") || scenario.starts_with("import.win32_");
                let exists = page.contains(&format!("| `{scenario}`"))
                    || (of_windows && scenarios.contains(&format!("    \"{scenario}\", ")));
                if !exists {
                    missing.push(format!("row {}: scenario `{scenario}`", row.number));
                }
            }
        }
    }
    assert!(missing.is_empty(), "these do not exist: {missing:#?}");
}

/// Rustdoc checks links, but not the items of other crates.
#[test]
fn named_items_exist() {
    let mut crates = BTreeMap::<String, String>::new();
    for row in rows() {
        for (_, way) in ways(&row) {
            for item in items(way) {
                let (folder, path) = match item.strip_prefix("gpu_interop_") {
                    Some(other) => {
                        let (name, path) = other.split_once("::").expect("an item of a crate");
                        (format!("crates/gpu-interop-{name}/src"), path)
                    }
                    None => ("crates/gpu-interop-core/src".into(), item),
                };
                let text = crates.entry(folder.clone()).or_insert_with(|| sources(&folder));
                for name in path.split("::") {
                    let definitions =
                        ["pub struct ", "pub enum ", "pub fn ", "pub unsafe fn ", "pub mod ", "pub const ", "pub "];
                    // A variant begins a line, in a macro's table a deeper one; types are also declared by macros.
                    let exists = definitions.into_iter().any(|definition| has(text, definition, name))
                        || has(text, "\n    ", name)
                        || has(text, "\n        ", name)
                        || has(text, "const ", name);
                    assert!(exists, "row {}: there is no `{name}` of `{item}`", row.number);
                }
            }
        }
    }
}
