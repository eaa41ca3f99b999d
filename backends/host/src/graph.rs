//! Graphs: operations that a stream is given as often as it is wanted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_interop_core::backend::RawGraphNode;
use gpu_interop_core::{Error, Result};

use crate::op::Op;
use crate::stream::StreamState;

/// Recorded operations.
#[derive(Debug)]
pub(crate) struct Graph {
    ops: Mutex<Vec<Op>>,
}

/// The node of the operation that was recorded last: how many there are by then.
pub(crate) fn last(stream: &StreamState) -> RawGraphNode {
    RawGraphNode::new(stream.recorded())
}

impl Graph {
    /// Ends a stream's recording.
    pub(crate) fn of(stream: &StreamState) -> Self {
        Self { ops: Mutex::new(stream.end_recording()) }
    }

    /// No operation can be left half-done by a panic.
    fn ops(&self) -> MutexGuard<'_, Vec<Op>> {
        self.ops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues it.
    pub(crate) fn launch(&self, stream: &StreamState) {
        stream.enqueue(self.ops().iter().cloned());
    }

    /// Replaces the operations that end with `node`.
    pub(crate) fn replace(&self, node: RawGraphNode, new: impl ExactSizeIterator<Item = Op>) -> Result<()> {
        let mut ops = self.ops();
        let batch = node.get().checked_sub(new.len()).and_then(|first| ops.get_mut(first..node.get()));
        let batch = batch.ok_or_else(|| Error::invalid("HostBackend::graph", "the graph has no such operations"))?;
        batch.iter_mut().zip(new).for_each(|(op, new)| *op = new);
        Ok(())
    }
}
