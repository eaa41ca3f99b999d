//! The device's own exportable memory. The suite can run with it without a graphics API.

mod queue;

use std::any::Any;
use std::sync::Arc;

use gpu_interop::host::HostSemaphore;
use gpu_interop::{
    Device, DeviceIdentity, ExportableMemory, ExporterTimeline, Feature, MappedBuffer, MemoryImport, SemaphorePayload,
    Stream,
};

use queue::{Job, Queue, read, write};

use super::buffer::too_great;
use super::timeline::{Relabelled, handle_of};
use super::{
    BufferAccess, BufferSpec, Exchange, ExportedBuffer, ExportedSemaphore, Exporter, NATIVE_FORM, NO_OWN_SEMAPHORES,
    Placement, Point,
};
use crate::backend_under_test::{BackendUnderTest, MakeSemaphore};
use crate::outcome::{Stop, Verdict};
use crate::request;
use crate::system::{self, OsHandle};

pub(super) struct NativeExporter {
    /// Opened separately from the importing device, so that only the memory is shared.
    device: Device,
    stream: Arc<Stream>,
    semaphores: Option<MakeSemaphore>,
    queue: Arc<Queue>,
    /// The importing device accepts descriptors of timelines, but not those of the host's semaphores.
    keeps_timelines: bool,
}

impl NativeExporter {
    pub(super) fn open(backend: &BackendUnderTest, importer: &Device) -> Verdict<Self> {
        if let Some(reason) = importer.capabilities().feature(Feature::ExportableMemory).reason() {
            return Err(Stop::unsupported(format!("the device has no exportable memory: {reason}")));
        }
        let device = Device::open_matching(&*backend.load()?, importer.identity())?;
        let stream = Arc::new(device.create_stream()?);
        // The stream's own resources, such as the host backend's thread, are created before a scenario counts.
        stream.record(&device.create_event()?)?;
        stream.synchronize()?;
        let semaphores = backend.semaphores();
        let imports = importer.capabilities().semaphore(system::TIMELINE_SEMAPHORE).is_supported();
        let queue = Arc::new(Queue::start(stream.clone())?);
        Ok(Self { device, stream, semaphores, queue, keeps_timelines: imports && semaphores.is_none() })
    }

    /// A timeline with the information whether the device can import it.
    fn labelled(&self, timeline: HostSemaphore) -> Arc<dyn ExporterTimeline> {
        if self.keeps_timelines { Arc::new(Relabelled { timeline, exported: None }) } else { Arc::new(timeline) }
    }

    fn semaphore(&self, payload: SemaphorePayload, value: u64) -> Verdict<Box<dyn ExportedSemaphore>> {
        match self.semaphores {
            Some(make) => make(payload, value),
            None => Err(Stop::unsupported(NO_OWN_SEMAPHORES.into())),
        }
    }
}

impl Exporter for NativeExporter {
    fn identity(&self) -> &DeviceIdentity {
        self.device.identity()
    }

    fn describe(&self) -> String {
        let info = self.device.backend();
        format!("exportable memory of {}: {}", info.name, info.driver)
    }

    fn buffer(&self, spec: BufferSpec) -> Verdict<Box<dyn ExportedBuffer>> {
        if spec.placement == Placement::HostVisible || spec.dedicated {
            return Err(Stop::unsupported(NATIVE_FORM.into()));
        }
        let memory = self.device.allocate_exportable(spec.size).map_err(|error| too_great(spec.size, error))?;
        Ok(Box::new(NativeBuffer {
            memory: Arc::new(memory),
            stream: self.stream.clone(),
            queue: self.queue.clone(),
            size: spec.size,
        }))
    }

    fn sent_memory(&self, handle: OsHandle, size: u64) -> MemoryImport {
        let request = request::memory(system::memory(handle), size).exported_by(self.identity().clone());
        // SAFETY: the other process exported memory of the same backend.
        unsafe { request.native(true) }
    }

    fn import(&self, request: MemoryImport, size: u64) -> Verdict<Box<dyn BufferAccess>> {
        let mapped = self.device.import_memory(request)?.map_buffer(0..size)?;
        Ok(Box::new(Imported { mapped, stream: self.stream.clone() }))
    }

    fn binary_semaphore(&self) -> Verdict<Box<dyn ExportedSemaphore>> {
        self.semaphore(SemaphorePayload::Binary, 0)
    }

    fn timeline_semaphore(&self, value: u64) -> Verdict<Box<dyn ExportedSemaphore>> {
        self.semaphore(SemaphorePayload::Timeline, value)
    }

    /// A host timeline for every backend: a bridge needs no driver.
    fn timeline(&self, value: u64) -> Verdict<Arc<dyn ExporterTimeline>> {
        Ok(self.labelled(HostSemaphore::timeline(value)?))
    }

    fn send_timeline(&self, timeline: &dyn ExporterTimeline) -> Verdict<OsHandle> {
        let timeline: &dyn Any = timeline;
        let kept = || timeline.downcast_ref().map(|kept: &Relabelled<HostSemaphore>| &kept.timeline);
        let timeline = timeline.downcast_ref().or_else(kept);
        handle_of(timeline.ok_or_else(|| Stop::failed("the timeline is not this exporter's".into()))?.export()?)
    }

    fn open_timeline(&self, timeline: OsHandle) -> Verdict<Arc<dyn ExporterTimeline>> {
        Ok(self.labelled(HostSemaphore::open(system::timeline_semaphore(timeline))?))
    }

    fn binary_as_timeline(&self) -> Verdict<Arc<dyn ExporterTimeline>> {
        Ok(Arc::new(HostSemaphore::binary()?))
    }
}

struct NativeBuffer {
    memory: Arc<ExportableMemory>,
    stream: Arc<Stream>,
    queue: Arc<Queue>,
    size: u64,
}

impl BufferAccess for NativeBuffer {
    fn size(&self) -> u64 {
        self.size
    }

    fn write(&self, offset: u64, data: &[u8]) -> Verdict {
        write(&self.stream, (&*self.memory).into(), offset, data)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> Verdict {
        read(&self.stream, (&*self.memory).into(), offset, data)
    }
}

impl ExportedBuffer for NativeBuffer {
    fn import_request(&self) -> Verdict<MemoryImport> {
        Ok(self.memory.import_request()?)
    }

    fn exchange(&self, wait: Point<'_>, data: &[u8], signal: Point<'_>) -> Verdict<Box<dyn Exchange>> {
        let job = Job {
            memory: self.memory.clone(),
            data: data.to_vec(),
            wait: (wait.timeline.clone(), wait.value),
            signal: (signal.timeline.clone(), signal.value),
        };
        Ok(Box::new(self.queue.enqueue(job)?))
    }
}

/// Memory of the device under test, imported by the device opened once more.
struct Imported {
    mapped: MappedBuffer,
    stream: Arc<Stream>,
}

impl BufferAccess for Imported {
    fn size(&self) -> u64 {
        self.mapped.size()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Verdict {
        write(&self.stream, (&self.mapped).into(), offset, data)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> Verdict {
        read(&self.stream, (&self.mapped).into(), offset, data)
    }
}
