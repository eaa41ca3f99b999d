//! The cost of a hand-over by each strategy of the library's `Timeline`.
//!
//! | variant | how values reach the stream and return |
//! |---|---|
//! | `raw` | the driver imports the exporter's timeline; raw calls |
//! | `native` | the library's `Timeline` by `TimelineStrategy::Native`: the same, through the safe objects |
//! | `bridge` | the library's `Timeline` by `TimelineStrategy::HostBridge`, of a timeline that is not exported |
//! | `fence` | none: the host waits for one side before it starts the other |
//!
//! Both sides have work in every round and verify words of every round: a hand-over without work
//! takes a tenth of the time and proves nothing. If both sides use the GPU's graphics and compute engine, it
//! switches contexts twice a round, the dominant cost. A transfer queue needs no such
//! switch, so the strategies' own cost shows there.

mod exchange;
pub(super) mod idle;
pub(super) mod one_way;
pub(super) mod round_trip;

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_interop::vulkan::{ExportableSemaphore, HeadlessContext, OwnedSemaphore, SemaphoreOp};
use gpu_interop::{
    Device, Error, ErrorKind, ExporterTimeline, ExternalSemaphore, Feature, SemaphoreHandleKind, SemaphorePayload,
    Stream, Timeline, TimelineStrategy,
};
use gpu_interop_conformance::{MakeSemaphore, Stop, Verdict};
use rustix::time::{ClockId, clock_gettime};

use crate::machine::Machine;
use crate::sys::ImportedTimelines;

/// Both sides of a timeline, with values that rise by one.
pub(crate) struct Counter<Follower> {
    pub(crate) exported: ExportedTimeline,
    /// The streams' side.
    pub(crate) follower: Follower,
    value: Cell<u64>,
}

pub(crate) type LibraryCounter = Counter<Timeline>;

/// A timeline for raw calls: the only one of its stream.
pub(crate) type RawCounter = Counter<ImportedTimelines>;

impl<Follower> Counter<Follower> {
    fn new(exported: ExportedTimeline, follower: Follower) -> Self {
        Self { exported, follower, value: Cell::new(0) }
    }

    /// The last signalled value.
    pub(crate) fn last(&self) -> u64 {
        self.value.get()
    }

    /// Takes the next value.
    pub(crate) fn next(&self) -> u64 {
        self.value.set(self.value.get() + 1);
        self.value.get()
    }
}

impl LibraryCounter {
    /// A timeline that the driver imports.
    pub(crate) fn native(machine: &Machine, exporter: Exporter<'_>) -> Verdict<Self> {
        let exported = exportable(machine, exporter)?;
        let timeline = Timeline::with_strategy(&machine.device, exported.as_timeline(), TimelineStrategy::Native)?;
        Ok(Self::new(exported, timeline))
    }

    /// A timeline that the host bridges.
    pub(crate) fn bridge(machine: &Machine, exporter: Exporter<'_>) -> Verdict<Self> {
        let capabilities = machine.device.capabilities();
        if let Some(reason) = capabilities.timeline(None).reason() {
            return Err(Stop::unsupported(format!("a bridge: {reason}")));
        }
        let words = [Feature::StreamMemoryOperations64, Feature::StreamMemoryOperations32];
        if !words.into_iter().any(|feature| capabilities.feature(feature).is_supported()) {
            return Err(Stop::unsupported("a bridge: streams cannot wait for a value that is not there yet".into()));
        }
        let exported = exporter.timeline(machine, false)?;
        let strategy = TimelineStrategy::HostBridge;
        let timeline = Timeline::with_strategy(&machine.device, exported.as_timeline(), strategy)?;
        Ok(Self::new(exported, timeline))
    }
}

impl RawCounter {
    /// A timeline that the driver imports, with its own stream.
    pub(crate) fn raw(machine: &Machine, exporter: Exporter<'_>) -> Verdict<Self> {
        let exported = exportable(machine, exporter)?;
        let request = exported.as_timeline().export()?;
        let imported = ImportedTimelines::new(&machine.device, [request])?;
        Ok(Self::new(exported, imported))
    }
}

/// A timeline that the device can import.
fn exportable(machine: &Machine, exporter: Exporter<'_>) -> Verdict<ExportedTimeline> {
    match machine.device.capabilities().semaphore(SemaphoreHandleKind::TimelineFd).reason() {
        Some(reason) => Err(Stop::unsupported(format!("timeline semaphores: {reason}"))),
        None => exporter.timeline(machine, true),
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Exporter<'a> {
    Vulkan(&'a HeadlessContext),
    Own(&'a Peer),
}

/// The device, opened again as the exporter.
pub(crate) struct Peer {
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
pub(crate) struct ExportedTimeline {
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
    fn as_timeline(&self) -> Arc<dyn ExporterTimeline> {
        self.timeline.clone()
    }

    /// The semaphore for a Vulkan submission.
    pub(crate) fn op(&self, value: u64) -> Verdict<SemaphoreOp<'_>> {
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

/// The start of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    processor: Duration,
    start: Instant,
}

/// Time since the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elapsed {
    pub(super) time: Duration,
    /// Processor time of this process, all threads.
    pub(super) processor: Duration,
}

impl Clock {
    pub(super) fn start() -> Self {
        // A system call, so it is outside the measured time.
        let processor = processor_time();
        Self { processor, start: Instant::now() }
    }

    pub(super) fn elapsed(&self) -> Elapsed {
        let time = self.start.elapsed();
        Elapsed { time, processor: processor_time().saturating_sub(self.processor) }
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    // Neither is negative; nanoseconds are below one second.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time of the threads named "gpu-interop bridge", from the scheduler. The
/// kernel keeps 15 letters of a name.
fn bridges_time() -> Duration {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Duration::ZERO };
    let folders = tasks.filter_map(Result::ok).map(|task| task.path());
    let bridges = folders.filter(|folder| {
        std::fs::read_to_string(folder.join("comm")).is_ok_and(|name| name.starts_with("gpu-interop bri"))
    });
    let time = |folder: PathBuf| {
        let text = std::fs::read_to_string(folder.join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    };
    bridges.filter_map(time).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_takes_time_and_computing_a_processor() {
        const LONG: Duration = Duration::from_millis(30);
        // Other tests run at the same time, so only a lower limit is certain.
        let clock = Clock::start();
        while clock.elapsed().processor < LONG {
            std::hint::spin_loop();
        }
        std::thread::sleep(LONG);
        let elapsed = clock.elapsed();
        assert!(elapsed.time >= LONG && elapsed.processor >= LONG, "{elapsed:?}");
    }
}
