//! Objects, descriptors and frees of the recorder, modelled after drivers.

#[cfg(unix)]
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use super::{Call, Object, Recorder, next};
use crate::error::Result;
#[cfg(unix)]
use crate::handle::LentFd;
use crate::handle::{MemoryHandle, SemaphoreHandle};

/// A new value in both forms: the driver's and the recorder's.
pub(super) fn fresh() -> (usize, u64) {
    let value = next();
    (usize::try_from(value).expect("small"), value)
}

impl Recorder {
    /// Imports memory; the descriptor is closed or not, as by drivers.
    #[cfg(unix)]
    pub(super) fn lend_memory(&self, handle: &MemoryHandle, call: Call) -> Result<()> {
        self.lend(handle.as_fd(), call)
    }

    /// As [`Recorder::lend_memory`], for a semaphore.
    #[cfg(unix)]
    pub(super) fn lend_semaphore(&self, handle: &SemaphoreHandle, call: Call) -> Result<()> {
        self.lend(handle.as_fd(), call)
    }

    /// Imports memory. No driver closes a Windows handle.
    #[cfg(windows)]
    pub(super) fn lend_memory(&self, _handle: &MemoryHandle, call: Call) -> Result<()> {
        self.begin(call).map(drop)
    }

    /// As [`Recorder::lend_memory`], for a semaphore.
    #[cfg(windows)]
    pub(super) fn lend_semaphore(&self, _handle: &SemaphoreHandle, call: Call) -> Result<()> {
        self.begin(call).map(drop)
    }

    /// Treats the duplicate as drivers do: closes it on success and on every other failure.
    #[cfg(unix)]
    fn lend(&self, fd: Option<BorrowedFd<'_>>, call: Call) -> Result<()> {
        let loan = fd.map(LentFd::new).transpose()?;
        let outcome = self.begin(call).map(drop);
        let Some(loan) = loan else { return outcome };
        let close = outcome.is_ok() || {
            let mut state = self.lock();
            state.failed_imports += 1;
            state.failed_imports.is_multiple_of(2)
        };
        if close {
            // SAFETY: acts as the driver, which owns the number that it was given.
            drop(unsafe { OwnedFd::from_raw_fd(loan.as_raw_fd()) });
        }
        match outcome {
            Ok(()) => loan.consumed(),
            Err(_) => assert_eq!(loan.settle(), !close, "settling detects whether the driver closed the duplicate"),
        }
        outcome
    }

    /// Records a free. After a failure the object can be neither freed nor used.
    pub(super) fn free(&self, call: Call, object: Object) -> Result<()> {
        match self.begin(call) {
            Ok(mut state) => {
                state.free(object);
                Ok(())
            }
            Err(error) => {
                self.lock().live.remove(&object);
                Err(error)
            }
        }
    }
}
