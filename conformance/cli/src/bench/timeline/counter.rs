//! A timeline of the exporter with the streams' end of it.

use std::cell::Cell;

use gpu_interop::{Feature, SemaphoreHandleKind, Timeline, TimelineStrategy};
use gpu_interop_conformance::{Stop, Verdict};

use super::exporter::{ExportedTimeline, Exporter};
use crate::bench::machine::Machine;
use crate::bench::sys::Lane;

/// Both ends of a timeline. Its values rise by one, whoever signals the next.
pub(in crate::bench) struct Counter<Follower> {
    pub(in crate::bench) exported: ExportedTimeline,
    /// The streams' end.
    pub(in crate::bench) follower: Follower,
    value: Cell<u64>,
}

/// One that the library shares.
pub(in crate::bench) type LibraryCounter = Counter<Timeline>;

/// One for the driver's functions, called directly: the only semaphore of a lane.
pub(in crate::bench) type RawCounter = Counter<Lane>;

impl<Follower> Counter<Follower> {
    fn new(exported: ExportedTimeline, follower: Follower) -> Self {
        Self { exported, follower, value: Cell::new(0) }
    }

    /// The value that was signalled last.
    pub(in crate::bench) fn last(&self) -> u64 {
        self.value.get()
    }

    /// The next value, for whoever signals it.
    pub(in crate::bench) fn next(&self) -> u64 {
        self.value.set(self.value.get() + 1);
        self.value.get()
    }
}

impl LibraryCounter {
    /// Imported by the driver.
    pub(in crate::bench) fn native(machine: &Machine, exporter: Exporter<'_>) -> Verdict<Self> {
        let exported = exportable(machine, exporter)?;
        let timeline = Timeline::with_strategy(&machine.device, exported.as_timeline(), TimelineStrategy::Native)?;
        Ok(Self::new(exported, timeline))
    }

    /// Carried by the host.
    pub(in crate::bench) fn bridge(machine: &Machine, exporter: Exporter<'_>) -> Verdict<Self> {
        let capabilities = machine.device.capabilities();
        if let Some(reason) = capabilities.timeline(None).reason() {
            return Err(Stop::Unsupported(format!("a bridge: {reason}")));
        }
        let words = [Feature::StreamMemoryOperations64, Feature::StreamMemoryOperations32];
        if !words.into_iter().any(|feature| capabilities.feature(feature).is_supported()) {
            return Err(Stop::Unsupported("a bridge: streams cannot wait for a value that is not there yet".into()));
        }
        let exported = exporter.timeline(machine, false)?;
        let strategy = TimelineStrategy::HostBridge;
        let timeline = Timeline::with_strategy(&machine.device, exported.as_timeline(), strategy)?;
        Ok(Self::new(exported, timeline))
    }
}

impl RawCounter {
    /// Imported by the driver, with a stream of its own.
    pub(in crate::bench) fn raw(machine: &Machine, exporter: Exporter<'_>) -> Verdict<Self> {
        let exported = exportable(machine, exporter)?;
        let request = exported.as_timeline().export()?;
        let lane = Lane::new(&machine.device, [request])?;
        Ok(Self::new(exported, lane))
    }
}

/// A timeline that the device can import.
fn exportable(machine: &Machine, exporter: Exporter<'_>) -> Verdict<ExportedTimeline> {
    match machine.device.capabilities().semaphore(SemaphoreHandleKind::TimelineFd).reason() {
        Some(reason) => Err(Stop::Unsupported(format!("timeline semaphores: {reason}"))),
        None => exporter.timeline(machine, true),
    }
}
