//! The device's own exportable memory. The suite can run with it without a graphics API.

use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use gpu_interop::host::HostSemaphore;
use gpu_interop::sync::{lock, unpoisoned};
use gpu_interop::{
    BufferSlice, Device, DeviceIdentity, ErrorKind, ExportableMemory, ExporterTimeline, Feature, MappedBuffer,
    MemoryImport, SemaphorePayload, Stream,
};

use super::buffer::too_great;
use super::semaphore::{Relabelled, handle_of};
use super::{
    BufferAccess, BufferSpec, Exchange, ExportedBuffer, ExportedSemaphore, Exporter, NATIVE_FORM, NO_OWN_SEMAPHORES,
    Placement, Point,
};
use crate::backend_under_test::{BackendUnderTest, MakeSemaphore};
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT};
use crate::system::{self, OsHandle};
use crate::{ensure, request};

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

/// One exchange.
struct Job {
    memory: Arc<ExportableMemory>,
    data: Vec<u8>,
    wait: (Arc<dyn ExporterTimeline>, u64),
    signal: (Arc<dyn ExporterTimeline>, u64),
}

/// The result of a job.
type Answer = Verdict<Vec<u8>>;

/// A job, and the channel for its result.
type Task = (Job, Sender<Answer>);

/// The queue. Dropping it cancels pending jobs.
struct Queue {
    jobs: Mutex<Option<Sender<Task>>>,
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Queue {
    fn start(stream: Arc<Stream>) -> Verdict<Self> {
        let (jobs, incoming) = channel::<Task>();
        let stopped = Arc::new(AtomicBool::new(false));
        let stop = stopped.clone();
        let thread = std::thread::Builder::new().name("exporter queue".into()).spawn(move || {
            for (job, answer) in incoming {
                // A dropped exchange has no receiver.
                let _ = answer.send(job.run(&stream, &stop));
            }
        })?;
        Ok(Self { jobs: Mutex::new(Some(jobs)), stopped, thread: Some(thread) })
    }

    fn enqueue(&self, job: Job) -> Verdict<Enqueued> {
        let (answer, answers) = channel();
        let jobs = lock(&self.jobs);
        let sent = jobs.as_ref().map(|jobs| jobs.send((job, answer)).is_ok());
        if sent == Some(true) { Ok(Enqueued(answers)) } else { Err(Stop::failed("the exporter's queue ended".into())) }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        *unpoisoned(self.jobs.get_mut()) = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Job {
    fn run(self, stream: &Stream, stopped: &AtomicBool) -> Answer {
        let (timeline, value) = &self.wait;
        wait(&**timeline, *value, stopped)?;
        let mut found = vec![0; self.data.len()];
        read(stream, (&*self.memory).into(), 0, &mut found)?;
        write(stream, (&*self.memory).into(), 0, &self.data)?;
        let (timeline, value) = &self.signal;
        timeline.signal(*value)?;
        Ok(found)
    }
}

fn wait(timeline: &dyn ExporterTimeline, value: u64, stopped: &AtomicBool) -> Verdict {
    /// Maximum delay until the queue's end is noticed.
    const SLICE: Duration = Duration::from_millis(50);
    loop {
        match timeline.wait(value, SLICE) {
            Err(error) if error.kind() == ErrorKind::Timeout => {
                ensure!(!stopped.load(Ordering::Relaxed), "the exporter's queue ended before the value {value}");
            }
            waited => return Ok(waited?),
        }
    }
}

/// A copy through the exporting device's stream.
fn write(stream: &Stream, target: BufferSlice<'_>, offset: u64, data: &[u8]) -> Verdict {
    Ok(stream.write(target.slice(offset..offset + data.len() as u64)?, data)?)
}

/// As [`write`], in the other direction.
fn read(stream: &Stream, source: BufferSlice<'_>, offset: u64, data: &mut [u8]) -> Verdict {
    Ok(stream.read(source.slice(offset..offset + data.len() as u64)?, data)?)
}

/// An enqueued job.
struct Enqueued(Receiver<Answer>);

impl Exchange for Enqueued {
    fn finish(self: Box<Self>) -> Answer {
        self.0
            .recv_timeout(WAIT_TIMEOUT)
            .map_err(|_| Stop::failed("the exporter's queue timed out waiting for the device".into()))?
    }
}
