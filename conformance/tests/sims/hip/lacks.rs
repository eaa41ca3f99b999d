//! What versions of HIP lack, and scenarios that fail on them.

use cubecl_hip_sys as hip;
use gpu_interop_sim_abi::hip::rows::Row;

pub(crate) const NO_RECORDED_WORDS: &str = "HIP before 7.16 does not record waits for words and writes of words";
pub(super) const LAUNCHED_ONCE: &str = "HIP before 5.7 runs the kernels of a graph at its first launch only";
/// HIP 5.2 reports no support, although it has the functions.
pub(super) const NO_WORDS: &str = "the device has no stream waits for values in memory";

/// Features that some versions lack: the reason, the number of scenarios, and the versions.
pub(super) struct Lack {
    pub(super) reason: &'static str,
    pub(super) scenarios: usize,
    pub(super) of: fn(Row) -> bool,
}

/// Scenarios that are expected to fail on some versions, as in `expectations/hip.toml`.
pub(super) struct Failing {
    pub(super) scenarios: &'static [&'static str],
    pub(super) of: fn(Row) -> bool,
}

/// On Linux the exporter is virtual memory management, which HIP 5 denies.
pub(super) fn managed() -> String {
    format!("{}:1", hip::hipDeviceAttribute_t_hipDeviceAttributeVirtualMemoryManagementSupported)
}
