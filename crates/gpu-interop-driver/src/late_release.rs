//! Waits for resources that a driver releases after it has reported their work as complete.
//!
//! Runs before reserved addresses are freed, for drivers that [release late](crate::vendor::Vendor::releases_late).
//! These run host functions on the thread that releases resources, in the same order, so a host function that has run
//! proves that earlier releases are done.

use std::ffi::c_void;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, ErrorKind, Result};

use crate::call::call;
use crate::driver::Driver;
use crate::driver::Vendor;
use crate::functions::{DeviceAddress, DeviceNumber, Handle};
use crate::progress;
use crate::trace::DriverFunction;

/// Time limit for the host function. Its stream has no other work, but other streams may block the hardware queue.
const LIMIT: Duration = Duration::from_secs(1);

/// Host function that signals its execution through a channel.
///
/// # Safety
/// `data` is from [`Box::into_raw`] of a sender and passed once.
unsafe extern "C" fn send(data: *mut c_void) {
    // SAFETY: the caller's promise.
    let sender = unsafe { Box::from_raw(data.cast::<SyncSender<()>>()) };
    // The channel buffers one message; a dropped receiver is not an error.
    let _ = sender.try_send(());
}

/// Resources of a device that wait for the driver's late releases.
#[derive(Debug, Default)]
pub(crate) struct Late {
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    /// Reserved and unmapped address ranges, with sizes in bytes.
    ranges: Vec<(DeviceAddress, usize)>,
    /// Streams whose host function may not have run.
    streams: Vec<Handle>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.streams.is_empty()
    }
}

impl Late {
    /// Locks the state, which a panic cannot leave inconsistent.
    fn lock(&self) -> MutexGuard<'_, Pending> {
        lock(&self.pending)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Defers freeing reserved addresses until a later [`Late::settle`] succeeds.
    pub(crate) fn keep(&self, address: DeviceAddress, size: usize) {
        self.lock().ranges.push((address, size));
    }

    /// Waits until the driver has released the resources of all work completed before this call, then frees the ranges
    /// deferred before. The device is current.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if the driver has not run the host function within a second; otherwise the driver's
    /// error.
    pub(crate) fn settle<V: Vendor>(&self, driver: &Driver<V>, device: DeviceNumber) -> Result<()> {
        // This wait does not cover ranges deferred from here on.
        let Pending { ranges, streams } = std::mem::take(&mut *self.lock());
        let (idle, busy): (Vec<_>, Vec<_>) = streams.into_iter().partition(|stream| {
            // SAFETY: these streams are owned by `self` and have no work but the host function.
            unsafe { driver.is_idle(*stream) }.unwrap_or_else(|error| {
                tracing::warn!(%error, "querying a stream failed; it counts as busy");
                false
            })
        });
        idle.into_iter().for_each(|stream| end(driver, device, stream));
        // While an earlier host function is pending, another one would wait behind it.
        let outcome = if busy.is_empty() { wait(driver, device) } else { Ok(Outcome::Pending(None)) };
        self.lock().streams.extend(busy);
        let settled = outcome.and_then(|outcome| match outcome {
            Outcome::Completed => Ok(()),
            Outcome::Pending(stream) => {
                self.lock().streams.extend(stream);
                let operation = driver.functions.launch_host_func.operation;
                let message = "the driver has not run a host function within a second; check for streams whose waits are never satisfied";
                Err(Error::new(ErrorKind::Timeout, operation, message))
            }
        });
        if let Err(error) = settled {
            self.lock().ranges.extend(ranges);
            return Err(error);
        }
        for (address, size) in ranges {
            if let Err(error) = unreserve(driver, address, size) {
                report(&error);
            }
        }
        Ok(())
    }

    /// Reports the remaining resources as leaked because the device is closed.
    pub(crate) fn leak(&self, error: &Error) {
        let Pending { ranges, streams } = std::mem::take(&mut *self.lock());
        for _ in ranges {
            tracing::error!(%error, "reserved addresses of a closed device are leaked");
        }
        for _ in streams {
            tracing::warn!(%error, "destroying a stream failed; it is leaked");
        }
    }
}

/// Result of waiting for the host function.
enum Outcome {
    /// The host function has run.
    Completed,
    /// The host function has not run. Contains its stream if it was enqueued by this wait.
    Pending(Option<Handle>),
}

/// Enqueues a host function on a stream of its own and waits for it.
fn wait<V: Vendor>(driver: &Driver<V>, device: DeviceNumber) -> Result<Outcome> {
    // Drivers without host functions do not release late.
    let Ok(launch) = driver.functions.launch_host_func.require(&driver.version) else { return Ok(Outcome::Completed) };
    let stream = V::create_stream(driver, device, || driver.create_stream())?;
    let (sender, receiver) = sync_channel::<()>(1);
    let data = Box::into_raw(Box::new(sender));
    let operation = driver.functions.launch_host_func.operation;
    // SAFETY: the stream is live; `send` takes ownership of `data`, and is called once.
    let launched = driver.check(operation, unsafe { launch.traced(operation, (stream, send, data.cast::<c_void>())) });
    if launched.is_err() {
        // SAFETY: a host function that failed to enqueue is never called, so this function still owns the box.
        drop(unsafe { Box::from_raw(data) });
    } else if receiver.recv_timeout(LIMIT).is_err() {
        // Destroying the stream would wait for the function.
        return Ok(Outcome::Pending(Some(stream)));
    } else {
        // The message is sent before the function returns.
        // SAFETY: the stream is live, and its device current.
        if let Err(error) = unsafe { progress::synchronize(driver, stream) } {
            tracing::warn!(%error, "waiting for a driver's late releases failed");
        }
    }
    end(driver, device, stream);
    launched.map(|()| Outcome::Completed)
}

fn end<V: Vendor>(driver: &Driver<V>, device: DeviceNumber, stream: Handle) {
    // SAFETY: the stream is live and idle, and has no other user.
    if let Err(error) = unsafe { V::end_stream(driver, device, stream) } {
        tracing::warn!(%error, "destroying a stream failed; it is leaked");
    }
}

/// Frees reserved and unmapped addresses.
///
/// # Errors
/// The driver's error.
pub(crate) fn unreserve<V: Vendor>(driver: &Driver<V>, address: DeviceAddress, size: usize) -> Result<()> {
    // SAFETY: the whole range was reserved by `Allocation::reserve` and is unmapped.
    unsafe { call!(driver.mem_address_free(address, size)) }
}

/// Reports leaked device memory.
pub(crate) fn report(error: &Error) {
    tracing::error!(%error, "freeing device memory failed; it is leaked");
}
