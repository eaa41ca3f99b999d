//! Waits and signals of streams.

use super::{Path, SIGNAL, Timeline, WAIT};
use crate::backend::WaitCondition;
use crate::bridge::{Bridge, Request, Ticket};
use crate::capability::Feature;
use crate::error::{Error, Result};
use crate::object::stream::Stream;

impl Stream {
    /// Makes later work wait until a timeline is at least `value`. The signal may be enqueued later. The wait itself
    /// has no timeout; bound it with [`Stream::synchronize_timeout`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a timeline of another device, or a value further above the current one than the
    /// exporter allows ([`ExporterTimeline::max_difference`]); the failure of the timeline, if any;
    /// [`ErrorKind::Unsupported`] over a bridge to a driver without stream memory operations, unless the value has been
    /// reached: wait for it on the host first ([`Timeline::wait`]). Otherwise the driver's error. After an error
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
    /// The value must be greater than the timeline's value at that time; the application must order the signals. It is
    /// compared with values signalled through the same [`Timeline`], but not with later signals of the exporter,
    /// another process or another `Timeline`, which would require a call of the exporter for every signal. If such a
    /// signal has passed the value:
    /// * Over a bridge the timeline keeps its value, and the stream's next synchronisation after the transfer fails
    ///   with [`ErrorKind::Overtaken`].
    /// * Natively it depends on the driver. CUDA **lowers** the timeline to `value`, so later waits for values already
    ///   reached block again. [`Stream::synchronize_timeout`] then times out, and [`Timeline::value`] and
    ///   [`Timeline::wait`] return [`ErrorKind::Overtaken`] if one of them observed the greater value. With the host
    ///   backend the timeline keeps its value, and the stream's next synchronisation fails.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for a timeline of another device, or a value not greater than the last one
    /// signalled through the same [`Timeline`] and the exporter's value at its creation; the failure of the timeline,
    /// if any; otherwise the driver's error. After an error nothing is enqueued.
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
                    // A concurrent release may have missed this signal, which lowers the timeline.
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

/// Ticket number for 32-bit words, which it always fits.
fn low(ticket: &Ticket) -> u32 {
    u32::try_from(ticket.number()).unwrap_or(u32::MAX)
}
