//! Captures and graphs.
//!
//! A capture forbids some calls on other threads, as documented for `cuThreadExchangeStreamCaptureMode` and as observed
//! with driver 580. A forbidden call returns 900 and invalidates the captures that forbid it.

use std::ffi::c_uint;
use std::sync::{Arc, Mutex};
use std::thread;
use std::thread::ThreadId;

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::graph::{GLOBAL, GRAPHS, READY, RELAXED};
use gpu_interop_sim_device::stream::{Recording, Stream};
use gpu_interop_sim_device::{entries, graph, lock};

use crate::external::batch;
use crate::{code, driver, give};

/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
const ACTIVE: u32 = cuda::CUstreamCaptureStatus_enum::CU_STREAM_CAPTURE_STATUS_ACTIVE as u32;
/// `CU_STREAM_CAPTURE_STATUS_NONE`, `hipStreamCaptureStatusNone`.
const NONE: u32 = 0;

entries! {
    fn cuStreamBeginCapture_v2(stream: usize, mode: c_uint) {
        driver::need_context()?;
        begin_capture(stream, mode)
    }

    fn cuStreamEndCapture(stream: usize, graph: *mut usize) gives graph {
        driver::need_context()?;
        code::reject_if(graph.is_null())?;
        give(graph, end_capture(stream)?)
    }

    fn cuStreamIsCapturing(stream: usize, status: *mut c_uint) gives status {
        driver::need_context()?;
        give(status, if graph::records(stream)? { ACTIVE } else { NONE })
    }

    // The only dependency of a stream's next work: a capture has a single stream.
    fn cuStreamGetCaptureInfo_v2(
        stream: usize, status: *mut c_uint, _id: *mut u64, _graph: *mut usize, nodes: *mut *const usize,
        count: *mut usize,
    ) gives nodes {
        driver::need_context()?;
        code::reject_if(status.is_null() || nodes.is_null() || count.is_null())?;
        if !graph::records(stream)? {
            return give(status, NONE);
        }
        give(status, ACTIVE)?;
        // Nothing was captured yet.
        let last = graph::last_kept(stream).map_or(std::ptr::null(), std::ptr::from_ref);
        give(count, usize::from(!last.is_null()))?;
        give(nodes, last)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        crate::driver::initialised()?;
        code::reject_if(mode.is_null())?;
        mode.write(exchange_mode(mode.read())?);
        Ok(())
    }

    fn cuGraphInstantiateWithFlags(ready: *mut usize, graph: usize, flags: u64) gives ready {
        driver::need_context()?;
        code::reject_if(ready.is_null() || flags != 0)?;
        give(ready, graph::instantiate(graph)?)
    }

    fn cuGraphLaunch(graph: usize, stream: usize) {
        driver::need_context()?;
        graph::launch(graph, stream)
    }

    fn cuGraphExecDestroy(graph: usize) {
        graph::destroy(&READY, graph)
    }

    fn cuGraphDestroy(graph: usize) {
        graph::destroy(&GRAPHS, graph)
    }

    fn cuGraphExecExternalSemaphoresSignalNodeSetParams(
        graph: usize, node: usize, params: *const cuda::CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_st,
    ) {
        code::reject_if(params.is_null())?;
        let cuda::CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_st { extSemArray, paramsArray, numExtSems } = params.read();
        graph::replace(graph, node, batch(extSemArray.cast(), paramsArray, numExtSems)?)
    }

    fn cuGraphExecExternalSemaphoresWaitNodeSetParams(
        graph: usize, node: usize, params: *const cuda::CUDA_EXT_SEM_WAIT_NODE_PARAMS_st,
    ) {
        code::reject_if(params.is_null())?;
        let cuda::CUDA_EXT_SEM_WAIT_NODE_PARAMS_st { extSemArray, paramsArray, numExtSems } = params.read();
        graph::replace(graph, node, batch(extSemArray.cast(), paramsArray, numExtSems)?)
    }
}

/// `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`.
const WRONG_THREAD: u32 = 908;

/// A graph in capture.
#[derive(Debug)]
struct Capture {
    stream: usize,
    mode: u32,
    thread: ThreadId,
    recording: Arc<Recording>,
}

static CAPTURES: Mutex<Vec<Capture>> = Mutex::new(Vec::new());

/// Sets this thread's mode and returns the previous one.
pub(crate) fn exchange_mode(mode: u32) -> Result<u32, u32> {
    if mode > RELAXED { Err(code::INVALID_VALUE) } else { Ok(graph::exchange_capture_mode(mode)) }
}

/// Fails and invalidates the captures, if one forbids this thread to query progress, to allocate and to free.
pub(crate) fn check_permitted() -> Result<(), u32> {
    let (here, mode) = (thread::current().id(), graph::capture_mode());
    if mode == RELAXED {
        return Ok(());
    }
    let captures = lock(&CAPTURES);
    let forbids = |capture: &&Capture| match capture.mode {
        GLOBAL => mode == GLOBAL || capture.thread == here,
        RELAXED => false,
        _ => capture.thread == here,
    };
    let mut forbidden = Ok(());
    for capture in captures.iter().filter(forbids) {
        capture.recording.invalidate();
        forbidden = Err(code::CAPTURE_UNSUPPORTED);
    }
    forbidden
}

/// `cuStreamBeginCapture`.
pub(crate) fn begin_capture(stream: usize, mode: u32) -> Result<(), u32> {
    graph::begin(stream, mode)?;
    let recording = Stream::of(stream).and_then(|stream| stream.recording()).ok_or(code::ILLEGAL_STATE)?;
    lock(&CAPTURES).push(Capture { stream, mode, thread: thread::current().id(), recording });
    Ok(())
}

/// `cuStreamEndCapture`: the graph.
pub(crate) fn end_capture(stream: usize) -> Result<usize, u32> {
    let mut captures = lock(&CAPTURES);
    if let Some(place) = captures.iter().position(|capture| capture.stream == stream) {
        if captures[place].mode != RELAXED && captures[place].thread != thread::current().id() {
            return Err(WRONG_THREAD);
        }
        captures.remove(place);
    }
    drop(captures);
    graph::end(stream)
}

/// Ends the capture of a stream that is being destroyed.
pub(crate) fn forget_capture(stream: usize) {
    lock(&CAPTURES).retain(|capture| capture.stream != stream);
}
