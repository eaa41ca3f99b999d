//! Evidence in reports: the computer, the GPU's state, and the kernel's messages.

mod amdgpu;
mod command;
mod gpu;
mod host;
mod kernel_log;
mod monitor;
mod packages;
mod sys;

pub use gpu::{Around, Gpu, Sensors};
pub use host::Host;
pub use kernel_log::{KernelEvent, KernelLine};

pub(crate) use command::Hash;
pub(crate) use host::host;
pub(crate) use kernel_log::{KernelLog, Window};
pub(crate) use monitor::{GpuArgs, Monitor, examine};

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
