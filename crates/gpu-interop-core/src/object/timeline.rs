//! Timelines: one counter that streams and the exporting API share, on every platform.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::device::{Device, DeviceInner};
use super::raiser::Raiser;
use super::semaphore::ExternalSemaphore;
use super::stream::Stream;
use super::validate;
use crate::backend::WaitCondition;
use crate::bridge::{Bridge, Request, Side, Ticket};
use crate::capability::{Feature, Support};
use crate::error::{Error, ErrorKind, Result};
use crate::timeline::{ExporterTimeline, TimelineStrategy};

const NEW: &str = "Timeline::new";
const SIGNAL: &str = "Stream::signal_timeline";
const WAIT: &str = "Stream::wait_timeline";

/// How values get to streams and back.
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

/// A counter that only grows, shared by the streams of a device and an exporting API.
///
/// Made of the exporter's own timeline (a `VkSemaphore` of gpu-interop-vulkan, say). Where the compute driver imports
/// such timelines it does ([`TimelineStrategy::Native`]); elsewhere, as with HIP on Linux, a thread of the host carries
/// the values ([`TimelineStrategy::HostBridge`]), and the exporter's timeline need not be exportable. Both order memory
/// as well as time: once one side sees a value, it sees what the other wrote before it signalled that. What the
/// exporting API asks for besides (Vulkan: releasing and acquiring ownership) is the application's part.
///
/// **Use one timeline a direction as soon as more than one frame is in flight**: one that the exporter signals and streams
/// wait for, one the other way. A counter that both sides signal is for strictly taking turns. With several frames in flight
/// a later value of one side overtakes an earlier one of the other, and a wait for that ends too early, before the pixels
/// are written. A Vulkan queue that waits holds back everything submitted to it later: submit work that waits for a stream
/// as late as possible, or on another queue (`examples/frames_in_flight.rs`). Signals of one timeline from several threads
/// must be ordered, too: it only grows. A signal that comes too late is an error ([`ErrorKind::Overtaken`]), as [`Stream::signal_timeline`] says.
///
/// # Waits before their signals
/// A stream may wait long before somebody signals, but a driver may let others wait with it. Measured of CUDA (driver
/// 580):
/// * Streams share queues of the hardware, 8 unless the environment variable `CUDA_DEVICE_MAX_CONNECTIONS` says up to 32.
///   A wait holds back the streams on the same queue, so where streams wait for each other's later work, there must be a
///   queue for each.
/// * Importing semaphores and loading modules may block until every stream of the GPU in this process has run what it waits
///   for, and block the calls of other threads with it. Do these while nothing waits for a signal that such a thread is to
///   give. What is freed meanwhile is kept (see the front page).
///
/// All methods may be called from any thread. Dropping a timeline does not wait: what is enqueued stays valid, and keeps the
/// exporter's timeline. Over a bridge, or once the timeline has failed, a thread may use the exporter until all of that has
/// been carried or has run, and for a moment after the exporter's last timeline is gone. Closing the device, by dropping
/// the last object of it, waits for that thread; so what the exporter needs, like its `VkDevice`, must live that long, or
/// be kept by the exporter.
///
/// A device that is lost, after a kernel touched memory that is not its own say, signals nothing any more. Over a bridge its
/// timelines fail once [`Stream::synchronize`], [`Stream::synchronize_timeout`] or [`Stream::is_idle`] has met with that on
/// any stream; natively nobody knows, and the exporter must not wait without end.
///
/// Once closing the device had to let a stream go that waited over a bridge, nothing is carried any more: what streams
/// signal then is without the data, also that of a stream which only waits for another one by an event.
#[derive(Debug)]
pub struct Timeline {
    side: Arc<Side>,
    /// Left before the device, which waits for its bridges when it is closed.
    path: Path,
    /// The greatest value signalled through this object, or the exporter's when this was made. The exporter may be further
    /// on.
    last_signalled: AtomicU64,
    device: Arc<DeviceInner>,
}

impl Timeline {
    /// Shares `exporter`'s timeline with the streams of `device`, by the fastest way that works there, or the one that
    /// the environment variable `GPU_INTEROP_TIMELINE` names.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where neither way works, or the way that the environment names does not;
    /// [`ErrorKind::InvalidArgument`] for another word in the environment; else what the drivers answer.
    pub fn new(device: &Device, exporter: Arc<dyn ExporterTimeline>) -> Result<Self> {
        if let Some(strategy) = TimelineStrategy::from_environment()? {
            return Self::with_strategy(device, exporter, strategy)
                .map_err(|error| error.with_context("GPU_INTEROP_TIMELINE", strategy));
        }
        let value = value_of(device, &*exporter)?;
        let kind = exporter.handle_kind();
        if kind.is_some_and(|kind| device.capabilities().semaphore(kind).is_supported()) {
            match native(device, &*exporter) {
                Ok(semaphore) => return Ok(Self::build(device, exporter, value, Path::native(semaphore))),
                Err(error) if is_refusal(error.kind()) => {
                    tracing::info!(%error, "the timeline is not imported; the host carries its values");
                }
                Err(error) => return Err(device.inner.decorate(error)),
            }
        }
        Self::with_strategy(device, exporter, TimelineStrategy::HostBridge)
    }

    /// Shares `exporter`'s timeline with the streams of `device` by this strategy, whatever the environment says.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] where the strategy does not work; else what the drivers answer.
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
            side: Arc::new(Side::new(exporter)),
            path,
            last_signalled: AtomicU64::new(value),
            device: device.inner.clone(),
        }
    }

    /// How this timeline works.
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

    /// The present value, as the exporter has it.
    ///
    /// # Errors
    /// Why the timeline failed, if it did; [`ErrorKind::Overtaken`] if it is not as far as it was when somebody looked before;
    /// else what the exporter answers.
    pub fn value(&self) -> Result<u64> {
        self.checked(self.side.value())
    }

    /// Blocks until the timeline is at least `value`, whoever raises it.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] after `timeout`; the call may be repeated. [`ErrorKind::Overtaken`] instead, if the timeline is
    /// not as far as it was when somebody looked before. [`ErrorKind::Cancelled`] if the process that
    /// [`Timeline::watch_process`] watches has ended; what the exporter answers.
    pub fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        /// How late the end of a watched process is noticed.
        const SLICE: Duration = Duration::from_millis(50);
        self.checked(self.side.check())?;
        if !self.side.is_watched() {
            return self.checked(self.waited(value, self.side.exporter.wait(value, timeout)));
        }
        let start = Instant::now();
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            match self.side.exporter.wait(value, left.min(SLICE)) {
                Err(error) if error.kind() == ErrorKind::Timeout => {
                    self.side.check_process();
                    if let Some(failure) = self.side.failure() {
                        self.release_waits_or_log();
                        return self.checked(Err(failure));
                    }
                    if left <= SLICE {
                        return self.checked(self.waited(value, Err(error)));
                    }
                }
                waited => return self.checked(self.waited(value, waited)),
            }
        }
    }

    /// What a wait of the host ended with: its time may be over because the timeline went back.
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

    /// Raises the timeline to `value` from the host, now.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if `value` is not greater than the present one and every one signalled through this
    /// object; why the timeline failed, if it did; else what the exporter answers.
    pub fn signal(&self, value: u64) -> Result<()> {
        const OPERATION: &str = "Timeline::signal";
        self.checked(self.side.check().and_then(|()| {
            let last = self.begin_signal(OPERATION, value)?;
            self.side.exporter.signal(value).inspect_err(|_| self.undo_signal(last))
        }))
    }

    /// From now on the timeline fails once process `id`, which signals it, has ended: waits of the host
    /// ([`Timeline::wait`]) become an error, and streams that wait over a bridge are let go, which their next
    /// synchronisation reports. A killed process signals nothing any more, and no driver tells.
    ///
    /// Call it before anybody waits: a wait of the host that has begun does not learn of it, and goes on until its own time
    /// is over. Streams may wait already.
    ///
    /// With [`TimelineStrategy::Native`] nobody looks while only streams wait: use [`Timeline::abandon`], or wait on the
    /// host too.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if there is no such process, [`ErrorKind::InvalidArgument`] if one is watched already,
    /// [`ErrorKind::Unsupported`] elsewhere than on Linux and Windows.
    pub fn watch_process(&self, id: u32) -> Result<()> {
        self.checked(self.side.watch_process(id))?;
        if let Path::HostBridge(bridge) = &self.path {
            // It may sleep for long, not knowing that there is something to look after.
            bridge.wake();
        }
        Ok(())
    }

    /// Gives the timeline up, because `reason` says that nobody will signal it: streams that wait for it are let go, and
    /// whoever uses it from now on gets an error with that reason. What the streams do next is done without the data that
    /// they waited for. A [`Timeline::wait`] that has begun goes on until its own time is over.
    ///
    /// With [`TimelineStrategy::Native`] streams are let go by raising the exporter's timeline to the last value that one
    /// waits for. What they were to signal before takes it back, so a thread raises it again until they have run all that
    /// was enqueued, and keeps the exporter's timeline that long; closing the device ends it.
    ///
    /// # Errors
    /// What the exporter answers; without its help streams cannot be let go natively. [`ErrorKind::System`] if the process
    /// may have no more threads. The call may be repeated.
    pub fn abandon(&self, reason: &str) -> Result<()> {
        self.side.fail(&Error::new(ErrorKind::Cancelled, "Timeline::abandon", reason));
        self.checked(self.release_waits())
    }

    /// Lets streams go after a failure.
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
            tracing::error!(%error, "streams that wait for a failed timeline could not be let go");
        }
    }

    #[inline]
    fn checked<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.device.decorate(error))
    }

    /// Notes a value that is about to be signalled. Returns the last one, for [`Timeline::undo_signal`].
    fn begin_signal(&self, operation: &'static str, value: u64) -> Result<u64> {
        let last = self.last_signalled.load(Ordering::Relaxed);
        if value <= last {
            return Err(Error::invalid(operation, "a timeline only grows")
                .with_context("value", value)
                .with_context("already signalled", last));
        }
        self.last_signalled.store(value, Ordering::Relaxed);
        Ok(last)
    }

    #[cold]
    fn undo_signal(&self, last: u64) {
        self.last_signalled.store(last, Ordering::Relaxed);
    }
}

/// Errors of an import that another strategy may not have.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unsupported
            | ErrorKind::DriverTooOld
            | ErrorKind::SymbolMissing
            | ErrorKind::DeviceMismatch
            | ErrorKind::ImportRejected
    )
}

/// The present value: what has none is refused now, and not when a stream waits for it.
fn value_of(device: &Device, exporter: &dyn ExporterTimeline) -> Result<u64> {
    exporter.value().map_err(|error| device.inner.decorate(error))
}

fn native(device: &Device, exporter: &dyn ExporterTimeline) -> Result<ExternalSemaphore> {
    let Some(kind) = exporter.handle_kind() else {
        return Err(Error::unsupported(NEW, "the exporter cannot export this timeline"));
    };
    // Before anything is exported.
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
        device.capabilities().timeline(None).unsupported_error(NEW, "the device has no way to follow a timeline")
    {
        return Err(error);
    }
    device.inner.bridges.bridge(exporter)
}

impl Stream {
    /// Makes everything enqueued from here on wait until a timeline is at least `value`, whoever raises it; also if that
    /// is asked for later. The wait itself has no time limit; bound it with [`Stream::synchronize_timeout`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a timeline of another device; why the timeline failed, if it did;
    /// [`ErrorKind::Unsupported`] over a bridge to a driver without stream memory operations, unless the value is reached
    /// already: wait for it on the host first ([`Timeline::wait`]). Else what the driver answers. Nothing is enqueued then.
    #[inline]
    pub fn wait_timeline(&self, timeline: &Timeline, value: u64) -> Result<()> {
        self.check_not_recording(WAIT)?;
        self.check_device(WAIT, "timeline", &timeline.device)?;
        timeline.side.begin_wait(value).map_err(|error| self.device().decorate(error))?;
        match &timeline.path {
            Path::Native { semaphore, .. } => self.wait(&[semaphore.wait_value(value)]),
            Path::HostBridge(bridge) => {
                self.wait_bridged(timeline, bridge, value).map_err(|error| self.device().decorate(error))
            }
        }
    }

    /// Raises a timeline to `value` once everything enqueued before has run.
    ///
    /// The value must be greater than the timeline's present one at that time: whoever signals orders the signals. What was
    /// signalled through the same [`Timeline`] is compared here; what the exporter, another process or another `Timeline`
    /// signalled since is not, for that would cost every signal a call of the exporter. If such a value is greater already:
    /// * Over a bridge the timeline stays where it is, and the stream's next synchronisation after it was to be carried fails
    ///   with [`ErrorKind::Overtaken`].
    /// * Natively it is the driver's matter. CUDA's sets the timeline **back** to `value`: whoever waits for what was
    ///   reached before waits again, which [`Stream::synchronize_timeout`] finds out by its timeout, and [`Timeline::value`]
    ///   and [`Timeline::wait`] by [`ErrorKind::Overtaken`] if one of them saw the greater value. The host backend leaves it,
    ///   and the stream's next synchronisation fails.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a timeline of another device, or a value not greater than one already signalled
    /// through the same [`Timeline`] and the one that the exporter had when that was made; why the timeline failed, if it
    /// did; else what the driver answers. Nothing is enqueued then.
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
                    // Meanwhile: who let the streams go may not know of this signal, which takes the timeline back.
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
        // Reached: what is enqueued from here on comes after, and the host has seen it.
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
        bridge.prepare()?;
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
        bridge.submit(Request::Wait { side: timeline.side.clone(), value, ticket, faults: self.faults().clone() });
        Ok(())
    }

    fn signal_bridged(&self, timeline: &Timeline, bridge: &Bridge, value: u64) -> Result<()> {
        bridge.prepare()?;
        let last = timeline.begin_signal(SIGNAL, value)?;
        let enqueued = self.enqueue_signal(bridge).inspect_err(|_| timeline.undo_signal(last));
        let (ticket, notified) = enqueued?;
        let (side, faults) = (timeline.side.clone(), self.faults().clone());
        bridge.submit(Request::Signal { side, value, ticket, faults, notified });
        Ok(())
    }

    /// Makes the stream reach a ticket. Also says whether it tells the bridge then.
    fn enqueue_signal(&self, bridge: &Bridge) -> Result<(Ticket, bool)> {
        let device = self.device();
        let capabilities = device.raw.capabilities();
        let ticket = device.bridges.take(&*device.raw)?;
        let (stream, word) = (self.as_raw(), ticket.ptr());
        // SAFETY: the stream is live; the word is aligned, and live until it was written.
        let enqueued = unsafe {
            if capabilities.has_feature(Feature::StreamMemoryOperations64) {
                device.raw.write_value_u64(stream, word, ticket.number()).map(|()| false)
            } else if capabilities.has_feature(Feature::StreamMemoryOperations32) {
                device.raw.write_value_u32(stream, word, low(&ticket)).map(|()| false)
            } else {
                let (remote, notify) = (ticket.remote(), bridge.notifier());
                let tell = move || {
                    remote.reach();
                    notify();
                };
                self.launch_host_function(tell).map(|()| true)
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

/// A ticket's number for words of 32 bits: tickets are small.
fn low(ticket: &Ticket) -> u32 {
    u32::try_from(ticket.number()).unwrap_or(u32::MAX)
}

impl Device {
    /// How this device would follow the timelines of an exporter that exports them as the platform's usual kind: what
    /// [`Timeline::new`] would choose, but for the environment.
    #[must_use]
    pub fn timeline_support(&self) -> Support {
        use crate::handle::SemaphoreHandleKind::{TimelineFd, TimelineWin32};
        self.capabilities().timeline(Some(if cfg!(windows) { TimelineWin32 } else { TimelineFd }))
    }
}
