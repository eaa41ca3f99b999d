//! Semaphores on the exporter's side.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop::{ErrorKind, ExporterTimeline, SemaphoreHandle, SemaphoreImport};

use crate::outcome::Verdict;

/// A semaphore on the exporter's side. `value` is ignored for a binary one.
pub trait ExportedSemaphore: Send + Sync {
    /// Exports it: a new handle.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn export(&self) -> Verdict<SemaphoreHandle>;

    /// Exports it as a request to import it.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    fn import_request(&self) -> Verdict<SemaphoreImport>;

    /// Signals it from the exporter's side.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn signal(&self, value: u64) -> Verdict;

    /// Waits on the exporter's side; `false` if the time ran out.
    ///
    /// # Errors
    /// If the exporter's driver fails.
    fn wait(&self, value: u64, timeout: Duration) -> Verdict<bool>;

    /// A timeline semaphore as the library's `Timeline` takes it; `None` if this is none.
    fn as_timeline(&self) -> Option<Arc<dyn ExporterTimeline>> {
        None
    }
}

/// True if a wait was met, false if it timed out.
pub(crate) fn is_met(waited: gpu_interop::Result<()>) -> Verdict<bool> {
    match waited {
        Err(error) if error.kind() == ErrorKind::Timeout => Ok(false),
        waited => Ok(waited.map(|()| true)?),
    }
}
