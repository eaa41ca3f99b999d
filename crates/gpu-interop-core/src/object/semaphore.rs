//! Imported semaphores.
//!
//! What a single signal or wait runs through is always inlined. Otherwise its parameters may be copied on the way, and
//! copies of what was just written in parts made processors wait longer than all else here together.

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

/// How many signals or waits of a batch need no heap allocation.
const INLINE: usize = 8;

/// A semaphore of another API, imported. Streams signal it and wait for it.
#[derive(Debug)]
pub struct ExternalSemaphore {
    owned: Owned,
    raw: RawSemaphore,
    kind: SemaphoreHandleKind,
    /// The greatest value signalled through this object. The exporter may be further on. Graphs share it.
    last_signalled: Arc<AtomicU64>,
}

/// One signal of a batch. Made by [`ExternalSemaphore`], done by [`Stream::signal`].
#[derive(Debug, Clone, Copy)]
#[must_use = "nothing is signalled until this is passed to Stream::signal"]
pub struct SemaphoreSignal<'a> {
    semaphore: &'a ExternalSemaphore,
    /// Ready for the backend: a single signal is passed on without being copied.
    raw: RawSignal,
}

/// One wait of a batch. Made by [`ExternalSemaphore`], done by [`Stream::wait`].
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

    /// The kind of handle it was imported from.
    #[must_use]
    pub fn handle_kind(&self) -> SemaphoreHandleKind {
        self.kind
    }

    /// The driver's object, valid while `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> RawSemaphore {
        self.raw
    }

    /// A signal of a binary semaphore. A second one must not run before a wait has consumed the first.
    #[inline]
    pub fn signal(&self) -> SemaphoreSignal<'_> {
        self.signal_with(SignalParams::Binary)
    }

    /// A signal that sets a timeline semaphore or fence to `value`.
    #[inline(always)]
    pub fn signal_value(&self, value: u64) -> SemaphoreSignal<'_> {
        self.signal_with(SignalParams::Value(value))
    }

    /// A release of a keyed mutex that this device has acquired. The other side acquires it with the same key.
    pub fn release_key(&self, key: u64) -> SemaphoreSignal<'_> {
        self.signal_with(SignalParams::Key(key))
    }

    /// A signal with any parameters.
    #[inline(always)]
    pub fn signal_with(&self, params: SignalParams) -> SemaphoreSignal<'_> {
        SemaphoreSignal { semaphore: self, raw: RawSignal { semaphore: self.raw, params } }
    }

    /// A wait for a binary semaphore; it consumes the signal, so that there is one wait for each signal, here or in the
    /// exporting API.
    #[inline]
    pub fn wait(&self) -> SemaphoreWait<'_> {
        self.wait_with(WaitParams::Binary)
    }

    /// A wait until a timeline semaphore or fence is at least `value`.
    #[inline(always)]
    pub fn wait_value(&self, value: u64) -> SemaphoreWait<'_> {
        self.wait_with(WaitParams::Value(value))
    }

    /// An acquisition of a keyed mutex, by the key that the other side releases it with; `None` waits without end.
    ///
    /// CUDA's reference does not say what happens to the work behind an acquisition that times out, and no call reports the
    /// timeout. That work may run without the mutex: with a timeout, check by other means that the mutex was released in
    /// time, before the results are used and before the mutex is released here.
    pub fn acquire_key(&self, key: u64, timeout: Option<Duration>) -> SemaphoreWait<'_> {
        self.wait_with(WaitParams::Key { key, timeout })
    }

    /// A wait with any parameters.
    #[inline(always)]
    pub fn wait_with(&self, params: WaitParams) -> SemaphoreWait<'_> {
        SemaphoreWait { semaphore: self, raw: RawWait { semaphore: self.raw, params } }
    }

    /// Ends the import, and says if that failed. If signals or waits are pending, it ends once they have run.
    ///
    /// # Errors
    /// What the driver answers (`cuDestroyExternalSemaphore`); the object is gone either way.
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }

    /// The streams that it was used on, one bit a slot.
    pub(super) fn streams(&self) -> u64 {
        self.owned.in_flight.bits()
    }

    /// Checks that this semaphore can be used with parameters for `payload`, and notes the use.
    #[inline(always)]
    fn enter(&self, user: User<'_>, payload: SemaphorePayload) -> Result<()> {
        if !Arc::ptr_eq(&self.owned.device, user.device) || payload != self.kind.payload() {
            return Err(self.refused(user, payload));
        }
        self.owned.in_flight.mark(user.slot);
        Ok(())
    }

    /// Why [`ExternalSemaphore::enter`] refuses.
    #[cold]
    fn refused(&self, User { operation, device, .. }: User<'_>, payload: SemaphorePayload) -> Error {
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

/// Who uses semaphores: a stream or a graph, by its slot, in an operation.
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

/// The value that a signal sets a timeline to, and where the last one is remembered.
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

/// Takes a timeline to a greater value than before. Returns that.
///
/// Not one atomic step: whoever signals a timeline from two threads must order them anyway, and then each sees the
/// other's value.
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
    /// Checks the signal for a graph, which makes it when it is launched.
    pub(super) fn record(&self, user: User<'_>) -> Result<(RawSignal, Option<TimelineSignal>)> {
        self.semaphore.enter(user, self.raw.params.payload())?;
        no_fence_in_graph(user, self.raw.params.payload())?;
        let timeline = match self.raw.params {
            SignalParams::Value(value) => Some(TimelineSignal { value, last: self.semaphore.last_signalled.clone() }),
            _ => None,
        };
        Ok((self.raw, timeline))
    }

    /// Checks the signal and notes its value. Returns the value before, for [`SemaphoreSignal::undo`].
    #[inline(always)]
    fn begin(&self, stream: &Stream) -> Result<u64> {
        self.semaphore.enter(User::stream(SIGNAL, stream), self.raw.params.payload())?;
        let SignalParams::Value(value) = self.raw.params else { return Ok(0) };
        grow(SIGNAL, &self.semaphore.last_signalled, value)
    }

    /// Takes back a value whose signal was not enqueued.
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

    /// Checks the wait for a graph.
    pub(super) fn record(&self, user: User<'_>) -> Result<RawWait> {
        self.semaphore.enter(user, self.raw.params.payload())?;
        no_fence_in_graph(user, self.raw.params.payload())?;
        Ok(self.raw)
    }
}

/// A graph would write or read the fence whenever it is launched, long after whoever lent it may have dropped it.
fn no_fence_in_graph(user: User<'_>, payload: SemaphorePayload) -> Result<()> {
    if payload == SemaphorePayload::NvSciSync {
        return Err(Error::unsupported(
            user.operation,
            "a graph cannot borrow an NvSciSync fence; signal and wait around it",
        ));
    }
    Ok(())
}

#[cold]
fn backwards(operation: &'static str, value: u64, last: u64) -> Error {
    Error::invalid(operation, "a timeline only grows; drivers would let it go backwards")
        .with_context("value", value)
        .with_context("already signalled", last)
}

#[cold]
pub(super) fn empty(operation: &'static str) -> Error {
    Error::invalid(operation, "the batch is empty")
}

impl Stream {
    /// Signals semaphores once everything enqueued before has run (`cuSignalExternalSemaphoresAsync`).
    ///
    /// Allocates nothing for up to 8 signals. Threads that signal one timeline must be ordered by the application, or
    /// its values may arrive out of order.
    ///
    /// NVIDIA's programming guide demands that the wait for this signal is issued in the exporting API (Vulkan, Direct3D),
    /// after this call. The library cannot see that API's calls. In the conformance suite streams also wait for signals of
    /// their own device.
    ///
    /// Drivers may let a signal overtake a fill. Backends keep that from happening to [`Stream::fill`] and its like, but
    /// not to a fill that the application enqueues by the driver's own functions.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an empty batch, a semaphore of another
    /// device, parameters of the wrong sort, or a timeline value not greater than one already signalled through
    /// the same [`ExternalSemaphore`] (in a graph: when that is launched); then nothing is enqueued. Else what the driver
    /// answers.
    #[inline(always)]
    pub fn signal(&self, signals: &[SemaphoreSignal<'_>]) -> Result<()> {
        let signalled = match (self.recording(), signals) {
            (Some(recording), _) => recording.signal(self, User::stream(SIGNAL, self), signals),
            (None, [signal]) => self.signal_one(signal),
            _ => self.signal_batch(signals),
        };
        signalled.map_err(|error| self.device().decorate(error))
    }

    /// The common case, without any copying: a binding's own call costs hardly more than this adds.
    #[inline(always)]
    fn signal_one(&self, signal: &SemaphoreSignal<'_>) -> Result<()> {
        let previous = signal.begin(self)?;
        // SAFETY: semaphore and stream are live and of this device, and the parameters are of the right sort.
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
        // Once, instead of growing in steps.
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
            // Backwards, for a semaphore that is in the batch twice. What was not begun has no previous value.
            for (signal, previous) in signals.iter().zip(&previous).rev() {
                signal.undo(*previous);
            }
        }
        enqueued
    }

    /// Makes everything enqueued from here on wait for semaphores (`cuWaitExternalSemaphoresAsync`).
    ///
    /// NVIDIA's programming guide demands that the signal is issued in the exporting API (Vulkan, Direct3D), before this
    /// call. The library cannot see that API's calls. In the conformance suite waits also come first; what such a wait may
    /// hold back is said at [`Timeline`](crate::Timeline).
    ///
    /// Allocates nothing for up to 8 waits. The wait itself has no time limit (except a keyed mutex's); bound it with
    /// [`Stream::synchronize_timeout`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an empty batch, a semaphore of another
    /// device, or parameters of the wrong sort; then nothing is enqueued. Else what the driver answers.
    #[inline(always)]
    pub fn wait(&self, waits: &[SemaphoreWait<'_>]) -> Result<()> {
        self.about_to_wait();
        let waited = match (self.recording(), waits) {
            (Some(recording), _) => recording.wait(self, User::stream(WAIT, self), waits),
            (None, [wait]) => wait.begin(self).and_then(|()| {
                // SAFETY: semaphore and stream are live and of this device, and the parameters are of the right sort.
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
