//! Streams: queues of asynchronous work. Events, host functions, and batches of semaphore operations on them.

use std::ffi::c_void;
use std::fmt;
use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::buffer::BufferSlice;
use super::device_state::{DeviceInner, Owned};
use super::lifetime::Resource;
use super::module::Kernel;
use super::semaphore::{INLINE, Recording, SemaphoreSignal, SemaphoreWait, Semaphores, User, empty};
use super::slots::LiveStream;
use super::{progress, validate};
use crate::backend::{RawEvent, RawSignal, RawStream, RawWait};
use crate::bridge::{BridgedTimeline, ReleasedWaits, StreamFaults};
use crate::callback::{calls_are_forbidden, caught, without_driver_calls};
use crate::capability::Feature;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::Owner;
use crate::kernel::{KernelArg, LaunchConfig};
use crate::sync::lock;
use crate::timeline::ExporterTimeline;

/// A queue of work that runs in order, asynchronously to the host.
///
/// Dropping a stream does not wait: work already enqueued still runs.
#[doc(alias("CUstream", "cudaStream_t", "hipStream_t"))]
#[derive(Debug)]
pub struct Stream {
    owned: Owned,
    raw: RawStream,
    slot: usize,
    /// `None` for a recording stream.
    live: Option<Arc<LiveStream>>,
    faults: Arc<StreamFaults>,
    /// Timelines that the stream waits for. The error of a timeout lists them.
    awaited: Awaited,
    /// The recording of a stream whose work goes into a graph.
    recording: Option<Recording>,
}

impl Stream {
    /// Creates a stream that this crate owns, or wraps a stream of the application with its owner.
    pub(super) fn new(device: Arc<DeviceInner>, raw: RawStream, lender: Option<Owner>) -> Self {
        let (slot, live) = device.lifetimes.add_stream(raw);
        let resource = Resource::Stream { raw, slot, owned: lender.is_none() };
        device.lifetimes.keep(resource, lender.as_ref());
        let owned = Owned::new(device, resource);
        Self {
            owned,
            raw,
            slot,
            live: Some(live),
            faults: Arc::default(),
            awaited: Awaited::default(),
            recording: None,
        }
    }

    /// Creates a stream that records the graph in `slot`.
    pub(super) fn recorder(device: Arc<DeviceInner>, raw: RawStream, slot: usize) -> Self {
        let owned = Owned::new(device, Resource::Recorder(raw));
        Self {
            owned,
            raw,
            slot,
            live: None,
            faults: Arc::default(),
            awaited: Awaited::default(),
            recording: Some(Recording::default()),
        }
    }

    /// Called before an external wait is enqueued, in the process that opened the device.
    #[inline]
    pub(super) fn about_to_wait(&self) {
        if self.recording.is_none() {
            let device = self.device();
            device.lifetimes.about_to_wait(&*device.raw);
        }
    }

    /// Records that an external wait may be pending.
    #[inline]
    pub(super) fn note_external_wait(&self) {
        if let Some(live) = &self.live {
            live.waits();
        }
    }

    #[inline]
    pub(super) fn recording(&self) -> Option<&Recording> {
        self.recording.as_ref()
    }

    /// Locks the recording, so that other threads cannot record and a semaphore operation gets its own node.
    #[inline]
    pub(super) fn lock_recording(&self) -> Option<MutexGuard<'_, Semaphores>> {
        self.recording.as_ref().map(|recording| lock(&recording.semaphores))
    }

    /// Rejects operations that cannot be recorded.
    #[inline]
    pub(super) fn check_not_recording(&self, operation: &'static str) -> Result<()> {
        if self.recording.is_none() { Ok(()) } else { Err(self.recording_error(operation)) }
    }

    /// On a recording stream, checks that graphs support the feature. A driver without support would run the work
    /// immediately, or only in the first launch.
    pub(super) fn check_capture_support(&self, operation: &'static str, feature: Feature) -> Result<()> {
        if self.recording.is_none() {
            return Ok(());
        }
        let device = self.device();
        validate::feature(operation, device.raw.capabilities(), feature).map_err(|error| device.decorate(error))
    }

    #[cold]
    fn recording_error(&self, operation: &'static str) -> Error {
        let message = "a stream that records a graph accepts copies on the device, read_async, write_async, fills, \
                       kernel launches, waits for and writes of words, and semaphore operations; call this on the \
                       stream that launches the graph";
        self.device().decorate(Error::invalid(operation, message))
    }

    #[inline]
    pub(super) fn device(&self) -> &Arc<DeviceInner> {
        &self.owned.device
    }

    #[inline]
    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    /// Timelines that the stream waits for.
    pub(super) fn awaited(&self) -> &Awaited {
        &self.awaited
    }

    pub(super) fn faults(&self) -> &Arc<StreamFaults> {
        &self.faults
    }

    /// Takes a fault of completed work that the driver does not report.
    fn take_fault(&self) -> Result<()> {
        self.awaited.take_released()?;
        self.faults.take()
    }

    /// The driver's stream, valid while `self` lives.
    #[must_use]
    #[inline]
    pub fn as_raw(&self) -> RawStream {
        self.raw
    }

    /// Blocks until all enqueued work has completed. Blocks forever if a wait is never satisfied; use
    /// [`Stream::synchronize_timeout`] to bound the wait.
    ///
    /// # Errors
    /// Failures of the enqueued work since the last call. [`ErrorKind::HostFunctionPanicked`] if a host function
    /// panicked. [`ErrorKind::InvalidArgument`] on a recording stream, and inside a host function, where the wait would
    /// never end. [`ErrorKind::System`] in a forked process.
    ///
    /// The failure of a [`Timeline`](super::Timeline) that released a wait of the stream: the stream's work ran without
    /// the data that it waited for. For native timelines the stream records the last 4 timelines that it waited for;
    /// see [`Timeline::abandon`](super::Timeline::abandon). The failure of a signal over a bridge. The bridge transfers a
    /// signal shortly after the stream has reached it, so a later call may return the failure.
    #[doc(alias("cuStreamSynchronize", "cudaStreamSynchronize", "hipStreamSynchronize"))]
    pub fn synchronize(&self) -> Result<()> {
        self.check_may_wait("Stream::synchronize")?;
        let device = self.device();
        // SAFETY: the stream is live.
        let done = unsafe { device.raw.synchronize_stream(self.raw) };
        device.lifetimes.collect(&*device.raw);
        done.inspect_err(|error| self.check_device_lost(error))
            .and_then(|()| self.take_fault())
            .map_err(|error| device.decorate(error))
    }

    /// Checks that the host may wait for the stream: it does not record, this is not a forked process, and the caller is not a
    /// host function, which would wait for itself, and whose thread other streams may share.
    pub(super) fn check_may_wait(&self, operation: &'static str) -> Result<()> {
        if calls_are_forbidden() {
            return Err(self.waits_for_itself(operation));
        }
        self.check_not_recording(operation)?;
        self.device().check_process(operation)
    }

    #[cold]
    fn waits_for_itself(&self, operation: &'static str) -> Error {
        let message =
            "a host function must not wait for a stream, which may wait for the function; wait on another thread";
        self.device().decorate(Error::invalid(operation, message))
    }

    /// Checks whether the device is lost, after the driver returned `error`. Bridges of a lost device fail pending
    /// signals.
    #[cold]
    fn check_device_lost(&self, error: &Error) {
        if error.kind() != ErrorKind::DeviceLost {
            return;
        }
        // A lost device returns this error from every call. SAFETY: the stream is live.
        if let Err(error) = unsafe { self.device().raw.query_stream(self.raw) }
            && error.kind() == ErrorKind::DeviceLost
        {
            self.device().bridges.set_lost(error);
        }
    }

    /// [`Stream::synchronize`] for work that uses the caller's memory. Returns, even with an error, only after the
    /// driver has reported that the work has completed or that the device is lost.
    pub(super) fn finish(&self) -> Result<()> {
        let device = self.device();
        // SAFETY: the stream is live.
        let failure = match unsafe { device.raw.synchronize_stream(self.raw) } {
            Ok(()) => None,
            Err(error) => {
                self.check_device_lost(&error);
                let mut pause = Duration::from_micros(100);
                // SAFETY: the stream is live.
                while !unsafe { progress::has_run(&*device.raw, self.raw) } {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(50));
                }
                Some(error)
            }
        };
        device.lifetimes.collect(&*device.raw);
        failure.map_or_else(|| self.take_fault(), Err).map_err(|error| device.decorate(error))
    }

    /// Like [`Stream::synchronize`], with a timeout. Polls: spins at first, then sleeps for up to a millisecond between
    /// polls. A timeout of zero polls once, like [`Stream::is_idle`].
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if work is still pending at the last poll. The work continues, and the call may be
    /// repeated. The error lists up to 4 [`Timeline`](super::Timeline)s that the stream waits for. It reports three
    /// values of each: the value that the stream waits for, the current value, and the last value that this process
    /// signalled through the object. Other errors as for [`Stream::synchronize`].
    pub fn synchronize_timeout(&self, timeout: Duration) -> Result<()> {
        const SPINS: u64 = 200;
        self.check_may_wait("Stream::synchronize_timeout")?;
        let start = Instant::now();
        let mut pause = Duration::from_micros(20);
        for round in 0_u64.. {
            if self.is_idle()? {
                break;
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                let error = Error::new(
                    ErrorKind::Timeout,
                    "Stream::synchronize_timeout",
                    "work is still pending on the stream",
                )
                .with_context("timeout", format_args!("{timeout:?}"));
                return Err(self.device().decorate(self.awaited.describe(error)));
            }
            if round < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(pause.min(left));
                pause = (pause * 2).min(Duration::from_millis(1));
            }
        }
        // Not `synchronize`, which would also wait for work that another thread has enqueued since.
        let device = self.device();
        device.lifetimes.collect(&*device.raw);
        // SAFETY: the stream is live.
        let failure = unsafe { device.raw.take_stream_failure(self.raw) };
        failure.and_then(|()| self.take_fault()).map_err(|error| device.decorate(error))
    }

    /// `true` if all enqueued work has completed. Does not block.
    ///
    /// On HIP, the first call after new work may return `false` although the work has completed. AMD's runtime enqueues
    /// a marker in this call, and later calls query the marker. [`Event::is_complete`] of an event behind the work is
    /// exact.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] on a recording stream; [`ErrorKind::System`] in a forked process. Errors of the
    /// driver. A failure of enqueued work may be returned here.
    #[doc(alias("cuStreamQuery", "cudaStreamQuery", "hipStreamQuery"))]
    pub fn is_idle(&self) -> Result<bool> {
        self.check_not_recording("Stream::is_idle")?;
        self.device().check_process("Stream::is_idle")?;
        // SAFETY: the stream is live.
        unsafe { self.device().raw.query_stream(self.raw) }
            .inspect_err(|error| self.check_device_lost(error))
            .map_err(|error| self.device().decorate(error))
    }

    /// Records `event` after all work enqueued so far.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an event of another device, or on a recording stream. Errors of the driver.
    #[doc(alias("cuEventRecord", "cudaEventRecord", "hipEventRecord"))]
    pub fn record(&self, event: &Event) -> Result<()> {
        self.check_not_recording("Stream::record")?;
        self.check_device("Stream::record", "event", &event.owned.device)?;
        // SAFETY: both are live and belong to this device.
        unsafe { self.device().raw.record_event(event.raw, self.raw) }.map_err(|error| self.device().decorate(error))
    }

    /// Makes later work wait for an event's last record.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an event of another device, or on a recording stream. Errors of the driver.
    #[doc(alias("cuStreamWaitEvent", "cudaStreamWaitEvent", "hipStreamWaitEvent"))]
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.check_not_recording("Stream::wait_event")?;
        self.check_device("Stream::wait_event", "event", &event.owned.device)?;
        // SAFETY: both are live and belong to this device.
        unsafe { self.device().raw.wait_event(self.raw, event.raw) }.map_err(|error| self.device().decorate(error))
    }

    /// Enqueues a kernel.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a kernel or a buffer of another device, a launch without threads, or an
    /// argument of 0 bytes; [`ErrorKind::Unsupported`] on a recording stream of a device without
    /// [`Feature::GraphKernels`]. Errors of the driver.
    ///
    /// # Safety
    /// * Number, types and layouts of `args` must match the kernel's parameters.
    /// * All memory that the kernel accesses must be valid until the kernel has completed. For a recorded kernel, it
    ///   must be valid until the graph is destroyed and its last launch has completed. A buffer argument keeps its
    ///   mapping alive. The arguments of addresses, surfaces and textures keep nothing alive.
    /// * The kernel must not write memory that was imported read-only
    ///   ([`NvSciBufProperties::read_only`](crate::NvSciBufProperties::read_only)).
    #[doc(alias("cuLaunchKernel", "cudaLaunchKernel", "hipModuleLaunchKernel", "hipLaunchKernel"))]
    pub unsafe fn launch(&self, kernel: &Kernel, config: &LaunchConfig, args: &[KernelArg<'_>]) -> Result<()> {
        const OPERATION: &str = "Stream::launch";
        self.check_device(OPERATION, "kernel", &kernel.module.owned.device)?;
        let device = self.device();
        self.check_capture_support(OPERATION, Feature::GraphKernels)?;
        if config.grid_dim.contains(&0) || config.block_dim.contains(&0) {
            let error = Error::invalid(OPERATION, "every dimension of grid and block must be at least 1")
                .with_context("grid", format_args!("{:?}", config.grid_dim))
                .with_context("block", format_args!("{:?}", config.block_dim));
            return Err(device.decorate(error));
        }
        let args = args.iter().map(|arg| self.resolve(OPERATION, *arg)).collect::<Result<SmallVec<[_; 8]>>>()?;
        kernel.module.owned.in_flight.mark(self.slot);
        let _recording = self.lock_recording();
        // SAFETY: stream and kernel are live and belong to this device; the caller guarantees the arguments.
        unsafe { device.raw.launch_kernel(self.raw, kernel.raw, config, &args) }.map_err(|error| device.decorate(error))
    }

    /// Converts an argument for the backend and records the use of a buffer.
    fn resolve<'a>(&self, operation: &'static str, arg: KernelArg<'a>) -> Result<KernelArg<'a>> {
        match arg {
            KernelArg::Buffer(slice) => {
                self.check_device(operation, "buffer", slice.device)?;
                slice.mark(self.slot);
                Ok(KernelArg::Ptr(slice.ptr))
            }
            KernelArg::Value(value) if value.size() == 0 => {
                let error = Error::invalid(operation, "an argument has a size of 0 bytes; C has no such parameters");
                Err(self.device().decorate(error))
            }
            other => Ok(other),
        }
    }

    /// Records that work on this stream uses a buffer. Call it for uses that the library cannot detect: a kernel that
    /// gets the buffer's address, or work that another library enqueues on [`Stream::as_raw`]. A dropped buffer is
    /// unmapped once all work enqueued before the drop has completed. May be called before or after the work is
    /// enqueued.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a buffer of another device.
    pub fn keep<'a>(&self, used: impl Into<BufferSlice<'a>>) -> Result<()> {
        let used = used.into();
        self.check_device("Stream::keep", "buffer", used.device)?;
        used.mark(self.slot);
        Ok(())
    }

    /// Destroys the stream, unless the application owns it, and returns the driver's error. Pending work still runs,
    /// and defers the destruction until it has completed.
    ///
    /// # Errors
    /// The driver's error. The object is consumed in either case.
    #[doc(alias("cuStreamDestroy", "cudaStreamDestroy", "hipStreamDestroy"))]
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }

    /// Rejects objects of another device, and forked processes.
    #[inline]
    pub(super) fn check_device(&self, operation: &'static str, what: &str, device: &Arc<DeviceInner>) -> Result<()> {
        if Arc::ptr_eq(device, self.device()) {
            device.check_process(operation)
        } else {
            Err(self.other_device(operation, what, device))
        }
    }

    #[cold]
    fn other_device(&self, operation: &'static str, what: &str, device: &Arc<DeviceInner>) -> Error {
        self.device().decorate(validate::other_device(
            operation,
            what,
            self.device().raw.identity(),
            device.raw.identity(),
        ))
    }
}

/// A marker in a stream's work. Other streams can wait for it, and the host can query it.
#[doc(alias("CUevent", "cudaEvent_t", "hipEvent_t", "cuEventDestroy", "cudaEventDestroy", "hipEventDestroy"))]
#[derive(Debug)]
pub struct Event {
    // Uses are not tracked: drivers keep the resources of a pending event until it has completed.
    pub(super) owned: Owned,
    pub(super) raw: RawEvent,
}

impl Event {
    pub(super) fn new(device: Arc<DeviceInner>, raw: RawEvent) -> Self {
        Self { owned: Owned::new(device, Resource::Event(raw)), raw }
    }

    /// The driver's event, valid while `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> RawEvent {
        self.raw
    }

    /// `true` if all work before the last [`Stream::record`](super::Stream::record) has completed, or if the event was
    /// never recorded. Does not block.
    ///
    /// # Errors
    /// [`ErrorKind::System`](crate::ErrorKind::System) in a forked process. Errors of the driver.
    #[doc(alias("cuEventQuery", "cudaEventQuery", "hipEventQuery"))]
    pub fn is_complete(&self) -> Result<bool> {
        let device = &self.owned.device;
        device.check_process("Event::is_complete")?;
        // SAFETY: the event is live.
        unsafe { device.raw.query_event(self.raw) }.map_err(|error| device.decorate(error))
    }
}

struct HostCall {
    function: Box<dyn FnOnce() + Send>,
    faults: Arc<StreamFaults>,
}

/// Entry point for the driver's thread. Never unwinds into the driver.
///
/// # Safety
/// `data` must be a box that [`Stream::launch_host_function`] leaked for this call.
unsafe extern "C" fn run(data: *mut c_void) {
    // SAFETY: the caller guarantees the box; drivers call the function once.
    let call = unsafe { Box::from_raw(data.cast::<HostCall>()) };
    let HostCall { function, faults } = *call;
    // Also drops the captured values.
    if without_driver_calls(|| caught(function)).is_none() {
        faults.report(Error::new(
            ErrorKind::HostFunctionPanicked,
            "Stream::synchronize",
            "a host function enqueued on this stream panicked",
        ));
        log!(error, "a host function panicked; the stream's next synchronisation reports it");
    }
}

impl Stream {
    /// Calls `function` on a driver thread, in stream order (`cuLaunchHostFunc`).
    ///
    /// The function must not call a GPU API and must not wait for other work. Drivers may serialise the functions of
    /// independent streams, so a waiting function can deadlock the process. It may drop objects of this library, and
    /// signal timelines by [`Timeline::signal`](crate::Timeline::signal), which calls the exporter only.
    /// [`Stream::synchronize`], [`Stream::read`] and [`Stream::write`] inside it are errors. If the device is closed
    /// before the call, the function is neither called nor dropped. A panic is caught, and the next
    /// [`Stream::synchronize`] returns it as an error.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) where host functions are not supported;
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) on a recording stream, because a graph runs
    /// repeatedly and the function can be called once. Errors of the driver.
    #[doc(alias(
        "cuLaunchHostFunc",
        "cudaLaunchHostFunc",
        "hipLaunchHostFunc",
        "cudaStreamAddCallback",
        "hipStreamAddCallback"
    ))]
    pub fn launch_host_function(&self, function: impl FnOnce() + Send + 'static) -> Result<()> {
        let device = self.device();
        self.check_not_recording("Stream::launch_host_function")?;
        device.check_process("Stream::launch_host_function")?;
        validate::feature("Stream::launch_host_function", device.raw.capabilities(), Feature::HostFunctions)
            .and_then(|()| {
                let call = HostCall { function: Box::new(function), faults: self.faults().clone() };
                let data = Box::into_raw(Box::new(call)).cast::<c_void>();
                // SAFETY: the stream is live; `run` fits the box and does not unwind.
                let launched = unsafe { device.raw.launch_host_function(self.as_raw(), run, data) };
                if launched.is_err() {
                    // SAFETY: after a failure the function is never called, so this is the only owner of the box.
                    drop(unsafe { Box::from_raw(data.cast::<HostCall>()) });
                }
                launched
            })
            .map_err(|error| device.decorate(error))
    }
}

const SIGNAL: &str = "Stream::signal";
const WAIT: &str = "Stream::wait";

impl Stream {
    /// Signals semaphores after all work enqueued before has completed (`cuSignalExternalSemaphoresAsync`).
    ///
    /// Does not allocate for up to 8 signals; for a batch that is signalled repeatedly, a
    /// [`SignalBatch`](crate::SignalBatch) is faster. If several threads signal one timeline, the application must
    /// order them, or its values may arrive out of order.
    ///
    /// NVIDIA's programming guide requires that the wait for this signal is issued in the exporting API (Vulkan,
    /// Direct3D), after this call. The library cannot check this order. In the conformance suite, streams also wait for
    /// signals of their own device.
    ///
    /// Drivers may let a signal overtake a fill. Backends prevent this for [`Stream::fill`] and [`Stream::fill_u32`],
    /// but not for fills that the application enqueues with driver functions.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an empty batch, a semaphore of another
    /// device, parameters of the wrong type, or a timeline value not greater than the last one signalled through the
    /// same [`ExternalSemaphore`](crate::ExternalSemaphore) (in a graph: when it is launched). Errors of the driver.
    /// After an error nothing is enqueued.
    #[doc(alias(
        "cuSignalExternalSemaphoresAsync",
        "cudaSignalExternalSemaphoresAsync",
        "hipSignalExternalSemaphoresAsync"
    ))]
    #[inline(always)]
    pub fn signal(&self, signals: &[SemaphoreSignal<'_>]) -> Result<()> {
        self.device().check_process(SIGNAL)?;
        let signalled = match (self.recording(), signals) {
            (Some(recording), _) => recording.signal(self.as_raw(), self.user(SIGNAL), signals),
            (None, [signal]) => self.signal_one(signal),
            _ => self.signal_batch(signals),
        };
        signalled.map_err(|error| self.device().decorate(error))
    }

    #[inline(always)]
    pub(super) fn user(&self, operation: &'static str) -> User<'_> {
        User { operation, device: self.device(), slot: self.slot() }
    }

    /// The common case of one signal, without copies. It costs about as much as a call of the driver's binding.
    #[inline(always)]
    fn signal_one(&self, signal: &SemaphoreSignal<'_>) -> Result<()> {
        let previous = signal.begin(self.user(SIGNAL))?;
        // SAFETY: semaphore and stream are live and belong to this device, and the parameters match the payload.
        let enqueued = unsafe { self.device().raw.signal_semaphores(self.as_raw(), std::slice::from_ref(&signal.raw)) };
        if enqueued.is_err() {
            signal.undo(previous);
        }
        enqueued
    }

    fn signal_batch(&self, signals: &[SemaphoreSignal<'_>]) -> Result<()> {
        if signals.is_empty() {
            return Err(empty(SIGNAL));
        }
        let mut previous: SmallVec<[u64; INLINE]> = SmallVec::new();
        let mut raw: SmallVec<[RawSignal; INLINE]> = SmallVec::new();
        // One allocation instead of repeated growth.
        previous.reserve_exact(signals.len());
        raw.reserve_exact(signals.len());
        let begun = signals.iter().try_for_each(|signal| {
            previous.push(signal.begin(self.user(SIGNAL))?);
            raw.push(signal.raw);
            Ok(())
        });
        // SAFETY: as in `signal_one`, for each of them.
        let enqueued = begun.and_then(|()| unsafe { self.device().raw.signal_semaphores(self.as_raw(), &raw) });
        if enqueued.is_err() {
            // In reverse order, because a semaphore may be in the batch twice. A signal that was not begun has no
            // previous value.
            for (signal, previous) in signals.iter().zip(&previous).rev() {
                signal.undo(*previous);
            }
        }
        enqueued
    }

    /// Makes later work wait for semaphores (`cuWaitExternalSemaphoresAsync`).
    ///
    /// NVIDIA's programming guide requires that the signal is issued in the exporting API (Vulkan, Direct3D), before
    /// this call. The library cannot check this order. The conformance suite also enqueues waits before their signals.
    /// [`Timeline`](crate::Timeline) describes which other work such a wait may block.
    ///
    /// Does not allocate for up to 8 waits; for a batch that is waited for repeatedly, a
    /// [`WaitBatch`](crate::WaitBatch) is faster. The wait itself has no timeout (except for keyed mutexes); bound it
    /// with [`Stream::synchronize_timeout`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for an empty batch, a semaphore of another
    /// device, or parameters of the wrong type. Errors of the driver. After an error nothing is enqueued.
    #[doc(alias("cuWaitExternalSemaphoresAsync", "cudaWaitExternalSemaphoresAsync", "hipWaitExternalSemaphoresAsync"))]
    #[inline(always)]
    pub fn wait(&self, waits: &[SemaphoreWait<'_>]) -> Result<()> {
        self.device().check_process(WAIT)?;
        self.about_to_wait();
        let waited = match (self.recording(), waits) {
            (Some(recording), _) => recording.wait(self.as_raw(), self.user(WAIT), waits),
            (None, [wait]) => wait.begin(self.user(WAIT)).and_then(|()| {
                // SAFETY: semaphore and stream are live and belong to this device, and the parameters match the
                // payload.
                unsafe { self.device().raw.wait_semaphores(self.as_raw(), std::slice::from_ref(&wait.raw)) }
            }),
            _ => self.wait_batch(waits),
        };
        self.note_external_wait();
        waited.map_err(|error| self.device().decorate(error))
    }

    fn wait_batch(&self, waits: &[SemaphoreWait<'_>]) -> Result<()> {
        if waits.is_empty() {
            return Err(empty(WAIT));
        }
        let mut raw: SmallVec<[RawWait; INLINE]> = SmallVec::new();
        raw.reserve_exact(waits.len());
        for wait in waits {
            wait.begin(self.user(WAIT))?;
            raw.push(wait.raw);
        }
        // SAFETY: as in `wait`, for each of them.
        unsafe { self.device().raw.wait_semaphores(self.as_raw(), &raw) }
    }
}

/// Maximum number of recorded timelines: those of the last waits.
const MOST: usize = 4;
/// Maximum length of the description of an exporter's timeline, in bytes.
const LONGEST_NAME: usize = 80;

/// The last waits of a stream. Keeps no exporter alive, and does not allocate.
#[derive(Debug, Default)]
pub(super) struct Awaited(Mutex<SmallVec<[Wait; MOST]>>);

#[derive(Debug)]
struct Wait {
    side: Weak<BridgedTimeline>,
    released: Arc<ReleasedWaits>,
    /// The first value that is not known to be reached.
    first: u64,
    last: u64,
}

impl Awaited {
    /// Records a wait, after it was enqueued.
    pub(super) fn note(&self, side: &Arc<BridgedTimeline>, value: u64) {
        let mut waits = lock(&self.0);
        if let Some(wait) = waits.iter_mut().find(|wait| std::ptr::eq(wait.side.as_ptr(), Arc::as_ptr(side))) {
            if wait.first <= side.seen() {
                wait.first = value;
            }
            wait.last = value;
            return;
        }
        if waits.len() == MOST {
            waits.remove(0);
        }
        waits.push(Wait { side: Arc::downgrade(side), released: side.released.clone(), first: value, last: value });
    }

    /// Takes the failure of a native timeline for which a wait was released.
    fn take_released(&self) -> Result<()> {
        let mut waits = lock(&self.0);
        let released = waits
            .iter()
            .enumerate()
            .find_map(|(index, wait)| Some((index, wait.released.failure_of(wait.first.max(wait.last))?.duplicate())));
        released.map_or(Ok(()), |(index, failure)| {
            waits.remove(index);
            Err(failure)
        })
    }

    /// Adds the pending waits to an error.
    pub(super) fn describe(&self, error: Error) -> Error {
        // Unlocked before exporters are called and timelines dropped.
        let waits: SmallVec<[_; MOST]> =
            lock(&self.0).iter().filter_map(|wait| Some((wait.side.upgrade()?, wait.first, wait.last))).collect();
        waits.into_iter().fold(error, |error, (side, first, last)| {
            let now = caught(|| side.exporter.value());
            let (wanted, now) = match now {
                Some(Ok(now)) if now >= first.max(last) => return error,
                Some(Ok(now)) => (if first > now { first } else { last }, now.to_string()),
                Some(Err(error)) => (first, format!("unknown ({})", error.message())),
                None => (first, "unknown (the exporter panicked)".into()),
            };
            let mut name = Bounded(String::new());
            if caught(|| write!(name, "{}", Described(&**side.exporter))).is_none_or(|written| written.is_err()) {
                name.0.push_str("...");
            }
            let signalled = side.last_signalled.load(Ordering::Relaxed);
            let text = format!("{}: value {wanted}; it is {now}, and was last signalled here to {signalled}", name.0);
            error.with_context("waits for", text)
        })
    }
}

/// The name of an exporter's timeline.
struct Described<'a>(&'a dyn ExporterTimeline);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe(f)
    }
}

/// Text that is truncated at a maximum length.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let left = LONGEST_NAME - self.0.len();
        if text.len() <= left {
            self.0.push_str(text);
            return Ok(());
        }
        let end = (0..=left).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.0.push_str(&text[..end]);
        Err(fmt::Error)
    }
}
