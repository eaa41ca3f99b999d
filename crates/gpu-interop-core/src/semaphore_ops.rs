//! What a stream signals and waits for.

use std::time::Duration;

use crate::handle::{NvSciFence, SemaphorePayload};

/// What a signal does, by the semaphore's payload.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum SignalParams {
    /// Signals a binary semaphore.
    Binary,
    /// Sets a timeline semaphore or fence to a value, which must be greater than its present one.
    Value(u64),
    /// Releases a keyed mutex with this key.
    Key(u64),
    /// Signals an NvSciSync object and writes its fence, whose contents are lost.
    ///
    /// Each signal of an object with deterministic fences raises its value by 1: the application counts them for its waits,
    /// and orders streams that signal one object, or waits end at the wrong signal.
    NvSciSync {
        /// The address of the `NvSciSyncFence` to write, valid when the signal is enqueued.
        fence: NvSciFence,
        /// Skips the synchronisation of NvSciBuf imports before the signal
        /// (`CUDA_EXTERNAL_SEMAPHORE_SIGNAL_SKIP_NVSCIBUF_MEMSYNC`). The data are undefined then for others that read an
        /// import which [needs it](crate::NvSciBufGpu::needs_memsync). The library does not know which imports a signal is
        /// for.
        skip_memsync: bool,
    },
}

impl SignalParams {
    /// The payload that these parameters are for.
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

/// What a wait waits for, by the semaphore's payload.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum WaitParams {
    /// Waits for a binary semaphore and consumes its signal.
    Binary,
    /// Waits until a timeline semaphore or fence is at least this value.
    Value(u64),
    /// Acquires a keyed mutex.
    Key {
        /// The key it was released with.
        key: u64,
        /// How long the driver waits, rounded up to milliseconds; `None` waits without end.
        timeout: Option<Duration>,
    },
    /// Waits for an NvSciSync fence.
    NvSciSync {
        /// The address of the `NvSciSyncFence` to wait for, valid when the wait is enqueued: one that a signal of the same
        /// object has filled.
        fence: NvSciFence,
        /// Skips the synchronisation of NvSciBuf imports after the wait
        /// (`CUDA_EXTERNAL_SEMAPHORE_WAIT_SKIP_NVSCIBUF_MEMSYNC`). The data are undefined then for work behind the wait that
        /// reads an import which [needs it](crate::NvSciBufGpu::needs_memsync).
        skip_memsync: bool,
    },
}

impl WaitParams {
    /// The payload that these parameters are for.
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
