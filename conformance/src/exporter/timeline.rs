//! Timelines on the exporter's side, and what its queue does between two values of them.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use gpu_interop::{Error, ErrorKind, ExporterTimeline, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphoreImport};

use crate::outcome::Verdict;

/// A value of a timeline.
#[derive(Debug, Clone, Copy)]
pub struct Point<'a> {
    /// The timeline.
    pub timeline: &'a Arc<dyn ExporterTimeline>,
    /// The value that is waited for, or that it is raised to.
    pub value: u64,
}

/// Something that the exporter's queue was given to do: [`ExportedBuffer::exchange`](super::ExportedBuffer::exchange).
pub trait Exchange: Send {
    /// Waits until it has been done, and gives what the buffer held before.
    ///
    /// # Errors
    /// If it is not done in time, or the exporter's driver fails.
    fn finish(self: Box<Self>) -> Verdict<Vec<u8>>;
}

/// A timeline whose export is not its own.
#[derive(Debug)]
pub(super) struct Relabelled<T> {
    /// What has the value.
    pub(super) timeline: T,
    /// What is exported instead: the descriptor that another process sent, or nothing.
    pub(super) exported: Option<OwnedFd>,
}

impl<T: ExporterTimeline> ExporterTimeline for Relabelled<T> {
    fn value(&self) -> Result<u64> {
        self.timeline.value()
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.timeline.signal(value)
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        self.timeline.wait(value, timeout)
    }

    fn handle_kind(&self) -> Option<SemaphoreHandleKind> {
        self.exported.as_ref().map(|_| SemaphoreHandleKind::TimelineFd)
    }

    fn export(&self) -> Result<SemaphoreImport> {
        const OPERATION: &str = "Relabelled::export";
        let fd = self.exported.as_ref().ok_or_else(|| Error::unsupported(OPERATION, "there is nothing to export"))?;
        let fd = fd.try_clone().map_err(|error| {
            Error::new(ErrorKind::System, OPERATION, "the descriptor cannot be duplicated").with_source(error)
        })?;
        Ok(SemaphoreHandle::TimelineFd(fd).into())
    }
}
