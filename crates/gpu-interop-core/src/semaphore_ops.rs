//! Parameters of semaphore signals and waits.

use std::time::Duration;

use crate::handle::{NvSciFence, SemaphorePayload};

/// Signal parameters, one variant for each payload.
#[doc(alias(
    "CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS",
    "cudaExternalSemaphoreSignalParams",
    "hipExternalSemaphoreSignalParams"
))]
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum SignalParams {
    /// Signals a binary semaphore.
    Binary,
    /// Sets a timeline semaphore or fence to a value, which must be greater than its current one.
    Value(u64),
    /// Releases a keyed mutex with this key.
    Key(u64),
    /// Signals an NvSciSync object and overwrites its fence.
    ///
    /// Each signal of an object with deterministic fences raises its value by 1. The application must count the signals
    /// for its waits and order the streams that signal one object; otherwise waits end at the wrong signal.
    NvSciSync {
        /// Address of the `NvSciSyncFence` to write, valid when the signal is enqueued.
        fence: NvSciFence,
        /// Skips the synchronisation of NvSciBuf imports before the signal
        /// (`CUDA_EXTERNAL_SEMAPHORE_SIGNAL_SKIP_NVSCIBUF_MEMSYNC`). Other users then read undefined data from an
        /// import that [needs the synchronisation](crate::NvSciBufGpu::needs_memsync). The library cannot check this: a
        /// signal does not name its imports.
        skip_memsync: bool,
    },
}

impl SignalParams {
    /// Payload that these parameters belong to.
    #[must_use]
    pub const fn payload(&self) -> SemaphorePayload {
        match self {
            Self::Binary => SemaphorePayload::Binary,
            Self::Value(_) => SemaphorePayload::Timeline,
            Self::Key(_) => SemaphorePayload::KeyedMutex,
            Self::NvSciSync { .. } => SemaphorePayload::NvSciSync,
        }
    }
}

/// Wait parameters, one variant for each payload.
#[doc(alias(
    "CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS",
    "cudaExternalSemaphoreWaitParams",
    "hipExternalSemaphoreWaitParams"
))]
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum WaitParams {
    /// Waits for a binary semaphore and consumes its signal.
    Binary,
    /// Waits until a timeline semaphore or fence is at least this value.
    Value(u64),
    /// Acquires a keyed mutex.
    Key {
        /// Key with which the mutex was released.
        key: u64,
        /// Timeout of the driver's wait, rounded up to milliseconds; `None` for no timeout.
        timeout: Option<Duration>,
    },
    /// Waits for an NvSciSync fence.
    NvSciSync {
        /// Address of the `NvSciSyncFence` to wait for, valid when the wait is enqueued and filled by a signal of the
        /// same object.
        fence: NvSciFence,
        /// Skips the synchronisation of NvSciBuf imports after the wait
        /// (`CUDA_EXTERNAL_SEMAPHORE_WAIT_SKIP_NVSCIBUF_MEMSYNC`). Work behind the wait then reads undefined data from
        /// an import that [needs the synchronisation](crate::NvSciBufGpu::needs_memsync).
        skip_memsync: bool,
    },
}

impl WaitParams {
    /// Payload that these parameters belong to.
    #[must_use]
    pub const fn payload(&self) -> SemaphorePayload {
        match self {
            Self::Binary => SemaphorePayload::Binary,
            Self::Value(_) => SemaphorePayload::Timeline,
            Self::Key { .. } => SemaphorePayload::KeyedMutex,
            Self::NvSciSync { .. } => SemaphorePayload::NvSciSync,
        }
    }
}
