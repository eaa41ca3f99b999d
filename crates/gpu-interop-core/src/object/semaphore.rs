//! Imported semaphores.
//!
//! The path of a single signal or wait is always inlined. Otherwise its parameters may be copied, and copying the
//! just-written struct stalls on store forwarding, the dominant cost here.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use smallvec::SmallVec;

use super::batch_values::LastSignalled;
use super::device_state::{DeviceInner, Owned};
use super::lifetime::Resource;
use super::validate;
use crate::backend::{RawGraphNode, RawSemaphore, RawSignal, RawStream, RawWait};
use crate::capability::Feature;
use crate::error::{Error, Result};
use crate::handle::{Owner, SemaphoreHandleKind, SemaphorePayload};
use crate::semaphore_ops::{SignalParams, WaitParams};
use crate::sync::lock;

/// An imported semaphore of another API. Streams signal it and wait for it.
#[doc(alias("CUexternalSemaphore", "cudaExternalSemaphore_t", "hipExternalSemaphore_t"))]
#[derive(Debug)]
pub struct ExternalSemaphore {
    owned: Owned,
    raw: RawSemaphore,
    kind: SemaphoreHandleKind,
    last_signalled: Arc<LastSignalled>,
}

/// One signal of a batch. Created by [`ExternalSemaphore`], enqueued by [`Stream::signal`](crate::Stream::signal).
#[derive(Debug, Clone, Copy)]
#[must_use = "nothing is signalled until this is passed to Stream::signal"]
pub struct SemaphoreSignal<'a> {
    semaphore: &'a ExternalSemaphore,
    /// In the backend's form: a single signal is passed on without a copy.
    pub(super) raw: RawSignal,
}

/// One wait of a batch. Created by [`ExternalSemaphore`], enqueued by [`Stream::wait`](crate::Stream::wait).
#[derive(Debug, Clone, Copy)]
#[must_use = "nothing waits until this is passed to Stream::wait"]
pub struct SemaphoreWait<'a> {
    semaphore: &'a ExternalSemaphore,
    pub(super) raw: RawWait,
}

impl ExternalSemaphore {
    pub(super) fn new(
        device: Arc<DeviceInner>,
        raw: RawSemaphore,
        kind: SemaphoreHandleKind,
        owner: Option<&Owner>,
    ) -> Self {
        device.lifetimes.keep(Resource::Semaphore(raw), owner);
        let owned = Owned::new(device, Resource::Semaphore(raw));
        Self { owned, raw, kind, last_signalled: Arc::default() }
    }

    /// Kind of the imported handle.
    #[must_use]
    pub fn handle_kind(&self) -> SemaphoreHandleKind {
        self.kind
    }

    /// The driver's object, valid while `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> RawSemaphore {
        self.raw
    }

    /// Creates a signal of a binary semaphore. A second one must not run before a wait has consumed the first.
    #[inline]
    pub fn signal(&self) -> SemaphoreSignal<'_> {
        self.signal_with(SignalParams::Binary)
    }

    /// Creates a signal that sets a timeline semaphore or fence to `value`.
    #[inline(always)]
    pub fn signal_value(&self, value: u64) -> SemaphoreSignal<'_> {
        self.signal_with(SignalParams::Value(value))
    }

    /// Creates a release of a keyed mutex that this device has acquired. The other API acquires it with the same key.
    pub fn release_key(&self, key: u64) -> SemaphoreSignal<'_> {
        self.signal_with(SignalParams::Key(key))
    }

    /// Creates a signal with the given parameters.
    #[inline(always)]
    pub fn signal_with(&self, params: SignalParams) -> SemaphoreSignal<'_> {
        SemaphoreSignal { semaphore: self, raw: RawSignal { semaphore: self.raw, params } }
    }

    /// Creates a wait for a binary semaphore. It consumes the signal: enqueue one wait for each signal, here or in the
    /// exporting API.
    #[inline]
    pub fn wait(&self) -> SemaphoreWait<'_> {
        self.wait_with(WaitParams::Binary)
    }

    /// Creates a wait until a timeline semaphore or fence is at least `value`.
    #[inline(always)]
    pub fn wait_value(&self, value: u64) -> SemaphoreWait<'_> {
        self.wait_with(WaitParams::Value(value))
    }

    /// Creates an acquisition of a keyed mutex, with the key of its release in the other API; `None` waits without a
    /// timeout.
    ///
    /// CUDA's reference does not define the fate of work behind an acquisition that times out, and no call reports the
    /// timeout. That work may run without the mutex: with a timeout, check by other means that the mutex was released
    /// in time before using the results and before releasing the mutex here.
    pub fn acquire_key(&self, key: u64, timeout: Option<Duration>) -> SemaphoreWait<'_> {
        self.wait_with(WaitParams::Key { key, timeout })
    }

    /// Creates a wait with the given parameters.
    #[inline(always)]
    pub fn wait_with(&self, params: WaitParams) -> SemaphoreWait<'_> {
        SemaphoreWait { semaphore: self, raw: RawWait { semaphore: self.raw, params } }
    }

    /// Destroys the import and returns the driver's error. Pending signals and waits defer this until they have
    /// completed.
    ///
    /// # Errors
    /// The driver's error (`cuDestroyExternalSemaphore`). The object is consumed in either case.
    #[doc(alias("cuDestroyExternalSemaphore", "cudaDestroyExternalSemaphore", "hipDestroyExternalSemaphore"))]
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }

    /// Streams that used the semaphore, one bit for each slot.
    pub(super) fn streams(&self) -> u64 {
        self.owned.in_flight.bits()
    }

    pub(super) fn device(&self) -> &Arc<DeviceInner> {
        &self.owned.device
    }

    /// Records a use on the stream in `slot`.
    #[inline]
    pub(super) fn mark(&self, slot: usize) {
        self.owned.in_flight.mark(slot);
    }

    /// Greatest value signalled through this object.
    pub(super) fn last_signalled(&self) -> &Arc<LastSignalled> {
        &self.last_signalled
    }

    /// Checks that this semaphore can be used with parameters for `payload`, and records the use.
    #[inline(always)]
    fn enter(&self, user: User<'_>, payload: SemaphorePayload) -> Result<()> {
        if !Arc::ptr_eq(&self.owned.device, user.device) || payload != self.kind.payload() {
            return Err(self.mismatch(user, payload));
        }
        self.owned.in_flight.mark(user.slot);
        Ok(())
    }

    /// Error of [`ExternalSemaphore::enter`].
    #[cold]
    fn mismatch(&self, User { operation, device, .. }: User<'_>, payload: SemaphorePayload) -> Error {
        if !Arc::ptr_eq(&self.owned.device, device) {
            let (own, other) = (device.raw.identity(), self.owned.device.raw.identity());
            return validate::other_device(operation, "semaphore", own, other);
        }
        Error::invalid(
            operation,
            format!("the semaphore is {:?}, the parameters are for {payload:?}", self.kind.payload()),
        )
        .with_context("handle", self.kind)
    }
}

/// User of a semaphore: an operation of a stream or a graph, with its slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct User<'a> {
    pub(super) operation: &'static str,
    pub(super) device: &'a Arc<DeviceInner>,
    pub(super) slot: usize,
}

/// Value that a signal sets a timeline to, with the record of the last one.
#[derive(Debug)]
pub(super) struct TimelineSignal {
    value: u64,
    last: Arc<LastSignalled>,
}

impl TimelineSignal {
    /// As [`SemaphoreSignal::begin`].
    pub(super) fn begin(&self, operation: &'static str) -> Result<u64> {
        self.last.grow(operation, self.value)
    }

    /// As [`SemaphoreSignal::undo`].
    pub(super) fn undo(&self, previous: u64) {
        self.last.set(previous);
    }
}

impl SemaphoreSignal<'_> {
    /// Validates the signal for a graph.
    pub(super) fn record(&self, user: User<'_>) -> Result<(RawSignal, Option<TimelineSignal>)> {
        self.semaphore.enter(user, self.raw.params.payload())?;
        no_fence_in_graph(user, self.raw.params.payload())?;
        let timeline = match self.raw.params {
            SignalParams::Value(value) => Some(TimelineSignal { value, last: self.semaphore.last_signalled.clone() }),
            _ => None,
        };
        Ok((self.raw, timeline))
    }

    /// Validates the signal and records its value. Returns the previous value, for [`SemaphoreSignal::undo`].
    #[inline(always)]
    pub(super) fn begin(&self, user: User<'_>) -> Result<u64> {
        self.semaphore.enter(user, self.raw.params.payload())?;
        let SignalParams::Value(value) = self.raw.params else { return Ok(0) };
        self.semaphore.last_signalled.grow(user.operation, value)
    }

    /// Restores the previous value after a signal was not enqueued.
    #[cold]
    pub(super) fn undo(&self, previous: u64) {
        if let SignalParams::Value(_) = self.raw.params {
            self.semaphore.last_signalled.set(previous);
        }
    }
}

impl SemaphoreWait<'_> {
    /// Validates the wait.
    #[inline(always)]
    pub(super) fn begin(&self, user: User<'_>) -> Result<()> {
        self.semaphore.enter(user, self.raw.params.payload())
    }

    /// Validates the wait for a graph.
    pub(super) fn record(&self, user: User<'_>) -> Result<RawWait> {
        self.semaphore.enter(user, self.raw.params.payload())?;
        no_fence_in_graph(user, self.raw.params.payload())?;
        Ok(self.raw)
    }
}

/// Rejects NvSciSync fences in graphs: each launch would access the fence, which the application may have freed.
fn no_fence_in_graph(user: User<'_>, payload: SemaphorePayload) -> Result<()> {
    if payload == SemaphorePayload::NvSciSync {
        return Err(Error::unsupported(
            user.operation,
            "a graph cannot borrow an NvSciSync fence; signal and wait before and after the launch",
        ));
    }
    Ok(())
}

#[cold]
pub(super) fn empty(operation: &'static str) -> Error {
    Error::invalid(operation, "the batch is empty")
}

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
