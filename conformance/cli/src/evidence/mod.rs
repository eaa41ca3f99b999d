//! Evidence in reports: the computer, the GPU's state, and the kernel's messages.

mod gpu;
mod host;
mod kernel_log;

/// Calls of management libraries, and of Windows' event log.
mod sys {
    #[cfg(windows)]
    pub(super) mod event_log;
    pub(super) mod nvml;
}

use std::thread::JoinHandle;

use crate::sha256;

pub use self::gpu::{Around, Gpu, Sensors};
pub use self::host::Host;
pub use self::kernel_log::{KernelEvent, KernelLine};

pub(crate) use self::gpu::{GpuArgs, Monitor, examine};
pub(crate) use self::host::host;
pub(crate) use self::kernel_log::{KernelLog, Window};

/// The sources of evidence during a run.
#[derive(Debug)]
pub(crate) struct Evidence {
    pub(crate) kernel_log: KernelLog,
    pub(crate) gpu: Monitor,
}

impl Evidence {
    /// The start of a case.
    pub(crate) fn begin(&self, name: String) -> Window<'_> {
        self.kernel_log.begin(name)
    }

    /// The GPU's sensors, if they are `wanted` and can be read.
    pub(crate) fn sensors(&self, wanted: bool) -> Option<Sensors> {
        wanted.then(|| self.gpu.read().map(|gpu| gpu.sensors))?
    }
}

/// The hash of this program's file, being computed.
#[derive(Debug)]
pub(crate) struct Hash(JoinHandle<Option<String>>);

impl Hash {
    /// Starts to compute it.
    pub(crate) fn start() -> Self {
        Self(std::thread::spawn(|| sha256::of_file(&std::env::current_exe().ok()?).ok()))
    }

    /// Waits for it; `None` if the file cannot be read.
    pub(crate) fn finish(self) -> Option<String> {
        self.0.join().ok().flatten()
    }
}
