//! The journal of a run: each result is written at once, as one line, and synced to the disk.
//!
//! A killed run continues from its journal. The lines are JSON, each an object with one field: `run` begins the run on a
//! device, `resumed` its continuation, `failed` is a case that failed once and runs again, `case` a result.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use chrono::{SubsecRound, Utc};
use gpu_interop_conformance::{Stop, Verdict};

use super::case::micros;
use super::line::Line;
use super::resume::{self, Earlier};
use crate::files;
use crate::report::{CaseReport, Report};

/// A journal that is being written, by a thread of its own: a disk may need longer than a case.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    /// The lines of an earlier process.
    earlier: Vec<Line>,
    /// The begin of the run on the device.
    began: Mutex<Instant>,
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
            return Err(Stop::Failed(format!("{} {text}", path.display())));
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
            Stop::Failed(format!("--resume {}: {reason}; name a file that --journal wrote", path.display()))
        };
        let bytes = match files::read(path, files::MOST) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Self::create(path),
            found => found.map_err(|error| refused(&error))?,
        };
        let (lines, length) = resume::parse(&bytes).map_err(|reason| refused(&reason))?;
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
        let (began, lines) = (Mutex::new(Instant::now()), Mutex::new(Some(sender)));
        Ok(Self { path: path.into(), earlier, began, lines, writer: Some(writer) })
    }

    /// Begins or continues the run on a device, and its clock. `report` has no results; `cases` are the names of all
    /// cases.
    ///
    /// # Errors
    /// If the journal is of another run.
    pub(super) fn begin(&self, device: usize, report: &Report, cases: &[String]) -> Verdict<Earlier> {
        *self.began.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        match resume::earlier(&self.earlier, device, report, cases) {
            Ok(Some(earlier)) => {
                self.add(&Line::Resumed { device, at: Utc::now().trunc_subsecs(0) });
                Ok(earlier)
            }
            Ok(None) => {
                self.add(&Line::Run { device, report: Box::new(report.clone()), cases: cases.to_vec() });
                Ok(Earlier::default())
            }
            Err(what) => Err(Stop::Failed(format!(
                "--resume {}: the journal is of another run: {what}; use the options of that run, or start another with \
                 --journal and another file",
                self.path.display()
            ))),
        }
    }

    /// Adds the first run of a case that runs again.
    pub(super) fn failed(&self, device: usize, case: CaseReport) {
        self.add(&Line::Failed { device, at_us: self.at_us(), case });
    }

    /// Adds a result.
    pub(super) fn case(&self, device: usize, case: CaseReport) {
        self.add(&Line::Case { device, at_us: self.at_us(), case });
    }

    fn at_us(&self) -> u64 {
        micros(self.began.lock().unwrap_or_else(PoisonError::into_inner).elapsed())
    }

    fn add(&self, line: &Line) {
        let Ok(mut bytes) = serde_json::to_vec(line) else { return };
        bytes.push(b'\n');
        if let Some(lines) = &*self.lines.lock().unwrap_or_else(PoisonError::into_inner) {
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
        drop(self.lines.lock().unwrap_or_else(PoisonError::into_inner).take());
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
    Stop::Failed(format!("cannot write the journal {}: {error}", path.display()))
}
