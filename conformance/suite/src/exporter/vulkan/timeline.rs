//! Vulkan timelines, and exchanges on a queue.

use std::any::Any;
use std::sync::Arc;

use gpu_interop::vulkan::{ExportableSemaphore, ImportedSemaphore, OwnedSemaphore, SemaphoreOp, VulkanInterop};
use gpu_interop::{ErrorKind, ExporterTimeline};

use crate::exporter::Point;
use crate::exporter::timeline::{Relabelled, handle_of};
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
    handle_of(exportable.ok_or_else(|| Stop::unsupported(reason.into()))?.export()?)
}

/// A timeline of another process, through Vulkan's import for the host; a driver may import the descriptor as well.
pub(super) fn open(interop: &VulkanInterop, timeline: OsHandle) -> Verdict<Arc<dyn ExporterTimeline>> {
    let exported = Some(timeline.try_clone()?);
    let timeline = ImportedSemaphore::new(interop, request::semaphore(system::timeline_semaphore(timeline)))?;
    Ok(Arc::new(Relabelled { timeline, exported }))
}

pub(super) fn binary(interop: &VulkanInterop) -> Verdict<Arc<dyn ExporterTimeline>> {
    Ok(Arc::new(OwnedSemaphore::binary(interop)?))
}

/// A value of a timeline for a submission.
pub(super) fn operation<'a>(point: Point<'a>) -> Verdict<SemaphoreOp<'a>> {
    let timeline: &dyn Any = &**point.timeline;
    let exportable = timeline.downcast_ref().map(ExportableSemaphore::semaphore);
    let semaphore = exportable.or_else(|| timeline.downcast_ref());
    let semaphore = semaphore.ok_or_else(|| Stop::failed("the timeline is not this exporter's".into()))?;
    Ok(SemaphoreOp { semaphore, value: point.value })
}
