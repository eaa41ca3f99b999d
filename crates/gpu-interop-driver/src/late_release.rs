//! Waiting for what a driver releases after it has reported work as done.
//!
//! Called before reserved addresses are unmapped, for drivers that
//! [release late](crate::vendor::Vendor::releases_late): those run functions of the host on the thread that releases, in
//! order with it.

use std::ffi::c_void;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpu_interop_core::{Error, ErrorKind, Result};

use crate::driver::Driver;
use crate::exportable::{report, unreserve};
use crate::functions::{DeviceAddress, DeviceNumber, Handle};
use crate::progress;
use crate::trace::DriverFunction;
use crate::vendor::Vendor;

/// Nothing but the function is on its stream, but others may hold the hardware queue back.
const LIMIT: Duration = Duration::from_secs(1);

/// Reports that it was run.
///
/// # Safety
/// `data` is from [`Box::into_raw`] of a sender, and given here once.
unsafe extern "C" fn tell(data: *mut c_void) {
    // SAFETY: the caller's promise.
    let sender = unsafe { Box::from_raw(data.cast::<SyncSender<()>>()) };
    // The channel has room for one message; a dropped receiver is no error here.
    let _ = sender.try_send(());
}

/// What a device has not given back yet, because the driver did not come to what it releases.
#[derive(Debug, Default)]
pub(crate) struct Late {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// Reserved addresses, unmapped, with their sizes in bytes.
    ranges: Vec<(DeviceAddress, usize)>,
    /// Streams with a function that may not have run.
    streams: Vec<Handle>,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.streams.is_empty()
    }
}

impl Late {
    /// Nothing under the lock is left half-done by a panic.
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held().is_empty()
    }

    /// Keeps reserved addresses until a later [`Late::settle`] succeeds.
    pub(crate) fn keep(&self, address: DeviceAddress, size: usize) {
        self.held().ranges.push((address, size));
    }

    /// Waits until the driver has released what work that ended before this call used. What was kept before is given back
    /// then. The device is current.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if it did not come to it within a second; what it answered to the question.
    pub(crate) fn settle<V: Vendor>(&self, driver: &Driver<V>, device: DeviceNumber) -> Result<()> {
        // Ranges kept from here on are not covered by this wait.
        let Held { ranges, streams } = std::mem::take(&mut *self.held());
        // SAFETY: only kept here, and with nothing but a function on it.
        let (idle, busy): (Vec<_>, Vec<_>) =
            streams.into_iter().partition(|stream| unsafe { driver.is_idle(*stream) }.unwrap_or(false));
        idle.into_iter().for_each(|stream| end(driver, device, stream));
        // Behind one that has not run, another need not be tried.
        let asked = if busy.is_empty() { wait(driver, device) } else { Ok(Asked::NotYet(None)) };
        self.held().streams.extend(busy);
        let settled = asked.and_then(|asked| match asked {
            Asked::Completed => Ok(()),
            Asked::NotYet(stream) => {
                self.held().streams.extend(stream);
                let operation = driver.functions.launch_host_func.operation;
                let message = "the driver has not run a function of the host within a second; do streams wait in vain?";
                Err(Error::new(ErrorKind::Timeout, operation, message))
            }
        });
        if let Err(error) = settled {
            self.held().ranges.extend(ranges);
            return Err(error);
        }
        for (address, size) in ranges {
            if let Err(error) = unreserve(driver, address, size) {
                report(&error);
            }
        }
        Ok(())
    }

    /// Reports what stays for ever: the device is closed.
    pub(crate) fn leak(&self, error: &Error) {
        let Held { ranges, streams } = std::mem::take(&mut *self.held());
        for _ in ranges {
            tracing::error!(%error, "reserved addresses of a closed device are leaked");
        }
        for _ in streams {
            tracing::warn!(%error, "a stream that was kept could not be destroyed");
        }
    }
}

/// What became of the question.
enum Asked {
    /// The function has run.
    Completed,
    /// The function on this stream has not run.
    NotYet(Option<Handle>),
}

/// Waits as [`Late::settle`] says.
fn wait<V: Vendor>(driver: &Driver<V>, device: DeviceNumber) -> Result<Asked> {
    // Drivers without host functions have no such thread.
    let Ok(launch) = driver.functions.launch_host_func.require(&driver.version) else { return Ok(Asked::Completed) };
    let stream = V::create_stream(driver, device, || driver.create_stream())?;
    let (sender, receiver) = sync_channel::<()>(1);
    let data = Box::into_raw(Box::new(sender));
    let operation = driver.functions.launch_host_func.operation;
    // SAFETY: the stream is live; the function takes what it is given, once.
    let launched = driver.check(operation, unsafe { launch.traced(operation, (stream, tell, data.cast::<c_void>())) });
    if launched.is_err() {
        // SAFETY: what was refused is not called, so the box is still owned here.
        drop(unsafe { Box::from_raw(data) });
    } else if receiver.recv_timeout(LIMIT).is_err() {
        // Destroying it would wait for the function.
        return Ok(Asked::NotYet(Some(stream)));
    } else {
        // The message is sent before the function returns.
        // SAFETY: the stream is live, and its device current.
        if let Err(error) = unsafe { progress::synchronize(driver, stream) } {
            tracing::warn!(%error, "what a driver releases late cannot be waited for");
        }
    }
    end(driver, device, stream);
    launched.map(|()| Asked::Completed)
}

fn end<V: Vendor>(driver: &Driver<V>, device: DeviceNumber, stream: Handle) {
    // SAFETY: the stream is live and idle, and only known here.
    if let Err(error) = unsafe { V::end_stream(driver, device, stream) } {
        tracing::warn!(%error, "a stream that was kept could not be destroyed");
    }
}
