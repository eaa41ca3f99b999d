//! The numbers of the front page and of the pages of results are those of the committed reports.

use std::path::{Path, PathBuf};

use super::{Tested, committed, json, printed, text};

/// Prefix of a line that names the reports of the table after it.
const BEGIN: &str = "<!-- conformance merge ";
const END: &str = "<!-- end -->";

/// Pages, their number of tables, and whether they count the passed scenarios of reports.
const PAGES: [(&str, usize, bool); 3] = [
    ("README.md", 0, true),
    ("conformance/results/README.md", 1, true),
    ("conformance/results/BENCHMARKS.md", 2, false),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The page with the tables of the reports, and their number.
fn with_tables(page: &str) -> Tested<(String, usize)> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("table.md");
    let (mut renewed, mut tables) = (page.to_owned(), 0);
    for part in page.split(BEGIN).skip(1) {
        let (names, rest) = part.split_once(" -->\n").ok_or("the end of the comment")?;
        let (old, _) = rest.split_once(END).ok_or(END)?;
        let reports: Vec<_> = names.split(' ').map(|name| root().join("conformance/results").join(name)).collect();
        let reports: Vec<&str> = reports.iter().map(|report| text(report)).collect::<Tested<_>>()?;
        printed(&[&["merge"], &reports[..], &["--markdown", text(&file)?]].concat())?;
        let table = std::fs::read_to_string(&file)?;
        renewed = renewed.replace(&format!("{names} -->\n{old}{END}"), &format!("{names} -->\n{table}{END}"));
        tables += 1;
    }
    Ok((renewed, tables))
}

/// The page with the numbers of the reports in links `[PASSED of ALL](REPORT.json)`, and the number of these links.
fn with_counts(page: &str) -> Tested<(String, usize)> {
    let (mut renewed, mut links) = (page.to_owned(), 0);
    for path in committed(false)? {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("a name")?;
        for (end, _) in page.match_indices(&format!("{name})")) {
            let start = page[..end].rfind('[').ok_or("the start of a link")?;
            let (label, target) = page[start + 1..end].split_once("](").unwrap_or_default();
            if !label.contains(" of ") || !(target.is_empty() || target.ends_with('/')) {
                continue;
            }
            let report = json(&path)?;
            let count = |outcome: &str| report["summary"][outcome].as_u64().unwrap_or_default();
            for failure in ["failed", "crashed", "timed_out", "unexpected_pass"] {
                assert_eq!(count(failure), 0, "{name}: {failure}; the pages say that none failed");
            }
            let all = report["results"].as_array().ok_or("results")?.len();
            let link = |label: &str| format!("[{label}]({target}{name})");
            renewed = renewed.replace(&link(label), &link(&format!("{} of {all}", count("passed"))));
            links += 1;
        }
    }
    Ok((renewed, links))
}

#[test]
fn pages_have_the_numbers_of_the_reports() -> Tested {
    for (name, expected, counts) in PAGES {
        let path = root().join(name);
        let page = std::fs::read_to_string(&path)?;
        let (renewed, tables) = with_tables(&page)?;
        let (renewed, links) = with_counts(&renewed)?;
        gpu_interop_test_support::committed(&path, &renewed)?;
        assert_eq!((tables, links > 0), (expected, counts), "{name}");
    }
    Ok(())
}

/// Not written by the test: other sentences may depend on them.
#[test]
fn the_front_page_has_the_costs_of_the_report() -> Tested {
    let readme = std::fs::read_to_string(root().join("README.md"))?;
    let bench = json(&root().join("conformance/results/cuda-580.159.04-bench.json"))?;
    for (call, ratio) in [
        ("import of 64 KiB takes", "memory.64KiB.all library/raw"),
        ("signal", "signal.1 library/raw"),
        ("wait", "wait.1 library/raw"),
    ] {
        let found = bench["ratios"].as_array().and_then(|ratios| ratios.iter().find(|each| each["name"] == ratio));
        let value = found.and_then(|found| found["value"].as_f64()).ok_or(ratio)?;
        let sentence = format!("{call} {value:.3} times");
        assert!(readme.contains(&sentence), "README.md has other costs; in the report: {sentence}");
    }
    Ok(())
}
