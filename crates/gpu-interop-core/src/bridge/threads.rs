//! The threads that serve a device's timelines.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicUsize, Builder};

/// How many such threads there are. One counts until it has let go of everything.
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

/// A thread, until this is dropped.
#[derive(Debug)]
struct Counted(Threads);

impl Threads {
    /// Whether this process was not forked since.
    pub(crate) fn belong_to_this_process(&self) -> bool {
        self.process == std::process::id()
    }

    /// Whether there are none: then nothing is outstanding, and no exporter in use.
    pub(crate) fn have_ended(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Starts one, which ends by itself after `work`.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the process may have no more threads.
    pub(crate) fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let counted = self.count();
        let started = Builder::new().name(name.into()).spawn(move || {
            #[cfg(target_os = "linux")]
            precise_sleeps();
            work();
            drop(counted);
        });
        started.map(drop).map_err(|error| {
            Error::new(ErrorKind::System, "Timeline", "cannot start the thread that carries its values")
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

/// Linux lets threads sleep 50 microseconds too long, to wake several at once.
#[cfg(target_os = "linux")]
fn precise_sleeps() {
    let slack = std::num::NonZeroU64::new(1_000);
    if let Err(errno) = rustix::thread::set_current_timer_slack(slack) {
        tracing::debug!(%errno, "a timeline's sleeps are less precise");
    }
}
