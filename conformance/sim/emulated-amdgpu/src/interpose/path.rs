//! Lookup of emulated paths.

use std::ffi::c_char;

use super::bytes;
use crate::log::say;
use crate::sysfs::{Path, look_up};

/// Looks up a path relative to a folder's descriptor. Only absolute paths can be emulated.
///
/// # Safety
///
/// `path` is null or a C string.
pub(super) unsafe fn find(path: *const c_char, follow: bool) -> Path {
    // SAFETY: the caller's promise; the bytes are not kept.
    let Some(path) = (unsafe { bytes(path) }) else { return Path::Other };
    let found = look_up(path, follow);
    if found != Path::Other {
        say!(3, "path {}: {}", String::from_utf8_lossy(path), if found == Path::Missing { "missing" } else { "found" });
    }
    found
}
