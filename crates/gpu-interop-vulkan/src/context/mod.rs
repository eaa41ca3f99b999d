//! A Vulkan device created by this crate, for tests, examples and tools.

pub(crate) mod hand_over;
mod image;
mod owner;
mod recording;
mod select;
mod spare;
mod submission;
mod transfer;
mod validation;
mod video;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ash::vk;
use gpu_interop_core::sync::lock;
use gpu_interop_core::{DeviceIdentity, Error, ErrorKind, Result};

use crate::interop::{PendingWork, VulkanInterop};
use crate::queue::QueueKind;
pub use hand_over::BufferCopy;
use owner::{DeviceOwner, InstanceOwner};
pub use recording::Recording;
pub use select::DeviceChoice;
use spare::Spare;
use submission::{Abandoned, Flight, SUBMIT};
pub use submission::{SemaphoreOp, Submission};
pub use validation::ValidationLog;

/// Options of a new [`HeadlessContext`]. Start from [`default()`](Self::default) and use the setters.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeadlessOptions {
    /// Enables `VK_LAYER_KHRONOS_validation` with its detection of missing barriers, and collects its reports.
    ///
    /// Layers before 1.4.304, such as Debian 12's 1.3.239, may stall for 10 s where the host signals a timeline, as a
    /// bridge does, and report `UNASSIGNED-VkSemaphore-state-timeout`. This is a defect of the layer, fixed upstream in
    /// 2024. Install a newer layer, or turn validation off. On Linux a `tracing` warning says so when a bridge is created.
    ///
    /// Version 1.3.239 also crashes now and then if one thread creates or destroys a context with validation while
    /// another thread uses one, because the layer changes a table of all contexts without a lock
    /// (KhronosGroup/Vulkan-ValidationLayers, #4391). Version 1.4.309 does not. With an old layer, create all contexts
    /// before other threads use one, and drop them when no other thread does.
    pub validation: bool,
    /// The device to open; `None` selects the first GPU, or a CPU device if there is no GPU.
    pub device: Option<DeviceChoice>,
    /// The kind of the context's queue.
    pub queue: QueueKind,
    /// `true` creates a transfer-only queue as well, if the device has one: [`HeadlessContext::copying`].
    pub copying: bool,
    /// `true` creates a compute queue without graphics as well, if the device has one: [`HeadlessContext::computing`].
    pub computing: bool,
    /// `true` enables the features of the device, if it has them, that the application's own commands need to write shared
    /// memory by draws and shaders: `vertexPipelineStoresAndAtomics`, `fragmentStoresAndAtomics`,
    /// `shaderStorageImageExtendedFormats`, `occlusionQueryPrecise`, and `dynamicRendering` with
    /// `VK_KHR_dynamic_rendering`.
    pub drawing: bool,
    /// Timeout of the blocking methods; 60 s by default.
    pub timeout: Duration,
}

impl Default for HeadlessOptions {
    fn default() -> Self {
        let timeout = Duration::from_secs(60);
        let queue = QueueKind::General;
        Self { validation: false, device: None, queue, copying: false, computing: false, drawing: false, timeout }
    }
}

setters! {
    HeadlessOptions {
        /// Enables or disables validation; see the field for a defect of old layers.
        validation: bool;
        /// Chooses the device.
        device: DeviceChoice;
        /// Chooses the kind of queue.
        queue: QueueKind;
        /// Sets whether to create a transfer-only queue as well.
        copying: bool;
        /// Sets whether to create a compute queue without graphics as well.
        computing: bool;
        /// Sets whether to enable features for draws and shaders.
        drawing: bool;
        /// Sets the timeout of the blocking methods.
        timeout: Duration;
    }
}

/// An instance, a device with this crate's extensions, and one queue; optionally a second queue for copies.
///
/// Objects created from a context keep its device alive, so the order of drops does not matter. Applications with their
/// own device use [`VulkanInterop`] instead, and [`HeadlessContext::on_queue`] for this crate's submissions on their
/// queue.
#[derive(Debug, Clone)]
pub struct HeadlessContext {
    inner: Arc<Inner>,
}

struct Inner {
    interop: VulkanInterop,
    log: Option<Arc<ValidationLog>>,
    queue_family: u32,
    queue: Mutex<vk::Queue>,
    /// Contexts on the device's other queues.
    other_queues: OtherQueues,
    timeout: Duration,
    spare: Arc<Spare>,
    abandoned: Arc<Abandoned>,
}

/// Contexts on queues of the same device.
#[derive(Default)]
struct OtherQueues {
    copying: Option<HeadlessContext>,
    computing: Option<HeadlessContext>,
}

impl HeadlessContext {
    /// Loads Vulkan and opens a device. Requests Vulkan 1.2 if the loader supports it, for timeline semaphores,
    /// otherwise 1.1.
    ///
    /// # Errors
    /// * `DriverNotFound`: the Vulkan loader or a driver is missing.
    /// * `DriverTooOld`: the loader is below Vulkan 1.1.
    /// * `NoDevice`: no device is usable, or the chosen one is not;
    ///   [`Error::attempts`](gpu_interop_core::Error::attempts) has the reason for each device.
    /// * `Unsupported`: validation is requested, and the layer is not installed.
    /// * `OutOfMemory`, `Driver`: creation failed.
    #[doc(alias("vkCreateInstance", "vkCreateDevice"))]
    pub fn new(options: &HeadlessOptions) -> Result<Self> {
        let instance = InstanceOwner::new(options.validation)?;
        // SAFETY: the instance was just created, for Vulkan 1.1 or later.
        let candidates = unsafe { select::candidates(&instance.instance, options.queue) }?;
        let (candidate, queue_family) = select::choose(&candidates, options.device.as_ref())?;
        let log = instance.log.clone();
        let copying = candidate.transfer_only.filter(|family| options.copying && *family != queue_family);
        let computing = candidate.compute_only.filter(|family| options.computing && *family != queue_family);
        let families = [queue_family].into_iter().chain(copying).chain(computing);
        let owner = Arc::new(DeviceOwner::new(instance, candidate, families, options.drawing)?);
        // SAFETY: the device was made with one queue of each of these families.
        let queue_of = |family| unsafe { owner.device.get_device_queue(family, 0) };
        let queue = queue_of(queue_family);
        // SAFETY: the three belong together, the instance is 1.1 or later, and the owner keeps both alive.
        let interop = unsafe {
            VulkanInterop::with_owner(&owner.instance.instance, candidate.physical_device, &owner.device, owner.clone())
        }?;
        let on = |family| {
            let (interop, log) = (interop.clone(), log.clone());
            Self::build(interop, log, family, queue_of(family), options.timeout, OtherQueues::default())
        };
        let other_queues = OtherQueues { copying: copying.map(on), computing: computing.map(on) };
        Ok(Self::build(interop, log, queue_family, queue, options.timeout, other_queues))
    }

    /// A context on the same device's transfer-only queue, for work that does not need the graphics and compute engine
    /// ([`QueueKind::TransferOnly`]); `None` if the device has no such queue or [`HeadlessOptions::copying`] was not
    /// set.
    ///
    /// An object released to the other API on one of the two contexts may be acquired on the other. Two threads must
    /// not release or acquire the same object on both contexts at once: only work of one queue is checked, and the
    /// object's contents are undefined otherwise.
    #[must_use]
    pub fn copying(&self) -> Option<&Self> {
        self.inner.other_queues.copying.as_ref()
    }

    /// A context on the same device's compute queue without graphics ([`QueueKind::ComputeOnly`]); `None` if the device has
    /// no such queue or [`HeadlessOptions::computing`] was not set. What [`copying`](Self::copying) says of objects
    /// that two contexts use applies here, too.
    #[must_use]
    pub fn computing(&self) -> Option<&Self> {
        self.inner.other_queues.computing.as_ref()
    }

    /// Creates a context on a queue of the application's own device, for example for hand-overs on a transfer-only
    /// queue. The timeout of its blocking methods is the default of [`HeadlessOptions`].
    ///
    /// # Safety
    /// * `queue` must be a queue of `queue_family` of `interop`'s device, and support transfers.
    /// * Vulkan requires external synchronisation of a queue: the application must not use it (submissions,
    ///   `vkQueueWaitIdle`, `vkDeviceWaitIdle`) while a method of this context, a clone or a [`Submission`] of it runs.
    /// * Buffers and images that queues of another family have used must be owned by `queue_family` when commands of
    ///   this context use them, or by the other API when the context acquires them.
    /// * The device must outlive the context and its submissions, unless `interop` keeps it alive
    ///   ([`VulkanInterop::with_owner`]).
    #[must_use]
    pub unsafe fn on_queue(interop: &VulkanInterop, queue_family: u32, queue: vk::Queue) -> Self {
        Self::build(
            interop.clone(),
            None,
            queue_family,
            queue,
            HeadlessOptions::default().timeout,
            OtherQueues::default(),
        )
    }

    fn build(
        interop: VulkanInterop,
        log: Option<Arc<ValidationLog>>,
        queue_family: u32,
        queue: vk::Queue,
        timeout: Duration,
        other_queues: OtherQueues,
    ) -> Self {
        let abandoned: Arc<Abandoned> = Arc::default();
        interop.add_pending_work(&abandoned);
        let inner = Inner {
            spare: Spare::new(interop.clone(), queue_family),
            interop,
            log,
            queue_family,
            queue: Mutex::new(queue),
            other_queues,
            timeout,
            abandoned,
        };
        Self { inner: Arc::new(inner) }
    }

    /// All Vulkan devices, usable or not, in the order of [`DeviceChoice::Index`].
    ///
    /// # Errors
    /// As [`new`](Self::new), except that an empty list of devices is not an error.
    #[doc(alias = "vkEnumeratePhysicalDevices")]
    pub fn devices() -> Result<Vec<DeviceIdentity>> {
        let instance = InstanceOwner::new(false)?;
        // SAFETY: the instance was just created, for Vulkan 1.1 or later.
        let candidates = unsafe { select::candidates(&instance.instance, QueueKind::General) }?;
        Ok(candidates.into_iter().map(|candidate| candidate.identity).collect())
    }

    /// The identity of the device.
    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        self.inner.interop.identity()
    }

    /// The device, for creating buffers, images and semaphores. Keeps the device alive, not the queue.
    #[must_use]
    pub fn interop(&self) -> &VulkanInterop {
        &self.inner.interop
    }

    /// The family of the context's queue.
    #[must_use]
    pub fn queue_family(&self) -> u32 {
        self.inner.queue_family
    }

    /// Runs `action` with exclusive use of the queue. It must not submit through this context.
    pub fn with_queue<R>(&self, action: impl FnOnce(vk::Queue) -> R) -> R {
        action(*lock(&self.inner.queue))
    }

    /// The validation errors so far; empty without validation.
    #[must_use]
    pub fn validation_errors(&self) -> Vec<String> {
        self.inner.log.as_ref().map(|log| log.errors()).unwrap_or_default()
    }

    /// The list behind [`validation_errors`](Self::validation_errors), which outlives the context; `None` without
    /// validation.
    #[must_use]
    pub fn validation_log(&self) -> Option<ValidationLog> {
        self.inner.log.as_deref().cloned()
    }

    /// Records commands and submits them after all earlier submissions.
    ///
    /// The commands run once all of `waits` are signalled; `signals` are signalled when they have finished. If a wait
    /// is never signalled, the submission stays pending forever.
    ///
    /// Does not block, with one exception: a wait for a binary semaphore must not be submitted before every signal on which
    /// that semaphore's signal depends (VUID-vkQueueSubmit-pWaitSemaphores-03238). If it depends on a value of a timeline
    /// that the host or a bridge has yet to signal, through waits of its submission or of earlier ones on its queue, the host
    /// waits until the value is reached. It waits for no other values: not for those of a timeline that was exported or
    /// imported without a bridge, and, unless a bridge signals it, of one whose handle the application has
    /// ([`OwnedSemaphore::timeline_from_raw`](crate::OwnedSemaphore::timeline_from_raw),
    /// [`as_raw`](crate::OwnedSemaphore::as_raw)). Over a bridge, submit the application's own signals with
    /// [`OwnedSemaphore::submit_signal`](crate::OwnedSemaphore::submit_signal), or they are waited for, too.
    ///
    /// A signal of a binary semaphore never blocks. If another API, a presentation, or work submitted through ash waits for
    /// the semaphore, call [`Timeline::before_present`](gpu_interop_core::Timeline::before_present) first.
    ///
    /// # Errors
    /// Those of `record`; [`InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if a semaphore belongs to
    /// another device, a binary semaphore to wait for has no submitted signal, or one to signal is already signalled
    /// ([`OwnedSemaphore`](crate::OwnedSemaphore)), a timeline would be signalled with a value that this crate's earlier work on this queue reaches
    /// first, a value differs from its timeline's current value by more than the device allows
    /// ([`VulkanInterop::max_timeline_difference`]), or other work submitted during the recording initialised, released
    /// or acquired a shared buffer or an image; `Timeout` after [`HeadlessOptions::timeout`] if the host waits; `OutOfMemory`,
    /// `Driver`; `System` in a forked process. Nothing is submitted then.
    #[doc(alias = "vkQueueSubmit")]
    pub fn submit(
        &self,
        waits: &[SemaphoreOp<'_>],
        signals: &[SemaphoreOp<'_>],
        record: impl FnOnce(&mut Recording<'_>) -> Result<()>,
    ) -> Result<Submission> {
        self.inner.interop.check_process(SUBMIT)?;
        self.inner.abandoned.free_finished();
        let mut flight = Flight::new(self.inner.spare.clone())?;
        let mut recording = Recording::new(&self.inner.interop, self.inner.queue_family, &mut flight);
        record(&mut recording)?;
        recording.make_visible_to_host();
        flight.check_semaphores(waits, signals)?;
        self.inner.wait_for_signals(waits)?;
        flight.submit(*lock(&self.inner.queue), waits, signals)?;
        Ok(Submission::new(self.inner.abandoned.clone(), flight))
    }

    /// Records commands, submits them, and blocks until they have finished or [`HeadlessOptions::timeout`] has elapsed.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), and [`Timeout`](gpu_interop_core::ErrorKind::Timeout): the commands may still run
    /// then, and the context keeps the objects that they use alive.
    pub fn run(&self, record: impl FnOnce(&mut Recording<'_>) -> Result<()>) -> Result<()> {
        self.submit(&[], &[], record)?.wait(self.inner.timeout)
    }
}

impl HeadlessContext {
    /// Waits until every signal has been submitted on which that of a binary semaphore depends. Fails after the context's timeout.
    #[cfg(unix)]
    pub(crate) fn wait_until_signalled_by_submissions(&self, semaphore: &crate::OwnedSemaphore) -> Result<()> {
        self.inner.wait_for_signals(&[SemaphoreOp { semaphore, value: 0 }])
    }
}

impl Inner {
    /// Waits until every signal on which those of the binary semaphores in `waits` depend has been submitted.
    fn wait_for_signals(&self, waits: &[SemaphoreOp<'_>]) -> Result<()> {
        let start = Instant::now();
        loop {
            let signals = waits.iter().filter_map(|op| op.semaphore.signalled_by()).collect();
            // The queue is not locked: the owner of a semaphore that is dropped here is code of the application.
            let Some((timeline, value)) = self.interop.queue_waits().unsubmitted(signals) else { return Ok(()) };
            let left = self.timeout.saturating_sub(start.elapsed());
            let waited = match left.is_zero() {
                true => Err(Error::new(ErrorKind::Timeout, SUBMIT, "")),
                false => timeline.wait(value, left),
            };
            waited.map_err(|error| {
                if error.kind() != ErrorKind::Timeout {
                    return error;
                }
                let message = "the submission waits for a binary semaphore whose signal depends on a value that no submitted \
                               work signals, such as one behind a bridge; signal the value first, or submit later";
                Error::new(ErrorKind::Timeout, SUBMIT, message)
                    .with_device(self.interop.identity())
                    .with_context("value", value)
                    .with_context("timeout", format_args!("{:?}", self.timeout))
            })?;
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadlessContext")
            .field("interop", &self.interop)
            .field("queue_family", &self.queue_family)
            .finish_non_exhaustive()
    }
}
