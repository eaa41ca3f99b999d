//! Handles SIGINT and SIGTERM: running scenarios are stopped, finished ones are reported.
//!
//! Scenario processes are in groups of their own, so that only this process receives a terminal's Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use gpu_interop_conformance::{Stop, Verdict};
use signal_hook::consts::{SIGINT, SIGTERM};

/// The reason of interrupted scenarios.
const REASON: &str = "interrupted";
/// Polling interval for interruptions during waits.
pub(crate) const NOTICED_WITHIN: Duration = Duration::from_millis(100);

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Records the first SIGINT or SIGTERM. The second one exits at once, with 128 and the signal's number.
pub(crate) fn listen() -> Verdict {
    for signal in [SIGINT, SIGTERM] {
        // In this order: at the first signal the flag is still unset.
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, INTERRUPTED.clone())?;
        signal_hook::flag::register(signal, INTERRUPTED.clone())?;
    }
    Ok(())
}

/// `true` if a signal has arrived.
pub(crate) fn is_interrupted() -> bool {
    // Relaxed: no other data is published.
    INTERRUPTED.load(Ordering::Relaxed)
}

/// The result of an interrupted scenario.
pub(crate) fn stop() -> Stop {
    Stop::skipped(REASON.into())
}
