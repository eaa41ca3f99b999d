//! Vulkan's half of a frame.

use std::sync::{Arc, Weak};

use ash::vk;
use gpu_interop_core::{Error, Graph, Result, Stream};

use super::frame::Frame;
use super::memory::FrameMemory;
use crate::context::hand_over::SubmissionGuard;
use crate::context::{HeadlessContext, Recording, SemaphoreOp, Submission};
use crate::error::Checked;
use crate::ownership::OwnershipTransfer;
use crate::ring::FrameSide;
use crate::ring::slots::Slots;

/// The timeline semaphore of Vulkan's half of a frame, and its values. The first submission of the half waits for one
/// value, and the last submission signals the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FrameSync {
    /// The timeline semaphore, owned by the ring.
    pub semaphore: vk::Semaphore,
    /// The value to wait for, at all stages. The acquire executes after this wait.
    pub wait: u64,
    /// The value to signal, after the release.
    pub signal: u64,
}

impl FrameSync {
    /// The wait for `vkQueueSubmit2`.
    pub fn wait_info(&self) -> vk::SemaphoreSubmitInfo<'static> {
        self.info(self.wait)
    }

    /// The signal for `vkQueueSubmit2`.
    pub fn signal_info(&self) -> vk::SemaphoreSubmitInfo<'static> {
        self.info(self.signal)
    }

    fn info(&self, value: u64) -> vk::SemaphoreSubmitInfo<'static> {
        vk::SemaphoreSubmitInfo::default()
            .semaphore(self.semaphore)
            .value(value)
            .stage_mask(vk::PipelineStageFlags2::ALL_COMMANDS)
    }
}

/// Vulkan's half.
///
/// [`render`](Self::render) does everything. An application that records its own commands:
/// 1. calls [`record_acquire`](Self::record_acquire) before its commands;
/// 2. calls [`record_release`](Self::record_release) after its commands;
/// 3. submits them with [`submit_render`](Self::submit_render), or itself with the values of
///    [`render_sync`](Self::render_sync), and then calls [`assume_rendered`](Self::assume_rendered).
impl Frame {
    /// Submits Vulkan's half on a context's queue: waits for the preceding half, acquires the frame's memory, executes
    /// the commands of `record`, releases the memory, and signals. Also submits a later half, such as one that only
    /// copies results back. Does not block. The returned submission may be dropped.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if it is the compute side's turn,
    /// or the context is of another device. Errors of `record` and of [`HeadlessContext::submit`]. After an error,
    /// nothing is submitted, and it stays Vulkan's turn.
    pub fn render(
        &mut self,
        context: &HeadlessContext,
        record: impl FnOnce(&mut Recording<'_>, &FrameMemory) -> Result<()>,
    ) -> Result<Submission> {
        self.render_between(context, &[], &[], record)
    }

    /// As [`render`](Self::render), and waits for and signals other semaphores, too: those of a producer, a decoder or a
    /// presentation.
    ///
    /// # Errors
    /// As [`render`](Self::render).
    pub fn render_between(
        &mut self,
        context: &HeadlessContext,
        waits: &[SemaphoreOp<'_>],
        signals: &[SemaphoreOp<'_>],
        record: impl FnOnce(&mut Recording<'_>, &FrameMemory) -> Result<()>,
    ) -> Result<Submission> {
        self.check("Frame::render", FrameSide::Vulkan)?;
        let part = self.part();
        let [wait, signal] =
            [part.last(), part.last() + 1].map(|value| [SemaphoreOp { semaphore: &part.semaphore, value }]);
        let (waits, signals) = ([waits, &wait].concat(), [signals, &signal].concat());
        let submitted = context.submit(&waits, &signals, |recording| {
            part.memory.acquire(recording)?;
            record(recording, &part.memory)?;
            part.memory.release(recording)
        })?;
        self.advance();
        Ok(submitted)
    }

    /// Records the acquire of the frame's memory from the compute side. Images are then in `VK_IMAGE_LAYOUT_GENERAL`.
    /// For another layout, record [`OwnedImage::record_acquire`](crate::OwnedImage::record_acquire) of each image
    /// instead.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if it is the compute side's turn,
    /// or `to` names no real queue family or no stage. After an error, nothing is recorded.
    ///
    /// # Safety
    /// * The contract of [`OwnedBuffer::record_acquire`](crate::OwnedBuffer::record_acquire).
    /// * The acquire is recorded once for each of Vulkan's halves.
    /// * The commands are submitted as the half of this turn, and the ring outlives their recording.
    pub unsafe fn record_acquire(&self, commands: vk::CommandBuffer, to: OwnershipTransfer) -> Result<()> {
        self.check("Frame::record_acquire", FrameSide::Vulkan)?;
        for buffer in self.memory().vulkan_buffers() {
            // SAFETY: the caller's promises. Between halves the compute side owns the buffer, because the ring and each
            // of Vulkan's halves release it.
            unsafe { buffer.record_acquire(commands, to) }?;
        }
        for image in self.memory().images() {
            // SAFETY: as above; the compute side leaves the image in `GENERAL`.
            unsafe { image.image().record_acquire(commands, to, vk::ImageLayout::GENERAL) }?;
        }
        Ok(())
    }

    /// Records the release of the frame's memory to the compute side. Images must be in `VK_IMAGE_LAYOUT_GENERAL`. For
    /// another layout, record [`OwnedImage::record_release`](crate::OwnedImage::record_release) of each image instead.
    ///
    /// # Errors
    /// As [`record_acquire`](Self::record_acquire).
    ///
    /// # Safety
    /// * The contracts of [`OwnedBuffer::record_release`](crate::OwnedBuffer::record_release) and
    ///   [`OwnedImage::record_release`](crate::OwnedImage::record_release).
    /// * The release is recorded once for each of Vulkan's halves, after [`record_acquire`](Self::record_acquire) and
    ///   the half's commands.
    pub unsafe fn record_release(&self, commands: vk::CommandBuffer, from: OwnershipTransfer) -> Result<()> {
        self.check("Frame::record_release", FrameSide::Vulkan)?;
        for buffer in self.memory().vulkan_buffers() {
            // SAFETY: the caller's promises. The family has owned the buffer since the half's acquire.
            unsafe { buffer.record_release(commands, from) }?;
        }
        for image in self.memory().images() {
            // SAFETY: as above, and the image is in `GENERAL`.
            unsafe { image.image().record_release(commands, from, vk::ImageLayout::GENERAL) }?;
        }
        Ok(())
    }

    /// The semaphore of Vulkan's half, for a submission of the application. After the submission, call
    /// [`assume_rendered`](Self::assume_rendered). If the submission, or a later one on the queue, signals a binary
    /// semaphore, call [`before_present`](Self::before_present) first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if it is the compute side's turn.
    #[doc(alias = "vkQueueSubmit2")]
    pub fn render_sync(&self) -> Result<FrameSync> {
        self.check("Frame::render_sync", FrameSide::Vulkan)?;
        let wait = self.part().last();
        Ok(FrameSync { semaphore: self.part().semaphore.as_raw(), wait, signal: wait + 1 })
    }

    /// Submits Vulkan's half (`vkQueueSubmit`): waits for the preceding half, executes `commands`, and signals. Does
    /// not block. If the queue later signals a binary semaphore, such as for a presentation, call
    /// [`before_present`](Self::before_present) first. The command buffers may be recorded again once the ring returns
    /// a frame with the same [`index`](Self::index).
    ///
    /// ```no_run
    /// # use std::{error::Error, time::Duration};
    /// # use gpu_interop_core::Stream;
    /// # use gpu_interop_vulkan::{FrameRing, OwnershipTransfer, ash::vk};
    /// # fn frame(
    /// #     ring: &FrameRing,
    /// #     stream: &Stream,
    /// #     (queue, family): (vk::Queue, u32),
    /// #     command_buffers: &[vk::CommandBuffer],
    /// # ) -> Result<(), Box<dyn Error>> {
    /// let (device, transfer) = (ring.interop().device(), OwnershipTransfer::all(family));
    /// let mut frame = ring.acquire(Duration::from_secs(1))?;
    /// // One command buffer for each half of each frame, of a pool with `RESET_COMMAND_BUFFER`.
    /// let commands = command_buffers[frame.index()];
    /// let buffer = frame.memory().buffers()[0].buffer().as_raw();
    /// // SAFETY: the command buffer is of this family, and not pending, because the ring returned its frame. The
    /// // buffer was created with `TRANSFER_DST`. No other thread uses the queue.
    /// unsafe {
    ///     device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
    ///     frame.record_acquire(commands, transfer)?;
    ///     device.cmd_fill_buffer(commands, buffer, 0, vk::WHOLE_SIZE, 7);
    ///     frame.record_release(commands, transfer)?;
    ///     device.end_command_buffer(commands)?;
    ///     frame.submit_render(queue, &[commands])?;
    /// }
    /// frame.compute(stream, |stream, memory| stream.fill_u32(memory.buffers()[0].slice(2048..)?, 8))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if it is the compute side's turn.
    /// Errors of the driver. After an error, nothing is submitted, and it stays Vulkan's turn.
    ///
    /// # Safety
    /// * `queue` is a queue of the ring's device. No other thread uses it during this call.
    /// * `commands` are executable, of this queue's family and not pending; their objects live until they have
    ///   completed.
    /// * `commands` acquire the frame's memory before they use it, and release it afterwards
    ///   ([`record_acquire`](Self::record_acquire), [`record_release`](Self::record_release)).
    #[doc(alias = "vkQueueSubmit")]
    pub unsafe fn submit_render(&mut self, queue: vk::Queue, commands: &[vk::CommandBuffer]) -> Result<()> {
        const OPERATION: &str = "Frame::submit_render";
        self.check(OPERATION, FrameSide::Vulkan)?;
        let FrameSync { semaphore, wait, signal } = self.render_sync()?;
        let (semaphores, waits, signals) = ([semaphore], [wait], [signal]);
        let mut values =
            vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&waits).signal_semaphore_values(&signals);
        let info = vk::SubmitInfo::default()
            .command_buffers(commands)
            .wait_semaphores(&semaphores)
            .wait_dst_stage_mask(&[vk::PipelineStageFlags::ALL_COMMANDS])
            .signal_semaphores(&semaphores)
            .push_next(&mut values);
        let owned = &self.part().semaphore;
        owned.interop().check_process(OPERATION)?;
        let guard = SubmissionGuard::new(OPERATION, queue, [(owned, wait)], [(owned, signal)])?;
        // SAFETY: the caller's promises about queue and commands; the semaphore is a live timeline of the same device,
        // whose values increase.
        let submitted = unsafe { owned.interop().device().queue_submit(queue, &[info], vk::Fence::null()) };
        submitted.checked("vkQueueSubmit").map_err(|error| error.with_device(owned.interop().identity()))?;
        guard.submitted();
        self.advance();
        Ok(())
    }

    /// Declares that the application submitted Vulkan's half with the values of [`render_sync`](Self::render_sync).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if it is the compute side's turn.
    ///
    /// # Safety
    /// * The half was submitted.
    /// * Its first submission waits for [`FrameSync::wait`].
    /// * Its last submission signals [`FrameSync::signal`] after the release of the frame's memory.
    /// * Queue and commands fulfil the contract of [`submit_render`](Self::submit_render).
    pub unsafe fn assume_rendered(&mut self) -> Result<()> {
        self.check("Frame::assume_rendered", FrameSide::Vulkan)?;
        self.advance();
        Ok(())
    }
}

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

    /// The graph of each frame, by [`Frame::index`]. Use it to set new values of recorded semaphores.
    #[must_use]
    pub fn graphs(&self) -> &[Graph] {
        &self.graphs
    }
}

impl Frame {
    /// Enqueues the recorded compute half of this frame. It works like [`compute`](Self::compute), with one graph
    /// launch between wait and signal.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for graphs of another ring. Other
    /// errors as for [`compute`](Self::compute) and [`Graph::launch`].
    pub fn launch(&mut self, stream: &Stream, graphs: &FrameGraphs) -> Result<()> {
        let foreign = || Error::invalid("Frame::launch", "the graphs were recorded for another ring");
        let is_own = Weak::ptr_eq(&graphs.ring, &Arc::downgrade(self.slots()));
        let graph = graphs.graphs.get(self.index()).filter(|_| is_own).ok_or_else(foreign)?;
        self.compute(stream, |stream, _| graph.launch(stream))
    }
}
