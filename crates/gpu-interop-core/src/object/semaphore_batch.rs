//! Batches of semaphore operations that a stream enqueues.

use smallvec::SmallVec;

use super::recording::INLINE;
use super::semaphore::{SemaphoreSignal, SemaphoreWait, User, empty};
use super::stream::Stream;
use crate::backend::{RawSignal, RawWait};
use crate::error::Result;

const SIGNAL: &str = "Stream::signal";
const WAIT: &str = "Stream::wait";

impl Stream {
    /// Signals semaphores after all work enqueued before has completed (`cuSignalExternalSemaphoresAsync`).
    ///
    /// Does not allocate for up to 8 signals; for a batch that is signalled repeatedly, a
    /// [`SignalBatch`](crate::SignalBatch) is faster. The application must order threads that signal one timeline; otherwise
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
    /// same [`ExternalSemaphore`](crate::ExternalSemaphore) (in a graph: when it is launched). Otherwise the driver's
    /// error. After an error nothing is enqueued.
    #[doc(alias(
        "cuSignalExternalSemaphoresAsync",
        "cudaSignalExternalSemaphoresAsync",
        "hipSignalExternalSemaphoresAsync"
    ))]
    #[inline(always)]
    pub fn signal(&self, signals: &[SemaphoreSignal<'_>]) -> Result<()> {
        self.device().check_process(SIGNAL)?;
        let signalled = match (self.recording(), signals) {
            (Some(recording), _) => recording.signal(self.as_raw(), self.user(SIGNAL), signals),
            (None, [signal]) => self.signal_one(signal),
            _ => self.signal_batch(signals),
        };
        signalled.map_err(|error| self.device().decorate(error))
    }

    #[inline(always)]
    pub(super) fn user(&self, operation: &'static str) -> User<'_> {
        User { operation, device: self.device(), slot: self.slot() }
    }

    /// The common case, without copies: the overhead is comparable to that of the driver binding.
    #[inline(always)]
    fn signal_one(&self, signal: &SemaphoreSignal<'_>) -> Result<()> {
        let previous = signal.begin(self.user(SIGNAL))?;
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
            previous.push(signal.begin(self.user(SIGNAL))?);
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
    /// Does not allocate for up to 8 waits; for a batch that is waited for repeatedly, a [`WaitBatch`](crate::WaitBatch)
    /// is faster. The wait itself has no timeout (except for keyed mutexes); bound it with
    /// [`Stream::synchronize_timeout`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an empty batch, a semaphore of another
    /// device, or parameters of the wrong type. Otherwise the driver's error. After an error nothing is enqueued.
    #[doc(alias("cuWaitExternalSemaphoresAsync", "cudaWaitExternalSemaphoresAsync", "hipWaitExternalSemaphoresAsync"))]
    #[inline(always)]
    pub fn wait(&self, waits: &[SemaphoreWait<'_>]) -> Result<()> {
        self.device().check_process(WAIT)?;
        self.about_to_wait();
        let waited = match (self.recording(), waits) {
            (Some(recording), _) => recording.wait(self.as_raw(), self.user(WAIT), waits),
            (None, [wait]) => wait.begin(self.user(WAIT)).and_then(|()| {
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
            wait.begin(self.user(WAIT))?;
            raw.push(wait.raw);
        }
        // SAFETY: as in `wait`, for each of them.
        unsafe { self.device().raw.wait_semaphores(self.as_raw(), &raw) }
    }
}
