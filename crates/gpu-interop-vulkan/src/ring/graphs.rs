//! Graphs with the compute half of each frame.

use std::sync::{Arc, Weak};

use gpu_interop_core::{Error, Graph, Result, Stream};

use super::frame::Frame;
use super::memory::FrameMemory;
use super::slots::Slots;

/// The compute half of each frame of a ring, recorded once. Created by [`FrameRing::record`](crate::FrameRing::record),
/// launched by [`Frame::launch`]. Keeps mapped buffers alive.
#[derive(Debug)]
pub struct FrameGraphs {
    ring: Weak<Slots>,
    graphs: Vec<Graph>,
}

impl FrameGraphs {
    pub(super) fn new(slots: &Arc<Slots>, record: impl FnMut(&FrameMemory) -> Result<Graph>) -> Result<Self> {
        let graphs = slots.parts.iter().map(|part| &part.memory).map(record).collect::<Result<_>>()?;
        Ok(Self { ring: Arc::downgrade(slots), graphs })
    }

    /// The graph of each frame, by [`Frame::index`], for new values of recorded semaphores.
    #[must_use]
    pub fn graphs(&self) -> &[Graph] {
        &self.graphs
    }
}

impl Frame {
    /// Enqueues the recorded compute half of this frame: as [`compute`](Self::compute), with one graph launch between wait
    /// and signal.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for graphs of another ring; otherwise as
    /// [`compute`](Self::compute) and [`Graph::launch`].
    pub fn launch(&mut self, stream: &Stream, graphs: &FrameGraphs) -> Result<()> {
        let foreign = || Error::invalid("Frame::launch", "the graphs were recorded for another ring");
        let is_own = Weak::ptr_eq(&graphs.ring, &Arc::downgrade(self.slots()));
        let graph = graphs.graphs.get(self.index()).filter(|_| is_own).ok_or_else(foreign)?;
        self.compute(stream, |stream, _| graph.launch(stream))
    }
}
