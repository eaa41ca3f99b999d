//! Graphs, without semaphores.

use std::collections::BTreeMap;
use std::ffi::c_uint;
use std::sync::Mutex;

use gpu_interop_sim_abi::hip::era::Era;
use gpu_interop_sim_abi::lock;
use gpu_interop_sim_device::graph::{self, GRAPHS, READY};
use gpu_interop_sim_device::stream::Stream;
use gpu_interop_sim_device::{capture_mode, code, entries};

use crate::device::{need, ready};
use crate::missing::{Missing, die_because};
use crate::{capture, give, marker, streams};

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
    capture::end(here, &stream)
}

entries! {
    fn hipStreamBeginCapture(stream: usize, mode: c_uint) {
        need()?;
        let (here, found) = streams::find(stream, &Missing::CAPTURE)?;
        code::reject_if(mode > capture_mode::RELAXED)?;
        // The default stream, but not each thread's own.
        if here == 0 && stream != streams::PER_THREAD {
            return Err(code::CAPTURE_UNSUPPORTED);
        }
        capture::begin(here, &found, mode)
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
        code::reject_if(mode.is_null() || mode.read() > capture_mode::RELAXED)?;
        mode.write(capture_mode::exchange(mode.read()));
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
        marker::work(here, &found);
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
