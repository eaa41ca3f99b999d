//! `conformance package` and `conformance verify`: results as one archive with checksums.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use chrono::{DateTime, SubsecRound, Utc};
use clap::Args;
use gpu_interop_conformance::{Stop, Verdict};
use serde::{Deserialize, Serialize};

use crate::cli::FAILED;
use crate::files::{self, check_writable, to_json, write_bytes};
use crate::output::{counted, say, visible};
use crate::report::{Report, Sourced, Tool, merge, summarize, text};
use crate::sha256::{self, of_file};

/// The options of `conformance package`.
#[derive(Debug, Args)]
pub(crate) struct PackageArgs {
    /// JSON reports of `run`, `bench` or `merge`.
    #[arg(required = true, value_name = "REPORT")]
    reports: Vec<PathBuf>,
    /// A further file: a log, expectations, a page. May be repeated.
    #[arg(long, value_name = "FILE")]
    attach: Vec<PathBuf>,
    /// The archive: a tar file.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
}

/// The options of `conformance verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// An archive of `conformance package`.
    package: PathBuf,
    /// The file of the command that must have made every report of a run.
    #[arg(long, value_name = "FILE")]
    command: Option<PathBuf>,
}

/// Writes an archive.
pub(crate) fn pack(args: &PackageArgs) -> Verdict {
    check_writable(&args.output)?;
    let (mut files, mut reports) = (Files::default(), Vec::new());
    for path in &args.reports {
        let merged = merge::read(path)?;
        let name = files.add(REPORTS, &file_name(path)?, read(path)?);
        reports.extend(merged.reports.iter().map(|sourced| Summary::of(&name, sourced)));
        for sourced in &merged.reports {
            for (case, log) in logs(&sourced.report) {
                files.add(LOGS, &format!("{}-{case}.txt", stem(&name)), log.into_bytes());
            }
        }
    }
    for path in &args.attach {
        files.add(ATTACHMENTS, &file_name(path)?, read(path)?);
    }
    let command = std::env::current_exe()?;
    let manifest = Manifest {
        schema: PACKAGE_SCHEMA,
        tool: Tool::this(),
        created: Utc::now().trunc_subsecs(0),
        command_sha256: of_file(&command)?,
        reports,
        files: files.iter().map(|(name, bytes)| Entry::of(name, bytes)).collect(),
    };
    files.insert(MANIFEST, to_json(&manifest)?.into_bytes());
    files.insert(SUMS, sums(files.iter()).into_bytes());
    write_bytes(&args.output, &archive(&files)?)?;
    let [files, reports] =
        [(files.iter().count(), "file"), (args.reports.len(), "report")].map(|(count, noun)| counted(count, noun));
    say!("{}: {files} of {reports}", args.output.display());
    Ok(())
}

/// Checksums in the format of `sha256sum`.
fn sums<'a>(files: impl Iterator<Item = (&'a String, &'a Vec<u8>)>) -> String {
    files.map(|(name, bytes)| format!("{}  {name}\n", sha256::of(bytes))).collect()
}

fn read(path: &Path) -> Verdict<Vec<u8>> {
    files::read(path, files::MOST).map_err(|error| Stop::failed(format!("{}: {error}", path.display())))
}

fn file_name(path: &Path) -> Verdict<String> {
    let name = path.file_name().ok_or_else(|| Stop::failed(format!("{} is not a file", path.display())))?;
    Ok(name.to_string_lossy().into_owned())
}

fn stem(name: &str) -> &str {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.strip_suffix(".json").unwrap_or(name)
}

const MANIFEST: &str = "MANIFEST.json";
const SUMS: &str = "SHA256SUMS";
const REPORTS: &str = "reports";
const LOGS: &str = "logs";
const ATTACHMENTS: &str = "attachments";

/// The files of an archive, by name.
type Contents = BTreeMap<String, Vec<u8>>;

/// The files of a package.
#[derive(Debug, Default)]
struct Files(Contents);

impl Files {
    /// Adds a file to a folder, with a number if the name exists, and returns its path.
    fn add(&mut self, folder: &str, name: &str, bytes: Vec<u8>) -> String {
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

    fn insert(&mut self, path: &str, bytes: Vec<u8>) {
        self.0.insert(path.into(), bytes);
    }

    fn iter(&self) -> impl Iterator<Item = (&String, &Vec<u8>)> {
        self.0.iter()
    }
}

/// The logs of a report as text: those of failed cases, and messages of the kernel.
fn logs(report: &Report) -> Vec<(String, String)> {
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
fn archive(files: &Files) -> Verdict<Vec<u8>> {
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
fn unpacked(bytes: &[u8]) -> Verdict<Contents> {
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

/// The schema version of manifests. Incremented with each incompatible change.
const PACKAGE_SCHEMA: u32 = 1;

/// The manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    schema: u32,
    /// The program that made the package.
    tool: Tool,
    created: DateTime<Utc>,
    /// SHA-256 of that program's file.
    command_sha256: String,
    /// The reports of runs.
    reports: Vec<Summary>,
    /// All files but the manifest and the list of checksums.
    files: Vec<Entry>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    path: String,
    bytes: usize,
    sha256: String,
}

impl Entry {
    fn of(path: &str, bytes: &[u8]) -> Self {
        Self { path: path.into(), bytes: bytes.len(), sha256: sha256::of(bytes) }
    }
}

/// The report of a run, in brief.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Summary {
    path: String,
    /// The source within a merged report.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    source: String,
    backend: String,
    driver: String,
    device: String,
    started: Option<DateTime<Utc>>,
    /// The count of each outcome.
    outcomes: BTreeMap<String, usize>,
    /// SHA-256 of the command that made the report; absent from reports of earlier versions.
    command_sha256: Option<String>,
}

impl Summary {
    fn of(path: &str, sourced: &Sourced<Report>) -> Self {
        let Sourced { source, report } = sourced;
        Self {
            path: path.into(),
            source: source.clone(),
            backend: report.backend.name.clone(),
            driver: report.backend.driver.clone(),
            device: report.device.name.clone(),
            started: report.started,
            // Counted, not copied.
            outcomes: summarize(&report.results),
            command_sha256: report.host.as_ref().and_then(|host| host.command_sha256.clone()),
        }
    }
}

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
