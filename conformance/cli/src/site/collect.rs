//! The reports in a folder.

use std::path::{Path, PathBuf};

use gpu_interop_conformance::{Stop, Verdict};

use crate::bench::BenchReport;
use crate::report::{NotRead, Report, merge};

/// A report and its file, relative to the folder.
#[derive(Debug)]
pub(super) struct Found<T> {
    pub(super) file: String,
    pub(super) report: T,
}

/// The reports of a folder.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) runs: Vec<Found<Report>>,
    pub(super) benches: Vec<Found<BenchReport>>,
    pub(super) not_read: Vec<NotRead>,
}

/// Reads all JSON files in a folder and below it.
///
/// # Errors
/// If the folder cannot be read.
pub(super) fn collect(folder: &Path) -> Verdict<Collected> {
    let mut files = Vec::new();
    walk(folder, &mut files).map_err(|error| Stop::Failed(format!("{}: {error}", folder.display())))?;
    files.sort();
    let mut all = Collected::default();
    for path in files {
        let file = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        let parsed =
            std::fs::read(&path).map_err(|error| error.to_string()).and_then(|bytes| merge::parse_bytes(&bytes));
        let mut merged = match parsed {
            Ok(merged) => merged,
            Err(reason) => {
                all.not_read.push(NotRead { source: file, reason });
                continue;
            }
        };
        let named = |source: &str| if source.is_empty() { file.clone() } else { format!("{file}: {source}") };
        let runs =
            merged.reports.drain(..).map(|sourced| Found { file: named(&sourced.source), report: sourced.report });
        all.runs.extend(runs);
        let benches = merged.benches.drain(..);
        all.benches.extend(benches.map(|sourced| Found { file: named(&sourced.source), report: sourced.report }));
        all.not_read.append(&mut merged.not_read);
    }
    Ok(all)
}

/// The JSON files in a folder and below it, without following links to folders.
fn walk(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in folder.read_dir()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), files)?;
        } else if entry.path().extension().is_some_and(|extension| extension == "json") {
            files.push(entry.path());
        }
    }
    Ok(())
}
