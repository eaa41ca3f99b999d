//! A timeline of the exporter together with the streams' side.

use std::cell::Cell;

use gpu_interop::{Feature, SemaphoreHandleKind, Timeline, TimelineStrategy};
use gpu_interop_conformance::{Stop, Verdict};

use super::exporter::{ExportedTimeline, Exporter};
use crate::bench::machine::Machine;
use crate::bench::sys::Lane;

/// Both sides of a timeline, with values that rise by one.
pub(in crate::bench) struct Counter<Follower> {
    pub(in crate::bench) exported: ExportedTimeline,
    /// The streams' side.
    pub(in crate::bench) follower: Follower,
    value: Cell<u64>,
}

pub(in crate::bench) type LibraryCounter = Counter<Timeline>;

/// A timeline for raw calls: the only semaphore of a lane.
pub(in crate::bench) type RawCounter = Counter<Lane>;

impl<Follower> Counter<Follower> {
    fn new(exported: ExportedTimeline, follower: Follower) -> Self {
        Self { exported, follower, value: Cell::new(0) }
    }

    /// The last signalled value.
    pub(in crate::bench) fn last(&self) -> u64 {
        self.value.get()
    }

    /// Takes the next value.
    pub(in crate::bench) fn next(&self) -> u64 {
        self.value.set(self.value.get() + 1);
        self.value.get()
    }
}

impl LibraryCounter {
    /// A timeline that the driver imports.
    pub(in crate::bench) fn native(machine: &Machine, exporter: Exporter<'_>) -> Verdict<Self> {
        let exported = exportable(machine, exporter)?;
        let timeline = Timeline::with_strategy(&machine.device, exported.as_timeline(), TimelineStrategy::Native)?;
        Ok(Self::new(exported, timeline))
    }

    /// A timeline that the host bridges.
    pub(in crate::bench) fn bridge(machine: &Machine, exporter: Exporter<'_>) -> Verdict<Self> {
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
        Some(reason) => Err(Stop::unsupported(format!("timeline semaphores: {reason}"))),
        None => exporter.timeline(machine, true),
    }
}
