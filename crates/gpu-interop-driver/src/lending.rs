//! Descriptors of imports, lent to the driver as duplicates.

use std::ffi::c_int;

use gpu_interop_core::{MemoryHandle, Result, SemaphoreHandle};

/// A handle that may be a descriptor.
pub(crate) trait Lend {
    /// Runs an import with a duplicate of the descriptor, -1 for handles of another sort, and settles afterwards who
    /// closes the duplicate. `consumes` is whether the driver does on success; on failure some do, some do not.
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
