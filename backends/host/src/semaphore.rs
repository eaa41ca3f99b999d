//! [`HostSemaphore`]: exporter side of the host backend's semaphores.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gpu_interop_core::{
    DeviceIdentity, DeviceKind, Error, ImportError, Result, SemaphoreHandle, SemaphoreImport, SemaphorePayload,
};

use crate::shared_semaphore::SharedSemaphore;

static NEVER_CANCELLED: AtomicBool = AtomicBool::new(false);

/// Semaphore of the host backend: a word in shared memory.
///
/// Its exported handle can be imported by a device of this backend in this or another process, or opened as a
/// `HostSemaphore`. All methods may be called from any thread. Clones refer to the same semaphore.
#[derive(Debug, Clone)]
pub struct HostSemaphore {
    shared: Arc<SharedSemaphore>,
}

impl HostSemaphore {
    /// Creates an unsignalled binary semaphore.
    ///
    /// # Errors
    /// [`ErrorKind::System`](gpu_interop_core::ErrorKind::System) or
    /// [`ErrorKind::OutOfMemory`](gpu_interop_core::ErrorKind::OutOfMemory) if the system cannot create shared memory.
    pub fn binary() -> Result<Self> {
        SharedSemaphore::new(SemaphorePayload::Binary, 0).map(Self::from)
    }

    /// Creates a timeline semaphore with an initial value.
    ///
    /// # Errors
    /// As for [`HostSemaphore::binary`].
    pub fn timeline(value: u64) -> Result<Self> {
        SharedSemaphore::new(SemaphorePayload::Timeline, value).map(Self::from)
    }

    /// Opens a handle of [`HostSemaphore::export`], also in another process. The opened semaphore has an
    /// [`import_request`](Self::import_request) and can be the exporter of a `Timeline`, so the other process needs no
    /// `unsafe`.
    ///
    /// # Errors
    /// [`ErrorKind::ImportRejected`](gpu_interop_core::ErrorKind::ImportRejected) if the handle is not a semaphore of
    /// this backend. The error returns the handle.
    pub fn open(handle: SemaphoreHandle) -> Result<Self, ImportError<SemaphoreHandle>> {
        SharedSemaphore::open(&handle).map(Self::from).map_err(|error| ImportError::new(error, handle))
    }

    /// Exports a new handle for another process. The caller owns it, and child processes do not inherit it. To import
    /// the semaphore in this process, use [`import_request`](Self::import_request).
    ///
    /// # Errors
    /// [`ErrorKind::System`](gpu_interop_core::ErrorKind::System) if the process has no free handles.
    pub fn export(&self) -> Result<SemaphoreHandle> {
        self.shared.export()
    }

    /// Exports the semaphore as an import request for a device of this backend. Vendors' drivers cannot import it.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn import_request(&self) -> Result<SemaphoreImport> {
        // SAFETY: the handle was just exported from this semaphore and keeps its shared memory alive; its kind states
        // the payload (`SharedSemaphore::export`), and the request is marked as a host semaphore.
        let request = unsafe { SemaphoreImport::new(self.export()?) };
        Ok(request.exported_by(DeviceIdentity::default().with_kind(DeviceKind::Cpu)))
    }

    /// Payload of the semaphore: binary or timeline.
    #[must_use]
    pub fn payload(&self) -> SemaphorePayload {
        self.shared.payload()
    }

    /// Current value: the counter of a timeline; 1 for a signalled and 0 for an unsignalled binary semaphore.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.shared.value()
    }

    /// Signals a binary semaphore.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a timeline, or if the semaphore
    /// is already signalled.
    pub fn signal(&self) -> Result<()> {
        self.expect("HostSemaphore::signal", SemaphorePayload::Binary)?;
        self.shared.signal_binary()
    }

    /// Signals a timeline with `value`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a binary semaphore, or if
    /// `value` is not greater than the current value.
    pub fn signal_value(&self, value: u64) -> Result<()> {
        self.expect("HostSemaphore::signal_value", SemaphorePayload::Timeline)?;
        self.shared.signal_value(value)
    }

    /// Blocks until a binary semaphore is signalled, and resets it.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout) after `timeout`;
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a timeline.
    pub fn wait(&self, timeout: Duration) -> Result<()> {
        self.expect("HostSemaphore::wait", SemaphorePayload::Binary)?;
        self.shared.wait_binary(deadline(timeout), &NEVER_CANCELLED)
    }

    /// Blocks until a timeline is at least `value`.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout) after `timeout`;
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a binary semaphore.
    pub fn wait_value(&self, value: u64, timeout: Duration) -> Result<()> {
        self.expect("HostSemaphore::wait_value", SemaphorePayload::Timeline)?;
        self.shared.wait_value(value, deadline(timeout), &NEVER_CANCELLED)
    }

    pub(crate) fn shared(&self) -> &SharedSemaphore {
        &self.shared
    }

    pub(crate) fn expect(&self, operation: &'static str, wanted: SemaphorePayload) -> Result<()> {
        if self.payload() == wanted {
            return Ok(());
        }
        Err(Error::invalid(
            operation,
            format!("the semaphore is {:?}, but the call requires {wanted:?}", self.payload()),
        ))
    }
}

impl From<SharedSemaphore> for HostSemaphore {
    fn from(shared: SharedSemaphore) -> Self {
        Self { shared: Arc::new(shared) }
    }
}

/// Time at which a timeout expires; `None`, no limit, if it cannot be represented.
fn deadline(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;
    use crate::sys;

    const SOON: Duration = Duration::from_millis(60);
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_wait_is_not_satisfied_before_its_signal() {
        let timeline = HostSemaphore::timeline(4).expect("create");
        timeline.wait_value(4, SOON).expect("the value is already there");
        let start = Instant::now();
        assert_eq!(timeline.wait_value(5, SOON).expect_err("no signal").kind(), ErrorKind::Timeout);
        assert!(start.elapsed() >= SOON);
        let peer = HostSemaphore::open(timeline.export().expect("export")).expect("open");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| timeline.wait_value(7, LONG));
            peer.signal_value(6).expect("signal");
            peer.signal_value(7).expect("signal");
            waiter.join().expect("join").expect("signalled");
        });
        assert_eq!(timeline.value(), 7);
    }

    #[test]
    fn one_binary_signal_satisfies_one_wait() {
        let semaphore = HostSemaphore::binary().expect("create");
        semaphore.signal().expect("signal");
        assert_eq!(semaphore.signal().expect_err("signalled twice").kind(), ErrorKind::InvalidArgument);
        semaphore.wait(SOON).expect("signalled");
        assert_eq!(semaphore.wait(SOON).expect_err("consumed").kind(), ErrorKind::Timeout);
    }

    #[test]
    fn timelines_do_not_go_backwards() {
        let timeline = HostSemaphore::timeline(0).expect("create");
        timeline.signal_value(u64::MAX - 1).expect("signal");
        for value in [0, 1, u64::MAX - 1] {
            assert_eq!(timeline.signal_value(value).expect_err("backwards").kind(), ErrorKind::InvalidArgument);
        }
        timeline.signal_value(u64::MAX).expect("the last value");
        assert_eq!(timeline.value(), u64::MAX);
    }

    /// Converts a handle to the kind of another payload.
    fn as_payload(handle: SemaphoreHandle, payload: SemaphorePayload) -> SemaphoreHandle {
        sys::to_semaphore(sys::of_semaphore("test", &handle).expect("a handle of this system"), payload)
    }

    #[test]
    fn foreign_handles_are_rejected_and_returned() {
        let binary = HostSemaphore::binary().expect("create");
        let handle = as_payload(binary.export().expect("export"), SemaphorePayload::Timeline);
        let failure = HostSemaphore::open(handle).expect_err("it is binary");
        assert_eq!(failure.kind(), ErrorKind::ImportRejected);
        let handle = as_payload(failure.into_request(), SemaphorePayload::Binary);
        HostSemaphore::open(handle).expect("the returned handle is usable");
        let memory = sys::create("no semaphore", 4096).expect("shared memory");
        let plain = HostSemaphore::open(sys::to_semaphore(memory, SemaphorePayload::Binary));
        assert_eq!(plain.expect_err("plain memory").kind(), ErrorKind::ImportRejected);
    }

    #[test]
    fn ten_thousand_round_trips_lose_no_wake_up() {
        let (ping, pong) = (HostSemaphore::binary().expect("create"), HostSemaphore::timeline(0).expect("create"));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=10_000 {
                    ping.wait(LONG).expect("ping");
                    pong.signal_value(round).expect("pong");
                }
            });
            for round in 1..=10_000 {
                ping.signal().expect("ping");
                pong.wait_value(round, LONG).expect("pong");
            }
        });
    }
}
