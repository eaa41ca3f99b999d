//! A frame in flight, and its compute half.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpu_interop_core::{Error, ErrorKind, Result, Stream};

use super::memory::FrameMemory;
use super::slots::{self, Part, Slots};
use crate::ring::FrameSide;

/// Time for the work of a stream to end that cannot signal its end.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for Vulkan's half where streams cannot wait for it, and the host does.
const HOST_PATIENCE: Duration = Duration::from_secs(60);

/// A frame of a [`FrameRing`](crate::FrameRing), from its [acquisition](crate::FrameRing::acquire) to its drop.
///
/// # Halves
/// The two sides take turns on its memory, beginning with the ring's first side. A *half* is the work of one turn:
/// [`render`](Self::render) or [`submit_render`](Self::submit_render) for Vulkan, [`compute`](Self::compute) for a
/// stream. A half executes after the one before it, also on another queue or stream, sees its writes, and is enqueued
/// without blocking. Any number of halves is possible: none, one, two, or three as in a frame that Vulkan renders,
/// compute changes, and Vulkan shows. A half out of turn is an [`ErrorKind::InvalidArgument`].
///
/// A Vulkan queue that waits executes no later submission. Hold a frame that returns to Vulkan, and submit that half
/// after the next frames were rendered (`examples/frames_in_flight.rs`). Before a half whose result is presented, call
/// [`before_present`](Self::before_present).
///
/// # Drop
/// Dropping a frame, after any half, returns it to the ring without blocking. Its pending work continues, and the ring
/// waits for it before the frame is acquired again.
#[derive(Debug)]
#[must_use = "a frame returns to its ring when it is dropped"]
pub struct Frame {
    slots: Arc<Slots>,
    part: Arc<Part>,
    number: u64,
    turn: FrameSide,
    /// Why the frame cannot be used any more.
    failure: Option<Error>,
}

impl Frame {
    pub(super) fn new(slots: Arc<Slots>, (part, number): (Arc<Part>, u64), turn: FrameSide) -> Self {
        Self { slots, part, number, turn, failure: None }
    }

    /// The number of frames acquired from the ring before this one.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Position in the ring, from 0: [`FrameMemory::index`]. Frames that are returned in the order of their acquisition
    /// are acquired in rotation.
    #[must_use]
    pub fn index(&self) -> usize {
        self.part.memory.index()
    }

    /// Buffers and images.
    #[must_use]
    pub fn memory(&self) -> &FrameMemory {
        &self.part.memory
    }

    /// The side whose half is next.
    #[must_use]
    pub fn turn(&self) -> FrameSide {
        self.turn
    }

    /// Enqueues the compute half: `stream` waits for the half before it, executes what `work` enqueues, and signals. Does
    /// not block. Work that `work` enqueues on other streams must be joined to `stream` by events.
    ///
    /// If `work` fails or panics, the stream signals behind the work that it had enqueued by then, and the half counts as
    /// done: the frame and the ring stay usable, with the frame's contents as that work leaves them. The error is
    /// returned, the panic continues.
    ///
    /// A failure of the enqueued work itself, such as of a kernel, is not returned here or by [`wait`](Self::wait), but
    /// by [`Stream::synchronize`] and [`Stream::synchronize_timeout`]: call one of them before trusting the data.
    ///
    /// Blocks only on a driver whose streams cannot wait for memory, until Vulkan's half has completed; the timeline's
    /// [`Unsupported`](ErrorKind::Unsupported) error says so elsewhere.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`] if it is Vulkan's turn, or the stream is of another device or records a graph.
    ///   Nothing is enqueued then, and `work` is not called; as after an error of the wait.
    /// * The error of `work`.
    /// * The driver's error if the stream cannot signal. If its work ends within 2 seconds, the half is done; otherwise
    ///   the frame is lost: its later halves return this kind of error, and the ring continues without it.
    pub fn compute<T>(&mut self, stream: &Stream, work: impl FnOnce(&Stream, &FrameMemory) -> Result<T>) -> Result<T> {
        self.check("Frame::compute", FrameSide::Compute)?;
        self.part.memory.keep(stream)?;
        self.wait_on(stream)?;
        let part = self.part.clone();
        let signal = Signal { frame: self, stream, sent: false };
        let outcome = work(stream, &part.memory);
        let signalled = signal.send();
        match outcome {
            Ok(value) => signalled.map(|()| value),
            Err(error) => {
                if let Err(error) = signalled {
                    tracing::error!(%error, "a stream did not signal the end of a failed half");
                }
                Err(error)
            }
        }
    }

    /// Enqueues the stream's wait for the last half.
    fn wait_on(&self, stream: &Stream) -> Result<()> {
        let (timeline, value) = (&self.part.timeline, self.part.last());
        match stream.wait_timeline(timeline, value) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                timeline.wait(value, HOST_PATIENCE)?;
                stream.wait_timeline(timeline, value)
            }
            waited => waited,
        }
    }

    /// Enqueues the stream's signal of the next value.
    fn signal(&mut self, stream: &Stream) -> Result<()> {
        let (timeline, value) = (&self.part.timeline, self.part.last() + 1);
        let Err(error) = stream.signal_timeline(timeline, value) else {
            self.advance();
            return Ok(());
        };
        // The work may still execute. Once it has ended, the host signals.
        let start = Instant::now();
        let ended = loop {
            match stream.is_idle() {
                Ok(false) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(1)),
                idle => break idle.is_ok_and(|idle| idle),
            }
        };
        let signalled = ended && timeline.signal(value).is_ok();
        // Without a signal too: the drop of a lost frame's memory then waits for the value, and leaks the memory.
        self.advance();
        if !signalled {
            let message = format!("the frame is lost, because its stream could not signal: {error}");
            self.failure = Some(Error::new(error.kind(), error.operation(), message));
        }
        Err(error)
    }

    /// Records that the half of the present turn was enqueued.
    pub(super) fn advance(&mut self) {
        self.part.advance(self.turn);
        self.turn = self.turn.other();
    }

    pub(super) fn part(&self) -> &Arc<Part> {
        &self.part
    }

    pub(super) fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// Fails if the frame was lost.
    fn check_lost(&self, operation: &'static str) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(Error::new(failure.kind(), operation, failure.message())),
            None => Ok(()),
        }
    }

    /// Rejects a half out of turn, or of a lost frame.
    pub(super) fn check(&self, operation: &'static str, side: FrameSide) -> Result<()> {
        self.check_lost(operation)?;
        if self.turn == side {
            return Ok(());
        }
        let message = match side {
            FrameSide::Compute => "it is Vulkan's turn: submit its half first, or drop the frame",
            FrameSide::Vulkan => "it is the compute side's turn: enqueue its half first, or drop the frame",
        };
        Err(Error::invalid(operation, message)
            .with_context("frame", self.number)
            .with_context("index", self.index())
            .with_context("turn", self.turn))
    }

    /// Makes the enqueued halves safe to present, as [`Timeline::before_present`](gpu_interop_core::Timeline::before_present)
    /// of their values: call it before Vulkan's half if the queue then signals a binary semaphore, such as the one that
    /// `vkQueuePresentKHR` waits for. Over a bridge it blocks until they have completed; with native timelines it does
    /// nothing. A [`HeadlessContext`](crate::HeadlessContext) does it itself if it waits for the binary semaphore.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] after `timeout`; the call may be repeated. Otherwise as [`is_done`](Self::is_done).
    #[doc(alias = "vkQueuePresentKHR")]
    pub fn before_present(&self, timeout: Duration) -> Result<()> {
        self.check_lost("Frame::before_present")?;
        self.part.timeline.before_present(self.part.last(), timeout)
    }

    /// `true` if all enqueued halves have completed. Does not block.
    ///
    /// # Errors
    /// The failure of the timeline; [`ErrorKind::DeviceLost`]; the failure of a lost frame ([`compute`](Self::compute)),
    /// whose work may still execute.
    pub fn is_done(&self) -> Result<bool> {
        self.check_lost("Frame::is_done")?;
        self.part.is_done()
    }

    /// Blocks until all enqueued halves have completed.
    ///
    /// A failure of work that was enqueued, such as of a kernel, is not returned here, but by [`Stream::synchronize`] and
    /// [`Stream::synchronize_timeout`]: call one of them before trusting the data.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] after `timeout`; the wait may be repeated. Otherwise as [`is_done`](Self::is_done).
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        let start = Instant::now();
        while !self.is_done()? {
            let elapsed = start.elapsed();
            let left = timeout.saturating_sub(elapsed);
            if left.is_zero() {
                let message = "work of the frame is pending; wait again, or find the work that does not complete";
                return Err(Error::new(ErrorKind::Timeout, "Frame::wait", message)
                    .with_device(self.part.semaphore.interop().identity())
                    .with_context("frame", self.number)
                    .with_context("timeout", format_args!("{timeout:?}")));
            }
            match slots::pause(elapsed) {
                Some(pause) => std::thread::sleep(pause.min(left)),
                None => std::hint::spin_loop(),
            }
        }
        Ok(())
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.slots.put(self.part.clone(), self.failure.take());
    }
}

/// A half that signals when this is dropped, also by a panic.
struct Signal<'a> {
    frame: &'a mut Frame,
    stream: &'a Stream,
    sent: bool,
}

impl Signal<'_> {
    fn send(mut self) -> Result<()> {
        self.sent = true;
        self.frame.signal(self.stream)
    }
}

impl Drop for Signal<'_> {
    fn drop(&mut self) {
        if self.sent {
            return;
        }
        if let Err(error) = self.frame.signal(self.stream) {
            tracing::error!(%error, "a stream did not signal the end of a half that panicked");
        }
    }
}
