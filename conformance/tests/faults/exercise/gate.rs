//! Work that lasts until the test ends it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use gpu_interop::{Result, Stream};

/// Blocks streams until it is opened or dropped.
#[derive(Debug, Default)]
pub(super) struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Makes a stream wait.
    pub(super) fn hold(&self, stream: &Stream) -> Result<()> {
        let gate = self.0.clone();
        stream.launch_host_function(move || {
            let (open, changed) = &*gate;
            let open = open.lock().unwrap_or_else(PoisonError::into_inner);
            drop(changed.wait_timeout_while(open, Duration::from_secs(10), |open| !*open));
        })
    }

    /// Releases the streams.
    pub(super) fn open(&self) {
        let (open, changed) = &*self.0;
        *open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}
