//! A wgpu device together with the compute device of the same hardware.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use gpu_interop::sync::lock;

use gpu_interop::{Device, DeviceIdentity, Error, ErrorKind, IdentityMatch, Result};

use crate::native::Native;
use crate::native::objects::Transfer;
use crate::object::{self, Object};
use crate::reached::Watcher;
use crate::timeline::{HandOverTimeline, SharedTimeline, TimelineInner};

/// A wgpu device and queue, and the compute device (CUDA, HIP or the CPU) of the same hardware.
///
/// Creates shared buffers and textures, and hands them over between wgpu and streams. Cheap to clone: all clones are
/// the same object. May be used from every thread.
///
/// wgpu's own `Queue::submit` stays usable, from every thread and at any time. Submissions of other threads cannot
/// misplace a wait or a signal of a hand-over (see [`submit_with`](Self::submit_with)).
#[derive(Debug, Clone)]
pub struct Interop {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    id: u64,
    pub(crate) graphics: Graphics,
    compute: Device,
    /// Timelines of completed hand-overs, to be reused.
    hand_over_timelines: Mutex<Vec<HandOverTimeline>>,
    pub(crate) watcher: Arc<Watcher>,
}

impl Interop {
    /// Finds the compute device of the same hardware as `device`, by UUID, LUID or PCI address. Searches the backends
    /// that `GPU_INTEROP_BACKEND` allows ([`gpu_interop::device_for`]). `queue` belongs to `device`.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if wgpu runs on another backend than Vulkan (on Windows also Direct3D 12), or the
    /// device lacks an extension: [`request_device`](crate::request_device) creates a device with all extensions.
    /// [`ErrorKind::NoDevice`] if no compute device has this hardware. [`ErrorKind::InvalidArgument`] for the queue of
    /// another device.
    pub fn new(device: &wgpu::Device, queue: &wgpu::Queue) -> Result<Self> {
        let native = Native::new("Interop::new", device)?;
        let compute = gpu_interop::device_for(native.identity())?;
        Self::build(device, queue, native, compute)
    }

    /// As [`new`](Self::new), with a compute device that the application opened:
    /// [`gpu_interop::device_for_with_host`] with [`identity`](crate::identity) opens one with kernels for the CPU.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`ErrorKind::DeviceMismatch`] if `compute` is other hardware than `device`.
    pub fn with_compute(device: &wgpu::Device, queue: &wgpu::Queue, compute: Device) -> Result<Self> {
        let native = Native::new("Interop::with_compute", device)?;
        if compute.identity().compare(native.identity()) == IdentityMatch::Different {
            let message = "the compute device is other hardware than the wgpu device; open it with \
                           gpu_interop::device_for(&gpu_interop_wgpu::identity(&device)?)";
            return Err(Error::new(ErrorKind::DeviceMismatch, "Interop::with_compute", message)
                .with_mismatch(native.identity().clone(), compute.identity().clone()));
        }
        Self::build(device, queue, native, compute)
    }

    fn build(device: &wgpu::Device, queue: &wgpu::Queue, native: Native, compute: Device) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        native.check_queue("Interop::new", queue)?;
        let inner = Inner {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            graphics: Graphics { device: device.clone(), queue: queue.clone(), native },
            compute,
            hand_over_timelines: Mutex::default(),
            watcher: Arc::default(),
        };
        let interop = Self { inner: Arc::new(inner) };
        // Makes the first hand-over as fast as later ones. A device without timelines fails here.
        interop.reserve(1)?;
        Ok(interop)
    }

    /// Prepares the timelines of this number of concurrent hand-overs. Without this call, the first hand-over that runs
    /// concurrently with others may take longer, because importing a timeline can wait for pending work of the GPU.
    ///
    /// # Errors
    /// The error of creating a timeline or importing it.
    pub fn reserve(&self, hand_overs: usize) -> Result<()> {
        while self.inner.hand_over_timelines().len() < hand_overs {
            let timeline = HandOverTimeline::new(self.inner.create_timeline(0)?);
            self.inner.hand_over_timelines().push(timeline);
        }
        Ok(())
    }

    /// The wgpu device.
    #[must_use]
    pub fn device(&self) -> &wgpu::Device {
        &self.inner.graphics.device
    }

    /// The wgpu queue.
    #[must_use]
    pub fn queue(&self) -> &wgpu::Queue {
        &self.inner.graphics.queue
    }

    /// The compute device. `interop.compute().create_stream()` creates a stream.
    #[must_use]
    pub fn compute(&self) -> &Device {
        &self.inner.compute
    }

    /// The identity of the wgpu device's hardware.
    #[must_use]
    pub fn identity(&self) -> &DeviceIdentity {
        self.inner.graphics.native.identity()
    }

    /// Creates a timeline that wgpu's queue and streams signal and wait for. Hand-overs have their own timelines. Use
    /// this one for other orders, such as a producer on the host.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if either device lacks timelines. Errors of the driver.
    #[doc(alias(
        "vkGetSemaphoreFdKHR",
        "vkGetSemaphoreWin32HandleKHR",
        "cuImportExternalSemaphore",
        "cudaImportExternalSemaphore",
        "hipImportExternalSemaphore"
    ))]
    pub fn create_timeline(&self, initial: u64) -> Result<SharedTimeline> {
        Ok(SharedTimeline::new(self.inner.create_timeline(initial)?, self.inner.watcher.clone(), self.id()))
    }

    /// Submits command buffers that execute after each timeline of `waits` has reached its value. Raises each timeline
    /// of `signals` to its value after the command buffers have completed.
    ///
    /// With Vulkan, the signal of each wait must be enqueued or submitted before this call. Over a bridge, this call
    /// blocks until the timelines of `waits` have reached their values; [`HandBack::acquire`](crate::HandBack::acquire)
    /// describes the reason. Without a bridge, it does not block.
    ///
    /// # Other threads
    /// wgpu passes a staged semaphore to the next submission, which may be another thread's. Every outcome is correct
    /// without a lock:
    ///
    /// * A *wait* is staged before `commands` are submitted. If another thread's submission takes the wait, it precedes
    ///   `commands`. wgpu's queue executes in order, so `commands` still wait.
    /// * A *signal* is staged after `commands` were submitted. Every submission that can take the signal therefore
    ///   follows `commands`. An empty submission ensures that there is one.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`]:
    /// * for a timeline of another `Interop`;
    /// * for a value further from the timeline's current value than the Vulkan device allows;
    /// * for a signal whose value is not above every value that the timeline has reached and that this queue signals;
    /// * for a signal of a timeline that another thread signals at the same time;
    /// * if wgpu rejects `commands`, with wgpu's error as the source. Then nothing is signalled, and the next
    ///   submission waits for `waits`.
    ///
    /// [`ErrorKind::Timeout`] if the CPU has waited for a minute. [`ErrorKind::DeviceLost`] if wgpu cannot submit any
    /// more. The failure of a timeline.
    pub fn submit_with(
        &self,
        waits: &[(&SharedTimeline, u64)],
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
        signals: &[(&SharedTimeline, u64)],
    ) -> Result<wgpu::SubmissionIndex> {
        const OPERATION: &str = "Interop::submit_with";
        for (timeline, value) in waits.iter().chain(signals) {
            if timeline.interop() != self.id() {
                let error = Error::invalid(OPERATION, "the timeline was created by another Interop");
                return Err(error.with_context("value", value));
            }
        }
        for (timeline, value) in signals {
            timeline.inner().check_signal(OPERATION, *value)?;
        }
        let graphics = &self.inner.graphics;
        for (timeline, value) in waits {
            timeline.inner().stage_wait(graphics, *value)?;
        }
        let submitted = graphics.checked(OPERATION, || Ok(graphics.queue.submit(commands)))?;
        for (timeline, value) in signals {
            timeline.inner().signal_from_queue(OPERATION, graphics, *value)?;
        }
        Ok(submitted)
    }

    pub(crate) fn id(&self) -> u64 {
        self.inner.id
    }

    pub(crate) fn native(&self) -> &Native {
        &self.inner.graphics.native
    }
}

impl Inner {
    fn hand_over_timelines(&self) -> MutexGuard<'_, Vec<HandOverTimeline>> {
        lock(&self.hand_over_timelines)
    }

    pub(crate) fn create_timeline(&self, initial: u64) -> Result<Arc<TimelineInner>> {
        let (native, timeline) = self.graphics.native.create_timeline(&self.compute, initial)?;
        Ok(Arc::new(TimelineInner::new(native, timeline, self.graphics.queue.clone(), initial)))
    }

    /// Submits barriers of one object, and a use that keeps the object alive until they have executed.
    pub(crate) fn submit_internal(&self, transfer: Transfer, object: &Object) -> Result<()> {
        let graphics = &self.graphics;
        graphics.checked("Queue::submit", || {
            let barriers = graphics.native.record(&graphics.device, transfer, &[&object.resource])?;
            let used = object::record_use(&graphics.device, &graphics.native, std::iter::once(&object.handle));
            graphics.queue.submit(barriers.into_iter().chain([used]));
            Ok(())
        })
    }

    /// A timeline for one hand-over.
    pub(crate) fn take_hand_over_timeline(&self) -> Result<HandOverTimeline> {
        let timeline = self.hand_over_timelines().pop();
        timeline.map_or_else(|| Ok(HandOverTimeline::new(self.create_timeline(0)?)), Ok)
    }

    #[cfg(test)]
    pub(crate) fn hand_over_timeline_count(&self) -> usize {
        self.hand_over_timelines().len()
    }

    /// Returns a timeline to the pool. wgpu's queue must wait for the timeline's last value.
    pub(crate) fn put_hand_over_timeline(&self, timeline: HandOverTimeline) {
        self.hand_over_timelines().push(timeline);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.watcher.close();
    }
}

/// A wgpu device, its queue, and the native device.
#[derive(Debug)]
pub(crate) struct Graphics {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) native: Native,
}

impl Graphics {
    /// Calls wgpu and returns its error, which would otherwise reach wgpu's error handler. Catches only errors of the
    /// calling thread.
    pub(crate) fn checked<T>(&self, operation: &'static str, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let (returned, reported) = self.caught(call);
        let Some(error) = reported else { return returned };
        let (kind, message) = match error {
            wgpu::Error::OutOfMemory { .. } => {
                (ErrorKind::OutOfMemory, "wgpu is out of memory; its error is the source")
            }
            wgpu::Error::Validation { .. } => {
                (ErrorKind::InvalidArgument, "wgpu rejected the call; its error is the source")
            }
            wgpu::Error::Internal { .. } => (ErrorKind::Driver, "wgpu failed; its error is the source"),
        };
        Err(Error::new(kind, operation, message).with_source(error))
    }

    /// Creates an object from a native one, without the error of wgpu: it is one of a lost device, which the first use of
    /// the invalid object reports. An error here would lose what the native object was made of.
    pub(crate) fn reported_later<T>(&self, call: impl FnOnce() -> T) -> T {
        let (returned, reported) = self.caught(call);
        if let Some(error) = reported {
            tracing::error!(%error, "wgpu created an invalid object");
        }
        returned
    }

    /// Calls wgpu, and catches its first error.
    fn caught<T>(&self, call: impl FnOnce() -> T) -> (T, Option<wgpu::Error>) {
        use wgpu::ErrorFilter::{Internal, OutOfMemory, Validation};
        let scopes = [Internal, OutOfMemory, Validation].map(|filter| self.device.push_error_scope(filter));
        let returned = call();
        // The innermost error scope first.
        let mut reported = None;
        for scope in scopes.into_iter().rev() {
            let mut popped = std::pin::pin!(scope.pop());
            // The future is ready: only in browsers it may be pending.
            if let Poll::Ready(Some(error)) = popped.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                reported = reported.or(Some(error));
            }
        }
        (returned, reported)
    }
}
