//! Order of a graph's launches on different streams, for drivers that do not guarantee it
//! ([`Vendor::ORDERS_LAUNCHES`]). An event is recorded after each launch; the next launch waits for it if it is on
//! another stream.

use gpu_interop_core::{Error, ErrorKind, Result};

use crate::driver::Driver;
use crate::driver::Vendor;
use crate::functions::Handle;

/// Last launch of a graph.
#[derive(Debug, Clone, Copy)]
enum Last {
    /// It has not been launched.
    Never,
    /// Launched on this stream, with the event recorded after it.
    On(Handle),
    /// Launched on this stream, but recording the event failed.
    Unmarked(Handle),
}

/// Launches of one graph.
#[derive(Debug)]
pub(crate) struct Launches {
    event: Handle,
    last: Last,
}

impl Launches {
    /// State of a graph that has not been launched. The device is current.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn new<V: Vendor>(driver: &Driver<V>) -> Result<Self> {
        Ok(Self { event: driver.create_event()?, last: Last::Never })
    }

    /// Makes the stream wait for the previous launch.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// The stream is live, and its device current.
    pub(crate) unsafe fn before<V: Vendor>(&self, driver: &Driver<V>, stream: Handle) -> Result<()> {
        match self.last {
            // SAFETY: the caller's promise; `self` owns the live event.
            Last::On(last) if last != stream => unsafe { driver.wait_event(stream, self.event) },
            Last::Unmarked(last) if last != stream => {
                let message =
                    "the previous launch on another stream has no event to wait for; instantiate another graph";
                Err(Error::new(ErrorKind::Driver, driver.functions.event_record.operation, message))
            }
            _ => Ok(()),
        }
    }

    /// Records the event after a successful launch.
    ///
    /// # Safety
    /// As for [`Launches::before`].
    pub(crate) unsafe fn after<V: Vendor>(&mut self, driver: &Driver<V>, stream: Handle) {
        // SAFETY: as in `before`.
        self.last = match unsafe { driver.record_event(self.event, stream) } {
            Ok(()) => Last::On(stream),
            Err(error) => {
                tracing::warn!(%error, "recording an event after a graph's launch failed; the graph can be launched on this stream only");
                Last::Unmarked(stream)
            }
        };
    }

    /// Destroys the event.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn end<V: Vendor>(self, driver: &Driver<V>) -> Result<()> {
        // SAFETY: the event is live and destroyed once. The driver keeps the resources of pending waits.
        unsafe { driver.destroy_event(self.event) }
    }
}
