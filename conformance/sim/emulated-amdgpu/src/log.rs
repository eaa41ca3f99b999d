//! Messages to stderr, each written with one system call.
//!
//! Failures are always written; the rest by level (`GPU_INTEROP_SIM_AMDGPU_LOG`): 1 objects, 2 packets and arguments, 3
//! everything.

use std::fmt::{Arguments, Write as _};
use std::sync::atomic::{AtomicU8, Ordering};

static LEVEL: AtomicU8 = AtomicU8::new(0);

/// Sets the maximum level that [`say`] writes.
pub(crate) fn set_level(level: u8) {
    LEVEL.store(level, Ordering::Relaxed);
}

pub(crate) fn enabled(level: u8) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level
}

/// Writes a message at any level.
pub(crate) fn failure(message: Arguments<'_>) {
    let mut line = String::with_capacity(160);
    let thread = rustix::thread::gettid().as_raw_nonzero();
    if writeln!(line, "[emulated-amdgpu {thread}] {message}").is_ok() {
        // SAFETY: descriptor 2 is only written to; if it is closed, the write fails without effect.
        let stderr = unsafe { rustix::fd::BorrowedFd::borrow_raw(2) };
        let _ = rustix::io::write(stderr, line.as_bytes());
    }
}

/// Writes a message at a level.
macro_rules! say {
    ($level:expr, $($argument:tt)*) => {
        if $crate::log::enabled($level) {
            $crate::log::failure(format_args!($($argument)*));
        }
    };
}
pub(crate) use say;
