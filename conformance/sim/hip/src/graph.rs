//! Captures, the calls that fail during a capture, and graphs, without semaphores.

use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::thread::ThreadId;

use gpu_interop_sim_abi::hip::version::Era;
use gpu_interop_sim_abi::lock;
use gpu_interop_sim_device::graph::{GLOBAL, GRAPHS, READY, RELAXED, THREAD_LOCAL};
use gpu_interop_sim_device::stream::{EVENTS, Recording, Stream};
use gpu_interop_sim_device::{code, entries, graph};

use crate::device::{need, ready};
use crate::die_because;
use crate::streams::Missing;
use crate::{give, streams};

/// `hipGraphInstantiateFlagAutoFreeOnLaunch` and, since HIP 6, `..UseNodePriority`.
const FLAGS: u64 = 1;
const PRIORITY: u64 = 8;
/// `hipStreamCaptureStatusNone` and `..Active`.
const NONE: c_uint = 0;
const ACTIVE: c_uint = 1;

/// The stream of a graph's last launch.
static LAUNCHED: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Ends the capture on a stream and returns the graph.
fn end_capture(handle: usize) -> Result<usize, u32> {
    if handle == 0 {
        return Err(if Era::now() == Era::Early { code::INVALID_VALUE } else { code::ILLEGAL_STATE });
    }
    let (here, stream) = streams::find(handle, &Missing::GRAPH)?;
    end_capture_on(here, &stream)
}

entries! {
    fn hipStreamBeginCapture(stream: usize, mode: c_uint) {
        need()?;
        let (here, found) = streams::find(stream, &Missing::CAPTURE)?;
        code::reject_if(mode > graph::RELAXED)?;
        // The default stream, but not each thread's own.
        if here == 0 && stream != streams::PER_THREAD {
            return Err(code::CAPTURE_UNSUPPORTED);
        }
        begin_capture(here, &found, mode)
    }

    fn hipStreamEndCapture(stream: usize, graph: *mut usize) gives graph {
        need()?;
        code::reject_if(graph.is_null() && Era::now() < Era::Seven)?;
        let ended = end_capture(stream);
        if ended == Err(code::CAPTURE_INVALIDATED) {
            // A capture invalidated by other calls gives a null result.
            let _ = give(graph, 0);
        }
        let ended = ended?;
        if graph.is_null() {
            return graph::destroy(&GRAPHS, ended);
        }
        give(graph, ended)
    }

    fn hipThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        ready()?;
        code::reject_if(mode.is_null() || mode.read() > graph::RELAXED)?;
        mode.write(graph::exchange_capture_mode(mode.read()));
        Ok(())
    }

    fn hipGraphInstantiateWithFlags(ready: *mut usize, graph: usize, flags: u64) gives ready {
        need()?;
        let known = if Era::now() >= Era::Six { [0, FLAGS, PRIORITY] } else { [0, FLAGS, FLAGS] };
        code::reject_if(ready.is_null() || graph == 0 || !known.contains(&flags))?;
        if GRAPHS.get(graph).is_none() {
            die_because("an invalid graph is instantiated");
        }
        give(ready, graph::instantiate(graph)?)
    }

    fn hipGraphLaunch(graph: usize, stream: usize) {
        need()?;
        code::reject_if(READY.get(graph).is_none())?;
        let (here, found) = streams::for_work(stream, &Missing::GRAPH)?;
        lock(&LAUNCHED).insert(graph, here);
        graph::launch(graph, here)?;
        streams::note_work(here, &found);
        Ok(())
    }

    fn hipGraphExecDestroy(graph: usize) {
        code::reject_if(graph == 0)?;
        if READY.get(graph).is_none() {
            die_because("an invalid or destroyed graph is destroyed");
        }
        let launched = lock(&LAUNCHED).remove(&graph);
        // Later versions destroy it after its work has run.
        if let Some(stream) = launched.filter(|_| Era::now() == Era::Five).and_then(Stream::of) {
            stream.drain();
        }
        graph::destroy(&READY, graph)
    }

    fn hipGraphDestroy(graph: usize) {
        code::reject_if(graph == 0)?;
        graph::destroy(&GRAPHS, graph).map_err(|_| code::ILLEGAL_STATE)
    }

    fn hipStreamGetCaptureInfo_v2(
        stream: usize, status: *mut c_uint, id: *mut u64, graph: *mut usize, nodes: *mut *const usize,
        count: *mut usize,
    ) gives status {
        need()?;
        code::reject_if(status.is_null())?;
        if stream == 0 {
            return if Era::now() == Era::Early { Err(code::UNKNOWN) } else { give(status, NONE) };
        }
        let (here, found) = streams::find(stream, &Missing::GRAPH)?;
        let Some(recording) = found.recording() else { return give(status, NONE) };
        give(status, ACTIVE)?;
        // The other outputs are optional; a graph's handle refers to nothing here.
        let _ = give(id, 1);
        let _ = give(graph, here);
        let _ = give(nodes, if recording.length() == 0 { std::ptr::null() } else { graph::last_kept(here)? });
        let _ = give(count, recording.length().min(1));
        Ok(())
    }
}

const UNMATCHED: u32 = 903;
const UNJOINED: u32 = 904;
const ISOLATION: u32 = 905;
const CAPTURED_EVENT: u32 = 907;
const WRONG_THREAD: u32 = 908;

/// A graph in capture.
#[derive(Debug)]
struct Capture {
    /// The stream on which the capture began.
    origin: usize,
    mode: u32,
    thread: ThreadId,
    recording: Arc<Recording>,
    /// The other streams of the capture, and whether the first waits for all of their work.
    others: BTreeMap<usize, bool>,
}

static CAPTURES: Mutex<Vec<Capture>> = Mutex::new(Vec::new());

/// A record of an event in a graph: the graph, and the position in the stream.
#[derive(Debug, Clone)]
struct Captured {
    recording: Weak<Recording>,
    stream: usize,
    length: usize,
}

static EVENTS_CAPTURED: Mutex<BTreeMap<usize, Captured>> = Mutex::new(BTreeMap::new());

/// Fails, and since HIP 6 invalidates the graph, if a capture forbids the call on this thread: allocating or freeing
/// memory, waiting for another stream.
pub(crate) fn check_permitted() -> Result<(), u32> {
    check_permitted_in(graph::capture_mode())
}

fn check_permitted_in(mode: u32) -> Result<(), u32> {
    let here = thread::current().id();
    let own = |capture: &Capture| capture.mode != RELAXED && capture.thread == here;
    let forbids = |capture: &&Capture| match mode {
        GLOBAL => capture.mode == GLOBAL || own(capture),
        THREAD_LOCAL => own(capture),
        _ => false,
    };
    forbidden(&lock(&CAPTURES).iter().filter(forbids).collect::<Vec<_>>())
}

/// As [`check_permitted`], for calls that wait for the whole device: forbidden in every mode since HIP 6.
pub(crate) fn check_device_permitted() -> Result<(), u32> {
    if Era::now() < Era::Six { Ok(()) } else { forbidden(&lock(&CAPTURES).iter().collect::<Vec<_>>()) }
}

fn forbidden(captures: &[&Capture]) -> Result<(), u32> {
    if captures.is_empty() {
        return Ok(());
    }
    if Era::now() >= Era::Six {
        captures.iter().for_each(|capture| capture.recording.invalidate());
    }
    Err(code::CAPTURE_UNSUPPORTED)
}

/// `true` if a stream can be waited for and queried, by a handle that is neither NULL nor of the default stream.
pub(crate) fn check_stream_permitted(stream: &Stream) -> Result<(), u32> {
    match (Era::now(), stream.recording()) {
        (Era::Early, _) => Ok(()),
        // As if all threads had the default mode.
        (Era::Five, None) => check_permitted_in(GLOBAL),
        // As if there were only two modes.
        (Era::Six, None) if graph::capture_mode() == THREAD_LOCAL => check_permitted_in(GLOBAL),
        (_, None) => check_permitted(),
        (era, Some(recording)) => {
            if era >= Era::Six {
                recording.invalidate();
            }
            Err(code::CAPTURE_UNSUPPORTED)
        }
    }
}

/// Begins a capture on the stream `here`, in a valid mode.
pub(crate) fn begin_capture(here: usize, stream: &Stream, mode: u32) -> Result<(), u32> {
    stream.begin_capture()?;
    let recording = stream.recording().ok_or(code::ILLEGAL_STATE)?;
    let capture = Capture { origin: here, mode, thread: thread::current().id(), recording, others: BTreeMap::new() };
    lock(&CAPTURES).push(capture);
    Ok(())
}

/// Ends the capture on the stream `here` and returns the graph.
pub(crate) fn end_capture_on(here: usize, stream: &Stream) -> Result<usize, u32> {
    let era = Era::now();
    let mut captures = lock(&CAPTURES);
    let Some(place) = captures.iter().position(|capture| capture.origin == here) else {
        // Early versions return another code for a stream that is not capturing.
        let other = stream.recording().is_some() || era == Era::Early;
        return Err(if other { UNMATCHED } else { code::ILLEGAL_STATE });
    };
    if captures[place].mode != RELAXED && captures[place].thread != thread::current().id() {
        return Err(WRONG_THREAD);
    }
    let capture = captures.remove(place);
    drop(captures);
    for other in capture.others.keys() {
        if let Some(stream) = Stream::of(*other) {
            stream.leave();
        }
    }
    let graph = graph::end(here)?;
    if era > Era::Early && capture.others.values().any(|joined| !joined) {
        graph::destroy(&graph::GRAPHS, graph)?;
        return Err(UNJOINED);
    }
    Ok(graph)
}

/// Ends the capture of a stream that is being destroyed.
pub(crate) fn forget_capture(handle: usize) {
    lock(&CAPTURES).retain(|capture| capture.origin != handle);
}

/// `hipEventRecord` on a capturing stream. Otherwise the event leaves its graph, and `false` is returned.
pub(crate) fn record_captured(event: usize, handle: usize, stream: &Stream) -> bool {
    let mut events = lock(&EVENTS_CAPTURED);
    let Some(recording) = stream.recording() else {
        events.remove(&event);
        return false;
    };
    let captured = Captured { recording: Arc::downgrade(&recording), stream: handle, length: recording.length() };
    events.insert(event, captured);
    true
}

/// The graph in capture that contains the event's last record, if any.
fn captured(event: usize) -> Option<(Captured, Arc<Recording>)> {
    let captured = lock(&EVENTS_CAPTURED).get(&event).cloned()?;
    let recording = captured.recording.upgrade()?;
    lock(&CAPTURES).iter().any(|capture| Arc::ptr_eq(&capture.recording, &recording)).then_some((captured, recording))
}

/// Fails for a query of an event that is part of a graph.
pub(crate) fn check_query_permitted(event: usize) -> Result<(), u32> {
    match captured(event) {
        Some((_, recording)) if Era::now() >= Era::Six => {
            recording.invalidate();
            Err(CAPTURED_EVENT)
        }
        _ if Era::now() >= Era::Seven => check_permitted(),
        _ => Ok(()),
    }
}

/// `hipStreamWaitEvent` during a capture; `false` if no graph is involved.
pub(crate) fn wait_captured(handle: usize, stream: &Stream, event: usize) -> Result<bool, u32> {
    let Some((captured, recording)) = captured(event) else {
        let recorded = EVENTS.get(event).is_some_and(|event| event.last().is_some());
        return match stream.recording() {
            Some(_) if recorded && Era::now() > Era::Early => Err(ISOLATION),
            Some(_) => Ok(true),
            None => Ok(false),
        };
    };
    if stream.recording().is_none() {
        stream.join(recording.clone())?;
    }
    let mut captures = lock(&CAPTURES);
    let Some(capture) = captures.iter_mut().find(|capture| Arc::ptr_eq(&capture.recording, &recording)) else {
        return Ok(true);
    };
    if handle != capture.origin {
        capture.others.insert(handle, false);
    } else if let Some(joined) = capture.others.get_mut(&captured.stream) {
        // The wait does not cover later work of the stream.
        *joined = captured.length == recording.length();
    }
    Ok(true)
}
