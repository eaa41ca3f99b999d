//! The exporter's side of the host backend's semaphores.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use gpu_interop_core::{
    DeviceIdentity, DeviceKind, Error, ImportError, Result, SemaphoreHandle, SemaphoreImport, SemaphorePayload,
};

use crate::shared_semaphore::SharedSemaphore;

static NEVER_CANCELLED: AtomicBool = AtomicBool::new(false);

/// A semaphore of the host backend's own kind: a word in shared memory.
///
/// Exported, it can be imported by a device of this backend in this or another process, or opened again as a
/// `HostSemaphore`. All methods may be called from any thread. Clones are the same semaphore.
#[derive(Debug, Clone)]
pub struct HostSemaphore {
    shared: Arc<SharedSemaphore>,
}

impl HostSemaphore {
    /// A binary semaphore, not signalled.
    ///
    /// # Errors
    /// [`ErrorKind::System`](gpu_interop_core::ErrorKind::System) or
    /// [`ErrorKind::OutOfMemory`](gpu_interop_core::ErrorKind::OutOfMemory) if the kernel gives no shared memory.
    pub fn binary() -> Result<Self> {
        SharedSemaphore::new(SemaphorePayload::Binary, 0).map(Self::from)
    }

    /// A timeline semaphore with this value.
    ///
    /// # Errors
    /// As for [`HostSemaphore::binary`].
    pub fn timeline(value: u64) -> Result<Self> {
        SharedSemaphore::new(SemaphorePayload::Timeline, value).map(Self::from)
    }

    /// Opens what [`HostSemaphore::export`] exported, also in another process. No `unsafe` is needed there: the opened
    /// semaphore has an [`import_request`](Self::import_request), and as an exporter it makes a `Timeline`.
    ///
    /// # Errors
    /// [`ErrorKind::ImportRejected`](gpu_interop_core::ErrorKind::ImportRejected) if it is anything else; the handle
    /// comes back in the error.
    pub fn open(handle: SemaphoreHandle) -> Result<Self, ImportError<SemaphoreHandle>> {
        SharedSemaphore::open(&handle).map(Self::from).map_err(|error| ImportError::new(error, handle))
    }

    /// A new handle to the semaphore, owned by the caller and not inherited by other programs, for another process. To import
    /// the semaphore in this one, use [`import_request`](Self::import_request).
    ///
    /// # Errors
    /// [`ErrorKind::System`](gpu_interop_core::ErrorKind::System) if the process is out of handles.
    pub fn export(&self) -> Result<SemaphoreHandle> {
        self.shared.export()
    }

    /// Exports the semaphore as a request for a device of this backend. No vendor's driver has such semaphores.
    ///
    /// # Errors
    /// As [`export`](Self::export).
    pub fn import_request(&self) -> Result<SemaphoreImport> {
        // SAFETY: the handle is a new one of this semaphore, in shared memory that it keeps; its kind says whether it is binary
        // or a timeline (`SharedSemaphore::export`). The semaphore is the host's, and said to be.
        let request = unsafe { SemaphoreImport::new(self.export()?) };
        Ok(request.exported_by(DeviceIdentity::default().with_kind(DeviceKind::Cpu)))
    }

    /// Whether it is binary or a timeline.
    #[must_use]
    pub fn payload(&self) -> SemaphorePayload {
        self.shared.payload()
    }

    /// The present value: a timeline's counter; 1 or 0 for a binary semaphore that is signalled or not.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.shared.value()
    }

    /// Signals a binary semaphore.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a timeline, or if it is
    /// already signalled.
    pub fn signal(&self) -> Result<()> {
        self.expect("HostSemaphore::signal", SemaphorePayload::Binary)?;
        self.shared.signal_binary()
    }

    /// Raises a timeline to `value`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for a binary semaphore, or if
    /// `value` is not greater than the present one.
    pub fn signal_value(&self, value: u64) -> Result<()> {
        self.expect("HostSemaphore::signal_value", SemaphorePayload::Timeline)?;
        self.shared.signal_value(value)
    }

    /// Blocks until a binary semaphore is signalled, and takes the signal.
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
        Err(Error::invalid(operation, format!("the semaphore is {:?}, the call is for {wanted:?}", self.payload())))
    }
}

impl From<SharedSemaphore> for HostSemaphore {
    fn from(shared: SharedSemaphore) -> Self {
        Self { shared: Arc::new(shared) }
    }
}

/// `None`, so no limit, for a time too far off to be represented.
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
        assert_eq!(timeline.wait_value(5, SOON).expect_err("nobody signals").kind(), ErrorKind::Timeout);
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

    /// The same handle as one of a semaphore that carries something else.
    fn as_payload(handle: SemaphoreHandle, payload: SemaphorePayload) -> SemaphoreHandle {
        sys::to_semaphore(sys::of_semaphore("test", &handle).expect("a handle of this system"), payload)
    }

    #[test]
    fn foreign_handles_are_refused_and_come_back() {
        let binary = HostSemaphore::binary().expect("create");
        let handle = as_payload(binary.export().expect("export"), SemaphorePayload::Timeline);
        let failure = HostSemaphore::open(handle).expect_err("it is binary");
        assert_eq!(failure.kind(), ErrorKind::ImportRejected);
        let handle = as_payload(failure.into_request(), SemaphorePayload::Binary);
        HostSemaphore::open(handle).expect("the handle came back usable");
        let memory = sys::create("no semaphore", 4096).expect("shared memory");
        let plain = HostSemaphore::open(sys::to_semaphore(memory, SemaphorePayload::Binary));
        assert_eq!(plain.expect_err("plain memory").kind(), ErrorKind::ImportRejected);
    }

    #[test]
    fn ten_thousand_hand_overs_lose_no_wake_up() {
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
