//! Variables of the environment that name what is loaded.
//!
//! A process with more rights than its caller (setuid, setgid, capabilities of its file) must not load what the caller
//! names. The dynamic linker ignores its own variables then, and so do these.

use std::env;
use std::ffi::OsString;

/// A variable's value, if it is set, not empty, and may be followed.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    value(name).filter(|_| !is_elevated())
}

/// Whether a variable is set and not followed.
pub(crate) fn is_ignored(name: &str) -> bool {
    value(name).is_some() && is_elevated()
}

fn value(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether the process has more rights than its caller.
#[cfg(target_os = "linux")]
fn is_elevated() -> bool {
    // SAFETY: takes a number. 0 also where the kernel does not tell, which none since Linux 2.6 is.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// As above. Capabilities of files are Linux's.
#[cfg(all(unix, not(target_os = "linux")))]
fn is_elevated() -> bool {
    // SAFETY: none of these has preconditions.
    unsafe { libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() }
}

/// As above. Windows has no setuid: a program has its caller's rights, or is elevated by a prompt.
#[cfg(windows)]
fn is_elevated() -> bool {
    false
}
