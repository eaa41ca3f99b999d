//! Early ends of a run: interruption, `--max-failures`, a lost GPU.
//!
//! A failure can end a driver's context in its process only: the next process works. A GPU is lost if several new
//! processes in succession cannot open it.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpu_interop_conformance::{Outcome, Stop, Verdict};

use super::case::Ended;
use crate::interrupt;
use crate::report::{Cause, Environment, Stopped};

/// Texts of failures after which the GPU may be lost: codes of CUDA, HIP, Vulkan and Direct3D for a lost context or
/// device. The kernel's messages are evidence of their own ([`Ended::is_gpu_error`]).
const SIGNS: [&str; 22] = [
    "CUDA_ERROR_NOT_INITIALIZED",
    "CUDA_ERROR_NO_DEVICE",
    "CUDA_ERROR_INVALID_DEVICE",
    "CUDA_ERROR_DEVICE_UNAVAILABLE",
    "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_NVLINK_UNCORRECTABLE",
    "CUDA_ERROR_ILLEGAL_ADDRESS",
    "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    "CUDA_ERROR_ASSERT",
    "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "CUDA_ERROR_MISALIGNED_ADDRESS",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_LAUNCH_FAILED",
    "CUDA_ERROR_SYSTEM_NOT_READY",
    "CUDA_ERROR_UNKNOWN",
    "hipError",
    "VK_ERROR_DEVICE_LOST",
    "VK_ERROR_INITIALIZATION_FAILED",
    "DXGI_ERROR_DEVICE_",
];

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
        self.lock().as_ref().map(|stopped| Stop::Skipped(format!("not run: {stopped}")))
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
        let _checking = self.checking.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_lost() || interrupt::is_interrupted() {
            return;
        }
        if let Some(why) = confirmed(probe) {
            let reason = format!("the GPU is lost after {case}: {why}; reset it or restart the machine, then --resume");
            *self.lock() = Some(Stopped { cause: Cause::GpuLost, reason });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Stopped>> {
        self.stopped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `true` if the GPU may be lost after this end of a case.
pub(super) fn is_suspect(ended: &Ended) -> bool {
    match ended.outcome {
        Outcome::Crashed | Outcome::TimedOut => true,
        Outcome::Failed => {
            let texts = [&ended.reason, &ended.log];
            ended.is_gpu_error || texts.into_iter().flatten().any(|text| SIGNS.iter().any(|sign| text.contains(sign)))
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
        Some(Stop::Failed(reason)) => {
            Some(format!("a new process cannot open the exporter {}: {reason}", exporter.name))
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
        let ended = |outcome, reason: &str| is_suspect(&Ended::without_log(outcome, Some(reason.into())));
        assert!(ended(Outcome::Failed, "cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED (719)"));
        assert!(ended(Outcome::Failed, "vkQueueSubmit: VK_ERROR_DEVICE_LOST (-4)"));
        assert!(ended(Outcome::Crashed, "signal 6") && ended(Outcome::TimedOut, "did not end"));
        assert!(!ended(Outcome::Failed, "bytes differ"));
        let with_message =
            |outcome| Ended { is_gpu_error: true, ..Ended::without_log(outcome, Some("bytes differ".into())) };
        assert!(is_suspect(&with_message(Outcome::Failed)) && !is_suspect(&with_message(Outcome::Passed)));
        assert!(!ended(Outcome::Skipped, "no CUDA_ERROR_NO_DEVICE"));
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
        assert!(without(Stop::Failed("broken".into())).is_some_and(|why| why.ends_with(": broken")));
        assert_eq!(without(Stop::Skipped("not here".into())), None);
        let mut other = found.clone();
        other.device.name = "another".into();
        assert!(missing(&found, Ok(other)).is_some_and(|why| why.contains("another device: another")));
        assert!(missing(&found, Err(Stop::Failed("no device".into()))).is_some_and(|why| why.ends_with(": no device")));
        // One that the run did not use may be broken.
        let mut unused = found.clone();
        unused.exporters[used].available = None;
        let mut now = unused.clone();
        now.exporters[used].stop = Some(Stop::Failed("broken".into()));
        assert_eq!(missing(&unused, Ok(now)), None);
    }
}
