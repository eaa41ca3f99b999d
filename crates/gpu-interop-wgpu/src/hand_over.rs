//! Hand-overs of objects from wgpu to a stream and back.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop::{Error, ErrorKind, Result, Stream, Timeline};

use crate::interop::{Inner, Interop};
use crate::native::objects::Transfer;
use crate::object::{Lent, Shared};
use crate::reached::{Reached, Watcher};
use crate::timeline::HandOverTimeline;

/// Time for work that was enqueued before a stream failed to end.
const PATIENCE: Duration = Duration::from_secs(2);

impl Interop {
    /// Hands `objects` over to `stream`: work enqueued on it from now on executes after everything that was submitted
    /// to wgpu's queue before this call, and sees its results. Does not block.
    ///
    /// The objects belong to compute until [`HandOver::end`], or the drop of the returned guard, hands them back. Until
    /// then, do not submit wgpu commands that use them, nor call `Queue::write_buffer` or `write_texture` for them;
    /// recording commands is fine.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an object that is handed over already, an object of another `Interop`, or a
    /// stream of another device; [`ErrorKind::DeviceLost`]. Errors of the driver. After an error, the objects
    /// belong to wgpu.
    #[doc(alias("cuWaitExternalSemaphoresAsync", "cudaWaitExternalSemaphoresAsync", "hipWaitExternalSemaphoresAsync"))]
    pub fn begin_compute<'s>(&self, stream: &'s Stream, objects: &[&dyn Shared]) -> Result<HandOver<'s>> {
        self.submit_and_begin_compute([], stream, objects)
    }

    /// Submits `commands`, which produce what compute needs, and hands `objects` over behind them: as
    /// `Queue::submit` and [`begin_compute`](Self::begin_compute), with one submission less.
    ///
    /// # Errors
    /// As [`begin_compute`](Self::begin_compute), and [`ErrorKind::InvalidArgument`] with wgpu's error as the source if
    /// wgpu rejects `commands`.
    pub fn submit_and_begin_compute<'s>(
        &self,
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
        stream: &'s Stream,
        objects: &[&dyn Shared],
    ) -> Result<HandOver<'s>> {
        const OPERATION: &str = "Interop::begin_compute";
        let (inner, graphics) = (&self.inner, &self.inner.graphics);
        let lent = Lent::new(OPERATION, self.id(), objects)?;
        let own = inner.take_hand_over_timeline()?;
        graphics.checked(OPERATION, || {
            let barriers = graphics.native.record(&graphics.device, Transfer::Release, &lent.resources())?;
            let used = lent.record_use(&graphics.device, &graphics.native);
            graphics.queue.submit(commands.into_iter().chain([used]).chain(barriers));
            Ok(())
        })?;
        // From here on the objects are released, so every failure acquires them.
        let (timeline, value) = (own.timeline.clone(), own.value + 1);
        let owned = Owned { interop: inner.clone(), lent, timeline: Some(own) };
        let signalled = timeline.signal_from_queue(OPERATION, graphics, value);
        match signalled.and_then(|()| wait(stream, &timeline.timeline, value)) {
            Ok(()) => Ok(HandOver { stream, owned: Some(owned) }),
            Err(error) => {
                owned.take_back();
                Err(error)
            }
        }
    }
}

/// Enqueues the stream's wait for wgpu.
fn wait(stream: &Stream, timeline: &Timeline, value: u64) -> Result<()> {
    match stream.wait_timeline(timeline, value) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            // A driver whose streams cannot wait for memory: the host waits for wgpu, which has been submitted.
            timeline.wait(value, Duration::from_secs(60))?;
            stream.wait_timeline(timeline, value)
        }
        waited => waited,
    }
}

/// Objects that belong to compute, and the timeline by which wgpu gets them back.
#[derive(Debug)]
struct Owned {
    interop: Arc<Inner>,
    lent: Lent,
    /// `None` once it is returned or given up.
    timeline: Option<HandOverTimeline>,
}

impl Owned {
    /// Submits the acquire and `commands` behind it. With `value`, wgpu's queue waits for it first.
    fn acquire(
        &self,
        value: Option<u64>,
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
    ) -> Result<wgpu::SubmissionIndex> {
        const OPERATION: &str = "HandBack::acquire";
        let graphics = &self.interop.graphics;
        let record = || -> Result<_> {
            let barriers = graphics.native.record(&graphics.device, Transfer::Acquire, &self.lent.resources())?;
            let used = self.lent.record_use(&graphics.device, &graphics.native);
            Ok(barriers.into_iter().chain([used]))
        };
        let staged = match self.timeline.as_ref().zip(value) {
            Some((own, value)) => own.timeline.stage_wait(graphics, value),
            None => Ok(()),
        };
        let submitted =
            staged.and_then(|()| graphics.checked(OPERATION, || Ok(graphics.queue.submit(record()?.chain(commands)))));
        if submitted.is_err() {
            // Nothing was acquired: the stream failed, or wgpu rejected `commands` or a destroyed object. Each object is
            // acquired alone. A staged wait is taken by the first of these submissions, or was by one of another thread.
            for object in self.lent.objects() {
                if let Err(error) = self.interop.submit_internal(Transfer::Acquire, object) {
                    tracing::error!(%error, "an object was not given back to wgpu");
                }
            }
        }
        submitted
    }

    /// Gives the objects back to wgpu after a failure of the stream, without a wait that it might never satisfy. The
    /// timeline is given up, with whatever is enqueued for it.
    fn take_back(mut self) {
        if let Err(error) = self.acquire(None, []) {
            tracing::error!(%error, "objects of a failed hand-over were given back one by one");
        }
        self.timeline = None;
    }
}

/// Objects that belong to compute: the time between [`Interop::begin_compute`] and [`end`](Self::end).
///
/// Dropping it ends it, so that a return by `?` gives the objects back; a failure is then reported through `tracing`. A
/// hand-over that is leaked (`std::mem::forget`) blocks nothing: its objects stay with compute, and later hand-overs of
/// them are errors.
#[derive(Debug)]
#[must_use = "dropping the hand-over ends it: bind it to a name, and call `end` behind the work of compute"]
pub struct HandOver<'s> {
    stream: &'s Stream,
    /// `None` once it has ended.
    owned: Option<Owned>,
}

impl HandOver<'_> {
    /// The stream that the objects were handed to.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        self.stream
    }

    /// Hands the objects back to wgpu: whatever is submitted to its queue from now on executes after everything that
    /// was enqueued on the stream, and sees its results. See [`HandBack::acquire`] for the case in which it blocks.
    ///
    /// The queue waits from now on. With several frames in flight, submit the next frames first: see
    /// [`signal`](Self::signal).
    ///
    /// # Errors
    /// As [`signal`](Self::signal) and [`HandBack::acquire`].
    #[doc(alias(
        "cuSignalExternalSemaphoresAsync",
        "cudaSignalExternalSemaphoresAsync",
        "hipSignalExternalSemaphoresAsync"
    ))]
    pub fn end(self) -> Result<()> {
        self.signal()?.acquire()
    }

    /// As [`end`](Self::end), and submits `commands` behind, with one submission less.
    ///
    /// # Errors
    /// As [`end`](Self::end) and [`HandBack::acquire_and_submit`].
    pub fn end_and_submit(
        self,
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
    ) -> Result<wgpu::SubmissionIndex> {
        self.signal()?.acquire_and_submit(commands)
    }

    /// Ends the work of compute, without making wgpu's queue wait for it yet. The objects belong to wgpu again after
    /// [`HandBack::acquire`].
    ///
    /// A queue that waits executes nothing behind the wait. To have several frames in flight, call this for a frame,
    /// submit the rendering of the next frames, and acquire the frame then.
    ///
    /// # Errors
    /// The error of the stream. The objects are given back to wgpu, with undefined contents, after at most 2 seconds
    /// for earlier work of the stream.
    pub fn signal(mut self) -> Result<HandBack> {
        match self.owned.take() {
            Some(owned) => signal(self.stream, owned),
            None => Err(ended("HandOver::signal")),
        }
    }
}

/// Not reachable: what ends a hand-over consumes it.
fn ended(operation: &'static str) -> Error {
    Error::invalid(operation, "the hand-over has ended")
}

fn signal(stream: &Stream, mut owned: Owned) -> Result<HandBack> {
    let Some(own) = &mut owned.timeline else { return Err(ended("HandOver::signal")) };
    let value = own.value + 2;
    let watcher = owned.interop.watcher.clone();
    match stream.signal_timeline(&own.timeline.timeline, value) {
        Ok(()) => {
            own.value = value;
            let done = own.timeline.timeline.clone();
            Ok(HandBack { owned: Some(owned), done, value, watcher })
        }
        Err(error) => {
            if let Err(error) = stream.synchronize_timeout(PATIENCE) {
                tracing::debug!(%error, "the stream of a failed hand-over is not idle");
            }
            owned.take_back();
            Err(error)
        }
    }
}

impl Drop for HandOver<'_> {
    fn drop(&mut self) {
        let Some(owned) = self.owned.take() else { return };
        // The drop of the hand-back acquires.
        if let Err(error) = signal(self.stream, owned) {
            tracing::error!(%error, "a hand-over could not be ended");
        }
    }
}

/// Objects on which compute has no further work to enqueue: the time between [`HandOver::signal`] and
/// [`acquire`](Self::acquire). Dropping it acquires.
#[derive(Debug)]
#[must_use = "dropping it acquires at once: call `acquire` when wgpu needs the objects"]
pub struct HandBack {
    /// `None` once it is acquired.
    owned: Option<Owned>,
    done: Arc<Timeline>,
    value: u64,
    watcher: Arc<Watcher>,
}

impl HandBack {
    /// Gives the objects back to wgpu, whose queue waits for the stream.
    ///
    /// Does not block where the compute driver imports timeline semaphores
    /// ([`TimelineStrategy::Native`](gpu_interop::TimelineStrategy::Native)), as CUDA's does, nor with Direct3D 12.
    /// Over a bridge (HIP on Linux, the CPU) with Vulkan, the CPU waits for the stream: wgpu orders its submissions by
    /// binary semaphores, and Vulkan allows none behind a wait for a signal that is not submitted yet
    /// (VUID-vkQueueSubmit-pWaitSemaphores-03238). With several frames in flight the stream has arrived by then.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if wgpu submits nothing any more; over a bridge [`ErrorKind::Timeout`] after a
    /// minute, and the failure of the stream. The objects are given back nevertheless, with undefined contents.
    pub fn acquire(self) -> Result<()> {
        self.acquire_and_submit([]).map(drop)
    }

    /// As [`acquire`](Self::acquire), and submits `commands` behind, in the same submission.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`ErrorKind::InvalidArgument`] with wgpu's error as the source if wgpu
    /// rejects `commands`; the objects are given back nevertheless.
    pub fn acquire_and_submit(
        mut self,
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
    ) -> Result<wgpu::SubmissionIndex> {
        let Some(owned) = self.owned.take() else { return Err(ended("HandBack::acquire")) };
        acquire(owned, self.value, commands)
    }

    /// A future of the time when compute is done, for example to acquire the objects without making the queue wait.
    pub fn done(&self) -> Reached {
        Reached::new(self.done.clone(), self.value, self.watcher.clone())
    }
}

fn acquire(
    mut owned: Owned,
    value: u64,
    commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
) -> Result<wgpu::SubmissionIndex> {
    let submitted = owned.acquire(Some(value), commands)?;
    // Not after a failure: the stream may not have reached the value, and wgpu's queue does not wait for it.
    if let Some(own) = owned.timeline.take() {
        owned.interop.put_hand_over_timeline(own);
    }
    Ok(submitted)
}

impl Drop for HandBack {
    fn drop(&mut self) {
        let Some(owned) = self.owned.take() else { return };
        if let Err(error) = acquire(owned, self.value, []) {
            tracing::error!(%error, "objects were not given back to wgpu");
        }
    }
}

#[cfg(test)]
mod tests;
