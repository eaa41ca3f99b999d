//! The process that opened a driver, told apart from processes that were forked from it.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// Message of errors in a process that was forked after a driver was used.
#[doc(hidden)]
pub const FORKED: &str = "the driver was used before this process was forked, and no driver works in a forked process; start the \
                          process without a fork (Python: the start method `spawn`), or fork before the first use";

/// The process that made this. Objects of drivers keep one: no driver works in a forked process.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessMark(u32);

impl ProcessMark {
    /// This process.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self(number())
    }

    /// `true` in the process that made this, and `false` in one that was forked from it.
    #[inline]
    #[must_use]
    pub fn is_this_process(self) -> bool {
        self.0 == number()
    }
}

/// The process that first used a driver.
#[doc(hidden)]
#[derive(Debug)]
pub struct FirstUse(AtomicU32);

impl FirstUse {
    /// No process yet.
    #[must_use]
    pub const fn none() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Notes that this process has used the driver.
    pub fn note(&self) {
        // Relaxed: the number guards no data. The first process stays.
        let _ = self.0.compare_exchange(0, number(), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Fails in a process that was forked from one that has used the driver.
    ///
    /// # Errors
    /// [`ErrorKind::System`].
    pub fn check(&self, operation: &'static str) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            first if first == number() => Ok(()),
            _ => Err(Error::new(ErrorKind::System, operation, FORKED)),
        }
    }
}

/// The process's number, without a system call where the kernel can clear memory in forked processes.
#[inline]
pub(crate) fn number() -> u32 {
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Some(number) = wiped::number() {
        return number;
    }
    std::process::id()
}

#[cfg(all(target_os = "linux", not(miri)))]
mod wiped {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static NUMBER: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

    /// The process's number; `None` before Linux 4.14.
    #[inline]
    pub(super) fn number() -> Option<u32> {
        let number = (*NUMBER.get_or_init(crate::sys::cleared_by_fork))?;
        // Relaxed: a process only ever stores its own number.
        let known = number.load(Ordering::Relaxed);
        Some(if known == 0 { first(number) } else { known })
    }

    #[cold]
    fn first(number: &AtomicU32) -> u32 {
        let this = std::process::id();
        number.store(this, Ordering::Relaxed);
        this
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_the_processs_number() {
        let mark = ProcessMark::of_this_process();
        assert_eq!((mark.0, mark.is_this_process()), (std::process::id(), true));
        assert!(!ProcessMark(mark.0 + 1).is_this_process());
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_forked_process_is_another_one() {
        let mark = ProcessMark::of_this_process();
        let (used, unused) = (FirstUse::none(), FirstUse::none());
        used.note();
        assert!(used.check("test").is_ok());
        // SAFETY: the child calls only functions that are safe after a fork, and ends without destructors.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let new = ProcessMark::of_this_process();
            used.note();
            let used = used.check("test").is_err_and(|error| error.kind() == ErrorKind::System);
            let differs = used && unused.check("test").is_ok();
            let differs = differs && !mark.is_this_process() && new != mark && new.is_this_process();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(if differs { 7 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: the status is a valid integer, and the child is this process's.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 7));
        assert!(mark.is_this_process());
    }
}
