//! The order of a graph's launches on different streams, for drivers that do not keep it themselves
//! ([`Vendor::ORDERS_LAUNCHES`]): an event behind each launch, for which the next one waits if it is on another stream.

use gpu_interop_core::{Error, ErrorKind, Result};

use crate::driver::{Driver, not_null};
use crate::functions::{EVENT_DISABLE_TIMING, Handle};
use crate::trace::DriverFunction;
use crate::vendor::Vendor;

/// Calls a function of the driver that is always there, and looks at its status. In an unsafe block.
macro_rules! call {
    ($driver:ident.$function:ident($($argument:expr),*)) => {{
        let entry = &$driver.functions.$function;
        $driver.check(entry.operation, entry.get().traced(entry.operation, ($($argument,)*)))
    }};
}

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
        let mut event = 0;
        // SAFETY: the pointer is valid for the call; the device is current.
        unsafe { call!(driver.event_create(&raw mut event, EVENT_DISABLE_TIMING)) }?;
        let event = not_null(driver.functions.event_create.operation, event)?;
        Ok(Self { event, last: Last::Never })
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
            Last::On(last) if last != stream => unsafe { call!(driver.stream_wait_event(stream, self.event, 0)) },
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
        self.last = match unsafe { call!(driver.event_record(self.event, stream)) } {
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
        unsafe { call!(driver.event_destroy(self.event)) }
    }
}
