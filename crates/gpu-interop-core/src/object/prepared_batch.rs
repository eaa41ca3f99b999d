//! Prepared batches of semaphore operations: validated and encoded once, enqueued many times.

use std::ops::Deref;
use std::sync::Arc;

use super::batch_values::{BatchValues, NotGreater, RecordedValues, backwards};
use super::device_state::{DeviceInner, InFlight};
use super::semaphore::{ExternalSemaphore, Recording, empty};
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
    last: BatchValues,
    /// The value of [`fill`](Self::fill), until another is set.
    filled: Option<u64>,
    /// Place of the only timeline's value, if there is one timeline.
    only: Option<usize>,
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
    form: Form<R>,
    /// Place of each value in the parameters; `NO_VALUE` for a binary semaphore.
    places: Box<[usize]>,
    /// Number of timelines.
    timelines: usize,
    layout: BlockLayout,
    /// Streams on which the use of every semaphore has been recorded.
    marked: InFlight,
}

/// Past the end of every array of parameters.
const NO_VALUE: usize = usize::MAX;

impl<S: SemaphoreRef, R: Valued> Batch<S, R> {
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
        // A layout without room for the value is no layout.
        let blocks = device.raw.semaphore_blocks().map(|blocks| layout(&blocks));
        let (form, layout) = match blocks.filter(|layout| layout.value < layout.words) {
            Some(layout) => (Form::Blocks(vec![0; handles.len() * layout.words].into()), layout),
            None => {
                let raw = |semaphore: &S| raw(semaphore.as_raw(), semaphore.handle_kind().payload());
                (Form::Raw(semaphores.iter().map(raw).collect()), BlockLayout { words: 1, value: 0 })
            }
        };
        let place =
            |(index, semaphore)| if is_timeline(semaphore) { index * layout.words + layout.value } else { NO_VALUE };
        let places: Box<[_]> = semaphores.iter().enumerate().map(place).collect();
        let timelines = places.iter().filter(|place| **place != NO_VALUE).count();
        Ok(Self { device, places, timelines, layout, semaphores, handles, form, marked: InFlight::default() })
    }

    #[inline]
    fn set(&mut self, operation: &'static str, index: usize, value: u64) -> Result<()> {
        let place = self.places.get(index).copied().unwrap_or(NO_VALUE);
        self.form.set(place, value).ok_or_else(|| self.not_a_timeline(operation, index))
    }

    /// Sets the values of all timelines, in order.
    #[inline]
    fn set_all(&mut self, operation: &'static str, values: &[u64]) -> Result<()> {
        if values.len() != self.timelines {
            return Err(self.other_count(operation, values.len()));
        }
        self.set_each(values.iter().copied());
        Ok(())
    }

    /// Sets the values of all timelines, in order.
    #[inline]
    fn set_each(&mut self, values: impl Iterator<Item = u64>) {
        match &mut self.form {
            // The common case: one value in each block.
            Form::Blocks(blocks) if self.timelines == self.handles.len() => self.layout.set_values(blocks, values),
            Form::Raw(all) if self.timelines == all.len() => {
                all.iter_mut().zip(values).for_each(|(raw, value)| raw.set(value));
            }
            form => {
                for (place, value) in self.places.iter().filter(|place| **place != NO_VALUE).zip(values) {
                    form.set(*place, value);
                }
            }
        }
    }

    /// The value of each timeline, 0 for a binary semaphore.
    #[inline]
    fn value(&self, place: usize) -> u64 {
        self.form.value(place)
    }

    /// The operations of the batch one by one, for a graph.
    fn operations<'a, T>(
        &'a self,
        timeline: impl Fn(&'a ExternalSemaphore, u64) -> T,
        binary: impl Fn(&'a ExternalSemaphore) -> T,
    ) -> Vec<T> {
        let operation = |(semaphore, place): (&'a S, &usize)| {
            if is_timeline(semaphore) { timeline(semaphore, self.value(*place)) } else { binary(semaphore) }
        };
        self.semaphores.iter().zip(&self.places).map(operation).collect()
    }

    /// Records a use on the stream in `slot`. The marks of a semaphore stay as long as it lives.
    #[inline]
    fn mark(&self, slot: usize) {
        if !self.marked.has(slot) {
            self.mark_each(slot);
        }
    }

    #[cold]
    fn mark_each(&self, slot: usize) {
        self.semaphores.iter().for_each(|semaphore| semaphore.mark(slot));
        self.marked.mark(slot);
    }

    #[cold]
    fn other_count(&self, operation: &'static str, values: usize) -> Error {
        let error = Error::invalid(operation, "the batch needs one value for each of its timelines");
        self.device.decorate(error.with_context("values", values).with_context("timelines", self.timelines))
    }

    #[cold]
    fn not_a_timeline(&self, operation: &'static str, index: usize) -> Error {
        let message = "the batch has no timeline at this index; only timelines have values";
        let error = Error::invalid(operation, message).with_context("index", index);
        self.device.decorate(error.with_context("semaphores", self.semaphores.len()))
    }
}

fn is_timeline<S: SemaphoreRef>(semaphore: &S) -> bool {
    semaphore.handle_kind().payload() == SemaphorePayload::Timeline
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
        let timelines = batch.semaphores.iter().filter(|semaphore| is_timeline(*semaphore));
        let last = BatchValues::new(timelines.map(|semaphore| semaphore.last_signalled().clone()));
        let only = batch.places.iter().copied().find(|place| *place != NO_VALUE).filter(|_| last.len() == 1);
        Ok(Self { last, batch, filled: None, only })
    }

    /// Sets the value that the timeline at `index` is signalled with next.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if there is no timeline at this index.
    #[inline]
    pub fn set(&mut self, index: usize, value: u64) -> Result<()> {
        self.filled = None;
        self.batch.set("SignalBatch::set", index, value)
    }

    /// Sets the values that the timelines are signalled with next, in the order of the batch without its binary
    /// semaphores. Faster than [`set`](Self::set) for each.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument), without a change, if this is not one value for
    /// each timeline.
    #[inline]
    pub fn set_all(&mut self, values: &[u64]) -> Result<()> {
        self.filled = None;
        self.batch.set_all("SignalBatch::set_all", values)
    }

    /// Sets the value that all timelines are signalled with next. For many timelines faster than
    /// [`set_all`](Self::set_all), if only this batch signals them.
    #[inline]
    pub fn fill(&mut self, value: u64) {
        self.filled = Some(value);
        self.batch.set_each(std::iter::repeat(value));
    }

    /// Semaphores of the batch, in order.
    #[must_use]
    pub fn semaphores(&self) -> &[S] {
        &self.batch.semaphores
    }

    /// `true` while the batch holds the last values of its timelines: one for all, or of each.
    #[cfg(all(test, not(loom)))]
    pub(super) fn holds(&self) -> [bool; 2] {
        [self.last.is_one(), self.last.is_holding() && !self.last.is_one()]
    }

    /// The next value of all timelines: the one that fills the batch, or that of the only timeline.
    #[inline]
    fn next_of_all(&self) -> Option<u64> {
        self.filled.or_else(|| self.only.map(|place| self.batch.value(place)))
    }

    /// Validates the signals and records their values.
    #[inline]
    fn begin(&mut self) -> Result<RecordedValues> {
        let recorded = match self.next_of_all() {
            Some(next) if self.last.is_one() => self.last.grow_one(next),
            one => {
                let Batch { form, places, layout, handles, .. } = &self.batch;
                let values = Values { form, places, layout: *layout, count: handles.len() };
                values.record(&mut self.last, one)
            }
        };
        recorded.map_err(|NotGreater { value, last }| backwards(SIGNAL, value, last))
    }
}

/// The parameters of a batch of signals, without its semaphores: not generic, so that they are compiled here and not where a
/// program uses a batch.
struct Values<'a> {
    form: &'a Form<RawSignal>,
    places: &'a [usize],
    layout: BlockLayout,
    /// Number of semaphores.
    count: usize,
}

impl Values<'_> {
    /// Records the value of each timeline. `one` is the value if all are equal.
    // Not inlined: its stack frame would slow down signals with a common value.
    #[inline(never)]
    fn record(self, last: &mut BatchValues, one: Option<u64>) -> std::result::Result<RecordedValues, NotGreater> {
        let Self { form, places, layout, count } = self;
        match form {
            // The common case: one value in each block.
            Form::Blocks(blocks) if last.len() == count => {
                if layout == BlockLayout::VENDORS {
                    last.grow(BlockLayout::vendors_values(blocks), one)
                } else {
                    last.grow(layout.values(blocks, last.len()), one)
                }
            }
            Form::Raw(all) if last.len() == all.len() => last.grow(all.iter().map(Valued::value), one),
            form => {
                let places = places.iter().filter(|place| **place != NO_VALUE);
                last.grow(places.map(|place| form.value(*place)), one)
            }
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
        self.batch.set("WaitBatch::set", index, value)
    }

    /// Sets the values that the timelines must reach, in the order of the batch without its binary semaphores. Faster
    /// than [`set`](Self::set) for each.
    ///
    /// # Errors
    /// As for [`SignalBatch::set_all`].
    #[inline]
    pub fn set_all(&mut self, values: &[u64]) -> Result<()> {
        self.batch.set_all("WaitBatch::set_all", values)
    }

    /// Sets the value that all timelines must reach.
    #[inline]
    pub fn fill(&mut self, value: u64) {
        self.batch.set_each(std::iter::repeat(value));
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
    #[doc(alias(
        "cuSignalExternalSemaphoresAsync",
        "cudaSignalExternalSemaphoresAsync",
        "hipSignalExternalSemaphoresAsync"
    ))]
    pub fn signal_prepared<S: SemaphoreRef>(&self, batch: &mut SignalBatch<S>) -> Result<()> {
        self.check_device(SIGNAL, "batch", &batch.batch.device)?;
        self.enqueue_signals(batch).map_err(|error| self.device().decorate(error))
    }

    #[inline]
    fn enqueue_signals<S: SemaphoreRef>(&self, batch: &mut SignalBatch<S>) -> Result<()> {
        let device = self.device();
        if let Some(recording) = self.recording() {
            return self.record_signals(recording, &batch.batch);
        }
        let recorded = batch.begin()?;
        batch.batch.mark(self.slot());
        let Batch { handles, form, .. } = &batch.batch;
        // SAFETY: the batch keeps its semaphores, which belong to this device, as does the live stream. The blocks have
        // the backend's layout and one element for each handle; the parameters match the payloads.
        let enqueued = unsafe {
            match form {
                Form::Blocks(blocks) => device.raw.signal_blocks(self.as_raw(), handles, blocks),
                Form::Raw(raw) => device.raw.signal_semaphores(self.as_raw(), raw),
            }
        };
        if enqueued.is_err() {
            batch.last.undo(recorded);
        }
        enqueued
    }

    /// Records prepared signals.
    #[inline(never)]
    fn record_signals<S: SemaphoreRef>(&self, recording: &Recording, batch: &Batch<S, RawSignal>) -> Result<()> {
        let signals = batch.operations(ExternalSemaphore::signal_value, ExternalSemaphore::signal);
        recording.signal(self.as_raw(), self.user(SIGNAL), &signals)
    }

    /// Enqueues prepared waits, as [`Stream::wait`] does. Does not allocate.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a batch of another device. Otherwise the
    /// driver's error. After an error nothing is enqueued.
    #[doc(alias("cuWaitExternalSemaphoresAsync", "cudaWaitExternalSemaphoresAsync", "hipWaitExternalSemaphoresAsync"))]
    pub fn wait_prepared<S: SemaphoreRef>(&self, batch: &WaitBatch<S>) -> Result<()> {
        self.check_device(WAIT, "batch", &batch.batch.device)?;
        self.about_to_wait();
        let waited = self.enqueue_waits(&batch.batch);
        self.note_external_wait();
        waited.map_err(|error| self.device().decorate(error))
    }

    #[inline]
    fn enqueue_waits<S: SemaphoreRef>(&self, batch: &Batch<S, RawWait>) -> Result<()> {
        let device = self.device();
        if let Some(recording) = self.recording() {
            return self.record_waits(recording, batch);
        }
        batch.mark(self.slot());
        // SAFETY: as in `enqueue_signals`.
        unsafe {
            match &batch.form {
                Form::Blocks(blocks) => device.raw.wait_blocks(self.as_raw(), &batch.handles, blocks),
                Form::Raw(raw) => device.raw.wait_semaphores(self.as_raw(), raw),
            }
        }
    }

    /// Records prepared waits.
    #[inline(never)]
    fn record_waits<S: SemaphoreRef>(&self, recording: &Recording, batch: &Batch<S, RawWait>) -> Result<()> {
        let waits = batch.operations(ExternalSemaphore::wait_value, ExternalSemaphore::wait);
        recording.wait(self.as_raw(), self.user(WAIT), &waits)
    }
}

/// Parameters of a batch.
#[derive(Debug)]
pub(super) enum Form<R> {
    /// The driver's blocks, one for each semaphore.
    Blocks(Box<[u64]>),
    /// For backends without blocks.
    Raw(Box<[R]>),
}

/// A signal or a wait with a timeline's value.
pub(super) trait Valued {
    fn set(&mut self, value: u64);
    fn value(&self) -> u64;
}

impl Valued for RawSignal {
    fn set(&mut self, value: u64) {
        self.params = SignalParams::Value(value);
    }

    fn value(&self) -> u64 {
        if let SignalParams::Value(value) = self.params { value } else { 0 }
    }
}

impl Valued for RawWait {
    fn set(&mut self, value: u64) {
        self.params = WaitParams::Value(value);
    }

    fn value(&self) -> u64 {
        if let WaitParams::Value(value) = self.params { value } else { 0 }
    }
}

impl<R: Valued> Form<R> {
    /// The value at a place, 0 if there is none.
    #[inline]
    fn value(&self, place: usize) -> u64 {
        match self {
            Self::Blocks(blocks) => blocks.get(place).copied().unwrap_or(0),
            Self::Raw(all) => all.get(place).map_or(0, Valued::value),
        }
    }

    /// Sets the value at a place; `None` if there is none.
    #[inline]
    pub(super) fn set(&mut self, place: usize, value: u64) -> Option<()> {
        match self {
            Self::Blocks(blocks) => blocks.get_mut(place).map(|word| *word = value),
            Self::Raw(all) => all.get_mut(place).map(|raw| raw.set(value)),
        }
    }
}

/// Words of a block of CUDA and HIP.
const VENDORS_WORDS: usize = 18;

impl BlockLayout {
    /// The blocks of CUDA and HIP: 144 bytes, of which the first 8 are the value. A constant layout needs fewer
    /// instructions for each block.
    pub(super) const VENDORS: Self = Self { words: VENDORS_WORDS, value: 0 };

    /// Sets the value of each block, in order, until there are no more blocks or values. A block is not empty
    /// (`Batch::new`).
    #[inline]
    pub(super) fn set_values(self, mut blocks: &mut [u64], values: impl Iterator<Item = u64>) {
        if self == Self::VENDORS {
            let (blocks, _) = blocks.as_chunks_mut::<VENDORS_WORDS>();
            blocks.iter_mut().zip(values).for_each(|(block, value)| block[0] = value);
            return;
        }
        // Without `chunks_exact_mut`, whose length needs a division.
        for value in values {
            let Some((block, rest)) = blocks.split_at_mut_checked(self.words) else { return };
            if let Some(word) = block.get_mut(self.value) {
                *word = value;
            }
            blocks = rest;
        }
    }

    /// The value of each of the vendors' blocks ([`VENDORS`](Self::VENDORS)).
    #[inline]
    pub(super) fn vendors_values(blocks: &[u64]) -> impl Iterator<Item = u64> {
        blocks.as_chunks::<VENDORS_WORDS>().0.iter().map(|block| block[0])
    }

    /// The values of the first `count` blocks.
    #[inline]
    pub(super) fn values(self, blocks: &[u64], count: usize) -> impl Iterator<Item = u64> {
        (0..count).map(move |block| blocks.get(block * self.words + self.value).copied().unwrap_or(0))
    }
}
