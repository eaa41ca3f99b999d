//! Timelines of Vulkan, and exchanges on its queue.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpu_interop::vulkan::{
    ExportableSemaphore, HeadlessContext, ImportedSemaphore, MemoryPlacement, OwnedBuffer, OwnedSemaphore, SemaphoreOp,
    Submission, VulkanInterop,
};
use gpu_interop::{ErrorKind, ExporterTimeline};

use super::{USAGE, VulkanAccess};
use crate::exporter::timeline::Relabelled;
use crate::exporter::{Exchange, Point, handle_of};
use crate::outcome::{Stop, Verdict};
use crate::request;
use crate::system::{self, OsHandle};

/// A timeline, exportable if `may_export` and the device supports it: lavapipe and SwiftShader do not.
pub(super) fn create(interop: &VulkanInterop, value: u64, may_export: bool) -> Verdict<Arc<dyn ExporterTimeline>> {
    if may_export {
        match ExportableSemaphore::timeline(interop, value) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            created => return Ok(Arc::new(created?)),
        }
    }
    Ok(Arc::new(OwnedSemaphore::timeline(interop, value).map_err(Stop::attempted)?))
}

pub(super) fn send(timeline: &dyn ExporterTimeline) -> Verdict<OsHandle> {
    let timeline: &dyn Any = timeline;
    let exportable = timeline.downcast_ref::<ExportableSemaphore>();
    let reason = "timelines of this exporter cannot be sent to another process";
    handle_of(exportable.ok_or_else(|| Stop::Unsupported(reason.into()))?.export()?)
}

/// Another process's. Vulkan's import is what the host sees of it; a driver may import the descriptor besides.
pub(super) fn open(interop: &VulkanInterop, timeline: OsHandle) -> Verdict<Arc<dyn ExporterTimeline>> {
    let exported = Some(timeline.try_clone()?);
    let timeline = ImportedSemaphore::new(interop, request::semaphore(system::timeline_semaphore(timeline)))?;
    Ok(Arc::new(Relabelled { timeline, exported }))
}

pub(super) fn binary(interop: &VulkanInterop) -> Verdict<Arc<dyn ExporterTimeline>> {
    Ok(Arc::new(OwnedSemaphore::binary(interop)?))
}

fn operation<'a>(point: Point<'a>) -> Verdict<SemaphoreOp<'a>> {
    let timeline: &dyn Any = &**point.timeline;
    let exportable = timeline.downcast_ref().map(ExportableSemaphore::semaphore);
    let semaphore = exportable.or_else(|| timeline.downcast_ref());
    let semaphore = semaphore.ok_or_else(|| Stop::Failed("the timeline is not this exporter's".into()))?;
    Ok(SemaphoreOp { semaphore, value: point.value })
}

/// Staging memory that no work uses: to make some takes longer than an exchange.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Vec<OwnedBuffer>>);

impl Spare {
    fn take(&self, context: &HeadlessContext, size: u64) -> Verdict<OwnedBuffer> {
        let spare = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match spare.filter(|buffer| buffer.size() >= size) {
            Some(buffer) => Ok(buffer),
            None => Ok(OwnedBuffer::new(context.interop(), size, USAGE, MemoryPlacement::HostVisible)?),
        }
    }

    fn put(&self, buffer: OwnedBuffer) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

impl VulkanAccess {
    /// One submission: waits, acquires, copies to and from staging memory, releases, signals.
    pub(super) fn exchange(&self, wait: Point<'_>, data: &[u8], signal: Point<'_>) -> Verdict<Box<dyn Exchange>> {
        let mut released = self.released()?;
        let size = data.len() as u64;
        let staging = self.spare.take(&self.context, 2 * size)?;
        staging.write(size, data)?;
        let submission = self.context.submit(&[operation(wait)?], &[operation(signal)?], |recording| {
            if *released {
                recording.acquire(&self.buffer)?;
            }
            recording.copy(&self.buffer, 0, &staging, 0, size)?;
            recording.copy(&staging, size, &self.buffer, 0, size)?;
            recording.release(&self.buffer)
        })?;
        *released = true;
        Ok(Box::new(Submitted { submission, staging, spare: self.spare.clone(), size: data.len() }))
    }
}

struct Submitted {
    submission: Submission,
    staging: OwnedBuffer,
    spare: Arc<Spare>,
    size: usize,
}

impl Exchange for Submitted {
    fn finish(self: Box<Self>) -> Verdict<Vec<u8>> {
        const TIMEOUT: Duration = crate::context::PATIENCE;
        self.submission.wait(TIMEOUT).map_err(|error| match error.kind() {
            ErrorKind::Timeout => Stop::Failed("the exporter's queue waited in vain for the device".into()),
            _ => error.into(),
        })?;
        let mut found = vec![0; self.size];
        self.staging.read(0, &mut found)?;
        self.spare.put(self.staging);
        Ok(found)
    }
}
