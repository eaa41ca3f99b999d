//! Submitted work of a context's queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ash::vk;
use gpu_interop_core::sync::{lock, unpoisoned};
use gpu_interop_core::{Error, Result, SemaphorePayload};

use super::spare::{Parts, Spare};
use crate::buffer::OwnedBuffer;
use crate::context::hand_over::SubmissionGuard;
use crate::error::{self, Checked};
use crate::image::OwnedImage;
use crate::interop::{PendingWork, VulkanInterop};
use crate::pending::{InUse, drop_in_use};
use crate::semaphore::{OwnedSemaphore, nanoseconds};
use crate::tracking::{Command, Ownership, State};

/// Operation in the errors of submissions.
pub(super) const SUBMIT: &str = "HeadlessContext::submit";

/// A semaphore that a submission waits for or signals.
#[derive(Debug, Clone, Copy)]
pub struct SemaphoreOp<'a> {
    /// The semaphore, of the context's device.
    pub semaphore: &'a OwnedSemaphore,
    /// The value to wait for or to signal. Ignored for a binary semaphore.
    pub value: u64,
}

/// A command buffer with its fence and the objects that it uses.
#[derive(Debug)]
pub(super) struct Flight {
    spare: Arc<Spare>,
    /// `None` only while this is being dropped.
    parts: Option<Parts>,
    fence: vk::Fence,
    pub(super) commands: vk::CommandBuffer,
    buffers: Vec<OwnedBuffer>,
    images: Vec<OwnedImage>,
    /// The shared buffers and the images whose state the commands use or change, by the address of their [`Ownership`].
    moved: HashMap<usize, Moved>,
    semaphores: Vec<OwnedSemaphore>,
}

/// A buffer or an image, with its state before and after the commands of a flight.
#[derive(Debug)]
struct Moved {
    ownership: Arc<Ownership>,
    found: State,
    left: State,
}

/// A key that is unique while the object lives.
fn key(ownership: &Arc<Ownership>) -> usize {
    Arc::as_ptr(ownership).addr()
}

impl Flight {
    /// Begins a command buffer.
    pub(super) fn new(spare: Arc<Spare>) -> Result<Self> {
        let parts = spare.take()?;
        let flight = Self {
            fence: parts.fence,
            commands: parts.commands,
            parts: Some(parts),
            buffers: Vec::new(),
            images: Vec::new(),
            moved: HashMap::new(),
            semaphores: Vec::new(),
            spare,
        };
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the device is live, and the command buffer is in its initial state.
        unsafe { flight.spare.interop().device().begin_command_buffer(flight.commands, &begin) }
            .checked("vkBeginCommandBuffer")?;
        Ok(flight)
    }

    pub(super) fn keep(&mut self, buffer: &OwnedBuffer) {
        self.buffers.push(buffer.clone());
    }

    pub(super) fn keep_image(&mut self, image: &OwnedImage) {
        self.images.push(image.clone());
    }

    /// Fails unless the state of the object after the commands recorded so far is valid for `command`.
    pub(super) fn check_state(
        &self,
        operation: &'static str,
        ownership: &Arc<Ownership>,
        command: Command,
    ) -> Result<()> {
        let state = self.moved.get(&key(ownership)).map_or_else(|| ownership.get(), |moved| moved.left);
        ownership.after(operation, state, command).map(drop)
    }

    /// Applies a command that is recorded next to the state of the object. Fails as [`check_state`](Self::check_state)
    /// does; the command must not be recorded then.
    pub(super) fn uses(&mut self, operation: &'static str, ownership: &Arc<Ownership>, command: Command) -> Result<()> {
        if let Some(moved) = self.moved.get_mut(&key(ownership)) {
            moved.left = ownership.after(operation, moved.left, command)?;
            return Ok(());
        }
        let found = ownership.get();
        let left = ownership.after(operation, found, command)?;
        self.moved.insert(key(ownership), Moved { ownership: ownership.clone(), found, left });
        Ok(())
    }

    /// Fails if other work submitted since the recording has changed the state of an object.
    fn check_found(&self) -> Result<()> {
        if self.moved.values().all(|moved| moved.ownership.get() == moved.found) {
            return Ok(());
        }
        Err(Error::invalid(
            SUBMIT,
            "other work changed the owner of a buffer or an image while these commands were recorded; record \
             them again",
        ))
    }

    /// Rejects semaphores and values that no submission may have. Keeps the semaphores alive.
    pub(super) fn check_semaphores(&mut self, waits: &[SemaphoreOp<'_>], signals: &[SemaphoreOp<'_>]) -> Result<()> {
        for op in waits.iter().chain(signals) {
            if !op.semaphore.interop().is_same_device(self.spare.interop()) {
                return Err(Error::invalid(SUBMIT, "the semaphore belongs to another device"));
            }
            op.semaphore.check_submitted(SUBMIT, op.value)?;
            self.semaphores.push(op.semaphore.clone());
        }
        Ok(())
    }

    /// Ends the recording and submits it, with checked semaphores. The caller holds the queue's lock.
    pub(super) fn submit<'a>(
        &mut self,
        queue: vk::Queue,
        waits: &[SemaphoreOp<'a>],
        signals: &[SemaphoreOp<'a>],
    ) -> Result<()> {
        self.check_found()?;
        let split = |ops: &[SemaphoreOp<'_>]| -> (Vec<vk::Semaphore>, Vec<u64>) {
            ops.iter().map(|op| (op.semaphore.raw(), op.value)).unzip()
        };
        let ((wait_semaphores, wait_values), (signal_semaphores, signal_values)) = (split(waits), split(signals));
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
        let commands = [self.commands];
        let mut values = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&signal_values);
        let mut info = vk::SubmitInfo::default()
            .command_buffers(&commands)
            .wait_semaphores(&wait_semaphores)
            .wait_dst_stage_mask(&stages)
            .signal_semaphores(&signal_semaphores);
        if waits.iter().chain(signals).any(|op| op.semaphore.payload() == SemaphorePayload::Timeline) {
            info = info.push_next(&mut values);
        }
        let device = self.spare.interop().device();
        // SAFETY: the command buffer is in the recording state, and only this object has it.
        unsafe { device.end_command_buffer(self.commands) }.checked("vkEndCommandBuffer")?;
        let ops = |ops: &[SemaphoreOp<'a>]| ops.iter().map(|op| (op.semaphore, op.value)).collect::<Vec<_>>();
        let guard = SubmissionGuard::new(SUBMIT, queue, ops(waits), ops(signals))?;
        // SAFETY: queue, commands, fence and semaphores are live and of one device; the fence is unsignalled; the
        // queue's lock is held; this object keeps all used objects until the fence is signalled.
        unsafe { device.queue_submit(queue, &[info], self.fence) }.checked("vkQueueSubmit")?;
        guard.submitted();
        self.moved.values().for_each(|moved| moved.ownership.set(moved.left));
        Ok(())
    }

    /// Blocks until submitted work has finished.
    pub(super) fn wait(&self, timeout: Duration) -> Result<()> {
        const OPERATION: &str = "vkWaitForFences";
        self.spare.interop().check_process(OPERATION)?;
        // SAFETY: the fence is live and was submitted.
        unsafe { self.spare.interop().device().wait_for_fences(&[self.fence], true, nanoseconds(timeout)) }.map_err(
            |code| {
                error::driver(OPERATION, code)
                    .with_device(self.spare.interop().identity())
                    .with_context("timeout", format_args!("{timeout:?}"))
            },
        )
    }

    /// `true` if submitted work may still run, also if the driver cannot tell. On a lost device none does.
    fn is_pending(&self) -> bool {
        if self.spare.interop().is_forked() {
            return true;
        }
        // SAFETY: the fence is live.
        let status = unsafe { self.spare.interop().device().get_fence_status(self.fence) };
        !matches!(status, Ok(true) | Err(vk::Result::ERROR_DEVICE_LOST))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        // In a forked process no drop calls the driver.
        if let Some(parts) = self.parts.take().filter(|_| !self.spare.interop().is_forked()) {
            // SAFETY: the parts were taken from `spare`. The work was never submitted or has finished: `abandon` keeps
            // flights that may be pending, and `finish` forgets them.
            unsafe { self.spare.put(parts) };
        }
    }
}

/// Submitted work. Keeps the objects that the work uses, and its device, alive.
///
/// Dropping it does not block; the context keeps pending work until it has finished.
#[derive(Debug)]
pub struct Submission {
    abandoned: Arc<Abandoned>,
    flight: Option<Flight>,
}

impl Submission {
    pub(super) fn new(abandoned: Arc<Abandoned>, flight: Flight) -> Self {
        Self { abandoned, flight: Some(flight) }
    }

    /// Blocks until the work has finished. Its writes are then visible to the host and to later submissions.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout) after `timeout`; the wait may be repeated.
    /// [`ErrorKind::Driver`](gpu_interop_core::ErrorKind::Driver) if the device is lost.
    #[doc(alias = "vkWaitForFences")]
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        self.flight.as_ref().map_or(Ok(()), |flight| flight.wait(timeout))
    }

    /// `true` if the work has finished; `false` also if the driver cannot tell. Does not block.
    #[doc(alias = "vkGetFenceStatus")]
    #[must_use]
    pub fn is_finished(&self) -> bool {
        !self.flight.as_ref().is_some_and(Flight::is_pending)
    }
}

impl Drop for Submission {
    fn drop(&mut self) {
        let flight = self.flight.take();
        if let Some(flight) = flight.filter(|flight| !flight.spare.interop().is_forked() && flight.is_pending()) {
            lock(&self.abandoned.flights).push(flight);
        }
    }
}

/// Work of a context that still ran when its [`Submission`] was dropped. Dropped with the context and its last
/// submission.
#[derive(Debug, Default)]
pub(super) struct Abandoned {
    flights: Mutex<Vec<Flight>>,
}

impl PendingWork for Abandoned {
    fn free_finished(&self) {
        let flights = std::mem::take(&mut *lock(&self.flights));
        if flights.is_empty() {
            return;
        }
        let (mut pending, finished): (Vec<_>, Vec<_>) = flights.into_iter().partition(Flight::is_pending);
        lock(&self.flights).append(&mut pending);
        // Without the lock: an owner of a semaphore is code of the application.
        drop(finished);
    }
}

impl Drop for Abandoned {
    fn drop(&mut self) {
        drop_in_use(std::mem::take(unpoisoned(self.flights.get_mut())));
    }
}

impl InUse for Flight {
    const LEAKED: &str = "submitted work did not finish; its device is leaked";

    fn interop(&self) -> &VulkanInterop {
        self.spare.interop()
    }

    fn wait(&self, timeout: Duration) -> Result<()> {
        Self::wait(self, timeout)
    }
}
