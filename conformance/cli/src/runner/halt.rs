//! Early ends of a run: interruption, `--max-failures`, a lost GPU.
//!
//! A failure can end a driver's context in its process only: the next process works. A GPU is lost if several new
//! processes in succession cannot open it.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use gpu_interop::ErrorKind;
use gpu_interop::sync::lock;
use gpu_interop_conformance::{ErrorReport, Outcome, Stop, Verdict};

use super::case::Ended;
use crate::interrupt;
use crate::report::{Cause, Environment, Stopped};

/// Codes after which the GPU may be lost, whatever the kind of the error. CUDA and HIP use the same numbers: not
/// initialised (3), device unavailable (46), invalid device (101), uncorrectable errors of memory (214) and of `NVLink` (220),
/// system not ready (802), unknown (999). Vulkan: initialisation failed (-3).
const LOST_CODES: [i64; 8] = [3, 46, 101, 214, 220, 802, 999, -3];
/// Kinds of errors after which the GPU may be lost.
const LOST_KINDS: [ErrorKind; 2] = [ErrorKind::DeviceLost, ErrorKind::NoDevice];

/// Pauses before the attempts to open the GPU: drivers need seconds for a reset.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(2), Duration::from_secs(5)];

/// The reason to start no more cases, if there is one.
#[derive(Debug)]
pub(super) struct Halt {
    stopped: Mutex<Option<Stopped>>,
    failures: AtomicUsize,
    most_failures: Option<NonZeroUsize>,
    /// Held during a check for a lost GPU.
    checking: Mutex<()>,
}

impl Halt {
    /// Stops after this number of failures, if any.
    pub(super) fn new(most_failures: Option<NonZeroUsize>) -> Self {
        Self { stopped: Mutex::default(), failures: AtomicUsize::new(0), most_failures, checking: Mutex::new(()) }
    }

    /// The result of each remaining case; `None` if the run continues.
    pub(super) fn stop(&self) -> Option<Stop> {
        if interrupt::is_interrupted() {
            return Some(interrupt::stop());
        }
        self.lock().as_ref().map(|stopped| Stop::skipped(format!("not run: {stopped}")))
    }

    /// The cause of the early end, if any.
    pub(super) fn stopped(&self) -> Option<Stopped> {
        let interrupted = || Stopped { cause: Cause::Interrupted, reason: "interrupted".into() };
        self.lock().clone().or_else(|| interrupt::is_interrupted().then(interrupted))
    }

    /// `true` if the GPU is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.lock().as_ref().is_some_and(|stopped| stopped.cause == Cause::GpuLost)
    }

    /// Counts a failure, and stops the run if it is the last permitted one.
    pub(super) fn count_failure(&self) {
        // Relaxed: only the count matters.
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(most) = self.most_failures.filter(|most| failures >= most.get()) {
            let reason = format!("{most} scenarios have failed (--max-failures)");
            self.lock().get_or_insert(Stopped { cause: Cause::MaxFailures, reason });
        }
    }

    /// Checks whether the GPU is lost after `case`, and stops the run if it is.
    pub(super) fn check_gpu(&self, case: &str, probe: impl Fn() -> Option<String>) {
        let _checking = lock(&self.checking);
        if self.is_lost() || interrupt::is_interrupted() {
            return;
        }
        if let Some(why) = confirmed(probe) {
            let reason = format!("the GPU is lost after {case}: {why}; reset it or restart the machine, then --resume");
            *self.lock() = Some(Stopped { cause: Cause::GpuLost, reason });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Stopped>> {
        lock(&self.stopped)
    }
}

/// `true` if the GPU may be lost after this end of a case.
pub(super) fn is_suspect(ended: &Ended) -> bool {
    match ended.outcome {
        Outcome::Crashed | Outcome::TimedOut => true,
        Outcome::Failed => {
            let error = ended.error.as_ref();
            let is_typed = error.is_some_and(|ErrorReport { kind, code, .. }| {
                LOST_KINDS.contains(kind) || code.is_some_and(|code| LOST_CODES.contains(&code))
            });
            // Another process of the scenario printed its error.
            let is_printed = |log: &str| LOST_KINDS.iter().any(|kind| log.contains(&format!(": {kind}: ")));
            ended.is_gpu_error || is_typed || ended.log.as_deref().is_some_and(is_printed)
        }
        _ => false,
    }
}

/// The reason why a new process cannot use what this run used; `None` if it can.
pub(super) fn missing(before: &Environment, now: Verdict<Environment>) -> Option<String> {
    let now = match now {
        Ok(now) => now,
        Err(stop) => return Some(format!("a new process cannot open it: {}", stop.reason())),
    };
    if now.device != before.device {
        return Some(format!("a new process finds another device: {}", now.device));
    }
    let used = before.exporters.iter().filter(|exporter| exporter.available.is_some());
    used.filter_map(|exporter| now.exporter(exporter.name)).find_map(|exporter| match &exporter.stop {
        Some(stop) if stop.is_failure() => {
            Some(format!("a new process cannot open the exporter {}: {}", exporter.name, stop.reason))
        }
        _ => None,
    })
}

/// The reason of the last of several probes, if all fail.
pub(super) fn confirmed(probe: impl Fn() -> Option<String>) -> Option<String> {
    let mut why = None;
    for pause in PAUSES {
        std::thread::sleep(pause);
        if interrupt::is_interrupted() {
            return None;
        }
        why = Some(probe()?);
    }
    why
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn lost_contexts_and_ends_of_processes_are_suspect() {
        let ended = |outcome, reason: &str| Ended::without_log(outcome, Some(reason.into()));
        let failed = |kind, code: Option<i64>| {
            let error = Some(ErrorReport { kind, operation: "cuStreamSynchronize".into(), code });
            Ended { error, ..ended(Outcome::Failed, "failed") }
        };
        assert!(
            is_suspect(&failed(ErrorKind::DeviceLost, Some(719))) && is_suspect(&failed(ErrorKind::NoDevice, None))
        );
        assert!(
            is_suspect(&failed(ErrorKind::Driver, Some(999)))
                && is_suspect(&failed(ErrorKind::ImportRejected, Some(-3)))
        );
        assert!(
            !is_suspect(&failed(ErrorKind::ImportRejected, Some(1))) && !is_suspect(&failed(ErrorKind::Timeout, None))
        );
        assert!(
            is_suspect(&ended(Outcome::Crashed, "signal 6")) && is_suspect(&ended(Outcome::TimedOut, "did not end"))
        );
        assert!(!is_suspect(&ended(Outcome::Failed, "bytes differ")));
        let with_log =
            |log: &str| Ended { log: Some(log.into()), ..ended(Outcome::Failed, "the other process failed") };
        assert!(is_suspect(&with_log("vkQueueSubmit: device lost: the device is lost")));
        assert!(!is_suspect(&with_log("cuMemAlloc: out of memory: no device memory")));
        let with_message =
            |outcome| Ended { is_gpu_error: true, ..Ended::without_log(outcome, Some("bytes differ".into())) };
        assert!(is_suspect(&with_message(Outcome::Failed)) && !is_suspect(&with_message(Outcome::Passed)));
        assert!(!is_suspect(&Ended { outcome: Outcome::Skipped, ..failed(ErrorKind::NoDevice, Some(100)) }));
    }

    #[test]
    fn a_gpu_that_comes_back_is_not_lost() {
        let probes = Cell::new(0);
        let probe = || {
            probes.set(probes.get() + 1);
            (probes.get() < 2).then(|| "no device".to_owned())
        };
        assert_eq!((confirmed(probe), probes.get()), (None, 2));
    }

    #[test]
    fn what_a_run_used_must_be_there() {
        let report = crate::report::example();
        let found = Environment {
            backend: report.backend,
            emulated: None,
            device: report.device,
            devices: Vec::new(),
            capabilities: report.capabilities,
            exporters: report.exporters,
            passed_over: Vec::new(),
        };
        let used = found.exporters.iter().position(|exporter| exporter.available.is_some()).expect("an exporter");
        assert_eq!(missing(&found, Ok(found.clone())), None);
        let without = |stop: Stop| {
            let mut now = found.clone();
            now.exporters[used].available = None;
            now.exporters[used].stop = Some(stop);
            missing(&found, Ok(now))
        };
        assert!(without(Stop::failed("broken".into())).is_some_and(|why| why.ends_with(": broken")));
        assert_eq!(without(Stop::skipped("not here".into())), None);
        let mut other = found.clone();
        other.device.name = "another".into();
        assert!(missing(&found, Ok(other)).is_some_and(|why| why.contains("another device: another")));
        assert!(missing(&found, Err(Stop::failed("no device".into()))).is_some_and(|why| why.ends_with(": no device")));
        // One that the run did not use may be broken.
        let mut unused = found.clone();
        unused.exporters[used].available = None;
        let mut now = unused.clone();
        now.exporters[used].stop = Some(Stop::failed("broken".into()));
        assert_eq!(missing(&unused, Ok(now)), None);
    }
}
