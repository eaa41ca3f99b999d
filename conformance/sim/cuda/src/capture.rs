//! Capturing threads, and the calls that they forbid on other threads: as documented for
//! `cuThreadExchangeStreamCaptureMode`, and as observed with driver 580. A forbidden call returns 900 and invalidates
//! the captures that forbid it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use gpu_interop_sim_device::capture_mode::{self, GLOBAL, RELAXED};
use gpu_interop_sim_device::stream::{Recording, Stream};
use gpu_interop_sim_device::{code, graph};

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

fn captures() -> MutexGuard<'static, Vec<Capture>> {
    // A panic does not invalidate the data under the lock.
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets this thread's mode and returns the previous one.
pub(crate) fn exchange(mode: u32) -> Result<u32, u32> {
    if mode > RELAXED { Err(code::INVALID_VALUE) } else { Ok(capture_mode::exchange(mode)) }
}

/// Fails and invalidates the captures, if one forbids this thread to query progress, to allocate and to free.
pub(crate) fn allow() -> Result<(), u32> {
    let (here, mode) = (thread::current().id(), capture_mode::now());
    if mode == RELAXED {
        return Ok(());
    }
    let captures = captures();
    let forbids = |capture: &&Capture| match capture.mode {
        GLOBAL => mode == GLOBAL || capture.thread == here,
        RELAXED => false,
        _ => capture.thread == here,
    };
    let mut forbidden = Ok(());
    for capture in captures.iter().filter(forbids) {
        capture.recording.spoil();
        forbidden = Err(code::CAPTURE_UNSUPPORTED);
    }
    forbidden
}

/// `cuStreamBeginCapture`.
pub(crate) fn begin(stream: usize, mode: u32) -> Result<(), u32> {
    graph::begin(stream, mode)?;
    let recording = Stream::of(stream).and_then(|stream| stream.recording()).ok_or(code::ILLEGAL_STATE)?;
    captures().push(Capture { stream, mode, thread: thread::current().id(), recording });
    Ok(())
}

/// `cuStreamEndCapture`: the graph.
pub(crate) fn end(stream: usize) -> Result<usize, u32> {
    let mut captures = captures();
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
pub(crate) fn forget(stream: usize) {
    captures().retain(|capture| capture.stream != stream);
}
