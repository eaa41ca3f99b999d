//! Graphs. The handles are CUDA's own.

use std::ffi::{c_uint, c_ulonglong};

use cudarc::driver::sys::{CUgraph, CUgraphExec, CUstream, CUstreamCaptureMode};
use gpu_interop_sim_abi::{entries, give};

use crate::code::INVALID_VALUE;
use crate::context::{call, make};

/// Converts HIP's capture mode to CUDA's, which has the same numbers.
fn mode(mode: c_uint) -> Result<CUstreamCaptureMode, u32> {
    use CUstreamCaptureMode as Mode;
    let modes = [
        Mode::CU_STREAM_CAPTURE_MODE_GLOBAL,
        Mode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        Mode::CU_STREAM_CAPTURE_MODE_RELAXED,
    ];
    modes.into_iter().find(|known| *known as u32 == mode).ok_or(INVALID_VALUE)
}

entries! {
    fn hipStreamBeginCapture(stream: CUstream, mode: c_uint) {
        call!(cuStreamBeginCapture_v2(stream, self::mode(mode)?))
    }

    fn hipStreamEndCapture(stream: CUstream, graph: *mut CUgraph) gives graph {
        if graph.is_null() {
            return Err(INVALID_VALUE);
        }
        let mut made = std::ptr::null_mut();
        call!(cuStreamEndCapture(stream, &raw mut made))?;
        give(graph, made)
    }

    fn hipThreadExchangeStreamCaptureMode(mode: *mut c_uint) {
        if mode.is_null() {
            return Err(INVALID_VALUE);
        }
        let mut exchanged = self::mode(mode.read())?;
        call!(cuThreadExchangeStreamCaptureMode(&raw mut exchanged))?;
        mode.write(exchanged as c_uint);
        Ok(())
    }

    fn hipGraphInstantiateWithFlags(ready: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong) gives ready {
        if ready.is_null() {
            return Err(INVALID_VALUE);
        }
        give(ready, make!(cuGraphInstantiateWithFlags(graph, flags))?)
    }

    fn hipGraphLaunch(graph: CUgraphExec, stream: CUstream) {
        call!(cuGraphLaunch(graph, stream))
    }

    fn hipGraphExecDestroy(graph: CUgraphExec) {
        call!(cuGraphExecDestroy(graph))
    }

    fn hipGraphDestroy(graph: CUgraph) {
        call!(cuGraphDestroy(graph))
    }
}
