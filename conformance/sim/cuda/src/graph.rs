//! Graphs.

use std::ffi::c_uint;

use cudarc::driver::sys as cuda;
use gpu_interop_sim_device::entries;
use gpu_interop_sim_device::graph::{self, GRAPHS, READY};

use crate::external::batch;
use crate::{capture, code, context, give};

/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
const ACTIVE: u32 = cuda::CUstreamCaptureStatus_enum::CU_STREAM_CAPTURE_STATUS_ACTIVE as u32;
/// `CU_STREAM_CAPTURE_STATUS_NONE`, `hipStreamCaptureStatusNone`.
const NONE: u32 = 0;

entries! {
    fn cuStreamBeginCapture_v2(stream: usize, mode: c_uint) {
        context::need()?;
        capture::begin(stream, mode)
    }

    fn cuStreamEndCapture(stream: usize, graph: *mut usize) gives graph {
        context::need()?;
        code::reject_if(graph.is_null())?;
        give(graph, capture::end(stream)?)
    }

    fn cuStreamIsCapturing(stream: usize, status: *mut c_uint) gives status {
        context::need()?;
        give(status, if graph::records(stream)? { ACTIVE } else { NONE })
    }

    // The only dependency of a stream's next work: a capture has a single stream.
    fn cuStreamGetCaptureInfo_v2(
        stream: usize, status: *mut c_uint, _id: *mut u64, _graph: *mut usize, nodes: *mut *const usize,
        count: *mut usize,
    ) gives nodes {
        context::need()?;
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
        mode.write(capture::exchange(mode.read())?);
        Ok(())
    }

    fn cuGraphInstantiateWithFlags(ready: *mut usize, graph: usize, flags: u64) gives ready {
        context::need()?;
        code::reject_if(ready.is_null() || flags != 0)?;
        give(ready, graph::instantiate(graph)?)
    }

    fn cuGraphLaunch(graph: usize, stream: usize) {
        context::need()?;
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
