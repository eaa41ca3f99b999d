//! Prepared batches of semaphore operations: validated and encoded once, enqueued many times.

use std::ops::Deref;
use std::sync::Arc;

use super::device_state::DeviceInner;
use super::semaphore::{ExternalSemaphore, SemaphoreSignal, SemaphoreWait, User, empty};
use super::stream::Stream;
use crate::backend::{BlockLayout, RawSemaphore, RawSignal, RawWait, SemaphoreBlocks};
use crate::error::{Error, Result};
use crate::handle::SemaphorePayload;
use crate::semaphore_ops::{SignalParams, WaitParams};

const SIGNAL: &str = "Stream::signal_prepared";
const WAIT: &str = "Stream::wait_prepared";

mod sealed {
    pub trait Sealed {}
    impl Sealed for &super::ExternalSemaphore {}
    impl Sealed for std::sync::Arc<super::ExternalSemaphore> {}
}

/// A reference to an [`ExternalSemaphore`] that a prepared batch keeps: borrowed or shared.
pub trait SemaphoreRef: Deref<Target = ExternalSemaphore> + sealed::Sealed {}

impl SemaphoreRef for &ExternalSemaphore {}
impl SemaphoreRef for Arc<ExternalSemaphore> {}

/// Signals of several semaphores, prepared once and enqueued any number of times with one driver call and no allocation
/// ([`Stream::signal_prepared`]). Faster than [`Stream::signal`] for more than one semaphore, which encodes each signal
/// again.
#[derive(Debug)]
pub struct SignalBatch<S> {
    batch: Batch<S, RawSignal>,
    /// For each semaphore, the last value before the signal that is being enqueued.
    previous: Box<[u64]>,
}

/// Waits for several semaphores, prepared once and enqueued any number of times with one driver call and no allocation
/// ([`Stream::wait_prepared`]).
#[derive(Debug)]
pub struct WaitBatch<S> {
    batch: Batch<S, RawWait>,
}

#[derive(Debug)]
struct Batch<S, R> {
    device: Arc<DeviceInner>,
    semaphores: Box<[S]>,
    handles: Box<[RawSemaphore]>,
    /// Timeline values; 0 for a binary semaphore.
    values: Box<[u64]>,
    form: Form<R>,
}

/// Parameters of a batch.
#[derive(Debug)]
enum Form<R> {
    /// The driver's blocks, one for each semaphore.
    Blocks(Box<[u64]>, BlockLayout),
    /// For backends without blocks.
    Raw(Box<[R]>),
}

impl<S: SemaphoreRef, R> Batch<S, R> {
    fn new(
        operation: &'static str,
        semaphores: impl IntoIterator<Item = S>,
        layout: impl FnOnce(&SemaphoreBlocks) -> BlockLayout,
        raw: impl Fn(RawSemaphore, SemaphorePayload) -> R,
    ) -> Result<Self> {
        let semaphores: Box<[S]> = semaphores.into_iter().collect();
        let device = semaphores.first().ok_or_else(|| empty(operation))?.device().clone();
        for (index, semaphore) in semaphores.iter().enumerate() {
            let payload = semaphore.handle_kind().payload();
            let message = if !Arc::ptr_eq(semaphore.device(), &device) {
                "the semaphores of a batch must belong to one device"
            } else if !matches!(payload, SemaphorePayload::Binary | SemaphorePayload::Timeline) {
                "a prepared batch has binary semaphores and timelines only; use Stream::signal and Stream::wait"
            } else {
                continue;
            };
            let error = Error::invalid(operation, message).with_context("index", index);
            return Err(device.decorate(error.with_context("handle", semaphore.handle_kind())));
        }
        let handles: Box<[_]> = semaphores.iter().map(|semaphore| semaphore.as_raw()).collect();
        let form = match device.raw.semaphore_blocks() {
            Some(blocks) => {
                let layout = layout(&blocks);
                Form::Blocks(vec![0; handles.len() * layout.words].into(), layout)
            }
            None => {
                let raw = |semaphore: &S| raw(semaphore.as_raw(), semaphore.handle_kind().payload());
                Form::Raw(semaphores.iter().map(raw).collect())
            }
        };
        Ok(Self { device, values: vec![0; handles.len()].into(), semaphores, handles, form })
    }

    #[inline]
    fn set(&mut self, operation: &'static str, index: usize, value: u64, raw: impl FnOnce(&mut R, u64)) -> Result<()> {
        let is_timeline = |semaphore: &S| semaphore.handle_kind().payload() == SemaphorePayload::Timeline;
        if !self.semaphores.get(index).is_some_and(is_timeline) {
            return Err(self.not_a_timeline(operation, index));
        }
        self.values[index] = value;
        match &mut self.form {
            Form::Blocks(blocks, layout) => blocks[index * layout.words + layout.value] = value,
            Form::Raw(all) => raw(&mut all[index], value),
        }
        Ok(())
    }

    #[cold]
    fn not_a_timeline(&self, operation: &'static str, index: usize) -> Error {
        let message = "the batch has no timeline at this index; only timelines have values";
        let error = Error::invalid(operation, message).with_context("index", index);
        self.device.decorate(error.with_context("semaphores", self.semaphores.len()))
    }
}

impl<S: SemaphoreRef> SignalBatch<S> {
    /// Prepares signals of binary semaphores and timelines of one device, in this order. Set the value of each timeline
    /// ([`set`](Self::set)) before each use; the initial values are 0, which cannot be signalled.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an empty batch, semaphores of several
    /// devices, keyed mutexes and NvSciSync objects.
    pub fn new(semaphores: impl IntoIterator<Item = S>) -> Result<Self> {
        let raw = |semaphore, payload| RawSignal {
            semaphore,
            params: if payload == SemaphorePayload::Timeline { SignalParams::Value(0) } else { SignalParams::Binary },
        };
        let batch = Batch::new("SignalBatch::new", semaphores, |blocks| blocks.signal, raw)?;
        Ok(Self { previous: vec![0; batch.semaphores.len()].into(), batch })
    }

    /// Sets the value that the timeline at `index` is signalled with next.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if there is no timeline at this index.
    #[inline]
    pub fn set(&mut self, index: usize, value: u64) -> Result<()> {
        self.batch.set("SignalBatch::set", index, value, |raw, value| raw.params = SignalParams::Value(value))
    }

    /// Semaphores of the batch, in order.
    #[must_use]
    pub fn semaphores(&self) -> &[S] {
        &self.batch.semaphores
    }

    /// Validates the signals and records their values.
    fn begin(&mut self, slot: usize) -> Result<()> {
        for (index, semaphore) in self.batch.semaphores.iter().enumerate() {
            let begun = semaphore.begin_prepared(SIGNAL, slot, self.batch.values[index]);
            match begun {
                Ok(previous) => self.previous[index] = previous,
                Err(error) => {
                    self.undo(index);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Reverts the first `count` signals of [`begin`](Self::begin), in reverse order, for a semaphore that is in the
    /// batch twice.
    #[cold]
    fn undo(&self, count: usize) {
        for (semaphore, previous) in self.batch.semaphores.iter().zip(&self.previous).take(count).rev() {
            semaphore.undo_prepared(*previous);
        }
    }
}

impl<S: SemaphoreRef> WaitBatch<S> {
    /// Prepares waits for binary semaphores and timelines of one device, in this order. The initial values are 0.
    ///
    /// # Errors
    /// As for [`SignalBatch::new`].
    pub fn new(semaphores: impl IntoIterator<Item = S>) -> Result<Self> {
        let raw = |semaphore, payload| RawWait {
            semaphore,
            params: if payload == SemaphorePayload::Timeline { WaitParams::Value(0) } else { WaitParams::Binary },
        };
        Ok(Self { batch: Batch::new("WaitBatch::new", semaphores, |blocks| blocks.wait, raw)? })
    }

    /// Sets the value that the timeline at `index` must reach.
    ///
    /// # Errors
    /// As for [`SignalBatch::set`].
    #[inline]
    pub fn set(&mut self, index: usize, value: u64) -> Result<()> {
        self.batch.set("WaitBatch::set", index, value, |raw, value| raw.params = WaitParams::Value(value))
    }

    /// Semaphores of the batch, in order.
    #[must_use]
    pub fn semaphores(&self) -> &[S] {
        &self.batch.semaphores
    }
}

impl Stream {
    /// Enqueues prepared signals, as [`Stream::signal`] does. Does not allocate.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a batch of another device, or a timeline
    /// value not greater than the last one signalled through the same semaphore object. Otherwise the driver's error.
    /// After an error nothing is enqueued.
    pub fn signal_prepared<S: SemaphoreRef>(&self, batch: &mut SignalBatch<S>) -> Result<()> {
        self.check_device(SIGNAL, "batch", &batch.batch.device)?;
        self.enqueue_signals(batch).map_err(|error| self.device().decorate(error))
    }

    fn enqueue_signals<S: SemaphoreRef>(&self, batch: &mut SignalBatch<S>) -> Result<()> {
        let device = self.device();
        if let Some(recording) = self.recording() {
            let of = |(semaphore, value): (&'_ S, &u64)| -> SignalParams {
                match semaphore.handle_kind().payload() {
                    SemaphorePayload::Timeline => SignalParams::Value(*value),
                    _ => SignalParams::Binary,
                }
            };
            let pairs = batch.batch.semaphores.iter().zip(&batch.batch.values);
            let signals: Vec<SemaphoreSignal<'_>> = pairs.map(|pair| pair.0.signal_with(of(pair))).collect();
            return recording.signal(self.as_raw(), User { operation: SIGNAL, device, slot: self.slot() }, &signals);
        }
        batch.begin(self.slot())?;
        let Batch { handles, form, .. } = &batch.batch;
        // SAFETY: the batch keeps its semaphores, which belong to this device, as does the live stream. The blocks have
        // the backend's layout and one element for each handle; the parameters match the payloads.
        let enqueued = unsafe {
            match form {
                Form::Blocks(blocks, _) => device.raw.signal_blocks(self.as_raw(), handles, blocks),
                Form::Raw(raw) => device.raw.signal_semaphores(self.as_raw(), raw),
            }
        };
        if enqueued.is_err() {
            batch.undo(batch.previous.len());
        }
        enqueued
    }

    /// Enqueues prepared waits, as [`Stream::wait`] does. Does not allocate.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a batch of another device. Otherwise the
    /// driver's error. After an error nothing is enqueued.
    pub fn wait_prepared<S: SemaphoreRef>(&self, batch: &WaitBatch<S>) -> Result<()> {
        self.check_device(WAIT, "batch", &batch.batch.device)?;
        self.about_to_wait();
        let waited = self.enqueue_waits(&batch.batch);
        self.note_external_wait();
        waited.map_err(|error| self.device().decorate(error))
    }

    fn enqueue_waits<S: SemaphoreRef>(&self, batch: &Batch<S, RawWait>) -> Result<()> {
        let device = self.device();
        if let Some(recording) = self.recording() {
            let pairs = batch.semaphores.iter().zip(&batch.values);
            let waits: Vec<SemaphoreWait<'_>> = pairs
                .map(|(semaphore, value)| match semaphore.handle_kind().payload() {
                    SemaphorePayload::Timeline => semaphore.wait_value(*value),
                    _ => semaphore.wait(),
                })
                .collect();
            return recording.wait(self.as_raw(), User { operation: WAIT, device, slot: self.slot() }, &waits);
        }
        batch.semaphores.iter().for_each(|semaphore| semaphore.mark(self.slot()));
        // SAFETY: as in `enqueue_signals`.
        unsafe {
            match &batch.form {
                Form::Blocks(blocks, _) => device.raw.wait_blocks(self.as_raw(), &batch.handles, blocks),
                Form::Raw(raw) => device.raw.wait_semaphores(self.as_raw(), raw),
            }
        }
    }
}
