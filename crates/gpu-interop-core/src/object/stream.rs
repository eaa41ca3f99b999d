//! Streams: queues of asynchronous work.

use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

use super::buffer::BufferSlice;
use super::device::DeviceInner;
use super::event::Event;
use super::fault::StreamFaults;
use super::graph::Recording;
use super::module::Kernel;
use super::owned::Owned;
use super::progress;
use super::resource::Resource;
use super::slots::Live;
use super::validate;
use crate::backend::RawStream;
use crate::capability::Feature;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::Owner;
use crate::kernel::{KernelArg, LaunchConfig};

/// A queue of work that runs in order, asynchronously to the host.
///
/// Dropping a stream does not wait: work already enqueued still runs.
#[derive(Debug)]
pub struct Stream {
    owned: Owned,
    raw: RawStream,
    slot: usize,
    /// Not of a stream that records.
    live: Option<Arc<Live>>,
    faults: Arc<StreamFaults>,
    /// What it is given goes into a graph.
    recording: Option<Recording>,
}

impl Stream {
    /// A stream of this crate's own, or one that the application lent, with what keeps it.
    pub(super) fn new(device: Arc<DeviceInner>, raw: RawStream, lender: Option<Owner>) -> Self {
        let (slot, live) = device.lifetimes.add_stream(raw);
        let resource = Resource::Stream { raw, slot, owned: lender.is_none() };
        device.lifetimes.keep(resource, lender.as_ref());
        let owned = Owned::new(device, resource);
        Self { owned, raw, slot, live: Some(live), faults: Arc::default(), recording: None }
    }

    /// A stream that records the graph in `slot`.
    pub(super) fn recorder(device: Arc<DeviceInner>, raw: RawStream, slot: usize) -> Self {
        let owned = Owned::new(device, Resource::Recorder(raw));
        Self { owned, raw, slot, live: None, faults: Arc::default(), recording: Some(Recording::default()) }
    }

    /// Called before the stream is given something to wait for that other streams need not bring about.
    #[inline]
    pub(super) fn about_to_wait(&self) {
        if self.recording.is_none() {
            let device = self.device();
            device.lifetimes.about_to_wait(&*device.raw);
        }
    }

    /// Notes that the stream was given something to wait for that other streams need not bring about.
    #[inline]
    pub(super) fn waits_outside(&self) {
        if let Some(live) = &self.live {
            live.waits();
        }
    }

    #[inline]
    pub(super) fn recording(&self) -> Option<&Recording> {
        self.recording.as_ref()
    }

    /// Refuses what cannot be recorded.
    #[inline]
    pub(super) fn runs(&self, operation: &'static str) -> Result<()> {
        if self.recording.is_none() { Ok(()) } else { Err(self.records(operation)) }
    }

    /// On a stream that records, checks that graphs have what is about to be recorded: a driver without it runs it at
    /// once, or in the first launch only.
    pub(super) fn records_with(&self, operation: &'static str, feature: Feature) -> Result<()> {
        if self.recording.is_none() {
            return Ok(());
        }
        let device = self.device();
        validate::feature(operation, device.raw.capabilities(), feature).map_err(|error| device.decorate(error))
    }

    #[cold]
    fn records(&self, operation: &'static str) -> Error {
        let message = "a stream that records a graph takes copies, fills, kernels, words and semaphores only; do this on \
                       the stream that the graph is launched on";
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

    pub(super) fn faults(&self) -> &Arc<StreamFaults> {
        &self.faults
    }

    /// The driver's stream, valid while `self` lives.
    #[must_use]
    #[inline]
    pub fn as_raw(&self) -> RawStream {
        self.raw
    }

    /// Blocks until everything enqueued has run. Without end, if a wait is never satisfied; see
    /// [`Stream::synchronize_timeout`].
    ///
    /// # Errors
    /// What failed in the enqueued work since the last call; [`ErrorKind::HostFunctionPanicked`] if a host function
    /// did; why the exporter of a [`Timeline`](super::Timeline) failed, if the stream waited for it over a bridge and was
    /// let go, or signalled it so: a signal is carried a moment after the stream has run it, so that the failure may come
    /// with the next call. [`ErrorKind::InvalidArgument`] on a stream that records a graph.
    pub fn synchronize(&self) -> Result<()> {
        self.runs("Stream::synchronize")?;
        let device = self.device();
        device.check_process("Stream::synchronize")?;
        // SAFETY: the stream is live.
        let done = unsafe { device.raw.synchronize_stream(self.raw) };
        device.lifetimes.collect(&*device.raw);
        done.inspect_err(|error| self.look_after(error))
            .and_then(|()| self.faults.take())
            .map_err(|error| device.decorate(error))
    }

    /// Finds out whether the device is lost, after the driver answered `error`. Words that streams were to write are not
    /// waited for then.
    #[cold]
    fn look_after(&self, error: &Error) {
        if error.kind() != ErrorKind::DeviceLost {
            return;
        }
        // What a lost device answers once, it answers always.
        // SAFETY: the stream is live.
        if let Err(error) = unsafe { self.device().raw.query_stream(self.raw) }
            && error.kind() == ErrorKind::DeviceLost
        {
            self.device().bridges.lose(error);
        }
    }

    /// [`Stream::synchronize`] for work that uses the caller's memory: returns, also with an error, only when the
    /// driver has said that the work has run, or that the device is lost.
    pub(super) fn finish(&self) -> Result<()> {
        let device = self.device();
        device.check_process("Stream::synchronize")?;
        // SAFETY: the stream is live.
        let failure = match unsafe { device.raw.synchronize_stream(self.raw) } {
            Ok(()) => None,
            Err(error) => {
                self.look_after(&error);
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
        failure.map_or_else(|| self.faults.take(), Err).map_err(|error| device.decorate(error))
    }

    /// Like [`Stream::synchronize`], but gives up after `timeout`. Polls: first busily, then at most every
    /// millisecond.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if work is left; it goes on, and the call may be repeated. Else as for
    /// [`Stream::synchronize`].
    pub fn synchronize_timeout(&self, timeout: Duration) -> Result<()> {
        const SPINS: u32 = 200;
        self.runs("Stream::synchronize_timeout")?;
        self.device().check_process("Stream::synchronize_timeout")?;
        let start = Instant::now();
        let mut pause = Duration::from_micros(20);
        for round in 0_u32.. {
            if self.is_idle()? {
                break;
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                let error = Error::new(ErrorKind::Timeout, "Stream::synchronize_timeout", "the stream still has work")
                    .with_context("timeout", format_args!("{timeout:?}"));
                return Err(self.device().decorate(error));
            }
            if round < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::sleep(pause.min(left));
                pause = (pause * 2).min(Duration::from_millis(1));
            }
        }
        // Not `synchronize`: another thread may have enqueued more meanwhile.
        let device = self.device();
        device.lifetimes.collect(&*device.raw);
        // SAFETY: the stream is live.
        let failure = unsafe { device.raw.take_stream_failure(self.raw) };
        failure.and_then(|()| self.faults.take()).map_err(|error| device.decorate(error))
    }

    /// Whether everything enqueued has run. Does not block.
    ///
    /// # Errors
    /// What the driver answers; a failure of enqueued work may be reported here.
    pub fn is_idle(&self) -> Result<bool> {
        self.runs("Stream::is_idle")?;
        // SAFETY: the stream is live.
        unsafe { self.device().raw.query_stream(self.raw) }
            .inspect_err(|error| self.look_after(error))
            .map_err(|error| self.device().decorate(error))
    }

    /// Records `event` after everything enqueued so far.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an event of another device, or on a stream that records a graph; else what the
    /// driver answers.
    pub fn record(&self, event: &Event) -> Result<()> {
        self.runs("Stream::record")?;
        self.check_device("Stream::record", "event", &event.owned.device)?;
        // SAFETY: both are live and of this device.
        unsafe { self.device().raw.record_event(event.raw, self.raw) }.map_err(|error| self.device().decorate(error))
    }

    /// Makes everything enqueued from here on wait for an event's last record.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for an event of another device, or on a stream that records a graph; else what the
    /// driver answers.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        self.runs("Stream::wait_event")?;
        self.check_device("Stream::wait_event", "event", &event.owned.device)?;
        // SAFETY: both are live and of this device.
        unsafe { self.device().raw.wait_event(self.raw, event.raw) }.map_err(|error| self.device().decorate(error))
    }

    /// Enqueues a kernel.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a kernel of another device or a launch without threads; else what the
    /// driver answers.
    ///
    /// # Safety
    /// `args` must have the number and types that the kernel takes, a struct also its layout, and the kernel may only touch memory that stays
    /// valid until it has run: an argument that is a buffer keeps it, one that is an address does not, nor one that is a
    /// surface or texture its object. In a graph, until the graph is gone and has run. It must not write memory that was
    /// imported read-only ([`NvSciBufProperties::read_only`](crate::NvSciBufProperties::read_only)).
    pub unsafe fn launch(&self, kernel: &Kernel, config: &LaunchConfig, args: &[KernelArg<'_>]) -> Result<()> {
        const OPERATION: &str = "Stream::launch";
        self.check_device(OPERATION, "kernel", &kernel.module.owned.device)?;
        let device = self.device();
        self.records_with(OPERATION, Feature::GraphKernels)?;
        if config.grid_dim.contains(&0) || config.block_dim.contains(&0) {
            let error = Error::invalid(OPERATION, "every dimension of grid and block must be at least 1")
                .with_context("grid", format_args!("{:?}", config.grid_dim))
                .with_context("block", format_args!("{:?}", config.block_dim));
            return Err(device.decorate(error));
        }
        let args = args.iter().map(|arg| self.resolve(OPERATION, *arg)).collect::<Result<SmallVec<[_; 8]>>>()?;
        kernel.module.owned.in_flight.mark(self.slot);
        // SAFETY: stream and kernel are live and of this device; the caller vouches for the arguments.
        unsafe { device.raw.launch_kernel(self.raw, kernel.raw, config, &args) }.map_err(|error| device.decorate(error))
    }

    /// An argument as backends take it. A buffer is noted as used.
    fn resolve<'a>(&self, operation: &'static str, arg: KernelArg<'a>) -> Result<KernelArg<'a>> {
        match arg {
            KernelArg::Buffer(slice) => {
                self.check_device(operation, "buffer", slice.device)?;
                slice.in_flight.mark(self.slot);
                Ok(KernelArg::Ptr(slice.ptr))
            }
            KernelArg::Value(value) if value.size() == 0 => {
                let error = Error::invalid(operation, "an argument has a size of 0 bytes; C has no such parameters");
                Err(self.device().decorate(error))
            }
            other => Ok(other),
        }
    }

    /// Notes that work of this stream uses a buffer, where the stream cannot see it: a kernel that was given its address, or
    /// what another library enqueues on [`Stream::as_raw`]. If the buffer is dropped, it is unmapped only once what is
    /// enqueued by then has run. May be called before or after the work is enqueued.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a buffer of another device.
    pub fn keep<'a>(&self, used: impl Into<BufferSlice<'a>>) -> Result<()> {
        let used = used.into();
        self.check_device("Stream::keep", "buffer", used.device)?;
        used.in_flight.mark(self.slot);
        Ok(())
    }

    /// Destroys the stream, and says if that failed. Work already enqueued still runs.
    ///
    /// # Errors
    /// What the driver answers; the object is gone either way.
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }

    /// Refuses objects of another device.
    pub(super) fn check_device(&self, operation: &'static str, what: &str, device: &Arc<DeviceInner>) -> Result<()> {
        if Arc::ptr_eq(device, self.device()) {
            return Ok(());
        }
        let error = Error::invalid(operation, format!("the {what} belongs to another device than the stream"))
            .with_context("other device", device.raw.identity());
        Err(self.device().decorate(error))
    }
}
