//! Graphs: captured work. A launch enqueues a copy of it. Each thread has a capture mode: the captures that restrict
//! its calls (`CUstreamCaptureMode`, `hipStreamCaptureMode`).

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Mutex};

use gpu_interop_sim_abi::lock;

use crate::code;
use crate::objects::Objects;
use crate::stream::Work;
use crate::work::stream_of;

/// Captured graphs by handle.
pub static GRAPHS: Objects<Graph> = Objects::new();
/// Executable graphs by handle.
pub static READY: Objects<Graph> = Objects::new();

/// Captured work.
pub struct Graph {
    work: Mutex<Vec<Work>>,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Graph")
    }
}

/// A node's handle is its index in the graph plus this base, so that it looks like a pointer.
const FIRST_NODE: usize = 0x52_0000_1000;

impl Graph {
    fn of(work: Vec<Work>) -> Self {
        Self { work: Mutex::new(work) }
    }
}

/// Begins the capture of a stream. Two of the three modes make unrelated calls fail: not simulated.
pub fn begin(stream: usize, mode: u32) -> Result<(), u32> {
    // The default stream cannot be captured.
    code::reject_if(mode > 2 || stream == 0)?;
    stream_of(stream)?.begin_capture()
}

/// Ends a capture and returns the graph's handle.
pub fn end(stream: usize) -> Result<usize, u32> {
    Ok(GRAPHS.insert(Graph::of(stream_of(stream)?.end_capture()?)))
}

/// `true` if a stream is capturing.
pub fn records(stream: usize) -> Result<bool, u32> {
    Ok(stream_of(stream)?.recording().is_some())
}

/// The node that was captured last. Its memory is never freed: a few bytes per captured batch.
///
/// # Errors
/// The status code of the failure; [`code::INVALID_VALUE`] without a node.
pub fn last_kept(stream: usize) -> Result<&'static usize, u32> {
    let place = stream_of(stream)?.captured()?.checked_sub(1).ok_or(code::INVALID_VALUE)?;
    Ok(Box::leak(Box::new(FIRST_NODE + 16 * place)))
}

/// Instantiates a graph and returns the handle.
pub fn instantiate(graph: usize) -> Result<usize, u32> {
    let graph = GRAPHS.get(graph).ok_or(code::INVALID_HANDLE)?;
    let work = lock(&graph.work).clone();
    Ok(READY.insert(Graph::of(work)))
}

/// Enqueues a graph.
pub fn launch(graph: usize, stream: usize) -> Result<(), u32> {
    let (graph, stream) = (ready(graph)?, stream_of(stream)?);
    stream.repeat(&lock(&graph.work));
    Ok(())
}

/// Replaces a node's work. An invalid node crashes the process, as an invalid pointer does.
pub fn replace(
    graph: usize,
    node: usize,
    run: impl Fn() -> Result<(), u32> + Send + Sync + 'static,
) -> Result<(), u32> {
    let graph = ready(graph)?;
    let place = node.checked_sub(FIRST_NODE).map(|offset| offset / 16);
    match place.and_then(|place| lock(&graph.work).get_mut(place).map(|work| work.replace(run))) {
        Some(()) => Ok(()),
        None => crate::die(),
    }
}

/// Destroys a graph by its handle in `graphs`.
pub fn destroy(graphs: &Objects<Graph>, graph: usize) -> Result<(), u32> {
    graphs.remove(graph).map(drop).ok_or(code::INVALID_HANDLE)
}

fn ready(graph: usize) -> Result<Arc<Graph>, u32> {
    READY.get(graph).ok_or(code::INVALID_HANDLE)
}

/// Restricted by the captures of all threads.
pub const GLOBAL: u32 = 0;
/// Restricted by its own captures.
pub const THREAD_LOCAL: u32 = 1;
/// Not restricted.
pub const RELAXED: u32 = 2;

thread_local! {
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// The calling thread's mode.
pub fn capture_mode() -> u32 {
    CAPTURE_MODE.get()
}

/// Sets the calling thread's mode and returns the previous one.
pub fn exchange_capture_mode(mode: u32) -> u32 {
    CAPTURE_MODE.replace(mode)
}
