//! Graphs. On Linux semaphores are in none of them.

use std::ffi::c_uint;

use gpu_interop_sim::graph::{self, GRAPHS, READY};
use gpu_interop_sim::{code, entries};

use crate::device::need;
use crate::give;

entries! {
    fn hipStreamBeginCapture(stream: usize, mode: c_uint) {
        need()?;
        graph::begin(stream, mode)
    }

    fn hipStreamEndCapture(stream: usize, graph: *mut usize) gives graph {
        need()?;
        if graph.is_null() {
            return Err(code::INVALID_VALUE);
        }
        give(graph, graph::end(stream)?)
    }

    fn hipGraphInstantiateWithFlags(ready: *mut usize, graph: usize, flags: u64) gives ready {
        need()?;
        if ready.is_null() || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        give(ready, graph::instantiate(graph)?)
    }

    fn hipGraphLaunch(graph: usize, stream: usize) {
        need()?;
        graph::launch(graph, stream)
    }

    fn hipGraphExecDestroy(graph: usize) {
        graph::destroy(&READY, graph)
    }

    fn hipGraphDestroy(graph: usize) {
        graph::destroy(&GRAPHS, graph)
    }
}
