//! Graphs captured from streams. The nodes of an executable graph belong to the captured graph, so both have the same
//! lifetime.
//!
//! Drivers may not order the launches of a graph on different streams ([`Vendor::ORDERS_LAUNCHES`]). An event is recorded
//! after each launch; the next launch waits for it if it is on another stream.

use std::collections::HashMap;
use std::ffi::c_uint;
use std::ptr;
use std::sync::{Mutex, MutexGuard};

use gpu_interop_core::backend::{RawGraph, RawGraphNode, RawSignal, RawStream, RawWait};
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ErrorKind, Result};

use crate::abi::SemaphoreNodeParams;
use crate::batch::{one_call, with_signals, with_waits};
use crate::call::call;
use crate::context::RELAXED;
use crate::driver::{Driver, Vendor, not_null, null};
use crate::functions::Handle;

/// Resources of an executable graph.
#[derive(Debug)]
struct Recorded {
    /// Captured graph.
    graph: Handle,
    /// Created at the first launch, for drivers that do not order launches.
    launches: Option<Launches>,
}

/// Executable graphs of a device, by handle.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    recorded: Mutex<HashMap<Handle, Recorded>>,
}

/// Begins a capture.
///
/// # Safety
/// The stream is live and idle, and its device current.
pub(crate) unsafe fn begin<V: Vendor>(driver: &Driver<V>, stream: RawStream) -> Result<()> {
    // Relaxed mode leaves other calls of this and other threads unrestricted.
    // SAFETY: the caller's promise.
    unsafe { call!(driver.stream_begin_capture(stream.get(), RELAXED)) }
}

/// Capture state of a stream (`cuStreamGetCaptureInfo`, `hipStreamGetCaptureInfo_v2`).
#[derive(Debug)]
pub(crate) struct Recording {
    /// 0 is `CU_STREAM_CAPTURE_STATUS_NONE`, `hipStreamCaptureStatusNone`.
    status: c_uint,
    /// Nodes that the next work would depend on, in an array owned by the graph.
    nodes: *const Handle,
    count: usize,
}

impl Recording {
    /// Queries the driver.
    ///
    /// # Errors
    /// The driver's error; `DriverTooOld` or `SymbolMissing` if it lacks the function.
    ///
    /// # Safety
    /// The stream is live, and its device is current.
    pub(crate) unsafe fn of<V: Vendor>(driver: &Driver<V>, stream: Handle) -> Result<Self> {
        let (mut status, mut id, mut graph, mut nodes, mut count) = (0, 0, 0, ptr::null(), 0);
        let out = (&raw mut status, &raw mut id, &raw mut graph, &raw mut nodes, &raw mut count);
        // SAFETY: the caller's promise; the pointers are valid for the call.
        unsafe { call!(driver.stream_get_capture_info(stream, out.0, out.1, out.2, out.3, out.4)) }?;
        Ok(Self { status, nodes, count })
    }

    /// Returns whether the stream is capturing.
    pub(crate) fn is_active(&self) -> bool {
        self.status != 0
    }
}

/// Returns the node captured last, on which the next work would depend.
///
/// # Safety
/// The stream is live and capturing, and its device is current.
pub(crate) unsafe fn last<V: Vendor>(driver: &Driver<V>, stream: RawStream) -> Result<RawGraphNode> {
    // SAFETY: the caller's promise.
    let Recording { status, nodes, count } = unsafe { Recording::of(driver, stream.get()) }?;
    let operation = driver.functions.stream_get_capture_info.operation;
    if nodes.is_null() {
        return Err(null(operation));
    }
    if count == 1 {
        // SAFETY: the driver reported one element; the array belongs to the live graph.
        return Ok(RawGraphNode::new(unsafe { nodes.read() }));
    }
    Err(Error::new(ErrorKind::Driver, operation, "the driver did not report the node captured last")
        .with_context("nodes", count)
        .with_context("capture status", status))
}

/// Returns whether a graph is being captured on the stream; `false` for drivers without the query.
///
/// # Errors
/// The driver's error.
///
/// # Safety
/// The stream is live, and its device is current.
pub(crate) unsafe fn is_capturing<V: Vendor>(driver: &Driver<V>, stream: RawStream) -> Result<bool> {
    if driver.functions.stream_get_capture_info.require(&driver.version).is_err() {
        return Ok(false);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { Recording::of(driver, stream.get()) }?.is_active())
}

/// Rejects an image copy on a capturing stream for drivers that do not capture such copies.
///
/// # Errors
/// `Unsupported` if the stream is capturing; the driver's error if the query fails.
///
/// # Safety
/// The stream is live, and its device is current.
pub(crate) unsafe fn check_array_copy<V: Vendor>(
    driver: &Driver<V>,
    operation: &'static str,
    stream: RawStream,
) -> Result<()> {
    // SAFETY: the caller's promise.
    if !V::RECORDS_ARRAY_COPIES && unsafe { is_capturing(driver, stream) }? {
        let message = "the driver does not record copies of images in graphs: it runs them at once; enqueue them before or \
                       after the graph";
        return Err(Error::unsupported(operation, message));
    }
    Ok(())
}

impl Graphs {
    /// Locks the map, which a panic cannot leave inconsistent.
    fn recorded(&self) -> MutexGuard<'_, HashMap<Handle, Recorded>> {
        lock(&self.recorded)
    }

    /// Ends a capture, also on failure.
    ///
    /// # Safety
    /// The stream is live and capturing, and its device is current.
    pub(crate) unsafe fn end<V: Vendor>(&self, driver: &Driver<V>, stream: RawStream) -> Result<RawGraph> {
        let (mut graph, mut ready) = (0, 0);
        // SAFETY: the caller's promise; the pointer is valid for the call.
        unsafe { call!(driver.stream_end_capture(stream.get(), &raw mut graph)) }?;
        let graph = not_null(driver.functions.stream_end_capture.operation, graph)?;
        // SAFETY: the graph is new; the pointer is valid for the call.
        let made = unsafe { call!(driver.graph_instantiate(&raw mut ready, graph, 0)) };
        match made.and_then(|()| not_null(driver.functions.graph_instantiate.operation, ready)) {
            Ok(ready) => {
                self.recorded().insert(ready, Recorded { graph, launches: None });
                Ok(RawGraph::new(ready))
            }
            Err(error) => {
                // SAFETY: the graph was just created and has no other user.
                if let Err(error) = unsafe { call!(driver.graph_destroy(graph)) } {
                    tracing::warn!(%error, "destroying the captured graph of an executable graph failed");
                }
                Err(error)
            }
        }
    }

    /// Enqueues an executable graph.
    ///
    /// # Safety
    /// Graph and stream are live, no other thread uses the graph, and its device is current.
    pub(crate) unsafe fn launch<V: Vendor>(
        &self,
        driver: &Driver<V>,
        stream: RawStream,
        graph: RawGraph,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        let launch = || unsafe { call!(driver.graph_launch(graph.get(), stream.get())) };
        if V::ORDERS_LAUNCHES {
            return launch();
        }
        // Taken out of the map so that no lock is held during calls of the driver.
        let previous = self.recorded().get_mut(&graph.get()).and_then(|recorded| recorded.launches.take());
        let mut launches = previous.map_or_else(|| Launches::new(driver), Ok)?;
        // SAFETY: the caller's promise.
        let launched = unsafe { launches.before(driver, stream.get()) }.and_then(|()| launch());
        if launched.is_ok() {
            // SAFETY: the caller's promise.
            unsafe { launches.after(driver, stream.get()) };
        }
        if let Some(recorded) = self.recorded().get_mut(&graph.get()) {
            recorded.launches = Some(launches);
        }
        launched
    }

    /// Leaks a graph whose device cannot be made current; frees only resources that need no current device.
    pub(crate) fn forget<V: Vendor>(&self, driver: &Driver<V>, graph: RawGraph) {
        let recorded = self.recorded().remove(&graph.get());
        end_launches(driver, recorded.and_then(|recorded| recorded.launches));
    }

    /// Destroys a graph.
    ///
    /// # Safety
    /// The graph is live, not pending and freed once, and its device is current.
    pub(crate) unsafe fn destroy<V: Vendor>(&self, driver: &Driver<V>, graph: RawGraph) -> Result<()> {
        // Removed before the graph is destroyed: the driver may reuse the handle for another thread's graph at once.
        let recorded = self.recorded().remove(&graph.get());
        // SAFETY: the caller's promise.
        let destroyed = unsafe { call!(driver.graph_exec_destroy(graph.get())) };
        let Some(recorded) = recorded else { return destroyed };
        end_launches(driver, recorded.launches);
        // SAFETY: the captured graph belongs to this executable graph only.
        match (destroyed, unsafe { call!(driver.graph_destroy(recorded.graph)) }) {
            (Err(first), Err(error)) => {
                tracing::warn!(%error, "destroying the captured graph of an executable graph failed");
                Err(first)
            }
            (first, second) => first.and(second),
        }
    }
}

fn end_launches<V: Vendor>(driver: &Driver<V>, launches: Option<Launches>) {
    if let Some(Err(error)) = launches.map(|launches| launches.end(driver)) {
        tracing::warn!(%error, "destroying an event failed");
    }
}

/// Replaces captured signals.
///
/// # Safety
/// Graph, node and semaphores are live, no other thread uses the graph, and its device is current.
pub(crate) unsafe fn set_signals<V: Vendor>(
    driver: &Driver<V>,
    graph: RawGraph,
    node: RawGraphNode,
    signals: &[RawSignal],
) -> Result<()> {
    let operation = driver.functions.graph_exec_set_signals.operation;
    one_call(operation, signals.len(), V::semaphores_per_call(driver))?;
    with_signals(operation, signals, |semaphores, params, count| {
        let params = SemaphoreNodeParams { semaphores, params, count };
        // SAFETY: the caller's promise; both arrays have this many elements during the call.
        unsafe { call!(driver.graph_exec_set_signals(graph.get(), node.get(), &raw const params)) }
    })?
}

/// Replaces captured waits.
///
/// # Safety
/// As for [`set_signals`].
pub(crate) unsafe fn set_waits<V: Vendor>(
    driver: &Driver<V>,
    graph: RawGraph,
    node: RawGraphNode,
    waits: &[RawWait],
) -> Result<()> {
    let operation = driver.functions.graph_exec_set_waits.operation;
    one_call(operation, waits.len(), V::semaphores_per_call(driver))?;
    with_waits(operation, waits, |semaphores, params, count| {
        let params = SemaphoreNodeParams { semaphores, params, count };
        // SAFETY: as in `set_signals`.
        unsafe { call!(driver.graph_exec_set_waits(graph.get(), node.get(), &raw const params)) }
    })?
}

/// Last launch of a graph.
#[derive(Debug, Clone, Copy)]
enum Last {
    /// It has not been launched.
    Never,
    /// Launched on this stream, with the event recorded after it.
    On(Handle),
    /// Launched on this stream, but recording the event failed.
    Unmarked(Handle),
}

/// Launches of one graph.
#[derive(Debug)]
pub(crate) struct Launches {
    event: Handle,
    last: Last,
}

impl Launches {
    /// State of a graph that has not been launched. The device is current.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn new<V: Vendor>(driver: &Driver<V>) -> Result<Self> {
        Ok(Self { event: driver.create_event()?, last: Last::Never })
    }

    /// Makes the stream wait for the previous launch.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// The stream is live, and its device current.
    pub(crate) unsafe fn before<V: Vendor>(&self, driver: &Driver<V>, stream: Handle) -> Result<()> {
        match self.last {
            // SAFETY: the caller's promise; `self` owns the live event.
            Last::On(last) if last != stream => unsafe { driver.wait_event(stream, self.event) },
            Last::Unmarked(last) if last != stream => {
                let message =
                    "the previous launch on another stream has no event to wait for; instantiate another graph";
                Err(Error::new(ErrorKind::Driver, driver.functions.event_record.operation, message))
            }
            _ => Ok(()),
        }
    }

    /// Records the event after a successful launch.
    ///
    /// # Safety
    /// As for [`Launches::before`].
    pub(crate) unsafe fn after<V: Vendor>(&mut self, driver: &Driver<V>, stream: Handle) {
        // SAFETY: as in `before`.
        self.last = match unsafe { driver.record_event(self.event, stream) } {
            Ok(()) => Last::On(stream),
            Err(error) => {
                tracing::warn!(%error, "recording an event after a graph's launch failed; the graph can be launched on this stream only");
                Last::Unmarked(stream)
            }
        };
    }

    /// Destroys the event.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn end<V: Vendor>(self, driver: &Driver<V>) -> Result<()> {
        // SAFETY: the event is live and destroyed once. The driver keeps the resources of pending waits.
        unsafe { driver.destroy_event(self.event) }
    }
}
