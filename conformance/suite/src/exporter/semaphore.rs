//! Semaphores of the exporter.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop::{ErrorKind, ExporterTimeline, SemaphoreHandle, SemaphoreImport};

use crate::outcome::Verdict;

/// A semaphore of the exporter. `value` is ignored for a binary one.
pub trait ExportedSemaphore: Send + Sync {
    /// Exports it as a new handle.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn export(&self) -> Verdict<SemaphoreHandle>;

    /// Exports it as an import request.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    fn import_request(&self) -> Verdict<SemaphoreImport>;

    /// Signals it from the exporter's side.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn signal(&self, value: u64) -> Verdict;

    /// Waits on the exporter's side; `false` after the timeout.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn wait(&self, value: u64, timeout: Duration) -> Verdict<bool>;

    /// A timeline semaphore for the library's `Timeline`; `None` for a binary one.
    fn as_timeline(&self) -> Option<Arc<dyn ExporterTimeline>> {
        None
    }
}

/// True if the wait succeeded, false if it timed out.
pub(crate) fn is_met(waited: gpu_interop::Result<()>) -> Verdict<bool> {
    match waited {
        Err(error) if error.kind() == ErrorKind::Timeout => Ok(false),
        waited => Ok(waited.map(|()| true)?),
    }
}
