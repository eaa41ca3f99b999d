//! Duplicates of file descriptors, lent to the driver during imports.

use std::ffi::c_int;

use gpu_interop_core::{MemoryHandle, Result, SemaphoreHandle};

/// Handle that may be a file descriptor.
pub(crate) trait Lend {
    /// Runs an import with a duplicate of the file descriptor, or with -1 for other handles, and closes the duplicate
    /// afterwards unless the driver has. `consumes` is true if the driver closes it on success; on failure drivers
    /// differ.
    fn lend<T>(&self, consumes: bool, import: impl FnOnce(c_int) -> Result<T>) -> Result<T>;
}

macro_rules! lend {
    ($handle:ty) => {
        impl Lend for $handle {
            #[cfg(unix)]
            fn lend<T>(&self, consumes: bool, import: impl FnOnce(c_int) -> Result<T>) -> Result<T> {
                let Some(fd) = self.as_fd() else { return import(-1) };
                let loan = gpu_interop_core::handle::LentFd::new(fd)?;
                let imported = import(loan.as_raw_fd());
                if consumes && imported.is_ok() {
                    loan.consumed();
                } else {
                    loan.settle();
                }
                imported
            }

            #[cfg(not(unix))]
            fn lend<T>(&self, _consumes: bool, import: impl FnOnce(c_int) -> Result<T>) -> Result<T> {
                import(-1)
            }
        }
    };
}

lend!(MemoryHandle);
lend!(SemaphoreHandle);
