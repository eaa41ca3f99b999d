//! `conformance verify`.

use std::collections::BTreeSet;

use gpu_interop_conformance::{Stop, Verdict};

use super::content::{Contents, MANIFEST, REPORTS, SUMS, unpacked};
use super::manifest::{Entry, Manifest, PACKAGE_SCHEMA, Summary};
use super::{VerifyArgs, read, sums};
use crate::exit_status::FAILED;
use crate::output::say;
use crate::report::merge;
use crate::sha256::of_file;

/// Prints the differences of an archive from its manifest, and returns the exit status.
pub(crate) fn verify(args: &VerifyArgs) -> Verdict<u8> {
    let path = args.package.display();
    let no_package = |reason: &str| Stop::failed(format!("{path} is no package: {reason}"));
    let mut files = unpacked(&read(&args.package)?).map_err(|stop| no_package(stop.reason()))?;
    let manifest = files.get(MANIFEST).ok_or_else(|| no_package("it has no MANIFEST.json"))?;
    let manifest: Manifest =
        serde_json::from_slice(manifest).map_err(|error| no_package(&format!("MANIFEST.json: {error}")))?;
    if manifest.schema != PACKAGE_SCHEMA {
        let version = manifest.schema;
        return Err(no_package(&format!("it is of version {version}; this command reads version {PACKAGE_SCHEMA}")));
    }
    let expected = args.command.as_deref().map(of_file).transpose()?;
    let mut faults = listed(&manifest, &files);
    faults.extend(summaries(&manifest, &files));
    if let Some(expected) = &expected {
        faults.extend(commands(&manifest, expected));
    }
    let list = files.remove(SUMS).unwrap_or_default();
    if String::from_utf8_lossy(&list) != sums(files.iter()) {
        faults.push(format!("{SUMS} is not that of the files"));
    }
    for Summary { path, backend, device, outcomes, command_sha256, .. } in &manifest.reports {
        let counts: Vec<String> =
            outcomes.iter().filter(|(_, count)| **count > 0).map(|(name, count)| format!("{count} {name}")).collect();
        let command = command_sha256.as_deref().unwrap_or("unknown");
        say!("{path}: {backend}, {device}: {}; command {command}", counts.join(", "));
    }
    for fault in &faults {
        say!("differs   {fault}");
    }
    if faults.is_empty() {
        say!("{path}: {} files match their checksums", manifest.files.len());
        return Ok(0);
    }
    Ok(FAILED)
}

/// Files that are missing, changed or not listed.
fn listed(manifest: &Manifest, files: &Contents) -> Vec<String> {
    let mut faults = Vec::new();
    for entry in &manifest.files {
        match files.get(&entry.path) {
            None => faults.push(format!("{} is missing", entry.path)),
            Some(bytes) if Entry::of(&entry.path, bytes) != *entry => {
                faults.push(format!("{} is not the file that was packed", entry.path));
            }
            Some(_) => {}
        }
    }
    let known: BTreeSet<&str> =
        manifest.files.iter().map(|entry| entry.path.as_str()).chain([MANIFEST, SUMS]).collect();
    faults
        .extend(files.keys().filter(|path| !known.contains(path.as_str())).map(|path| format!("{path} is not listed")));
    faults
}

/// Reports whose counts differ from those in the manifest.
fn summaries(manifest: &Manifest, files: &Contents) -> Vec<String> {
    let (mut counted, mut faults) = (Vec::new(), Vec::new());
    for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with(REPORTS)) {
        match merge::parse_bytes(bytes) {
            Ok(merged) => counted.extend(merged.reports.iter().map(|sourced| Summary::of(path, sourced))),
            Err(reason) => faults.push(format!("{path}: {reason}")),
        }
    }
    let claimed = |summary: &&Summary| !counted.contains(*summary);
    faults.extend(manifest.reports.iter().filter(claimed).map(|summary| {
        format!("{}: the manifest's counts, device or driver are not those of the report", summary.path)
    }));
    if counted.len() != manifest.reports.len() {
        faults.push(format!("the manifest lists {} runs, the reports have {}", manifest.reports.len(), counted.len()));
    }
    faults
}

/// Reports of another command.
fn commands(manifest: &Manifest, expected: &str) -> Vec<String> {
    let of_other = |summary: &&Summary| summary.command_sha256.as_deref() != Some(expected);
    let message = |summary: &Summary| {
        let found = summary.command_sha256.as_deref().unwrap_or("an unknown command");
        format!("{} was made by {found}, not by {expected}", summary.path)
    };
    manifest.reports.iter().filter(of_other).map(message).collect()
}
