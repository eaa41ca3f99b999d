//! The campaign: processes in which faults are injected, restarted after an early end, and its findings.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError, mpsc};
use std::{fmt, thread};

use gpu_interop_test_support::this_program;
use libtest_mimic::Failed;
use serde::{Deserialize, Serialize};

use crate::child::{Line, Task, receive};
use crate::simulator::Driver;

/// The argument of a process in which faults are injected; the task follows.
pub(crate) const CHILD: &str = "meet-faults";

/// Time without a line from a process, in limits of an exercise. The process itself reports an exceeded limit first, if
/// it can.
const SILENCE_LIMITS: u32 = 3;

/// A task, and the settings of its process.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) task: Task,
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// Runs all jobs, two per processor at a time: an exercise waits in part of its time.
pub(crate) fn run(jobs: Vec<Job>) -> Result<Report, Failed> {
    let workers = 2 * thread::available_parallelism().map_or(1, usize::from);
    let (jobs, report) = (Mutex::new(VecDeque::from(jobs)), Mutex::new(Report::default()));
    let work = || -> Result<(), Failed> {
        loop {
            let Some(job) = lock(&jobs).pop_front() else { return Ok(()) };
            let (part, rest) = meet(&job)?;
            lock(&report).add(part);
            lock(&jobs).extend(rest.map(|from| Job { task: Task { from, ..job.task.clone() }, ..job }));
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a worker"))
    })?;
    Ok(report.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Runs one process: its findings, and the next fault, if there is one.
fn meet(job: &Job) -> Result<(Report, Option<usize>), Failed> {
    let driver = Driver::named(&job.task.driver);
    let mut process = Running::start(job)?;
    let mut report = Report::default();
    let mut open: Option<(usize, String)> = None;
    let mut next = job.task.from;
    let end = loop {
        match receive(&process.lines, job.task.limit * SILENCE_LIMITS) {
            Ok(line) => match line? {
                Line::Begin { index, fault } => open = Some((index, fault)),
                Line::End { defects } => {
                    let (index, fault) = open.take().ok_or("an end without a beginning")?;
                    next = index + 1;
                    report.faults += 1;
                    let finding = |(defect, text)| Finding { driver: driver.name, fault: fault.clone(), defect, text };
                    report.findings.extend(defects.into_iter().map(finding));
                }
                Line::Done { left } => return Ok((report, left.then_some(next))),
            },
            Err(RecvTimeoutError::Timeout) => break (Defect::Hang, "nothing is heard of the process".to_owned()),
            Err(RecvTimeoutError::Disconnected) => break (Defect::Crash, process.end()),
        }
    };
    drop(process);
    let (defect, text) = end;
    let Some((index, fault)) = open else {
        // The process could not continue after its last finding.
        let reported = report.findings.last().is_some_and(|finding| finding.defect == Defect::Hang);
        return if reported { Ok((report, Some(next))) } else { Err(format!("{}: {text}", job.task.function).into()) };
    };
    report.faults += 1;
    report.findings.push(Finding { driver: driver.name, fault, defect, text });
    Ok((report, Some(index + 1)))
}

/// A process, killed on drop.
struct Running {
    child: Child,
    lines: mpsc::Receiver<Result<Line, Failed>>,
    complaints: Option<thread::JoinHandle<String>>,
}

impl Running {
    fn start(job: &Job) -> Result<Self, Failed> {
        let driver = Driver::named(&job.task.driver);
        let mut command = this_program()?;
        command.arg(CHILD).arg(serde_json::to_string(&job.task)?);
        command.env(driver.vendor.variable(), &job.task.library).envs(driver.environment.iter().copied());
        command.envs(job.variables.iter().map(|(name, value)| (name, value)));
        // A panic is reported by its message.
        command.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (output, mut errors) = (child.stdout.take().ok_or("a pipe")?, child.stderr.take().ok_or("a pipe")?);
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let parsed = line
                    .map_err(Failed::from)
                    .and_then(|line| serde_json::from_str(&line).map_err(|error| format!("{error}: {line}").into()));
                if sender.send(parsed).is_err() {
                    return;
                }
            }
        });
        let complaints = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Ok(Self { child, lines, complaints: Some(complaints) })
    }

    /// Its exit status and its error output.
    fn end(&mut self) -> String {
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let complaints = self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        format!("{status}: {}", complaints.trim_end())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A defect of the library under a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Defect {
    /// The process crashed, or a thread panicked.
    Crash,
    /// A wait that does not end.
    Hang,
    /// A descriptor, a mapping or an object of the driver is leaked.
    Leak,
    /// An error without the failed function, its code, or the right kind.
    Untyped,
    /// A failure that is not reported.
    Hidden,
    /// A violated guarantee: wrong data, or a handle that is not returned.
    Broken,
    /// The library fails afterwards, without faults.
    NotAgain,
    /// The function of the fault was never called.
    NotMet,
}

impl Defect {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Crash, "crashes"),
        (Self::Leak, "leaks"),
        (Self::Untyped, "untyped errors"),
        (Self::Hidden, "hidden failures"),
        (Self::Hang, "hangs"),
        (Self::Broken, "broken promises"),
        (Self::NotAgain, "not usable afterwards"),
        (Self::NotMet, "never met"),
    ];
}

/// A defect, and the fault that shows it.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) driver: &'static str,
    pub(crate) fault: String,
    pub(crate) defect: Defect,
    pub(crate) text: String,
}

/// All findings.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// How many faults were injected.
    pub(crate) faults: usize,
    pub(crate) findings: Vec<Finding>,
}

impl Report {
    pub(crate) fn add(&mut self, other: Self) {
        self.faults += other.faults;
        self.findings.extend(other.findings);
    }

    /// Findings of one kind.
    pub(crate) fn count(&self, defect: Defect) -> usize {
        self.findings.iter().filter(|finding| finding.defect == defect).count()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} faults over cuda and hip:", self.faults)?;
        for (index, (defect, name)) in Defect::ALL.into_iter().enumerate() {
            write!(f, "{} {} {name}", if index == 0 { "" } else { "," }, self.count(defect))?;
        }
        Ok(())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {:?}: {}", self.driver, self.fault, self.defect, self.text)
    }
}
