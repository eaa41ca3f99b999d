//! The files of a package, and the archive.

use std::collections::BTreeMap;
use std::io::Read;

use gpu_interop_conformance::{Stop, Verdict};

use crate::output::visible;
use crate::report::{Report, text};

pub(super) const MANIFEST: &str = "MANIFEST.json";
pub(super) const SUMS: &str = "SHA256SUMS";
pub(super) const REPORTS: &str = "reports";
pub(super) const LOGS: &str = "logs";
pub(super) const ATTACHMENTS: &str = "attachments";

/// The files of an archive, by name.
pub(super) type Contents = BTreeMap<String, Vec<u8>>;

/// The files of a package.
#[derive(Debug, Default)]
pub(super) struct Files(Contents);

impl Files {
    /// Adds a file to a folder, with a number if the name exists, and returns its path.
    pub(super) fn add(&mut self, folder: &str, name: &str, bytes: Vec<u8>) -> String {
        let name: String =
            name.chars().map(|c| if c == '/' || c == '\\' || c.is_control() { '_' } else { c }).collect();
        let numbered = |number: usize| match (number, name.rsplit_once('.')) {
            (1, _) => format!("{folder}/{name}"),
            (_, Some((stem, extension))) => format!("{folder}/{stem}-{number}.{extension}"),
            (_, None) => format!("{folder}/{name}-{number}"),
        };
        let mut number = 1;
        while self.0.contains_key(&numbered(number)) {
            number += 1;
        }
        let path = numbered(number);
        self.insert(&path, bytes);
        path
    }

    pub(super) fn insert(&mut self, path: &str, bytes: Vec<u8>) {
        self.0.insert(path.into(), bytes);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &Vec<u8>)> {
        self.0.iter()
    }
}

/// The logs of a report as text: those of failed cases, and messages of the kernel.
pub(super) fn logs(report: &Report) -> Vec<(String, String)> {
    let of_case = |case: &crate::report::CaseReport| {
        let mut log = case.log.clone().unwrap_or_default();
        if !log.is_empty() && !log.ends_with('\n') {
            log.push('\n');
        }
        log += &text::kernel(&case.kernel_log);
        log += &text::calls(case.calls.as_ref());
        log += &text::attempts(case);
        let text = format!("{}\n{log}", text::line(case));
        (case.name(), visible(&text).into_owned(), log.is_empty())
    };
    let cases = report.results.iter().map(of_case).filter(|(.., is_empty)| !is_empty);
    let mut all: Vec<(String, String)> = cases.map(|(name, log, _)| (name, log)).collect();
    if !report.kernel_log.is_empty() {
        all.push(("kernel".into(), visible(&text::kernel(&report.kernel_log)).into_owned()));
    }
    all
}

/// A tar archive, the same for the same files.
pub(super) fn archive(files: &Files) -> Verdict<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, bytes) in files.iter() {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        archive.append_data(&mut header, path, bytes.as_slice())?;
    }
    Ok(archive.into_inner()?)
}

/// The files of an archive, in memory.
///
/// # Errors
/// If it is no archive, has a file twice, or has anything but files.
pub(super) fn unpacked(bytes: &[u8]) -> Verdict<Contents> {
    let mut files = Contents::new();
    for entry in tar::Archive::new(bytes).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.to_string_lossy().into_owned();
        if entry.header().entry_type() != tar::EntryType::Regular {
            return Err(Stop::failed(format!("{path} is not a file")));
        }
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        if files.insert(path.clone(), bytes).is_some() {
            return Err(Stop::failed(format!("{path} is in the archive twice")));
        }
    }
    Ok(files)
}
