//! Exporters of timelines: Vulkan, or the backend itself if it has its own semaphores.

use std::sync::Arc;

use gpu_interop::vulkan::{ExportableSemaphore, HeadlessContext, OwnedSemaphore, SemaphoreOp};
use gpu_interop::{Device, Error, ErrorKind, ExporterTimeline, ExternalSemaphore, SemaphorePayload, Stream};
use gpu_interop_conformance::{MakeSemaphore, Stop, Verdict};

use crate::bench::machine::Machine;

#[derive(Clone, Copy)]
pub(in crate::bench) enum Exporter<'a> {
    Vulkan(&'a HeadlessContext),
    Own(&'a Peer),
}

/// The device, opened again as the exporter.
pub(in crate::bench) struct Peer {
    pub(super) stream: Stream,
    pub(super) device: Device,
    make: MakeSemaphore,
}

impl Peer {
    pub(super) fn open(machine: &Machine) -> Verdict<Self> {
        let make = machine.under_test.semaphores();
        let make =
            make.ok_or_else(|| Stop::unsupported("this backend has no exportable semaphores of its own".into()))?;
        let device = Device::open_matching(&*machine.backend, machine.device.identity())?;
        Ok(Self { stream: device.create_stream()?, device, make })
    }
}

/// A timeline of the exporting side, initially 0.
pub(in crate::bench) struct ExportedTimeline {
    timeline: Arc<dyn ExporterTimeline>,
    end: End,
}

/// The semaphore of the exporting side's own work.
enum End {
    Vulkan(OwnedSemaphore),
    Own(ExternalSemaphore),
}

impl ExportedTimeline {
    /// The exporter's side of a `Timeline`.
    pub(in crate::bench) fn as_timeline(&self) -> Arc<dyn ExporterTimeline> {
        self.timeline.clone()
    }

    /// The semaphore for a Vulkan submission.
    pub(in crate::bench) fn op(&self, value: u64) -> Verdict<SemaphoreOp<'_>> {
        match &self.end {
            End::Vulkan(semaphore) => Ok(SemaphoreOp { semaphore, value }),
            End::Own(_) => Err(Stop::failed("a timeline of the backend's own in a submission of Vulkan".into())),
        }
    }

    /// The semaphore for a stream of the peer.
    pub(super) fn imported(&self) -> Verdict<&ExternalSemaphore> {
        match &self.end {
            End::Own(semaphore) => Ok(semaphore),
            End::Vulkan(_) => Err(Stop::failed("a timeline of Vulkan on a stream of the exporter".into())),
        }
    }
}

impl Exporter<'_> {
    /// A new timeline, exportable or not.
    pub(super) fn timeline(self, machine: &Machine, export: bool) -> Verdict<ExportedTimeline> {
        match self {
            Self::Vulkan(_) if export && machine.under_test.semaphores().is_some() => {
                Err(Stop::unsupported("this backend does not import Vulkan's semaphores".into()))
            }
            Self::Vulkan(context) if export => {
                let semaphore = ExportableSemaphore::timeline(context.interop(), 0).map_err(missing)?;
                let end = End::Vulkan(semaphore.semaphore().clone());
                Ok(ExportedTimeline { timeline: Arc::new(semaphore), end })
            }
            Self::Vulkan(context) => {
                let semaphore = OwnedSemaphore::timeline(context.interop(), 0).map_err(missing)?;
                Ok(ExportedTimeline { timeline: Arc::new(semaphore.clone()), end: End::Vulkan(semaphore) })
            }
            Self::Own(peer) => {
                let semaphore = (peer.make)(SemaphorePayload::Timeline, 0)?;
                let end = End::Own(peer.device.import_semaphore(semaphore.import_request()?)?);
                let timeline = semaphore.as_timeline();
                let timeline =
                    timeline.ok_or_else(|| Stop::unsupported("this backend's semaphores are no timelines".into()))?;
                Ok(ExportedTimeline { timeline, end })
            }
        }
    }
}

/// An unsupported feature is not a failure.
fn missing(error: Error) -> Stop {
    match error.kind() {
        ErrorKind::Unsupported => Stop::unsupported(error.to_string()),
        _ => error.into(),
    }
}
