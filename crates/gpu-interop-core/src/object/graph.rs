//! Graphs: work captured once and launched many times with one driver call.

use std::sync::{Arc, Mutex};

use smallvec::SmallVec;

use super::device::Device;
use super::device_state::DeviceInner;
use super::device_state::Owned;
use super::lifetime::Resource;
use super::semaphore::{INLINE, Semaphores, check_signals, check_waits};
use super::semaphore::{SemaphoreSignal, SemaphoreWait, User};
use super::stream::Stream;
use super::validate;
use crate::backend::RawGraph;
use crate::capability::Feature;
use crate::error::{Error, Result};
use crate::sync::lock;

/// Recorded work that can be launched repeatedly (`CUgraphExec`, `hipGraphExec_t`). Created by [`Device::record`].
///
/// Recorded objects stay alive as long as the graph, and until its last launch has completed.
#[doc(alias("CUgraphExec", "cudaGraphExec_t", "hipGraphExec_t"))]
#[derive(Debug)]
pub struct Graph {
    owned: Owned,
    raw: RawGraph,
    slot: usize,
    /// Locked while the driver uses the graph, because two threads must not use it concurrently.
    semaphores: Mutex<Semaphores>,
}

/// An active capture. Dropping it discards the recorded work, unless [`Capture::end`] was called.
struct Capture<'a> {
    device: &'a Arc<DeviceInner>,
    slot: usize,
    /// Marks no object, so that the slot may be released before it is dropped.
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
        // SAFETY: the stream was just created and has no other user.
        unsafe { device.raw.begin_capture(raw) }?;
        capture.capturing = true;
        Ok(capture)
    }

    fn end(mut self) -> Result<Graph> {
        self.capturing = false;
        // SAFETY: the stream is live and recording.
        let raw = unsafe { self.device.raw.end_capture(self.stream.as_raw()) }?;
        let semaphores = match self.stream.recording() {
            Some(recording) => std::mem::take(&mut *lock(&recording.semaphores)),
            None => Semaphores::default(),
        };
        // The graph owns the slot from here on.
        let slot = std::mem::replace(&mut self.slot, usize::MAX);
        let owned = Owned::new(self.device.clone(), Resource::Graph { raw, slot });
        Ok(Graph { owned, raw, slot, semaphores: Mutex::new(semaphores) })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.capturing {
            // SAFETY: the stream is live and recording.
            match unsafe { self.device.raw.end_capture(self.stream.as_raw()) } {
                Err(error) => log!(warn, %error, "ending a discarded capture failed"),
                Ok(graph) => {
                    // SAFETY: the graph was never launched and has no other user.
                    if let Err(error) = unsafe { self.device.raw.destroy_graph(graph) } {
                        log!(warn, %error, "destroying a discarded graph failed");
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
    /// Records a graph. Work that `work` enqueues on its stream runs when the graph is launched
    /// (`cuStreamBeginCapture`, relaxed, on a separate stream, and `cuGraphInstantiate`).
    ///
    /// The recording stream accepts copies between device memory, [`Stream::read_async`] and [`Stream::write_async`],
    /// fills, kernels, word operations and semaphore operations. It rejects synchronisation, queries, events, host
    /// functions, and timelines (whose values only grow). Enqueue these on the launching stream, before or after the
    /// launch.
    ///
    /// During the recording, `work` and other threads may use the device: they may import, map, and drop recorded
    /// objects.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where graphs are not supported; the error of `work`.
    /// Errors of the driver, also for work that it does not support in a graph.
    #[doc(alias(
        "cuStreamBeginCapture",
        "cudaStreamBeginCapture",
        "hipStreamBeginCapture",
        "cuStreamEndCapture",
        "cudaStreamEndCapture",
        "hipStreamEndCapture",
        "cuGraphInstantiate",
        "cudaGraphInstantiate",
        "hipGraphInstantiate",
        "cuGraphDestroy",
        "cudaGraphDestroy",
        "hipGraphDestroy",
        "cuThreadExchangeStreamCaptureMode",
        "cudaThreadExchangeStreamCaptureMode",
        "hipThreadExchangeStreamCaptureMode",
        "cuGraphInstantiateWithFlags",
        "hipGraphInstantiateWithFlags"
    ))]
    pub fn record(&self, work: impl FnOnce(&Stream) -> Result<()>) -> Result<Graph> {
        let device = &self.inner;
        device
            .check_process("Device::record")
            .and_then(|()| validate::feature("Device::record", self.capabilities(), Feature::Graphs))
            .and_then(|()| Capture::begin(device))
            .and_then(|capture| {
                work(&capture.stream)?;
                capture.end()
            })
            .map_err(|error| device.decorate(error))
    }
}

impl Graph {
    /// The driver's instantiated graph, valid while `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> RawGraph {
        self.raw
    }

    /// Enqueues the recorded work (`cuGraphLaunch`). Launches of one graph are serialised, also on different streams.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a stream of another device or a recording
    /// stream, and if a recorded signal would not raise its timeline: set a greater value with [`Graph::set_signals`]
    /// first. Errors of the driver. After an error nothing is enqueued.
    #[doc(alias("cuGraphLaunch", "cudaGraphLaunch", "hipGraphLaunch"))]
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
            // SAFETY: stream and graph are live and belong to this device; the lock excludes other users of the graph;
            // recorded objects live as long as the graph.
            unsafe { device.raw.launch_graph(stream.as_raw(), self.raw) }
        });
        // The graph may contain waits for words and semaphores.
        stream.note_external_wait();
        launched.map_err(|error| {
            // In reverse order, because a timeline may be signalled twice.
            let begun: SmallVec<[_; INLINE]> = timelines().zip(&previous).collect();
            begun.into_iter().rev().for_each(|(timeline, previous)| timeline.undo(*previous));
            device.decorate(error)
        })
    }

    /// Number of recorded batches of signals: calls of [`Stream::signal`].
    #[must_use]
    pub fn signals(&self) -> usize {
        lock(&self.semaphores).signals.len()
    }

    /// Number of recorded batches of waits: calls of [`Stream::wait`].
    #[must_use]
    pub fn waits(&self) -> usize {
        lock(&self.semaphores).waits.len()
    }

    /// Replaces the signals of recorded batch `index`, counted from 0, for later launches: values and semaphores
    /// (`cuGraphExecExternalSemaphoresSignalNodeSetParams`). Enqueued launches are not affected.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the batch does not exist, for a different
    /// number of signals, and as for [`Stream::signal`]. Errors of the driver. After an error the batch is unchanged.
    #[doc(alias(
        "cuGraphExecExternalSemaphoresSignalNodeSetParams",
        "cudaGraphExecExternalSemaphoresSignalNodeSetParams",
        "hipGraphExecExternalSemaphoresSignalNodeSetParams"
    ))]
    pub fn set_signals(&self, index: usize, signals: &[SemaphoreSignal<'_>]) -> Result<()> {
        const OPERATION: &str = "Graph::set_signals";
        self.device().check_process(OPERATION)?;
        let set = || {
            let mut semaphores = lock(&self.semaphores);
            let count = semaphores.signals.len();
            let batch = semaphores.signals.get_mut(index).ok_or_else(|| no_batch(OPERATION, index, count))?;
            check_length(OPERATION, batch.length, signals.len())?;
            let (raw, timelines) = check_signals(self.user(OPERATION), signals)?;
            // SAFETY: graph and node are live, and the lock excludes other users; the semaphores are validated as in a
            // recording.
            unsafe { self.device().raw.set_captured_signals(self.raw, batch.node, &raw) }?;
            batch.timelines = timelines;
            Ok(())
        };
        set().map_err(|error| self.device().decorate(error))
    }

    /// Replaces the waits of recorded batch `index`, as [`Graph::set_signals`]
    /// (`cuGraphExecExternalSemaphoresWaitNodeSetParams`).
    ///
    /// # Errors
    /// As [`Graph::set_signals`].
    #[doc(alias(
        "cuGraphExecExternalSemaphoresWaitNodeSetParams",
        "cudaGraphExecExternalSemaphoresWaitNodeSetParams",
        "hipGraphExecExternalSemaphoresWaitNodeSetParams"
    ))]
    pub fn set_waits(&self, index: usize, waits: &[SemaphoreWait<'_>]) -> Result<()> {
        const OPERATION: &str = "Graph::set_waits";
        self.device().check_process(OPERATION)?;
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

    /// Destroys the graph and returns the driver's error. A pending launch defers the destruction until it has
    /// completed.
    ///
    /// # Errors
    /// The driver's error (`cuGraphExecDestroy`). The object is consumed in either case.
    #[doc(alias("cuGraphExecDestroy", "cudaGraphExecDestroy", "hipGraphExecDestroy"))]
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
    Error::invalid(operation, "the graph does not have this batch")
        .with_context("batch", index)
        .with_context("batches", count)
}

fn check_length(operation: &'static str, recorded: usize, given: usize) -> Result<()> {
    if recorded == given {
        return Ok(());
    }
    Err(Error::invalid(operation, "a batch cannot change its length")
        .with_context("recorded", recorded)
        .with_context("given", given))
}
