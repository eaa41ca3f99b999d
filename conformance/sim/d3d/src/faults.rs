//! Faults of the simulators, requested by the environment: `GPU_INTEROP_SIM_D3D`, names separated by commas.

use std::sync::OnceLock;

/// A copy of the queue leaves the first byte of its target unchanged.
pub(crate) const SHORT_COPY: &str = "short_copy";
/// A placed resource begins 256 bytes before its offset, if the offset is large enough.
pub(crate) const WRONG_OFFSET: &str = "wrong_offset";
/// A queue or context does not signal fences.
pub(crate) const NO_SIGNAL: &str = "no_signal";
/// A queue or context does not wait for fences.
pub(crate) const NO_WAIT: &str = "no_wait";
/// A flush of a context does not start its commands.
pub(crate) const NO_FLUSH: &str = "no_flush";
/// Every fiftieth export leaks a handle.
pub(crate) const LEAK_HANDLE: &str = "leak_handle";
/// A keyed mutex is acquired with any key.
pub(crate) const ANY_KEY: &str = "any_key";
/// An abandoned keyed mutex is not reported.
pub(crate) const FORGET_ABANDONED: &str = "forget_abandoned";

const ALL: [&str; 8] = [SHORT_COPY, WRONG_OFFSET, NO_SIGNAL, NO_WAIT, NO_FLUSH, LEAK_HANDLE, ANY_KEY, FORGET_ABANDONED];

/// `true` if a fault is requested.
///
/// # Panics
/// If an unknown fault is requested.
pub(crate) fn wanted(fault: &str) -> bool {
    static ASKED: OnceLock<Vec<String>> = OnceLock::new();
    let asked = ASKED.get_or_init(|| {
        let text = std::env::var("GPU_INTEROP_SIM_D3D").unwrap_or_default();
        let names: Vec<String> = text.split(',').filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect();
        for name in &names {
            assert!(
                ALL.contains(&name.as_str()),
                "GPU_INTEROP_SIM_D3D: unknown fault `{name}`; the faults are {ALL:?}"
            );
        }
        names
    });
    asked.iter().any(|name| name == fault)
}
