//! What the simulators do wrong when the environment asks for it: `GPU_INTEROP_SIM_D3D`, names with commas between them.

use std::sync::OnceLock;

/// A copy of the queue's leaves the first byte of its target as it was.
pub(crate) const SHORT_COPY: &str = "short_copy";
/// A placed resource begins 256 bytes before where it was asked for, where there are as many.
pub(crate) const WRONG_OFFSET: &str = "wrong_offset";
/// A queue or context forgets to signal fences.
pub(crate) const NO_SIGNAL: &str = "no_signal";
/// A queue or context does not wait for fences.
pub(crate) const NO_WAIT: &str = "no_wait";
/// A context's flush begins with nothing.
pub(crate) const NO_FLUSH: &str = "no_flush";
/// Every fiftieth export leaves a handle open.
pub(crate) const LEAK_HANDLE: &str = "leak_handle";
/// A keyed mutex is acquired with any key.
pub(crate) const ANY_KEY: &str = "any_key";
/// Nobody is told that a keyed mutex was abandoned.
pub(crate) const FORGET_ABANDONED: &str = "forget_abandoned";

const ALL: [&str; 8] = [SHORT_COPY, WRONG_OFFSET, NO_SIGNAL, NO_WAIT, NO_FLUSH, LEAK_HANDLE, ANY_KEY, FORGET_ABANDONED];

/// Whether a fault is asked for.
///
/// # Panics
/// If one is asked for that there is not.
pub(crate) fn wanted(fault: &str) -> bool {
    static ASKED: OnceLock<Vec<String>> = OnceLock::new();
    let asked = ASKED.get_or_init(|| {
        let text = std::env::var("GPU_INTEROP_SIM_D3D").unwrap_or_default();
        let names: Vec<String> = text.split(',').filter(|name| !name.is_empty()).map(ToOwned::to_owned).collect();
        for name in &names {
            assert!(ALL.contains(&name.as_str()), "GPU_INTEROP_SIM_D3D: there is no fault `{name}`; there are {ALL:?}");
        }
        names
    });
    asked.iter().any(|name| name == fault)
}
