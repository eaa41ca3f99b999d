//! Timelines: counters shared by streams and the exporting API, on every platform.
//!
//! A failed native timeline blocks streams that wait for it. The host releases them: it raises the timeline to the
//! greatest value that a stream waits for. With CUDA, signals enqueued earlier may then lower the timeline again, so
//! that later waits block forever. A thread ([`Raiser`]) therefore raises the timeline repeatedly until all enqueued
//! work has completed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::device::Device;
use super::device_state::DeviceInner;
use super::lifetime::Lifetimes;
use super::semaphore::ExternalSemaphore;
use super::validate;
use crate::backend::{BackendDevice, WaitCondition};
use crate::bridge::{Bridge, BridgedTimeline, Request, Ticket};
use crate::callback::without_driver_calls;
use crate::capability::{Feature, Support};
use crate::error::{Error, ErrorKind, Result};
use crate::object::stream::Stream;
use crate::sync::{Mutex, sleep, unpoisoned};
use crate::timeline::{ExporterTimeline, TimelineStrategy};

const NEW: &str = "Timeline::new";
const SIGNAL: &str = "Stream::signal_timeline";
const WAIT: &str = "Stream::wait_timeline";

/// Transfer path of values between streams and the exporter.
#[derive(Debug)]
enum Path {
    Native { semaphore: ExternalSemaphore, raiser: Arc<Raiser> },
    HostBridge(Bridge),
}

impl Path {
    fn native(semaphore: ExternalSemaphore) -> Self {
        Self::Native { semaphore, raiser: Arc::default() }
    }
}

/// A monotonic counter shared by the streams of a device and an exporting API.
///
/// Created from the exporter's timeline, such as a `VkSemaphore` of gpu-interop-vulkan. A compute driver that supports
/// such timelines imports it ([`TimelineStrategy::Native`]). With other drivers, such as HIP on Linux, a host thread
/// transfers the values ([`TimelineStrategy::HostBridge`]); the exporter's timeline need not be exportable then.
///
/// Both strategies order memory accesses: a side that observes a value also observes the writes that the other side
/// made before it signalled the value. The application must fulfil further requirements of the exporting API, such as
/// release and acquire of ownership in Vulkan.
///
/// **Use one timeline for each direction if more than one frame is in flight.** The exporter signals the first
/// timeline, and streams wait for it. Streams signal the second timeline, and the exporter waits for it. If both sides
/// signal one timeline, they must alternate strictly. With several frames in flight, a later value of one side
/// overtakes an earlier value of the other side, and a wait for the earlier value ends before the pixels are written.
///
/// A waiting Vulkan queue blocks all later submissions. Submit work that waits for a stream as late as possible, or on
/// another queue (`examples/frames_in_flight.rs`). If several threads signal one timeline, the application must order
/// their signals. A signal of a value that the timeline has passed is an error ([`ErrorKind::Overtaken`], see
/// [`Stream::signal_timeline`]).
///
/// # Presentation
/// A presentation waits for a *binary* semaphore. Vulkan requires that everything on which the semaphore's signal
/// depends has been submitted before that wait, including signals for which earlier submissions on the queue wait
/// (VUID-vkQueueSubmit-pWaitSemaphores-03238). A value that a stream signals over a bridge counts as submitted only
/// once the timeline has reached it. Call [`before_present`](Self::before_present) before the submission that waits for
/// the value.
///
/// # Waits before their signals
/// A stream may wait before the signal is enqueued, but a pending wait may block other work in the driver. Measured
/// with CUDA (driver 580):
/// * Streams share hardware queues: 8, or up to 32 with the environment variable `CUDA_DEVICE_MAX_CONNECTIONS`. A wait
///   blocks all streams on the same queue. Streams that wait for each other's later work therefore need separate
///   queues.
/// * Importing a semaphore and loading a module may block until the pending waits of all streams of the GPU in this
///   process are satisfied. Such a call also blocks calls of other threads. Import and load while no pending wait
///   depends on a signal from one of these threads. Objects dropped while a wait is pending are retained (see the crate
///   documentation).
///
/// # Threads and lifetime
/// All methods may be called from any thread. Dropping a timeline does not wait: enqueued work stays valid and keeps
/// the exporter's timeline alive.
///
/// Over a bridge, or after a failure of the timeline, a thread may call the exporter until the enqueued work has
/// completed, and briefly after the exporter's last timeline is dropped. Dropping the last object of the device closes
/// the device and waits for this thread. Objects that the exporter uses, such as its `VkDevice`, must be owned by the
/// exporter or live until the device is closed.
///
/// # Lost and closed devices
/// A lost device signals nothing, for example after a kernel accessed an invalid address. Over a bridge, its timelines
/// fail once [`Stream::synchronize`], [`Stream::synchronize_timeout`] or [`Stream::is_idle`] has detected the loss on
/// any stream. Native timelines do not detect the loss, so the exporter must bound its waits.
///
/// Closing a device releases waits over bridges that are still pending. It then discards later signals over bridges,
/// because released streams run without the data, and so do streams that wait for a released stream by an event.
///
/// [`Stream::signal_timeline`]: crate::Stream::signal_timeline
/// [`Stream::synchronize`]: crate::Stream::synchronize
/// [`Stream::synchronize_timeout`]: crate::Stream::synchronize_timeout
/// [`Stream::is_idle`]: crate::Stream::is_idle
#[derive(Debug)]
pub struct Timeline {
    side: Arc<BridgedTimeline>,
    /// Dropped before the device: closing the device waits for its bridges.
    path: Path,
    /// The exporter's side of the timeline.
    max_difference: u64,
    device: Arc<DeviceInner>,
}

impl Timeline {
    /// Shares `exporter`'s timeline with the streams of `device`. Uses the strategy set by the environment variable
    /// `GPU_INTEROP_TIMELINE`, or the fastest supported strategy without the variable.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the set strategy, or every strategy without the variable, is unsupported.
    /// [`ErrorKind::InvalidArgument`] for an unknown strategy in the variable. Errors of the driver.
    pub fn new(device: &Device, exporter: Arc<dyn ExporterTimeline>) -> Result<Self> {
        if let Some(strategy) = TimelineStrategy::from_environment()? {
            return Self::with_strategy(device, exporter, strategy)
                .map_err(|error| error.with_context("GPU_INTEROP_TIMELINE", strategy));
        }
        let value = value_of(device, &*exporter)?;
        let kind = exporter.handle_kind();
        let reason = if kind.is_some_and(|kind| device.capabilities().semaphore(kind).is_supported()) {
            match native(device, &*exporter) {
                Ok(semaphore) => return Ok(Self::build(device, exporter, value, Path::native(semaphore))),
                Err(error) if allows_bridge(error.kind()) => error.to_string(),
                Err(error) => return Err(device.inner.decorate(error)),
            }
        } else {
            kind.map_or("the exporter does not export it".into(), |kind| {
                device.capabilities().semaphore(kind).to_string()
            })
        };
        log!(info, reason, "the driver does not import the timeline; the host bridge transfers its values");
        Self::with_strategy(device, exporter, TimelineStrategy::HostBridge)
    }

    /// Shares `exporter`'s timeline with the streams of `device` by this strategy, regardless of the environment.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the strategy is not supported. Errors of the driver.
    pub fn with_strategy(
        device: &Device,
        exporter: Arc<dyn ExporterTimeline>,
        strategy: TimelineStrategy,
    ) -> Result<Self> {
        let value = value_of(device, &*exporter)?;
        let path = match strategy {
            TimelineStrategy::Native => native(device, &*exporter).map(Path::native),
            TimelineStrategy::HostBridge => bridge(device, &*exporter).map(Path::HostBridge),
        };
        let path = path.map_err(|error| device.inner.decorate(error.with_context("strategy", strategy)))?;
        Ok(Self::build(device, exporter, value, path))
    }

    fn build(device: &Device, exporter: Arc<dyn ExporterTimeline>, value: u64, path: Path) -> Self {
        Self {
            max_difference: exporter.max_difference(),
            side: Arc::new(BridgedTimeline::new(exporter, value)),
            path,
            device: device.inner.clone(),
        }
    }

    /// Strategy of this timeline.
    #[must_use]
    pub fn strategy(&self) -> TimelineStrategy {
        match self.path {
            Path::Native { .. } => TimelineStrategy::Native,
            Path::HostBridge(_) => TimelineStrategy::HostBridge,
        }
    }

    /// The exporter's side.
    #[must_use]
    pub fn exporter(&self) -> &Arc<dyn ExporterTimeline> {
        &self.side.exporter
    }

    /// Returns the exporter's current value. Does not block.
    ///
    /// # Errors
    /// The failure of the timeline, if any. [`ErrorKind::Overtaken`] if the value is smaller than an observed one.
    /// [`ErrorKind::System`] in a forked process. Errors of the exporter.
    ///
    /// The end of a process watched by [`Timeline::watch_process`] is not an error of this method, because the value
    /// stays valid. It is an error of [`Timeline::is_reached`] and of waits.
    #[doc(alias = "vkGetSemaphoreCounterValue")]
    pub fn value(&self) -> Result<u64> {
        self.device.check_process("Timeline::value")?;
        self.checked(self.side.value())
    }

    /// `true` if the timeline is at least `value`. Does not block. Makes every check of [`Timeline::wait`], for futures
    /// and other waits that poll.
    ///
    /// # Errors
    /// As [`Timeline::wait`], except for the timeout.
    pub fn is_reached(&self, value: u64) -> Result<bool> {
        self.device.check_process("Timeline::is_reached")?;
        if self.checked(self.side.value())? >= value {
            return Ok(true);
        }
        self.checked(self.check_watched())?;
        Ok(false)
    }

    /// Fails the timeline if its watched process has ended, and releases the streams that wait for it.
    fn check_watched(&self) -> Result<()> {
        self.side.check_process();
        self.side.check().inspect_err(|_| self.release_waits_or_log())
    }

    /// Blocks until the timeline is at least `value`.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] after `timeout`; the call may be repeated. [`ErrorKind::Overtaken`] instead of the
    /// timeout, if the value is smaller than an observed one. [`ErrorKind::Cancelled`] if the process watched by
    /// [`Timeline::watch_process`] has ended. [`ErrorKind::System`] in a forked process. Errors of the exporter.
    #[doc(alias = "vkWaitSemaphores")]
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        /// Longest delay until the end of a watched process is detected.
        const SLICE: Duration = Duration::from_millis(50);
        self.device.check_process("Timeline::wait")?;
        self.checked(self.side.check())?;
        if !self.side.is_watched() {
            return self.checked(self.waited(value, self.side.exporter.wait(value, timeout)));
        }
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            match self.side.exporter.wait(value, left.min(SLICE)) {
                Err(error) if error.kind() == ErrorKind::Timeout => {
                    self.checked(self.check_watched())?;
                    if left <= SLICE {
                        return self.checked(self.waited(value, Err(error)));
                    }
                }
                waited => return self.checked(self.waited(value, waited)),
            }
        }
    }

    /// Prepares a Vulkan submission that waits for `value` before the queue signals a binary semaphore, such as the
    /// semaphore of `vkQueuePresentKHR`. Call it after a stream has enqueued the signal of `value`, and before that
    /// submission.
    ///
    /// With [`TimelineStrategy::Native`] this does nothing: the signal is enqueued in the driver. Over a bridge, it
    /// blocks until the timeline is at least `value`, because only then the host signals the exporter's timeline. With
    /// several frames in flight, the timeline has usually reached the value before the presentation.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use gpu_interop_core::{Result, Stream, Timeline};
    /// # fn frame(stream: &Stream, computed: &Timeline, frame: u64) -> Result<()> {
    /// stream.signal_timeline(computed, frame)?;
    /// // Render the next frames. Then, for this one:
    /// computed.before_present(frame, Duration::from_secs(1))?;
    /// // vkQueueSubmit waits for `frame` and signals the binary semaphore; vkQueuePresentKHR waits for that.
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`wait`](Self::wait) over a bridge. Never fails with [`TimelineStrategy::Native`].
    #[doc(alias = "vkQueuePresentKHR")]
    pub fn before_present(&self, value: u64, timeout: Duration) -> Result<()> {
        match self.path {
            Path::Native { .. } => Ok(()),
            Path::HostBridge(_) => self.wait(value, timeout),
        }
    }

    /// Converts the result of a host wait. A timeout becomes [`ErrorKind::Overtaken`] if the timeline has decreased.
    fn waited(&self, value: u64, waited: Result<()>) -> Result<()> {
        match waited {
            Ok(()) => {
                self.side.observe(value);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::Timeout => self.side.value().and(Err(error)),
            failed => failed,
        }
    }

    /// Raises the timeline to `value` from the host, immediately.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] unless `value` is greater than the current value and than every value signalled
    /// through this object. The failure of the timeline, if any. Errors of the exporter.
    #[doc(alias = "vkSignalSemaphore")]
    pub fn signal(&self, value: u64) -> Result<()> {
        const OPERATION: &str = "Timeline::signal";
        self.device.check_process(OPERATION)?;
        self.checked(self.side.check().and_then(|()| {
            let last = self.begin_signal(OPERATION, value)?;
            self.side.exporter.signal(value).inspect_err(|_| self.undo_signal(last))
        }))
    }

    /// Fails the timeline once process `id` has ended, for a process that signals the timeline. Drivers do not report
    /// the end of a process. Once the timeline has failed, host waits ([`Timeline::wait`]) return an
    /// error. Pending stream waits are released, and the next synchronisation of their streams returns the error.
    ///
    /// Call it before any host wait: an earlier host wait is not affected and continues until its own timeout. Stream
    /// waits may be pending.
    ///
    /// A bridge checks the process itself. With [`TimelineStrategy::Native`], only host waits and
    /// [`Timeline::is_reached`] check the process, and so release the stream waits. If only streams wait natively, call
    /// [`Timeline::is_reached`] from time to time, for example after each timeout of [`Stream::synchronize_timeout`], or
    /// call [`Timeline::abandon`].
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the process does not exist, [`ErrorKind::InvalidArgument`] if a process is watched
    /// already, [`ErrorKind::Unsupported`] on systems other than Linux and Windows.
    pub fn watch_process(&self, id: u32) -> Result<()> {
        self.device.check_process("Timeline::watch_process")?;
        self.checked(self.side.watch_process(id))?;
        if let Path::HostBridge(bridge) = &self.path {
            // The bridge may be in a long sleep that it began without a process to check.
            bridge.wake();
        }
        Ok(())
    }

    /// Fails a timeline that will not be signalled any more. Pending stream waits are released, and later uses return
    /// an error with `reason`. Released streams continue without the data that they waited for, and their next
    /// synchronisation returns the error. A [`Timeline::wait`] that has begun continues until its own timeout.
    ///
    /// With [`TimelineStrategy::Native`], the host releases waits: it raises the exporter's timeline to the greatest
    /// value that a stream waits for. Enqueued signals of streams may lower the timeline again. A thread therefore
    /// raises it repeatedly, and keeps the exporter's timeline alive, until all enqueued work has completed or the
    /// device is closed. A stream records the last 4 timelines that it waited for through this library; its
    /// synchronisation reports no failure of others. The error is not reported where another process or another
    /// [`Timeline`] object raises the value, and not by a stream that waits for a released stream by an event. Check
    /// [`Timeline::value`] before such data is used.
    ///
    /// # Errors
    /// Errors of the exporter: native waits cannot be released without it. [`ErrorKind::Overtaken`] if the exporter
    /// cannot raise the timeline yet, because its pending work may signal a greater value first. The waits are then
    /// released by this work, or by the thread after the work has executed. [`ErrorKind::System`] if the process cannot
    /// start another thread. The call may be repeated.
    pub fn abandon(&self, reason: &str) -> Result<()> {
        self.device.check_process("Timeline::abandon")?;
        self.side.fail(&Error::new(ErrorKind::Cancelled, "Timeline::abandon", reason));
        self.checked(self.release_waits())
    }

    /// Releases pending stream waits after a failure.
    fn release_waits(&self) -> Result<()> {
        match &self.path {
            Path::HostBridge(bridge) => {
                bridge.wake();
                Ok(())
            }
            Path::Native { semaphore, raiser } => raiser.start(&self.side, &self.device, semaphore.streams()),
        }
    }

    #[cold]
    fn release_waits_or_log(&self) {
        if let Err(error) = self.release_waits() {
            log!(error, %error, "streams blocked on a failed timeline could not be released");
        }
    }

    #[inline]
    fn checked<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.device.decorate(error))
    }

    /// Records a value that is about to be signalled. Returns the last recorded value, for [`Timeline::undo_signal`].
    fn begin_signal(&self, operation: &'static str, value: u64) -> Result<u64> {
        let last = self.side.last_signalled.load(Ordering::Relaxed);
        if value <= last {
            return Err(Error::invalid(operation, "a timeline only grows; signal a greater value")
                .with_context("value", value)
                .with_context("already signalled", last));
        }
        self.side.last_signalled.store(value, Ordering::Relaxed);
        Ok(last)
    }

    /// Rejects values for which the exporter does not allow a wait. The host could not raise the timeline to such a
    /// value to release the wait.
    #[inline]
    fn check_difference(&self, value: u64) -> Result<()> {
        // The current value is at least 0.
        if value <= self.max_difference { Ok(()) } else { self.check_great_value(value) }
    }

    #[cold]
    fn check_great_value(&self, value: u64) -> Result<()> {
        let current = self.side.value()?;
        if value.saturating_sub(current) <= self.max_difference {
            return Ok(());
        }
        Err(Error::invalid(WAIT, "the value is too far from the timeline's current value; count in smaller steps")
            .with_context("value", value)
            .with_context("current", current)
            .with_context("greatest difference", self.max_difference))
    }

    #[cold]
    fn undo_signal(&self, last: u64) {
        self.side.last_signalled.store(last, Ordering::Relaxed);
    }
}

/// Errors of a native import after which the bridge is tried.
fn allows_bridge(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unsupported
            | ErrorKind::DriverTooOld
            | ErrorKind::SymbolMissing
            | ErrorKind::DeviceMismatch
            | ErrorKind::ImportRejected
    )
}

/// Current value of the exporter, in the process that opened the device. Read at creation, so that a broken exporter is
/// detected before a stream waits.
fn value_of(device: &Device, exporter: &dyn ExporterTimeline) -> Result<u64> {
    device.inner.check_process(NEW)?;
    exporter.value().map_err(|error| device.inner.decorate(error))
}

fn native(device: &Device, exporter: &dyn ExporterTimeline) -> Result<ExternalSemaphore> {
    let Some(kind) = exporter.handle_kind() else {
        let message = "the exporter cannot export this timeline; use a bridge: unset GPU_INTEROP_TIMELINE, or pass \
                       TimelineStrategy::HostBridge";
        return Err(Error::unsupported(NEW, message));
    };
    // Checked before the export.
    if let Some(error) =
        device.capabilities().semaphore(kind).unsupported_error(NEW, format!("the device imports no {kind}"))
    {
        return Err(error);
    }
    Ok(device.import_semaphore(exporter.export()?)?)
}

fn bridge(device: &Device, exporter: &dyn ExporterTimeline) -> Result<Bridge> {
    validate::feature(NEW, device.capabilities(), Feature::SignalMemory)?;
    if let Some(error) =
        device.capabilities().timeline(None).unsupported_error(NEW, "the device supports no strategy for timelines")
    {
        return Err(error);
    }
    device.inner.bridges.bridge(exporter).inspect(|_| exporter.bridged())
}

impl Device {
    /// Support of timelines that are exported as the platform's usual handle kind. Without the environment variable, it
    /// decides the strategy of [`Timeline::new`].
    #[must_use]
    pub fn timeline_support(&self) -> Support {
        use crate::handle::SemaphoreHandleKind::{TimelineFd, TimelineWin32};
        self.capabilities().timeline(Some(if cfg!(windows) { TimelineWin32 } else { TimelineFd }))
    }
}

impl Stream {
    /// Makes later work wait until a timeline is at least `value`. The signal may be enqueued later. The wait itself
    /// has no timeout; bound it with [`Stream::synchronize_timeout`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a timeline of another device, or a value further above the current one than
    /// the exporter allows ([`ExporterTimeline::max_difference`]). The failure of the timeline, if any.
    /// [`ErrorKind::Unsupported`] over a bridge to a driver without stream memory operations, unless the timeline has
    /// reached the value: wait for it on the host first ([`Timeline::wait`]). Errors of the driver. After an error
    /// nothing is enqueued.
    ///
    /// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
    /// [`ErrorKind::Unsupported`]: crate::ErrorKind::Unsupported
    /// [`ExporterTimeline::max_difference`]: crate::ExporterTimeline::max_difference
    #[doc(alias("cuWaitExternalSemaphoresAsync", "cudaWaitExternalSemaphoresAsync", "hipWaitExternalSemaphoresAsync"))]
    #[inline]
    pub fn wait_timeline(&self, timeline: &Timeline, value: u64) -> Result<()> {
        self.check_not_recording(WAIT)?;
        self.check_device(WAIT, "timeline", &timeline.device)?;
        timeline.checked(timeline.check_difference(value).and_then(|()| timeline.side.begin_wait(value)))?;
        match &timeline.path {
            Path::Native { semaphore, .. } => self.wait(&[semaphore.wait_value(value)]),
            Path::HostBridge(bridge) => {
                self.wait_bridged(timeline, bridge, value).map_err(|error| self.device().decorate(error))
            }
        }?;
        self.awaited().note(&timeline.side, value);
        Ok(())
    }

    /// Raises a timeline to `value` after all work enqueued before has completed.
    ///
    /// The value must be greater than the timeline's value when the signal executes; the application must order the
    /// signals. The library compares the value with earlier signals through the same [`Timeline`]. It does not compare
    /// it with later signals of the exporter, another process or another `Timeline`, because that would require a call
    /// of the exporter for every signal. If such a signal has passed the value, the result depends on the strategy:
    /// * Over a bridge, the timeline keeps its value. The stream's next synchronisation after the transfer fails with
    ///   [`ErrorKind::Overtaken`].
    /// * Natively with CUDA, the driver **lowers** the timeline to `value`, so later waits for values already reached
    ///   block again. [`Stream::synchronize_timeout`] then times out. [`Timeline::value`] and [`Timeline::wait`] return
    ///   [`ErrorKind::Overtaken`] if one of them observed the greater value.
    /// * Natively with the host backend, the timeline keeps its value, and the stream's next synchronisation fails.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a timeline of another device. [`ErrorKind::InvalidArgument`] unless the value
    /// is greater than the exporter's value when the [`Timeline`] was created, and than the last value signalled
    /// through it. The failure of the timeline, if any. Errors of the driver. After an error nothing is enqueued.
    ///
    /// [`ErrorKind::InvalidArgument`]: crate::ErrorKind::InvalidArgument
    /// [`ErrorKind::Overtaken`]: crate::ErrorKind::Overtaken
    #[doc(alias(
        "cuSignalExternalSemaphoresAsync",
        "cudaSignalExternalSemaphoresAsync",
        "hipSignalExternalSemaphoresAsync"
    ))]
    #[inline]
    pub fn signal_timeline(&self, timeline: &Timeline, value: u64) -> Result<()> {
        self.check_not_recording(SIGNAL)?;
        self.check_device(SIGNAL, "timeline", &timeline.device)?;
        timeline.side.check().map_err(|error| self.device().decorate(error))?;
        match &timeline.path {
            Path::Native { semaphore, .. } => {
                let last = timeline.begin_signal(SIGNAL, value).map_err(|error| self.device().decorate(error))?;
                let signalled = self.signal(&[semaphore.signal_value(value)]);
                if signalled.is_err() {
                    timeline.undo_signal(last);
                }
                if timeline.side.has_failed() {
                    // A concurrent release may have missed this signal, and the signal lowers the timeline.
                    timeline.release_waits_or_log();
                }
                signalled
            }
            Path::HostBridge(bridge) => {
                self.signal_bridged(timeline, bridge, value).map_err(|error| self.device().decorate(error))
            }
        }
    }

    fn wait_bridged(&self, timeline: &Timeline, bridge: &Bridge, value: u64) -> Result<()> {
        // Reached and observed by the host, so later work is ordered after it.
        if timeline.side.value()? >= value {
            return Ok(());
        }
        let device = self.device();
        let wide = device.raw.capabilities().has_feature(Feature::StreamMemoryOperations64);
        if !wide && !device.raw.capabilities().has_feature(Feature::StreamMemoryOperations32) {
            return Err(Error::unsupported(
                WAIT,
                "this driver's streams cannot wait for words in memory; wait for the value on the host first \
                 (Timeline::wait)",
            )
            .with_context("value", value));
        }
        self.about_to_wait();
        let behind = bridge.prepare(self.faults())?;
        let ticket = device.bridges.take(&*device.raw)?;
        // SAFETY: the stream is live; the word is aligned, and live until every stream is idle.
        let enqueued = unsafe {
            let (word, reached) = (ticket.ptr(), WaitCondition::GreaterOrEqual);
            if wide {
                device.raw.wait_value_u64(self.as_raw(), word, ticket.number(), reached)
            } else {
                device.raw.wait_value_u32(self.as_raw(), word, low(&ticket), reached)
            }
        };
        if let Err(error) = enqueued {
            device.bridges.put(ticket);
            return Err(error);
        }
        self.note_external_wait();
        let (side, faults) = (timeline.side.clone(), self.faults().clone());
        bridge.submit(Request::Wait { side, value, ticket, faults }, behind);
        Ok(())
    }

    fn signal_bridged(&self, timeline: &Timeline, bridge: &Bridge, value: u64) -> Result<()> {
        let behind = bridge.prepare(self.faults())?;
        let last = timeline.begin_signal(SIGNAL, value)?;
        let enqueued = self.enqueue_signal(bridge).inspect_err(|_| timeline.undo_signal(last));
        let (ticket, notified) = enqueued?;
        let (side, faults) = (timeline.side.clone(), self.faults().clone());
        bridge.submit(Request::Signal { side, value, ticket, faults, notified }, behind);
        Ok(())
    }

    /// Enqueues the signal of a ticket. Also returns whether a host function wakes the bridge.
    fn enqueue_signal(&self, bridge: &Bridge) -> Result<(Ticket, bool)> {
        let device = self.device();
        let capabilities = device.raw.capabilities();
        let ticket = device.bridges.take(&*device.raw)?;
        let (stream, word) = (self.as_raw(), ticket.ptr());
        // SAFETY: the stream is live; the word is aligned, and live until it has been written.
        let enqueued = unsafe {
            if capabilities.has_feature(Feature::StreamMemoryOperations64) {
                device.raw.write_value_u64(stream, word, ticket.number()).map(|()| false)
            } else if capabilities.has_feature(Feature::StreamMemoryOperations32) {
                device.raw.write_value_u32(stream, word, low(&ticket)).map(|()| false)
            } else {
                let (remote, notify) = (ticket.remote(), bridge.notifier());
                let notification = move || {
                    remote.reach();
                    notify();
                };
                self.launch_host_function(notification).map(|()| true)
            }
        };
        match enqueued {
            Ok(notified) => Ok((ticket, notified)),
            Err(error) => {
                device.bridges.put(ticket);
                Err(error)
            }
        }
    }
}

/// Ticket number for a 32-bit word. Every ticket number fits.
fn low(ticket: &Ticket) -> u32 {
    u32::try_from(ticket.number()).unwrap_or(u32::MAX)
}

/// Thread that keeps a failed timeline raised.
#[derive(Debug, Default)]
pub(super) struct Raiser {
    state: Mutex<RaiserState>,
}

#[derive(Debug, Default)]
struct RaiserState {
    /// Streams not queried yet, one bit for each slot.
    streams: u64,
    running: bool,
}

/// Shortest pause between two queries; pauses double while nothing changes.
const SHORTEST: Duration = Duration::from_micros(20);
const LONGEST: Duration = Duration::from_millis(4);

impl Raiser {
    /// Raises the failed timeline and keeps it raised until all `streams` are idle, the device is closed or the
    /// exporter fails.
    ///
    /// # Errors
    /// Errors of the exporter; [`ErrorKind::System`] if the process cannot start another thread. After
    /// [`ErrorKind::Overtaken`] the thread runs.
    pub(super) fn start(
        self: &Arc<Self>,
        side: &Arc<BridgedTimeline>,
        device: &DeviceInner,
        streams: u64,
    ) -> Result<()> {
        let released = side.release_waits().map(drop);
        // Overtaken: the thread tries again.
        if let Err(error) = &released
            && error.kind() != ErrorKind::Overtaken
        {
            return released;
        }
        let mut state = unpoisoned(self.state.lock());
        state.streams |= streams;
        if state.running || state.streams == 0 {
            return released;
        }
        let (this, side) = (self.clone(), side.clone());
        let (lifetimes, raw) = (device.lifetimes.clone(), device.raw.clone());
        device.lifetimes.raisers.spawn("gpu-interop raiser", move || {
            this.run(&side, &lifetimes, &*raw);
            // The destructor is application code and may close the device. Closing waits for this thread.
            without_driver_calls(move || drop(side));
        })?;
        state.running = true;
        released
    }

    fn run(&self, side: &BridgedTimeline, lifetimes: &Lifetimes, device: &dyn BackendDevice) {
        let mut streams = 0;
        let mut pause = SHORTEST;
        loop {
            streams |= std::mem::take(&mut unpoisoned(self.state.lock()).streams);
            // Queried before the timeline is raised: idle streams no longer lower it.
            streams = lifetimes.busy(device, streams);
            let raised = match side.release_waits() {
                Err(error) if error.kind() == ErrorKind::Overtaken => Ok(false),
                raised => raised,
            };
            let mut state = unpoisoned(self.state.lock());
            match raised {
                Ok(_) if streams | state.streams == 0 => {
                    state.running = false;
                    return;
                }
                Ok(raised) => pause = if raised { SHORTEST } else { (pause * 2).min(LONGEST) },
                Err(error) => {
                    // For the next call of `start`.
                    *state = RaiserState { streams: streams | state.streams, running: false };
                    drop(state);
                    log!(error, %error, "streams blocked on a failed timeline could not be released");
                    return;
                }
            }
            drop(state);
            sleep(pause);
        }
    }
}
