//! Graphs: work that is recorded once and launched many times, with one call of the driver.

use std::sync::{Arc, Mutex};

use smallvec::SmallVec;

use super::device::{Device, DeviceInner};
use super::lifetime::lock;
use super::owned::Owned;
use super::resource::Resource;
use super::semaphore::{SemaphoreSignal, SemaphoreWait, TimelineSignal, User, empty};
use super::stream::Stream;
use super::validate;
use crate::backend::{RawGraph, RawGraphNode, RawSignal, RawWait};
use crate::capability::Feature;
use crate::error::{Error, Result};

/// How many semaphores of a batch need no heap allocation.
const INLINE: usize = 8;

/// Work that a stream can be given as often as it is wanted (`CUgraphExec`, `hipGraphExec_t`). Made by
/// [`Device::record`].
///
/// Whatever was recorded stays alive as long as the graph, and until its last launch has run.
#[derive(Debug)]
pub struct Graph {
    owned: Owned,
    raw: RawGraph,
    slot: usize,
    /// Locked while the driver uses the graph, which is not to be used by two threads at once.
    semaphores: Mutex<Semaphores>,
}

/// The batches of semaphores in a graph, in the order in which they were recorded.
#[derive(Debug, Default)]
struct Semaphores {
    signals: Vec<SignalBatch>,
    waits: Vec<WaitBatch>,
}

#[derive(Debug)]
struct SignalBatch {
    node: RawGraphNode,
    length: usize,
    timelines: Vec<TimelineSignal>,
}

#[derive(Debug)]
struct WaitBatch {
    node: RawGraphNode,
    length: usize,
}

/// What a stream that records a graph has recorded of semaphores.
#[derive(Debug, Default)]
pub(super) struct Recording {
    semaphores: Mutex<Semaphores>,
}

/// Checks a batch of signals for a graph.
fn check_signals(
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

/// Checks a batch of waits for a graph.
fn check_waits(user: User<'_>, waits: &[SemaphoreWait<'_>]) -> Result<SmallVec<[RawWait; INLINE]>> {
    if waits.is_empty() {
        return Err(empty(user.operation));
    }
    waits.iter().map(|wait| wait.record(user)).collect()
}

impl Recording {
    /// Records signals. A timeline's value is held against the last one when the graph is launched.
    #[cold]
    pub(super) fn signal(&self, stream: &Stream, user: User<'_>, signals: &[SemaphoreSignal<'_>]) -> Result<()> {
        let device = &*user.device.raw;
        validate::feature(user.operation, device.capabilities(), Feature::GraphSemaphores)?;
        let (raw, timelines) = check_signals(user, signals)?;
        let mut semaphores = lock(&self.semaphores);
        // SAFETY: the stream is live and records; semaphores and stream are of this device, and live as long as the graph,
        // which has the slot that `user` noted; the parameters are of the right sort.
        let node = unsafe {
            device.signal_semaphores(stream.as_raw(), &raw)?;
            device.last_captured(stream.as_raw())?
        };
        semaphores.signals.push(SignalBatch { node, length: raw.len(), timelines });
        Ok(())
    }

    /// Records waits.
    #[cold]
    pub(super) fn wait(&self, stream: &Stream, user: User<'_>, waits: &[SemaphoreWait<'_>]) -> Result<()> {
        let device = &*user.device.raw;
        validate::feature(user.operation, device.capabilities(), Feature::GraphSemaphores)?;
        let raw = check_waits(user, waits)?;
        let mut semaphores = lock(&self.semaphores);
        // SAFETY: as in `signal`.
        let node = unsafe {
            device.wait_semaphores(stream.as_raw(), &raw)?;
            device.last_captured(stream.as_raw())?
        };
        semaphores.waits.push(WaitBatch { node, length: raw.len() });
        Ok(())
    }
}

/// A recording under way. Ends it and drops what was recorded, unless [`Capture::end`] is reached.
struct Capture<'a> {
    device: &'a Arc<DeviceInner>,
    slot: usize,
    /// After the slot was taken, so that it goes first.
    stream: Stream,
    capturing: bool,
}

impl<'a> Capture<'a> {
    fn begin(device: &'a Arc<DeviceInner>) -> Result<Self> {
        device.lifetimes.collect(&*device.raw);
        let raw = device.raw.create_stream()?;
        let slot = device.lifetimes.add_graph();
        let stream = Stream::recorder(device.clone(), raw, slot);
        let mut capture = Self { device, slot, stream, capturing: false };
        // SAFETY: the stream was just created, and nobody else has it.
        unsafe { device.raw.begin_capture(raw) }?;
        capture.capturing = true;
        Ok(capture)
    }

    fn end(mut self) -> Result<Graph> {
        self.capturing = false;
        // SAFETY: the stream is live and records.
        let raw = unsafe { self.device.raw.end_capture(self.stream.as_raw()) }?;
        let semaphores = match self.stream.recording() {
            Some(recording) => std::mem::take(&mut *lock(&recording.semaphores)),
            None => Semaphores::default(),
        };
        // The graph's from here on.
        let slot = std::mem::replace(&mut self.slot, usize::MAX);
        let owned = Owned::new(self.device.clone(), Resource::Graph { raw, slot });
        Ok(Graph { owned, raw, slot, semaphores: Mutex::new(semaphores) })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.capturing {
            // SAFETY: the stream is live and records.
            match unsafe { self.device.raw.end_capture(self.stream.as_raw()) } {
                Err(error) => tracing::warn!(%error, "ending a recording that was given up failed"),
                Ok(graph) => {
                    // SAFETY: nothing else knows the graph, which was never launched.
                    if let Err(error) = unsafe { self.device.raw.destroy_graph(graph) } {
                        tracing::warn!(%error, "freeing a graph that was given up failed");
                    }
                }
            }
        }
        if self.slot != usize::MAX {
            self.device.lifetimes.leave(&*self.device.raw, self.slot);
        }
    }
}

impl Device {
    /// Records a graph: what `work` enqueues on the stream that it is given runs when the graph is launched
    /// (`cuStreamBeginCapture`, relaxed, on a stream of its own, and `cuGraphInstantiate`).
    ///
    /// That stream takes copies without the host, or with [`Stream::read_async`] and its like, fills, kernels, words in
    /// memory and semaphores. What waits for it, asks it, or happens only once is refused: synchronisation, events, host
    /// functions, and timelines, whose values only grow. Enqueue those on the stream that the graph is launched on, before
    /// or behind it.
    ///
    /// `work` may use the device in any other way meanwhile: import, map, and drop what it has recorded. Other threads too.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where there are no graphs; the error of `work`; else what
    /// the driver answers, also of work that it does not take in a graph.
    pub fn record(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Graph> {
        let device = &self.inner;
        validate::feature("Device::record", self.capabilities(), Feature::Graphs)
            .and_then(|()| Capture::begin(device))
            .and_then(|capture| {
                work(&capture.stream)?;
                capture.end()
            })
            .map_err(|error| device.decorate(error))
    }
}

impl Graph {
    /// The driver's graph, ready to be launched, valid while `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> RawGraph {
        self.raw
    }

    /// Enqueues what was recorded, once more (`cuGraphLaunch`). Launches of one graph run one after another, also on
    /// different streams.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a stream of another device or one that records
    /// a graph itself, and if a recorded signal would not raise its timeline: give it another value with
    /// [`Graph::set_signals`] first. Then nothing is enqueued. Else what the driver answers.
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        const OPERATION: &str = "Graph::launch";
        let device = self.device();
        stream.check_not_recording(OPERATION)?;
        stream.check_device(OPERATION, "graph", device)?;
        stream.about_to_wait();
        let semaphores = lock(&self.semaphores);
        let timelines = || semaphores.signals.iter().flat_map(|batch| &batch.timelines);
        let mut previous: SmallVec<[u64; INLINE]> = SmallVec::new();
        let begun = timelines().try_for_each(|timeline| {
            previous.push(timeline.begin(OPERATION)?);
            Ok(())
        });
        let launched = begun.and_then(|()| {
            self.owned.in_flight.mark(stream.slot());
            // SAFETY: stream and graph are live and of this device; the lock keeps others from the graph; what was recorded
            // lives as long as the graph.
            unsafe { device.raw.launch_graph(stream.as_raw(), self.raw) }
        });
        // It may have words and semaphores.
        stream.note_external_wait();
        launched.map_err(|error| {
            // Backwards, for a timeline that is signalled twice.
            let begun: SmallVec<[_; INLINE]> = timelines().zip(&previous).collect();
            begun.into_iter().rev().for_each(|(timeline, previous)| timeline.undo(*previous));
            device.decorate(error)
        })
    }

    /// How many batches of signals were recorded: calls of [`Stream::signal`].
    #[must_use]
    pub fn signals(&self) -> usize {
        lock(&self.semaphores).signals.len()
    }

    /// How many batches of waits were recorded: calls of [`Stream::wait`].
    #[must_use]
    pub fn waits(&self) -> usize {
        lock(&self.semaphores).waits.len()
    }

    /// Gives later launches other signals in place of those of the recorded batch `index`, counted from 0: other values,
    /// other semaphores (`cuGraphExecExternalSemaphoresSignalNodeSetParams`). Launches that are enqueued keep theirs.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if there is no such batch, for another number of
    /// signals than it has, and as for [`Stream::signal`]; else what the driver answers. Then the batch is as before.
    pub fn set_signals(&self, index: usize, signals: &[SemaphoreSignal<'_>]) -> Result<()> {
        const OPERATION: &str = "Graph::set_signals";
        let set = || {
            let mut semaphores = lock(&self.semaphores);
            let count = semaphores.signals.len();
            let batch = semaphores.signals.get_mut(index).ok_or_else(|| no_batch(OPERATION, index, count))?;
            check_length(OPERATION, batch.length, signals.len())?;
            let (raw, timelines) = check_signals(self.user(OPERATION), signals)?;
            // SAFETY: graph and node are live, and the lock keeps others from them; semaphores as when they are recorded.
            unsafe { self.device().raw.set_captured_signals(self.raw, batch.node, &raw) }?;
            batch.timelines = timelines;
            Ok(())
        };
        set().map_err(|error| self.device().decorate(error))
    }

    /// The twin of [`Graph::set_signals`] for waits (`cuGraphExecExternalSemaphoresWaitNodeSetParams`).
    ///
    /// # Errors
    /// As there.
    pub fn set_waits(&self, index: usize, waits: &[SemaphoreWait<'_>]) -> Result<()> {
        const OPERATION: &str = "Graph::set_waits";
        let set = || {
            let semaphores = lock(&self.semaphores);
            let count = semaphores.waits.len();
            let batch = semaphores.waits.get(index).ok_or_else(|| no_batch(OPERATION, index, count))?;
            check_length(OPERATION, batch.length, waits.len())?;
            let raw = check_waits(self.user(OPERATION), waits)?;
            // SAFETY: as in `set_signals`.
            unsafe { self.device().raw.set_captured_waits(self.raw, batch.node, &raw) }
        };
        set().map_err(|error| self.device().decorate(error))
    }

    /// Destroys the graph, and says if that failed. If a launch is pending, it is destroyed once that has run.
    ///
    /// # Errors
    /// What the driver answers (`cuGraphExecDestroy`); the object is gone either way.
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }

    fn device(&self) -> &Arc<DeviceInner> {
        &self.owned.device
    }

    fn user(&self, operation: &'static str) -> User<'_> {
        User { operation, device: self.device(), slot: self.slot }
    }
}

#[cold]
fn no_batch(operation: &'static str, index: usize, count: usize) -> Error {
    Error::invalid(operation, "the graph has no such batch").with_context("batch", index).with_context("batches", count)
}

fn check_length(operation: &'static str, recorded: usize, given: usize) -> Result<()> {
    if recorded == given {
        return Ok(());
    }
    Err(Error::invalid(operation, "a batch keeps its length")
        .with_context("recorded", recorded)
        .with_context("given", given))
}
