//! Threads that serve a device's timelines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicUsize, Builder};

/// Number of such threads. A thread counts until it has dropped all its references.
#[derive(Debug, Clone)]
pub(crate) struct Threads {
    count: Arc<AtomicUsize>,
    process: u32,
}

impl Default for Threads {
    fn default() -> Self {
        Self { count: Arc::default(), process: std::process::id() }
    }
}

/// Counts one thread until dropped.
#[derive(Debug)]
struct Counted(Threads);

impl Threads {
    /// `true` if the threads belong to this process, not to a parent that forked.
    pub(crate) fn belong_to_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// `true` if all threads have ended: nothing is pending and no exporter is in use.
    pub(crate) fn have_ended(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Starts a thread that runs `work`.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the process cannot start another thread.
    pub(crate) fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let counted = self.count();
        let started = Builder::new().name(name.into()).spawn(move || {
            #[cfg(target_os = "linux")]
            precise_sleeps();
            work();
            drop(counted);
        });
        started.map(drop).map_err(|error| {
            Error::new(ErrorKind::System, "Timeline", "cannot start the thread that transfers its values")
                .with_source(error)
        })
    }

    fn count(&self) -> Counted {
        self.count.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Release);
    }
}

/// Reduces the timer slack: by default Linux extends sleeps by up to 50 microseconds to coalesce wake-ups.
#[cfg(target_os = "linux")]
fn precise_sleeps() {
    let slack = std::num::NonZeroU64::new(1_000);
    if let Err(errno) = rustix::thread::set_current_timer_slack(slack) {
        log!(debug, %errno, "a timeline's sleeps are less precise");
    }
}
