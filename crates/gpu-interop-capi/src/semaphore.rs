//! Imported semaphores.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use gpu_interop::handle::NvSciFence;
use gpu_interop::{Error, ExternalSemaphore, Result, SemaphorePayload, SignalParams, WaitParams};

use crate::call::call;
use crate::constants::GPI_NO_TIMEOUT;
use crate::handle::{gpi_semaphore, gpi_stream};
use crate::import_semaphore::semaphore_kind_number;
use crate::object;
use crate::pointer::{self, Out};
use crate::status::gpi_status;

/// One signal or wait. Its meaning follows from the kind of the imported semaphore; unused fields are ignored.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_semaphore_op {
    /// The semaphore.
    pub semaphore: gpi_semaphore,
    /// Timeline semaphores and fences: the value. Keyed mutexes: the key.
    pub value: u64,
    /// Waits for a keyed mutex: the timeout in nanoseconds, rounded up to milliseconds; `GPI_NO_TIMEOUT` for none.
    pub timeout_ns: u64,
    /// NvSciSync: the `NvSciSyncFence` to write (signal) or to wait for, valid during the call.
    pub fence: *mut c_void,
    /// NvSciSync: 1 skips the synchronisation of NvSciBuf imports, else 0.
    pub skip_memsync: i32,
    /// Must be 0.
    pub reserved: u32,
}

impl gpi_semaphore_op {
    fn fence(&self, operation: &'static str) -> Result<NvSciFence> {
        let fence = NonNull::new(self.fence).ok_or_else(|| Error::invalid(operation, "the fence is null"))?;
        // SAFETY: the caller of the function promises a valid fence.
        Ok(unsafe { NvSciFence::from_raw(fence) })
    }

    fn signal(&self, operation: &'static str, payload: SemaphorePayload) -> Result<SignalParams> {
        Ok(match payload {
            SemaphorePayload::Binary => SignalParams::Binary,
            SemaphorePayload::Timeline => SignalParams::Value(self.value),
            SemaphorePayload::KeyedMutex => SignalParams::Key(self.value),
            SemaphorePayload::NvSciSync => {
                SignalParams::NvSciSync { fence: self.fence(operation)?, skip_memsync: self.skip_memsync != 0 }
            }
        })
    }

    fn wait(&self, operation: &'static str, payload: SemaphorePayload) -> Result<WaitParams> {
        let timeout = (self.timeout_ns != GPI_NO_TIMEOUT).then(|| Duration::from_nanos(self.timeout_ns));
        Ok(match payload {
            SemaphorePayload::Binary => WaitParams::Binary,
            SemaphorePayload::Timeline => WaitParams::Value(self.value),
            SemaphorePayload::KeyedMutex => WaitParams::Key { key: self.value, timeout },
            SemaphorePayload::NvSciSync => {
                WaitParams::NvSciSync { fence: self.fence(operation)?, skip_memsync: self.skip_memsync != 0 }
            }
        })
    }
}

/// The semaphores of a batch, kept during the call.
fn semaphores(operation: &'static str, ops: &[gpi_semaphore_op]) -> Result<Vec<Arc<ExternalSemaphore>>> {
    ops.iter().map(|op| object::get(operation, op.semaphore)).collect()
}

/// Signals `count` semaphores after all work enqueued before has completed.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for an empty batch, a semaphore of another device, or a timeline value not greater than
/// the last one signalled through the same semaphore; otherwise the driver's error. After an error nothing is enqueued.
///
/// # Safety
/// `ops` points to `count` operations; fences are valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_signal(
    stream: gpi_stream,
    ops: *const gpi_semaphore_op,
    count: usize,
) -> gpi_status {
    call("gpi_stream_signal", |operation| {
        // SAFETY: the caller's promise.
        let ops = unsafe { pointer::array(operation, "ops", ops, count) }?;
        let (stream, semaphores) = (object::get(operation, stream)?, semaphores(operation, ops)?);
        let signals = ops
            .iter()
            .zip(&semaphores)
            .map(|(op, semaphore)| Ok(semaphore.signal_with(op.signal(operation, semaphore.handle_kind().payload())?)));
        stream.signal(&signals.collect::<Result<Vec<_>>>()?)
    })
}

/// Makes later work wait for `count` semaphores. The wait itself has no timeout, except for keyed mutexes: bound it with
/// `gpi_stream_synchronize`.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for an empty batch or a semaphore of another device; otherwise the driver's error. After
/// an error nothing is enqueued.
///
/// # Safety
/// As for `gpi_stream_signal`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_stream_wait(stream: gpi_stream, ops: *const gpi_semaphore_op, count: usize) -> gpi_status {
    call("gpi_stream_wait", |operation| {
        // SAFETY: the caller's promise.
        let ops = unsafe { pointer::array(operation, "ops", ops, count) }?;
        let (stream, semaphores) = (object::get(operation, stream)?, semaphores(operation, ops)?);
        let waits = ops
            .iter()
            .zip(&semaphores)
            .map(|(op, semaphore)| Ok(semaphore.wait_with(op.wait(operation, semaphore.handle_kind().payload())?)));
        stream.wait(&waits.collect::<Result<Vec<_>>>()?)
    })
}

/// Writes the `GPI_SEMAPHORE_*` of the imported handle to `*kind`, and the driver's object (`CUexternalSemaphore`), valid while
/// the semaphore lives, to `*raw`. Each may be null.
///
/// # Safety
/// The requirement on pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_semaphore_get_info(semaphore: gpi_semaphore, kind: *mut i32, raw: *mut u64) -> gpi_status {
    call("gpi_semaphore_get_info", |operation| {
        let semaphore = object::get(operation, semaphore)?;
        if !kind.is_null() {
            // SAFETY: the caller's promise.
            unsafe { Out::new(operation, "kind", kind) }?.set(semaphore_kind_number(semaphore.handle_kind()));
        }
        if !raw.is_null() {
            // SAFETY: the caller's promise.
            unsafe { Out::new(operation, "raw", raw) }?.set(semaphore.as_raw().get() as u64);
        }
        Ok(())
    })
}

/// Destroys the import, after pending signals and waits.
///
/// Errors: the driver's error; the handle is destroyed in either case.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_semaphore_destroy(semaphore: gpi_semaphore) -> gpi_status {
    call("gpi_semaphore_destroy", |operation| {
        let semaphore = object::remove(operation, semaphore)?;
        Arc::into_inner(semaphore).map_or(Ok(()), ExternalSemaphore::close)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_of_a_keyed_mutex_is_in_nanoseconds() {
        let timeout = |timeout_ns| {
            let semaphore = gpi_semaphore { id: 0 };
            let op = gpi_semaphore_op {
                semaphore,
                value: 3,
                timeout_ns,
                fence: std::ptr::null_mut(),
                skip_memsync: 0,
                reserved: 0,
            };
            match op.wait("test", SemaphorePayload::KeyedMutex) {
                Ok(WaitParams::Key { key: 3, timeout }) => timeout,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(timeout(1_500_000), Some(Duration::from_micros(1500)));
        assert_eq!(timeout(GPI_NO_TIMEOUT), None);
    }
}
