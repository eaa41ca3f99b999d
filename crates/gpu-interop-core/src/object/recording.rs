//! Semaphore operations of graphs.

use std::sync::Mutex;

use smallvec::SmallVec;

use super::semaphore::{SemaphoreSignal, SemaphoreWait, TimelineSignal, User, empty};
use super::validate;
use crate::backend::{RawGraphNode, RawSignal, RawStream, RawWait};
use crate::capability::Feature;
use crate::error::Result;
use crate::sync::lock;

/// Batch size up to which no heap allocation is needed.
pub(super) const INLINE: usize = 8;

/// Batches of semaphore operations in a graph, in recording order.
#[derive(Debug, Default)]
pub(super) struct Semaphores {
    pub(super) signals: Vec<RecordedSignals>,
    pub(super) waits: Vec<RecordedWaits>,
}

#[derive(Debug)]
pub(super) struct RecordedSignals {
    pub(super) node: RawGraphNode,
    pub(super) length: usize,
    pub(super) timelines: Vec<TimelineSignal>,
}

#[derive(Debug)]
pub(super) struct RecordedWaits {
    pub(super) node: RawGraphNode,
    pub(super) length: usize,
}

/// Semaphore operations recorded so far by a recording stream.
#[derive(Debug, Default)]
pub(super) struct Recording {
    /// Locked while any operation is recorded: the driver returns the last one's node.
    pub(super) semaphores: Mutex<Semaphores>,
}

/// Validates a batch of signals for a graph.
pub(super) fn check_signals(
    user: User<'_>,
    signals: &[SemaphoreSignal<'_>],
) -> Result<(SmallVec<[RawSignal; INLINE]>, Vec<TimelineSignal>)> {
    if signals.is_empty() {
        return Err(empty(user.operation));
    }
    let (mut raw, mut timelines) = (SmallVec::new(), Vec::new());
    for signal in signals {
        let (signal, timeline) = signal.record(user)?;
        raw.push(signal);
        timelines.extend(timeline);
    }
    Ok((raw, timelines))
}

/// Validates a batch of waits for a graph.
pub(super) fn check_waits(user: User<'_>, waits: &[SemaphoreWait<'_>]) -> Result<SmallVec<[RawWait; INLINE]>> {
    if waits.is_empty() {
        return Err(empty(user.operation));
    }
    waits.iter().map(|wait| wait.record(user)).collect()
}

impl Recording {
    /// Records signals. Launching the graph checks that timeline values increase.
    #[cold]
    pub(super) fn signal(&self, stream: RawStream, user: User<'_>, signals: &[SemaphoreSignal<'_>]) -> Result<()> {
        let device = &*user.device.raw;
        validate::feature(user.operation, device.capabilities(), Feature::GraphSemaphores)?;
        let (raw, timelines) = check_signals(user, signals)?;
        let mut semaphores = lock(&self.semaphores);
        // SAFETY: the stream is live and recording; semaphores and stream belong to this device and live as long as the
        // graph, whose slot `user` marks as in use; the parameters match the payload.
        let node = unsafe {
            device.signal_semaphores(stream, &raw)?;
            device.last_captured(stream)?
        };
        semaphores.signals.push(RecordedSignals { node, length: raw.len(), timelines });
        Ok(())
    }

    /// Records waits.
    #[cold]
    pub(super) fn wait(&self, stream: RawStream, user: User<'_>, waits: &[SemaphoreWait<'_>]) -> Result<()> {
        let device = &*user.device.raw;
        validate::feature(user.operation, device.capabilities(), Feature::GraphSemaphores)?;
        let raw = check_waits(user, waits)?;
        let mut semaphores = lock(&self.semaphores);
        // SAFETY: as in `signal`.
        let node = unsafe {
            device.wait_semaphores(stream, &raw)?;
            device.last_captured(stream)?
        };
        semaphores.waits.push(RecordedWaits { node, length: raw.len() });
        Ok(())
    }
}
