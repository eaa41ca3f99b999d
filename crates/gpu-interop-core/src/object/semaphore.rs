//! Imported semaphores.
//!
//! The path of a single signal or wait is always inlined. Otherwise its parameters may be copied, and copying the
//! just-written struct stalls on store forwarding, the dominant cost here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use smallvec::SmallVec;

use super::device::DeviceInner;
use super::owned::Owned;
use super::resource::Resource;
use super::stream::Stream;
use crate::backend::{RawSemaphore, RawSignal, RawWait};
use crate::error::{Error, Result};
use crate::handle::{Owner, SemaphoreHandleKind, SemaphorePayload};
use crate::semaphore_ops::{SignalParams, WaitParams};

/// Batch size up to which no heap allocation is needed.
const INLINE: usize = 8;

/// An imported semaphore of another API. Streams signal it and wait for it.
#[derive(Debug)]
pub struct ExternalSemaphore {
    owned: Owned,
    raw: RawSemaphore,
    kind: SemaphoreHandleKind,
    /// Greatest value signalled through this object; the exporter may have signalled greater ones. Shared with graphs.
    last_signalled: Arc<AtomicU64>,
}

/// One signal of a batch. Created by [`ExternalSemaphore`], enqueued by [`Stream::signal`].
#[derive(Debug, Clone, Copy)]
#[must_use = "nothing is signalled until this is passed to Stream::signal"]
pub struct SemaphoreSignal<'a> {
    semaphore: &'a ExternalSemaphore,
    /// In the backend's form: a single signal is passed on without a copy.
    raw: RawSignal,
}

/// One wait of a batch. Created by [`ExternalSemaphore`], enqueued by [`Stream::wait`].
#[derive(Debug, Clone, Copy)]
#[must_use = "nothing waits until this is passed to Stream::wait"]
pub struct SemaphoreWait<'a> {
    semaphore: &'a ExternalSemaphore,
    raw: RawWait,
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
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }

    /// Streams that used the semaphore, one bit for each slot.
    pub(super) fn streams(&self) -> u64 {
        self.owned.in_flight.bits()
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
            return Error::invalid(operation, "the semaphore belongs to another device than the stream")
                .with_context("semaphore's device", self.owned.device.raw.identity());
        }
        Error::invalid(
            operation,
            format!("the semaphore is {:?}, the parameters are for {payload:?}", self.kind.payload()),
        )
        .with_context("handle", self.kind)
    }
}

const SIGNAL: &str = "Stream::signal";
const WAIT: &str = "Stream::wait";

/// User of a semaphore: an operation of a stream or a graph, with its slot.
#[derive(Debug, Clone, Copy)]
pub(super) struct User<'a> {
    pub(super) operation: &'static str,
    pub(super) device: &'a Arc<DeviceInner>,
    pub(super) slot: usize,
}

impl<'a> User<'a> {
    #[inline(always)]
    fn stream(operation: &'static str, stream: &'a Stream) -> Self {
        Self { operation, device: stream.device(), slot: stream.slot() }
    }
}

/// Value that a signal sets a timeline to, with the record of the last one.
#[derive(Debug)]
pub(super) struct TimelineSignal {
    value: u64,
    last: Arc<AtomicU64>,
}

impl TimelineSignal {
    /// As [`SemaphoreSignal::begin`].
    pub(super) fn begin(&self, operation: &'static str) -> Result<u64> {
        grow(operation, &self.last, self.value)
    }

    /// As [`SemaphoreSignal::undo`].
    pub(super) fn undo(&self, previous: u64) {
        self.last.store(previous, Ordering::Relaxed);
    }
}

/// Records a greater value of a timeline. Returns the previous one.
///
/// Not atomic: the application must order signals of one timeline from several threads, and each thread then observes
/// the other's value.
#[inline(always)]
fn grow(operation: &'static str, last: &AtomicU64, value: u64) -> Result<u64> {
    let previous = last.load(Ordering::Relaxed);
    if value <= previous {
        return Err(backwards(operation, value, previous));
    }
    last.store(value, Ordering::Relaxed);
    Ok(previous)
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
    fn begin(&self, stream: &Stream) -> Result<u64> {
        self.semaphore.enter(User::stream(SIGNAL, stream), self.raw.params.payload())?;
        let SignalParams::Value(value) = self.raw.params else { return Ok(0) };
        grow(SIGNAL, &self.semaphore.last_signalled, value)
    }

    /// Restores the previous value after a signal was not enqueued.
    #[cold]
    fn undo(&self, previous: u64) {
        if let SignalParams::Value(_) = self.raw.params {
            self.semaphore.last_signalled.store(previous, Ordering::Relaxed);
        }
    }
}

impl SemaphoreWait<'_> {
    #[inline(always)]
    fn begin(&self, stream: &Stream) -> Result<()> {
        self.semaphore.enter(User::stream(WAIT, stream), self.raw.params.payload())
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
fn backwards(operation: &'static str, value: u64, last: u64) -> Error {
    Error::invalid(operation, "a timeline only grows; signal a greater value")
        .with_context("value", value)
        .with_context("already signalled", last)
}

#[cold]
pub(super) fn empty(operation: &'static str) -> Error {
    Error::invalid(operation, "the batch is empty")
}

impl Stream {
    /// Signals semaphores after all work enqueued before has completed (`cuSignalExternalSemaphoresAsync`).
    ///
    /// Does not allocate for up to 8 signals. The application must order threads that signal one timeline; otherwise
    /// its values may arrive out of order.
    ///
    /// NVIDIA's programming guide requires that the wait for this signal is issued in the exporting API (Vulkan,
    /// Direct3D), after this call. The library cannot check that. In the conformance suite streams also wait for
    /// signals of their own device.
    ///
    /// Drivers may let a signal overtake a fill. Backends prevent this for [`Stream::fill`] and [`Stream::fill_u32`],
    /// but not for fills that the application enqueues with driver functions.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an empty batch, a semaphore of another
    /// device, parameters of the wrong type, or a timeline value not greater than the last one signalled through the
    /// same [`ExternalSemaphore`] (in a graph: when it is launched). Otherwise the driver's error. After an error
    /// nothing is enqueued.
    #[inline(always)]
    pub fn signal(&self, signals: &[SemaphoreSignal<'_>]) -> Result<()> {
        let signalled = match (self.recording(), signals) {
            (Some(recording), _) => recording.signal(self, User::stream(SIGNAL, self), signals),
            (None, [signal]) => self.signal_one(signal),
            _ => self.signal_batch(signals),
        };
        signalled.map_err(|error| self.device().decorate(error))
    }

    /// The common case, without copies: the overhead is comparable to that of the driver binding.
    #[inline(always)]
    fn signal_one(&self, signal: &SemaphoreSignal<'_>) -> Result<()> {
        let previous = signal.begin(self)?;
        // SAFETY: semaphore and stream are live and belong to this device, and the parameters match the payload.
        let enqueued = unsafe { self.device().raw.signal_semaphores(self.as_raw(), std::slice::from_ref(&signal.raw)) };
        if enqueued.is_err() {
            signal.undo(previous);
        }
        enqueued
    }

    fn signal_batch(&self, signals: &[SemaphoreSignal<'_>]) -> Result<()> {
        if signals.is_empty() {
            return Err(empty(SIGNAL));
        }
        let mut previous: SmallVec<[u64; INLINE]> = SmallVec::new();
        let mut raw: SmallVec<[RawSignal; INLINE]> = SmallVec::new();
        // One allocation instead of repeated growth.
        previous.reserve_exact(signals.len());
        raw.reserve_exact(signals.len());
        let begun = signals.iter().try_for_each(|signal| {
            previous.push(signal.begin(self)?);
            raw.push(signal.raw);
            Ok(())
        });
        // SAFETY: as in `signal_one`, for each of them.
        let enqueued = begun.and_then(|()| unsafe { self.device().raw.signal_semaphores(self.as_raw(), &raw) });
        if enqueued.is_err() {
            // In reverse order, for a semaphore that is in the batch twice. Signals that were not begun have no
            // previous value.
            for (signal, previous) in signals.iter().zip(&previous).rev() {
                signal.undo(*previous);
            }
        }
        enqueued
    }

    /// Makes later work wait for semaphores (`cuWaitExternalSemaphoresAsync`).
    ///
    /// NVIDIA's programming guide requires that the signal is issued in the exporting API (Vulkan, Direct3D), before
    /// this call. The library cannot check that. The conformance suite also enqueues waits first;
    /// [`Timeline`](crate::Timeline) describes which other work such a wait may block.
    ///
    /// Does not allocate for up to 8 waits. The wait itself has no timeout (except for keyed mutexes); bound it with
    /// [`Stream::synchronize_timeout`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an empty batch, a semaphore of another
    /// device, or parameters of the wrong type. Otherwise the driver's error. After an error nothing is enqueued.
    #[inline(always)]
    pub fn wait(&self, waits: &[SemaphoreWait<'_>]) -> Result<()> {
        self.about_to_wait();
        let waited = match (self.recording(), waits) {
            (Some(recording), _) => recording.wait(self, User::stream(WAIT, self), waits),
            (None, [wait]) => wait.begin(self).and_then(|()| {
                // SAFETY: semaphore and stream are live and belong to this device, and the parameters match the
                // payload.
                unsafe { self.device().raw.wait_semaphores(self.as_raw(), std::slice::from_ref(&wait.raw)) }
            }),
            _ => self.wait_batch(waits),
        };
        self.note_external_wait();
        waited.map_err(|error| self.device().decorate(error))
    }

    fn wait_batch(&self, waits: &[SemaphoreWait<'_>]) -> Result<()> {
        if waits.is_empty() {
            return Err(empty(WAIT));
        }
        let mut raw: SmallVec<[RawWait; INLINE]> = SmallVec::new();
        raw.reserve_exact(waits.len());
        for wait in waits {
            wait.begin(self)?;
            raw.push(wait.raw);
        }
        // SAFETY: as in `wait`, for each of them.
        unsafe { self.device().raw.wait_semaphores(self.as_raw(), &raw) }
    }
}
