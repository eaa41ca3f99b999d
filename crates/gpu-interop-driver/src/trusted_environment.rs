//! Environment variables that name libraries and folders to load from.
//!
//! A process with more privileges than its caller (setuid, setgid, file capabilities) must not load libraries that the
//! caller names. As the dynamic linker does with its own variables, this module ignores these in such a process.

use std::env;
use std::ffi::OsString;

/// Returns the value of a variable if it is set, not empty and not ignored.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    value(name).filter(|_| !is_elevated())
}

/// Returns whether a variable is set and ignored.
pub(crate) fn is_ignored(name: &str) -> bool {
    value(name).is_some() && is_elevated()
}

fn value(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns whether the process has more privileges than its caller.
#[cfg(target_os = "linux")]
fn is_elevated() -> bool {
    // SAFETY: takes a number and reads no memory of the caller. Linux has `AT_SECURE` since 2.6; without it the result
    // is 0.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Version for other Unix systems, which have no file capabilities.
#[cfg(all(unix, not(target_os = "linux")))]
fn is_elevated() -> bool {
    // SAFETY: these functions have no preconditions.
    unsafe { libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() }
}

/// Version for Windows, which has no setuid: a program has its caller's privileges, or is elevated by a prompt.
#[cfg(windows)]
fn is_elevated() -> bool {
    false
}
