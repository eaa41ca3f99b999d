//! Work that lasts until the test ends it, or its time is over.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpu_interop::{Result, Stream};

/// Blocks streams until it is opened or dropped, or for [`LIMIT`].
#[derive(Debug, Default)]
pub(super) struct Gate(Arc<(Mutex<State>, Condvar)>);

/// Four of these are less than the limit of an exercise.
const LIMIT: Duration = Duration::from_secs(4);

#[derive(Debug, Default)]
struct State {
    open: bool,
    /// The limit ended a wait.
    expired: bool,
}

impl Gate {
    /// Makes a stream wait.
    pub(super) fn hold(&self, stream: &Stream) -> Result<()> {
        let gate = self.0.clone();
        stream.launch_host_function(move || {
            let (state, changed) = &*gate;
            let state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = changed.wait_timeout_while(state, LIMIT, |state| !state.open);
            let (mut state, limit) = waited.unwrap_or_else(PoisonError::into_inner);
            state.expired |= limit.timed_out();
        })
    }

    /// Releases the streams.
    pub(super) fn open(&self) {
        self.state().open = true;
        self.0.1.notify_all();
    }

    /// `true` if the limit ended a wait.
    pub(super) fn has_expired(&self) -> bool {
        self.state().expired
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}
