//! Submitted signals of binary semaphores and waits for them, as far as they went through this crate.

use std::sync::{Mutex, MutexGuard};

use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, Result};

use crate::queue_waits::Place;

/// State of a binary semaphore after the submitted work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Binary {
    #[default]
    Unsignalled,
    /// A signal is being submitted.
    Signalling,
    /// By this submission; `None` for one through ash.
    Signalled(Option<Place>),
    /// A wait is being submitted.
    Waiting,
}

/// The state of a binary semaphore. The methods accept everything if another API or process may change it
/// (`is_shared`).
#[derive(Debug, Default)]
pub(crate) struct BinaryState(Mutex<Binary>);

impl BinaryState {
    fn lock(&self) -> MutexGuard<'_, Binary> {
        // The state is valid after every step, so a poisoned lock is usable.
        lock(&self.0)
    }

    pub(crate) fn get(&self) -> Binary {
        *self.lock()
    }

    pub(crate) fn set(&self, state: Binary) {
        *self.lock() = state;
    }

    /// Records a wait that is about to be submitted. Returns the state before, for a failed submission.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) without a submitted signal.
    pub(crate) fn wait(&self, operation: &'static str, is_shared: bool) -> Result<Binary> {
        let mut state = self.lock();
        if is_shared || matches!(*state, Binary::Signalled(_)) {
            return Ok(std::mem::replace(&mut state, Binary::Waiting));
        }
        Err(Error::invalid(
            operation,
            "no signal of the binary semaphore was submitted, so the queue would wait for ever; submit the signal first, or \
             declare one submitted through ash (OwnedSemaphore::assume_signalled)",
        ))
    }

    /// The recorded wait was submitted.
    pub(crate) fn wait_submitted(&self) {
        let mut state = self.lock();
        // Else the same submission signals it, too.
        if matches!(*state, Binary::Waiting) {
            *state = Binary::Unsignalled;
        }
    }

    /// As [`wait`](Self::wait), of a signal. `is_waited`: the same submission waits for the semaphore.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if it is signalled, or other work is
    /// being submitted.
    pub(crate) fn signal(&self, operation: &'static str, is_shared: bool, is_waited: bool) -> Result<Binary> {
        let mut state = self.lock();
        if is_shared || matches!(*state, Binary::Unsignalled) || (is_waited && matches!(*state, Binary::Waiting)) {
            return Ok(std::mem::replace(&mut state, Binary::Signalling));
        }
        Err(Error::invalid(
            operation,
            "a signal of the binary semaphore is already submitted, and no wait for it; submit the wait first, or declare one \
             or a presentation submitted through ash (OwnedSemaphore::assume_waited)",
        ))
    }
}
