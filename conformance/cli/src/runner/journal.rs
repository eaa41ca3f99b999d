//! The journal of a run: each result is written at once, as one line, and synced to the disk.
//!
//! A killed run continues from its journal. The lines are JSON, each an object with one field: `run` begins the run on a
//! device, `resumed` its continuation, `failed` is a case that failed once and runs again, `case` a result.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

use chrono::{DateTime, SubsecRound, Utc};
use gpu_interop::sync::lock;
use gpu_interop_conformance::{Stop, Verdict};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::case::micros;
use crate::files;
use crate::report::{CaseReport, Report};

/// A line of the journal. `device` is the ordinal, `at_us` the time since the run on the device began or continued,
/// microseconds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The run on a device begins.
    Run {
        device: usize,
        /// The report without results.
        report: Box<Report>,
        /// The names of all cases, in order.
        cases: Vec<String>,
    },
    /// A killed run continues.
    Resumed { device: usize, at: DateTime<Utc> },
    /// The first run of a case that runs again, before expectations.
    Failed { device: usize, at_us: u64, case: CaseReport },
    /// The result of a case.
    Case { device: usize, at_us: u64, case: CaseReport },
}

/// A journal that is being written, by a thread of its own: a disk may need longer than a case.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    /// The lines of an earlier process.
    earlier: Vec<Line>,
    /// The begin of the run on each device.
    began: Mutex<HashMap<usize, Instant>>,
    lines: Mutex<Option<Sender<Vec<u8>>>>,
    writer: Option<JoinHandle<std::io::Result<()>>>,
}

impl Journal {
    /// Creates the file.
    ///
    /// # Errors
    /// If the file exists, or cannot be created.
    pub(crate) fn create(path: &Path) -> Verdict<Self> {
        if path.metadata().is_ok_and(|found| found.is_file() && found.len() > 0) {
            let text = "has the journal of another run; continue that with --resume, or remove the file";
            return Err(Stop::failed(format!("{} {text}", path.display())));
        }
        let file = OpenOptions::new().append(true).create(true).open(path).map_err(|error| cannot(path, &error))?;
        Self::write_to(path, file, None, Vec::new())
    }

    /// Continues the journal of a killed run. Without a file, or with an empty one, a new one begins.
    ///
    /// # Errors
    /// If the file is not a journal, or cannot be read or written.
    pub(crate) fn resume(path: &Path) -> Verdict<Self> {
        let refused = |reason: &dyn std::fmt::Display| {
            Stop::failed(format!("--resume {}: {reason}; name a file that --journal wrote", path.display()))
        };
        let bytes = match files::read(path, files::MOST) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Self::create(path),
            found => found.map_err(|error| refused(&error))?,
        };
        let (lines, length) = parse(&bytes).map_err(|reason| refused(&reason))?;
        let open = || {
            let file = OpenOptions::new().append(true).open(path)?;
            // Windows cuts no file that is open for appending.
            let to_cut =
                if bytes.len() as u64 == length { None } else { Some(OpenOptions::new().write(true).open(path)?) };
            Ok((file, to_cut.map(|file| (file, length))))
        };
        let (file, to_cut) = open().map_err(|error: std::io::Error| cannot(path, &error))?;
        Self::write_to(path, file, to_cut, lines)
    }

    fn write_to(path: &Path, file: File, to_cut: Option<(File, u64)>, earlier: Vec<Line>) -> Verdict<Self> {
        sync_folder(path);
        let (sender, receiver) = mpsc::channel();
        let writer =
            std::thread::Builder::new().name("journal".into()).spawn(move || write(file, to_cut, &receiver))?;
        let (began, lines) = (Mutex::default(), Mutex::new(Some(sender)));
        Ok(Self { path: path.into(), earlier, began, lines, writer: Some(writer) })
    }

    /// Begins or continues the run on a device, and its clock. `report` has no results; `cases` are the names of all
    /// cases.
    ///
    /// # Errors
    /// If the journal is of another run.
    pub(super) fn begin(&self, device: usize, report: &Report, cases: &[String]) -> Verdict<Earlier> {
        lock(&self.began).insert(device, Instant::now());
        match earlier(&self.earlier, device, report, cases) {
            Ok(Some(earlier)) => {
                self.add(&Line::Resumed { device, at: Utc::now().trunc_subsecs(0) });
                Ok(earlier)
            }
            Ok(None) => {
                self.add(&Line::Run { device, report: Box::new(report.clone()), cases: cases.to_vec() });
                Ok(Earlier::default())
            }
            Err(what) => Err(Stop::failed(format!(
                "--resume {}: the journal is of another run: {what}; use the options of that run, or start another with \
                 --journal and another file",
                self.path.display()
            ))),
        }
    }

    /// Adds the first run of a case that runs again.
    pub(super) fn failed(&self, device: usize, case: CaseReport) {
        self.add(&Line::Failed { device, at_us: self.at_us(device), case });
    }

    /// Adds a result.
    pub(super) fn case(&self, device: usize, case: CaseReport) {
        self.add(&Line::Case { device, at_us: self.at_us(device), case });
    }

    fn at_us(&self, device: usize) -> u64 {
        lock(&self.began).get(&device).map_or(0, |began| micros(began.elapsed()))
    }

    fn add(&self, line: &Line) {
        let Ok(mut bytes) = serde_json::to_vec(line) else { return };
        bytes.push(b'\n');
        if let Some(lines) = &*lock(&self.lines) {
            // Fails after an error of the writer, which `finish` reports.
            let _ = lines.send(bytes);
        }
    }

    /// Waits until everything is on the disk.
    ///
    /// # Errors
    /// If it could not be written.
    pub(crate) fn finish(mut self) -> Verdict {
        self.end().map_err(|error| cannot(&self.path, &error))
    }

    fn end(&mut self) -> std::io::Result<()> {
        drop(lock(&self.lines).take());
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that writes the journal panicked")))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Reported by `finish`, which every complete run calls.
        let _ = self.end();
    }
}

/// Writes lines, and syncs those that have arrived together. An earlier journal whose last line is incomplete is cut before
/// the first of them; one of another run gets none and stays as it is.
fn write(mut file: File, mut to_cut: Option<(File, u64)>, lines: &Receiver<Vec<u8>>) -> std::io::Result<()> {
    while let Ok(mut bytes) = lines.recv() {
        if let Some((file, length)) = to_cut.take() {
            file.set_len(length)?;
        }
        bytes.extend(lines.try_iter().flatten());
        file.write_all(&bytes)?;
        match file.sync_data() {
            // A pipe or a device.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// The name of a new file is on the disk only with its folder.
fn sync_folder(path: &Path) {
    if cfg!(unix) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Some file systems cannot sync a folder.
        let _ = File::open(folder).and_then(|folder| folder.sync_all());
    }
}

fn cannot(path: &Path, error: &std::io::Error) -> Stop {
    Stop::failed(format!("cannot write the journal {}: {error}", path.display()))
}

/// The results of an earlier process of the run on one device.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// The start of the run.
    pub(super) started: Option<DateTime<Utc>>,
    /// The times at which it was continued, this one included.
    pub(super) resumed: Vec<DateTime<Utc>>,
    /// Duration of the earlier processes, microseconds.
    pub(super) took_us: u64,
    /// Results, by name.
    pub(super) results: HashMap<String, CaseReport>,
    /// Cases that failed once and run again, by name.
    pub(super) failed: HashMap<String, CaseReport>,
}

/// The lines, and their length in bytes. An incomplete last line is left out: the process was killed, or the machine lost
/// power, during its write. A whole JSON value that is no line is an error: another version of the command wrote it.
fn parse(bytes: &[u8]) -> Result<(Vec<Line>, u64), String> {
    let (mut lines, mut length, mut torn) = (Vec::new(), 0, None);
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        match (line.ends_with(b"\n"), serde_json::from_slice(line)) {
            (true, Ok(line)) if torn.is_none() => lines.push(line),
            (true, Ok(_)) => return Err(torn.unwrap_or_default()),
            (_, Err(error)) if is_json(line) => {
                return Err(format!("line {number} is not one of a journal: {error}"));
            }
            (_, Err(error)) => {
                torn.get_or_insert(format!("line {number} is not one of a journal: {error}"));
            }
            (false, Ok(_)) => {
                torn.get_or_insert(format!("line {number} has no end"));
            }
        }
        if torn.is_none() {
            length += line.len();
        }
    }
    match torn {
        // Not even the first line, or the beginning of one.
        Some(reason) if lines.is_empty() && (bytes.contains(&b'\n') || !may_begin_a_line(bytes)) => Err(reason),
        _ => Ok((lines, u64::try_from(length).unwrap_or(u64::MAX))),
    }
}

/// `true` unless the bytes are of another file. A file system may leave zeros.
fn may_begin_a_line(bytes: &[u8]) -> bool {
    const BEGIN: &[u8] = b"{\"";
    bytes.starts_with(BEGIN) || BEGIN.starts_with(bytes) || bytes.iter().all(|byte| *byte == 0)
}

fn is_json(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

/// The results of a device in an earlier journal, if it has any. The error names a difference between that run and this
/// one.
fn earlier(lines: &[Line], device: usize, report: &Report, cases: &[String]) -> Result<Option<Earlier>, String> {
    let mut found: Option<Earlier> = None;
    let mut last_us = 0;
    for line in lines {
        match line {
            Line::Run { device: of, report: before, cases: named } if *of == device => {
                if let Some(what) = difference(before, report).or((named != cases).then_some("the cases")) {
                    return Err(format!("{what} differ"));
                }
                found = Some(Earlier { started: before.started, ..Earlier::default() });
            }
            // `all` devices share a journal. The clock starts with each device and process.
            Line::Resumed { device: of, at } if *of == device => {
                if let Some(found) = &mut found {
                    found.resumed.push(*at);
                    found.took_us = found.took_us.saturating_add(std::mem::take(&mut last_us));
                }
            }
            Line::Failed { device: of, at_us, case } if *of == device => {
                last_us = *at_us;
                if let Some(found) = &mut found {
                    found.failed.insert(case.name(), case.clone());
                }
            }
            Line::Case { device: of, at_us, case } if *of == device => {
                last_us = *at_us;
                if let Some(found) = &mut found {
                    found.failed.remove(&case.name());
                    found.results.insert(case.name(), case.clone());
                }
            }
            _ => {}
        }
    }
    if let Some(found) = &mut found {
        found.took_us = found.took_us.saturating_add(last_us);
        found.resumed.push(Utc::now().trunc_subsecs(0));
    }
    Ok(found)
}

/// The first difference between two runs that prevents a continuation.
fn difference(before: &Report, now: &Report) -> Option<&'static str> {
    let exporters = |report: &Report| report.exporters.iter().map(|found| found.available.clone()).collect::<Vec<_>>();
    [
        (before.schema != now.schema || before.tool != now.tool, "the versions of the command"),
        (before.backend != now.backend || before.emulated != now.emulated, "the drivers"),
        (before.device != now.device, "the devices"),
        (exporters(before) != exporters(now), "the exporters"),
        (before.seed != now.seed || before.repeat != now.repeat, "--seed or --repeat"),
        (before.cases != now.cases, "--cases or --tier"),
        (before.shard != now.shard, "--shard"),
    ]
    .into_iter()
    .find_map(|(differs, what)| differs.then_some(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(device: usize) -> String {
        let line = Line::Resumed { device, at: DateTime::UNIX_EPOCH };
        format!("{}\n", serde_json::to_string(&line).expect("a line"))
    }

    fn parsed(text: &str) -> Result<(usize, u64), String> {
        parse(text.as_bytes()).map(|(lines, length)| (lines.len(), length))
    }

    #[test]
    fn half_a_line_at_the_end_is_left_out() {
        let (one, two) = (line(0), line(1));
        let whole = one.clone() + &two;
        let length = |text: &str| u64::try_from(text.len()).expect("short");
        assert_eq!(parsed(&whole), Ok((2, length(&whole))));
        for cut in 1..=two.len() {
            assert_eq!(parsed(&whole[..whole.len() - cut]), Ok((1, length(&one))), "without {cut} bytes");
        }
        // A file system may leave zeros.
        assert_eq!(parsed(&format!("{one}\0\0\0\n\0\0")), Ok((1, length(&one))));
        assert_eq!(parsed(""), Ok((0, 0)));
        assert_eq!(parsed(&one[..5]), Ok((0, 0)));
    }

    #[test]
    fn another_file_is_no_journal() {
        assert!(parsed("{\n  \"schema\": 1\n}\n").is_err());
        // It would be cut.
        for whole in ["{\"schema\": 1}", "[]", "a note", "{ \"a"] {
            assert!(parsed(whole).is_err_and(|reason| reason.starts_with("line 1 ")), "{whole}");
        }
        assert_eq!(parsed("{\"ru"), Ok((0, 0)));
        assert_eq!(parsed("\0\0"), Ok((0, 0)));
        let broken = format!("{}{{}}\n{}", line(0), line(1));
        assert!(parsed(&broken).is_err_and(|reason| reason.starts_with("line 2 ")), "a line between others");
        let newer = format!("{}{{\"paused\":{{}}}}\n", line(0));
        assert!(parsed(&newer).is_err_and(|reason| reason.starts_with("line 2 ")), "a last line of another version");
    }

    #[test]
    fn a_run_continues_only_with_what_it_began_with() {
        let report = crate::report::example();
        let names = vec!["a.b".to_owned()];
        let line = |report: &Report| Line::Run { device: 0, report: Box::new(report.clone()), cases: names.clone() };
        let refused = |now: &Report, names: &[String]| earlier(&[line(&report)], 0, now, names).err();
        assert_eq!(refused(&report, &names), None);
        // What only describes the run may change.
        let renamed = Report { build: Some("b".into()), duration_us: 7, host: None, ..report.clone() };
        assert_eq!(refused(&renamed, &names), None);
        assert_eq!(refused(&report, &["a.c".to_owned()]).as_deref(), Some("the cases differ"));
        let changed = |change: fn(&mut serde_json::Value)| {
            let mut value = serde_json::to_value(&report).expect("JSON");
            change(&mut value);
            let now: Report = serde_json::from_value(value).expect("a report");
            refused(&now, &names)
        };
        for (change, what) in [
            ((|report| report["schema"] = 1.into()) as fn(&mut serde_json::Value), "the versions of the command"),
            (|report| report["tool"]["version"] = "9".into(), "the versions of the command"),
            (|report| report["backend"]["driver"] = "another".into(), "the drivers"),
            (|report| report["emulated"] = serde_json::json!({"kernel_driver": "d"}), "the drivers"),
            (|report| report["device"]["name"] = "another".into(), "the devices"),
            (|report| report["exporters"][0]["available"]["driver"] = "another".into(), "the exporters"),
            (|report| report["seed"] = 2.into(), "--seed or --repeat"),
            (|report| report["repeat"] = 2.into(), "--seed or --repeat"),
            (|report| report["cases"] = serde_json::json!({"name": "x", "sha256": "0"}), "--cases or --tier"),
            (
                |report| {
                    report["shard"] = serde_json::json!({
                        "index": 1, "count": 1, "total": 0, "cases_sha256": "", "positions": [],
                    });
                },
                "--shard",
            ),
        ] {
            assert_eq!(changed(change), Some(format!("{what} differ")));
        }
    }
}
