//! `conformance package` and `conformance verify`: results as one archive with checksums.

mod content;
mod manifest;
mod verify;

use std::path::{Path, PathBuf};

use chrono::{SubsecRound, Utc};
use clap::Args;
use gpu_interop_conformance::{Stop, Verdict};

use crate::files::{self, check_writable, to_json, write_bytes};
use crate::output::{counted, say};
use crate::report::{Tool, merge};
use crate::sha256::{self, of_file};

use content::{ATTACHMENTS, Files, LOGS, MANIFEST, REPORTS, SUMS};
use manifest::{Entry, Manifest, PACKAGE_SCHEMA, Summary};

pub(crate) use verify::verify;

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
            for (case, log) in content::logs(&sourced.report) {
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
    write_bytes(&args.output, &content::archive(&files)?)?;
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
