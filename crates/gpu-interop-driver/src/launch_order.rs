//! The order of a graph's launches on different streams, for drivers that do not keep it themselves
//! ([`Vendor::ORDERS_LAUNCHES`]): an event behind each launch, for which the next one waits if it is on another stream.

use gpu_interop_core::{Error, ErrorKind, Result};

use crate::driver::Driver;
use crate::functions::Handle;
use crate::vendor::Vendor;

/// Where a graph was launched last.
#[derive(Debug, Clone, Copy)]
enum Last {
    /// Nowhere.
    Never,
    /// On this stream, with the event recorded after it.
    On(Handle),
    /// On this stream, but the driver did not take the event.
    Unmarked(Handle),
}

/// The launches of one graph.
#[derive(Debug)]
pub(crate) struct Launches {
    event: Handle,
    last: Last,
}

impl Launches {
    /// Of a graph that was not launched yet. Its device is current.
    ///
    /// # Errors
    /// What the driver answers.
    pub(crate) fn new<V: Vendor>(driver: &Driver<V>) -> Result<Self> {
        Ok(Self { event: driver.create_event()?, last: Last::Never })
    }

    /// Makes the stream wait for the launch before this one.
    ///
    /// # Errors
    /// What the driver answers.
    ///
    /// # Safety
    /// The stream is live, and its device current.
    pub(crate) unsafe fn before<V: Vendor>(&self, driver: &Driver<V>, stream: Handle) -> Result<()> {
        match self.last {
            // SAFETY: the caller's promise; the event is live as long as this.
            Last::On(last) if last != stream => unsafe { driver.wait_event(stream, self.event) },
            Last::Unmarked(last) if last != stream => {
                let message =
                    "the driver did not mark the end of the launch before on another stream; make another graph";
                Err(Error::new(ErrorKind::Driver, driver.functions.event_record.operation, message))
            }
            _ => Ok(()),
        }
    }

    /// Notes a launch, which succeeded.
    ///
    /// # Safety
    /// As for [`Launches::before`].
    pub(crate) unsafe fn after<V: Vendor>(&mut self, driver: &Driver<V>, stream: Handle) {
        // SAFETY: as in `before`.
        self.last = match unsafe { driver.record_event(self.event, stream) } {
            Ok(()) => Last::On(stream),
            Err(error) => {
                tracing::warn!(%error, "the end of a graph's launch has no event: it can be launched on its stream only");
                Last::Unmarked(stream)
            }
        };
    }

    /// Frees the event.
    ///
    /// # Errors
    /// What the driver answers.
    pub(crate) fn end<V: Vendor>(self, driver: &Driver<V>) -> Result<()> {
        // SAFETY: live, and freed once. The driver keeps what a pending wait needs.
        unsafe { driver.destroy_event(self.event) }
    }
}
