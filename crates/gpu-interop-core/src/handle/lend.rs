//! Lending a descriptor to a driver that may or may not close it.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Resource;

use crate::error::{Error, ErrorKind, Result};
use crate::sys;

/// Numbers of duplicates whose fate is not known yet. No two live [`LentFd`]s share a number, even if a driver
/// closed the first one and the kernel gave its number out again.
static UNSETTLED: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

fn unsettled() -> MutexGuard<'static, BTreeSet<RawFd>> {
    UNSETTLED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lowest number for duplicates. `open` and its kin take the lowest free number, so a number this high is
/// not handed to another thread between a driver's `close` and our look at it.
fn floor() -> RawFd {
    const HIGHEST: u64 = 4096;
    let limit = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(HIGHEST * 2);
    RawFd::try_from((limit / 2).min(HIGHEST)).unwrap_or(0)
}

/// A duplicate of a descriptor, lent to a driver for one call.
///
/// Drivers disagree on who closes a descriptor. CUDA closes it on success and, on failure, closes it or not
/// depending on the error; lavapipe closes it on both; HIP never does. The caller's own descriptor must survive
/// a failure either way, so the driver gets a duplicate, and once the outcome is known the duplicate is
/// *examined*: closed if it is still ours, left alone if its number is free or belongs to someone else by now.
///
/// Exactly one of [`LentFd::consumed`] and [`LentFd::settle`] should be called. Dropping settles.
#[derive(Debug)]
pub struct LentFd<'a> {
    original: BorrowedFd<'a>,
    number: RawFd,
    settled: bool,
}

impl<'a> LentFd<'a> {
    /// Duplicates `original` with close-on-exec set.
    ///
    /// # Errors
    /// [`ErrorKind::System`] if the process is out of descriptors or `original` is not open.
    pub fn new(original: BorrowedFd<'a>) -> Result<Self> {
        let duplicate = |floor| rustix::io::fcntl_dupfd_cloexec(original, floor);
        let mut minimum = floor();
        // Numbers the kernel gives out although an unsettled loan has them: a driver closed that one already.
        let mut stale: Vec<OwnedFd> = Vec::new();
        loop {
            let fd = duplicate(minimum).or_else(|_| duplicate(0)).map_err(|errno| {
                Error::new(
                    ErrorKind::System,
                    "fcntl(F_DUPFD_CLOEXEC)",
                    "cannot duplicate the descriptor for the driver",
                )
                .with_context("fd", original.as_raw_fd())
                .with_source(std::io::Error::from(errno))
            })?;
            if unsettled().insert(fd.as_raw_fd()) {
                return Ok(Self { original, number: fd.into_raw_fd(), settled: false });
            }
            minimum = fd.as_raw_fd() + 1;
            stale.push(fd);
        }
    }

    /// The duplicate's number, for the driver call.
    #[must_use]
    pub fn as_raw_fd(&self) -> RawFd {
        self.number
    }

    /// The driver owns the duplicate now. Call this after a success of a driver that takes descriptors over.
    pub fn consumed(mut self) {
        self.release_number();
    }

    /// The driver does not own the duplicate, or may have closed it. Closes it if it is still there.
    ///
    /// Returns whether it was still there: `false` means that the driver closed it.
    #[allow(clippy::must_use_candidate)] // Most callers only want the effect.
    pub fn settle(mut self) -> bool {
        self.close_if_ours()
    }

    fn release_number(&mut self) {
        self.settled = true;
        unsettled().remove(&self.number);
    }

    fn close_if_ours(&mut self) -> bool {
        let ours = sys::same_open_file(self.original, self.number).unwrap_or_else(|| self.same_inode());
        if ours {
            // SAFETY: `number` came from a duplication of `original` and still refers to the same open file.
            // No other loan has this number (`UNSETTLED`), and numbers this high are not given to unrelated
            // descriptors, so nobody else owns it.
            drop(unsafe { OwnedFd::from_raw_fd(self.number) });
        }
        self.release_number();
        ours
    }

    /// The weaker test for where `kcmp` is forbidden.
    fn same_inode(&self) -> bool {
        // SAFETY: the borrow lives for one fstat call, which answers EBADF for a number that is not open.
        let duplicate = unsafe { BorrowedFd::borrow_raw(self.number) };
        match (rustix::fs::fstat(self.original), rustix::fs::fstat(duplicate)) {
            (Ok(a), Ok(b)) => (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino),
            _ => false,
        }
    }
}

impl Drop for LentFd<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.close_if_ours();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::MemfdFlags;

    use super::*;

    fn memfd() -> OwnedFd {
        rustix::fs::memfd_create("lend-test", MemfdFlags::CLOEXEC).expect("memfd")
    }

    fn driver_closes(number: RawFd) {
        // SAFETY: acts as the driver, which owns the number it was given.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }

    #[test]
    fn a_duplicate_left_open_is_closed_by_settling() {
        let original = memfd();
        let loan = LentFd::new(original.as_fd()).expect("lend");
        let number = loan.as_raw_fd();
        assert_ne!(number, original.as_raw_fd());
        assert!(loan.settle());
        assert_eq!(sys::same_open_file(original.as_fd(), number), Some(false), "the duplicate is closed");
        rustix::fs::fstat(&original).expect("the original is open");
    }

    #[test]
    fn a_duplicate_the_driver_closed_is_left_alone() {
        let original = memfd();
        let loan = LentFd::new(original.as_fd()).expect("lend");
        driver_closes(loan.as_raw_fd());
        assert!(!loan.settle());
        rustix::fs::fstat(&original).expect("the original is open");
    }

    #[test]
    fn a_number_reused_by_someone_else_is_left_alone() {
        let original = memfd();
        let reused = (0..1000).find_map(|_| {
            let loan = LentFd::new(original.as_fd()).expect("lend");
            let number = loan.as_raw_fd();
            driver_closes(number);
            let stranger = rustix::io::fcntl_dupfd_cloexec(memfd(), number).expect("dup");
            // Unless another test's thread was quicker.
            (stranger.as_raw_fd() == number).then_some((loan, stranger))
        });
        let (loan, stranger) = reused.expect("a number that is given out again");
        assert!(!loan.settle());
        rustix::fs::fstat(&stranger).expect("the stranger is open");
    }

    #[test]
    fn two_loans_of_one_file_never_share_a_number() {
        let original = memfd();
        let first = LentFd::new(original.as_fd()).expect("lend");
        driver_closes(first.as_raw_fd());
        let second = LentFd::new(original.as_fd()).expect("lend");
        assert_ne!(first.as_raw_fd(), second.as_raw_fd());
        assert!(!first.settle(), "the first loan must not close the second's descriptor");
        assert!(second.settle());
    }

    /// Loans whose duplicate is closed by a "driver" half of the time, beside a thread that opens and closes
    /// files all the time: none of its descriptors may ever disappear.
    #[test]
    fn settling_never_closes_another_threads_descriptor() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let churn = scope.spawn(|| {
                let mut opened = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    let files: Vec<File> = (0..8).map(|_| File::open("/dev/null").expect("open")).collect();
                    for file in &files {
                        rustix::fs::fstat(file).expect("nobody closed this thread's descriptor");
                    }
                    opened += 8;
                }
                opened
            });
            let lenders: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let original = memfd();
                        for round in 0..5_000 {
                            let loan = LentFd::new(original.as_fd()).expect("lend");
                            let closed_by_driver = round % 2 == 0;
                            if closed_by_driver {
                                driver_closes(loan.as_raw_fd());
                            }
                            assert_eq!(loan.settle(), !closed_by_driver);
                        }
                        rustix::fs::fstat(&original).expect("the original is open");
                    })
                })
                .collect();
            for lender in lenders {
                lender.join().expect("lender");
            }
            stop.store(true, Ordering::Relaxed);
            assert!(churn.join().expect("churn") > 0);
        });
    }
}
