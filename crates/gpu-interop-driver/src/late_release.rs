//! Waiting for what a driver releases after it has reported work as done.
//!
//! Called before reserved addresses are unmapped, for drivers that
//! [release late](crate::vendor::Vendor::releases_late): those run functions of the host on the thread that releases, in
//! order with it.

use std::ffi::c_void;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpu_interop_core::Result;

use crate::driver::Driver;
use crate::exportable::{report, unreserve};
use crate::functions::{DeviceAddress, DeviceNumber, Handle};
use crate::progress;
use crate::trace::DriverFunction;
use crate::vendor::Vendor;

/// Nothing but the function is on its stream, but others may hold the hardware queue back.
const LIMIT: Duration = Duration::from_secs(1);

/// Says that it was run.
///
/// # Safety
/// `data` is from [`Box::into_raw`] of a sender, and given here once.
unsafe extern "C" fn tell(data: *mut c_void) {
    // SAFETY: the caller's promise.
    let sender = unsafe { Box::from_raw(data.cast::<SyncSender<()>>()) };
    // There is room for one, and nobody has to be there: this neither waits nor panics.
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

    /// Waits until the driver has released what work that ended before this call used: `false` if it did not come to it
    /// within a second. Where the question itself fails, nothing is known, as without it. The device is current.
    pub(crate) fn settle<V: Vendor>(&self, driver: &Driver<V>, device: DeviceNumber) -> bool {
        let settled = wait(driver, device).unwrap_or_else(|error| {
            tracing::warn!(%error, "what a driver releases late cannot be waited for");
            None
        });
        if let Some(stream) = settled {
            tracing::debug!("the driver did not run a function of the host within a second; do streams wait in vain?");
            self.held().streams.push(stream);
            return false;
        }
        true
    }

    /// Gives back what was kept, once [`Late::settle`] has succeeded: each with what the driver answered.
    pub(crate) fn free<V: Vendor>(&self, driver: &Driver<V>, device: DeviceNumber) {
        let Held { ranges, streams } = std::mem::take(&mut *self.held());
        for (address, size) in ranges {
            if let Err(error) = unreserve(driver, address, size) {
                report(&error);
            }
        }
        // SAFETY: only kept here, and with nothing but a function on it.
        let (idle, busy): (Vec<_>, _) =
            streams.into_iter().partition(|stream| unsafe { driver.is_idle(*stream) }.unwrap_or(false));
        idle.into_iter().for_each(|stream| end(driver, device, stream));
        self.held().streams.extend(busy);
    }
}

/// Waits as [`Late::settle`] says. The stream whose function has not run, if it has not.
fn wait<V: Vendor>(driver: &Driver<V>, device: DeviceNumber) -> Result<Option<Handle>> {
    // Drivers without host functions have no such thread.
    let Ok(launch) = driver.functions.launch_host_func.require(&driver.version) else { return Ok(None) };
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
        return Ok(Some(stream));
    } else {
        // What is told before the function has returned.
        // SAFETY: the stream is live, and its device current.
        if let Err(error) = unsafe { progress::synchronize(driver, stream) } {
            tracing::warn!(%error, "what a driver releases late cannot be waited for");
        }
    }
    end(driver, device, stream);
    launched.map(|()| None)
}

fn end<V: Vendor>(driver: &Driver<V>, device: DeviceNumber, stream: Handle) {
    // SAFETY: the stream is live and idle, and only known here.
    if let Err(error) = unsafe { V::end_stream(driver, device, stream) } {
        tracing::warn!(%error, "a stream that was kept could not be destroyed");
    }
}
