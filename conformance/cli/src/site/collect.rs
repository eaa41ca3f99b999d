//! The reports in a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gpu_interop_conformance::{Stop, Verdict};

use crate::bench::BenchReport;
use crate::files;
use crate::report::{Merged, NotRead, Report, Sourced, merge, shards};

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

/// Reads all JSON files in a folder and below it. Shards of one run, which are in the same folder, are joined.
///
/// # Errors
/// If the folder cannot be read.
pub(super) fn collect(folder: &Path) -> Verdict<Collected> {
    let mut paths = Vec::new();
    walk(folder, &mut paths).map_err(|error| Stop::failed(format!("{}: {error}", folder.display())))?;
    paths.sort();
    let mut folders: BTreeMap<&Path, Merged> = BTreeMap::new();
    for path in &paths {
        let merged = folders.entry(path.parent().unwrap_or(folder)).or_insert_with(Merged::empty);
        let file = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        let bytes = files::read(path, files::MOST).map_err(|error| error.to_string());
        match bytes.and_then(|bytes| merge::parse_bytes(&bytes)) {
            Ok(found) => add(merged, &file, found),
            Err(reason) => merged.not_read.push(NotRead { source: file, reason }),
        }
    }
    let mut all = Collected::default();
    for mut merged in folders.into_values() {
        shards::join(&mut merged);
        all.runs.extend(merged.reports.into_iter().map(|Sourced { source, report }| Found { file: source, report }));
        all.benches.extend(merged.benches.into_iter().map(|Sourced { source, report }| Found { file: source, report }));
        all.not_read.append(&mut merged.not_read);
    }
    Ok(all)
}

/// Adds the reports of a file, which their sources name.
fn add(merged: &mut Merged, file: &str, found: Merged) {
    let named = |source| merge::within(file, source);
    merged.reports.extend(found.reports.into_iter().map(|each| Sourced { source: named(each.source), ..each }));
    merged.benches.extend(found.benches.into_iter().map(|each| Sourced { source: named(each.source), ..each }));
    merged.not_read.extend(found.not_read.into_iter().map(|each| NotRead { source: named(each.source), ..each }));
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
