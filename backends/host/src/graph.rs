//! Graphs: recorded operations that can be enqueued repeatedly.

use std::sync::{Mutex, MutexGuard};

use gpu_interop_core::backend::RawGraphNode;
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, Result};

use crate::op::Op;
use crate::stream::StreamState;

/// Recorded operations.
#[derive(Debug)]
pub(crate) struct Graph {
    ops: Mutex<Vec<Op>>,
}

/// Returns the node of the operation recorded last: the number of operations recorded so far.
pub(crate) fn last(stream: &StreamState) -> RawGraphNode {
    RawGraphNode::new(stream.recorded())
}

impl Graph {
    /// Ends a stream's recording and returns the graph.
    pub(crate) fn of(stream: &StreamState) -> Self {
        Self { ops: Mutex::new(stream.end_recording()) }
    }

    /// Locks the operations, which a panic cannot leave inconsistent.
    fn ops(&self) -> MutexGuard<'_, Vec<Op>> {
        lock(&self.ops)
    }

    /// Enqueues the operations on a stream.
    pub(crate) fn launch(&self, stream: &StreamState) {
        stream.enqueue(self.ops().iter().cloned());
    }

    /// Replaces the operations that end with `node`.
    pub(crate) fn replace(&self, node: RawGraphNode, new: impl ExactSizeIterator<Item = Op>) -> Result<()> {
        let mut ops = self.ops();
        let batch = node.get().checked_sub(new.len()).and_then(|first| ops.get_mut(first..node.get()));
        let batch = batch
            .ok_or_else(|| Error::invalid("HostBackend::graph", "the graph has no batch of this length at the node"))?;
        batch.iter_mut().zip(new).for_each(|(op, new)| *op = new);
        Ok(())
    }
}
