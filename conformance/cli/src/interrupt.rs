//! Ctrl-C, and a scheduler's request to end: what runs is ended, and what has finished is reported.
//!
//! The processes of scenarios are in groups of their own, so that a terminal's Ctrl-C is this process's to act on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use gpu_interop_conformance::{Stop, Verdict};
use signal_hook::consts::{SIGINT, SIGTERM};

/// Why scenarios that did not run, or not to their end, did not.
const REASON: &str = "interrupted";
/// How soon an interruption is noticed while something is waited for.
pub(crate) const NOTICED_WITHIN: Duration = Duration::from_millis(100);

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Notes the first of SIGINT and SIGTERM from now on. The second ends this process at once, with 128 and its number.
pub(crate) fn listen() -> Verdict {
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, INTERRUPTED.clone())?;
        signal_hook::flag::register(signal, INTERRUPTED.clone())?;
    }
    Ok(())
}

/// Whether a signal has come.
pub(crate) fn is_interrupted() -> bool {
    // Relaxed: nothing else was written.
    INTERRUPTED.load(Ordering::Relaxed)
}

/// How a scenario ends that was interrupted, or did not begin.
pub(crate) fn stop() -> Stop {
    Stop::Skipped(REASON.into())
}
