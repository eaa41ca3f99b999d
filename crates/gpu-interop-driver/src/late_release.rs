//! Waiting for what a driver releases after it has reported work as done.
//!
//! Called before reserved addresses are unmapped, for drivers that
//! [release late](crate::vendor::Vendor::releases_late): those run functions of the host on the thread that releases, in
//! order with it.

use std::ffi::c_void;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use gpu_interop_core::{Error, ErrorKind, Result};

use crate::driver::{Driver, not_null};
use crate::functions::STREAM_NON_BLOCKING;
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

/// Waits until the driver has released what work that ended before this call used. The device is current.
///
/// # Errors
/// What the driver answers; [`ErrorKind::Timeout`] if it did not come to it within a second.
pub(crate) fn wait<V: Vendor>(driver: &Driver<V>) -> Result<()> {
    let functions = &driver.functions;
    let launch = functions.launch_host_func.require(&driver.version)?;
    let (create, mut stream) = (&functions.stream_create, 0);
    let arguments = (&raw mut stream, STREAM_NON_BLOCKING);
    // SAFETY: the pointer is valid for the call.
    driver.check(create.operation, unsafe { create.get().traced(create.operation, arguments) })?;
    let stream = not_null(create.operation, stream)?;
    let (sender, receiver) = sync_channel::<()>(1);
    let data = Box::into_raw(Box::new(sender));
    let operation = functions.launch_host_func.operation;
    // SAFETY: the stream is live; the function takes what it is given, once.
    let launched = driver.check(operation, unsafe { launch.traced(operation, (stream, tell, data.cast::<c_void>())) });
    let told = match launched {
        Ok(()) => receiver.recv_timeout(LIMIT).map_err(|_| {
            let message = "the driver did not run a function of the host within a second; do streams wait in vain?";
            Error::new(ErrorKind::Timeout, operation, message)
        }),
        Err(error) => {
            // SAFETY: what was refused is not called, so the box is still owned here.
            drop(unsafe { Box::from_raw(data) });
            Err(error)
        }
    };
    // Destroying it would wait for the function.
    if !matches!(&told, Err(error) if error.kind() == ErrorKind::Timeout) {
        let destroy = &functions.stream_destroy;
        // SAFETY: the stream is live, and nothing is enqueued on it.
        let destroyed = unsafe { destroy.get().traced(destroy.operation, (stream,)) };
        driver.check(destroy.operation, destroyed)?;
    }
    told
}
