//! Descriptor duplicates for drivers that may or may not close them.

use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, OnceLock};

use rustix::process::Resource;

use super::fd::cannot_duplicate;
use crate::error::Result;
use crate::sync::lock;
use crate::{process, sys};

/// Numbers of duplicates that a driver may have closed. No two live [`LentFd`]s share a number, even if a driver closed
/// the first one and the kernel recycled its number.
static UNSETTLED: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());

fn unsettled() -> MutexGuard<'static, BTreeSet<RawFd>> {
    lock(&UNSETTLED)
}

/// Lowest number for duplicates. `open` and similar calls return the lowest free number, so a number this high is not
/// recycled for another thread between a driver's `close` and the check.
fn floor() -> RawFd {
    const HIGHEST: u64 = 4096;
    // Where the limit decreases later, `LentFd::new` takes any number.
    static FLOOR: OnceLock<RawFd> = OnceLock::new();
    *FLOOR.get_or_init(|| {
        let limit = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(HIGHEST * 2);
        RawFd::try_from((limit / 2).min(HIGHEST)).unwrap_or(0)
    })
}

/// A duplicate of a descriptor for one driver call.
///
/// Drivers differ in closing a descriptor: CUDA closes it on success and, depending on the error, on failure; lavapipe
/// closes it in both cases; HIP never does. The caller's descriptor must survive a failure, so the driver gets a
/// duplicate. After the call the duplicate is closed if its number still refers to the same open file, and left alone
/// if the number is free or recycled.
///
/// Call exactly one of [`LentFd::consumed`] and [`LentFd::settle`]. Dropping is the same as `settle`.
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
    /// [`ErrorKind::System`](crate::ErrorKind::System) if the process is out of descriptors or `original` is not open.
    pub fn new(original: BorrowedFd<'a>) -> Result<Self> {
        let duplicate = |floor| rustix::io::fcntl_dupfd_cloexec(original, floor);
        let mut minimum = floor();
        // Recycled numbers of unsettled duplicates, which a driver has closed already.
        let mut stale: Vec<OwnedFd> = Vec::new();
        loop {
            let fd = duplicate(minimum).or_else(|_| duplicate(0)).map_err(|errno| {
                cannot_duplicate("fcntl(F_DUPFD_CLOEXEC)", errno.into()).with_context("fd", original.as_raw_fd())
            })?;
            if unsettled().insert(fd.as_raw_fd()) {
                return Ok(Self { original, number: fd.into_raw_fd(), settled: false });
            }
            minimum = fd.as_raw_fd() + 1;
            stale.push(fd);
        }
    }

    /// Number of the duplicate, for the driver call.
    #[must_use]
    pub fn as_raw_fd(&self) -> RawFd {
        self.number
    }

    /// Records that the driver owns the duplicate. For drivers that take ownership of descriptors on success.
    pub fn consumed(mut self) {
        self.release_number();
    }

    /// Closes the duplicate, unless the driver has closed it.
    ///
    /// Returns whether the duplicate was still open; `false` if the driver closed it.
    #[allow(clippy::must_use_candidate)] // Most callers need only the effect.
    pub fn settle(mut self) -> bool {
        self.close_if_open()
    }

    fn release_number(&mut self) {
        self.settled = true;
        unsettled().remove(&self.number);
    }

    fn close_if_open(&mut self) -> bool {
        let this = process::number();
        let open = sys::same_open_file(this, self.original, self.number).unwrap_or_else(|| self.same_inode());
        if open {
            // SAFETY: `number` came from a duplication of `original` and still refers to the same open file. No other
            // duplicate has this number (`UNSETTLED`), and the kernel does not recycle numbers this high for unrelated
            // descriptors, so `self` owns it.
            drop(unsafe { OwnedFd::from_raw_fd(self.number) });
        }
        self.release_number();
        open
    }

    /// Weaker check for systems where `kcmp` is forbidden.
    fn same_inode(&self) -> bool {
        // SAFETY: the borrow lives for one fstat call, which fails with EBADF for a number that is not open.
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
            self.close_if_open();
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
        // SAFETY: acts as the driver, which owns the number that it was given.
        drop(unsafe { OwnedFd::from_raw_fd(number) });
    }

    #[test]
    fn settling_closes_an_open_duplicate() {
        let original = memfd();
        let loan = LentFd::new(original.as_fd()).expect("lend");
        let number = loan.as_raw_fd();
        assert_ne!(number, original.as_raw_fd());
        assert!(loan.settle());
        let same = sys::same_open_file(process::number(), original.as_fd(), number);
        assert_eq!(same, Some(false), "the duplicate is closed");
        rustix::fs::fstat(&original).expect("the original is open");
    }

    #[test]
    fn settling_ignores_a_duplicate_closed_by_the_driver() {
        let original = memfd();
        let loan = LentFd::new(original.as_fd()).expect("lend");
        driver_closes(loan.as_raw_fd());
        assert!(!loan.settle());
        rustix::fs::fstat(&original).expect("the original is open");
    }

    #[test]
    fn settling_ignores_a_recycled_number() {
        let original = memfd();
        let reused = (0..1000).find_map(|_| {
            let loan = LentFd::new(original.as_fd()).expect("lend");
            let number = loan.as_raw_fd();
            driver_closes(number);
            let recycled = rustix::io::fcntl_dupfd_cloexec(memfd(), number).expect("dup");
            // Another test's thread may have taken the number.
            (recycled.as_raw_fd() == number).then_some((loan, recycled))
        });
        let (loan, recycled) = reused.expect("a recycled number");
        assert!(!loan.settle());
        rustix::fs::fstat(&recycled).expect("the recycled descriptor is open");
    }

    #[test]
    fn two_duplicates_of_one_file_never_share_a_number() {
        let original = memfd();
        let first = LentFd::new(original.as_fd()).expect("lend");
        driver_closes(first.as_raw_fd());
        let second = LentFd::new(original.as_fd()).expect("lend");
        assert_ne!(first.as_raw_fd(), second.as_raw_fd());
        assert!(!first.settle(), "settling the first duplicate must not close the second");
        assert!(second.settle());
    }

    /// The "driver" closes half of the duplicates while another thread continuously opens and closes files. `settle`
    /// closes no descriptor of this thread.
    #[test]
    fn settling_never_closes_another_threads_descriptor() {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let churn = scope.spawn(|| {
                let mut opened = 0_u32;
                while !stop.load(Ordering::Relaxed) {
                    let files: Vec<File> = (0..8).map(|_| File::open("/dev/null").expect("open")).collect();
                    for file in &files {
                        rustix::fs::fstat(file).expect("this thread's descriptor is open");
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
