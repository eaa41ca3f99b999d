//! Semaphores of an exporting side.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop::host::HostSemaphore;
use gpu_interop::vulkan::{ExportableSemaphore, OwnedSemaphore};
use gpu_interop::{Error, ExporterTimeline, Result, SemaphoreImport, SemaphorePayload};

use crate::callback_timeline::CallbackTimeline;

/// Semaphore behind a `gpi_exported_semaphore`.
#[derive(Debug)]
pub(crate) enum Exporter {
    /// Of the host backend.
    Host(HostSemaphore),
    /// Of Vulkan, exportable.
    Vulkan(ExportableSemaphore),
    /// A timeline of Vulkan that is not exportable; a bridge carries its values.
    VulkanTimeline(OwnedSemaphore),
    /// A timeline of the application.
    Callbacks(Arc<CallbackTimeline>),
}

impl Exporter {
    pub(crate) fn payload(&self) -> SemaphorePayload {
        match self {
            Self::Host(semaphore) => semaphore.payload(),
            Self::Vulkan(semaphore) => semaphore.semaphore().payload(),
            Self::VulkanTimeline(_) | Self::Callbacks(_) => SemaphorePayload::Timeline,
        }
    }

    pub(crate) fn vulkan(&self) -> Option<&OwnedSemaphore> {
        match self {
            Self::Vulkan(semaphore) => Some(semaphore.semaphore()),
            Self::VulkanTimeline(semaphore) => Some(semaphore),
            Self::Host(_) | Self::Callbacks(_) => None,
        }
    }

    pub(crate) fn import_request(&self, operation: &'static str) -> Result<SemaphoreImport> {
        match self {
            Self::Host(semaphore) => semaphore.import_request(),
            Self::Vulkan(semaphore) => semaphore.import_request(),
            Self::VulkanTimeline(_) | Self::Callbacks(_) => {
                Err(Error::unsupported(operation, "this timeline cannot be exported; use a gpi_timeline over it"))
            }
        }
    }

    /// The exporter's side of a timeline.
    pub(crate) fn timeline(&self, operation: &'static str) -> Result<Arc<dyn ExporterTimeline>> {
        if self.payload() != SemaphorePayload::Timeline {
            return Err(Error::invalid(operation, "the semaphore is binary; a timeline has a value"));
        }
        Ok(match self {
            Self::Host(semaphore) => Arc::new(semaphore.clone()),
            Self::Vulkan(semaphore) => Arc::new(semaphore.clone()),
            Self::VulkanTimeline(semaphore) => Arc::new(semaphore.clone()),
            Self::Callbacks(timeline) => timeline.clone(),
        })
    }

    /// Signals from the host; a binary semaphore ignores the value.
    pub(crate) fn signal(&self, operation: &'static str, value: u64) -> Result<()> {
        match (self, self.payload()) {
            (Self::Host(semaphore), SemaphorePayload::Binary) => semaphore.signal(),
            (_, SemaphorePayload::Timeline) => self.timeline(operation)?.signal(value),
            _ => Err(Error::unsupported(operation, "the host cannot signal a binary semaphore of Vulkan")),
        }
    }

    /// Waits on the host; a binary semaphore ignores the value, and is reset.
    pub(crate) fn wait(&self, operation: &'static str, value: u64, timeout: Duration) -> Result<()> {
        match (self, self.payload()) {
            (Self::Host(semaphore), SemaphorePayload::Binary) => semaphore.wait(timeout),
            (_, SemaphorePayload::Timeline) => self.timeline(operation)?.wait(value, timeout),
            _ => Err(Error::unsupported(operation, "the host cannot wait for a binary semaphore of Vulkan")),
        }
    }
}
