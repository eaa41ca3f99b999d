//! Imports of memory and semaphores, with duplicates of file descriptors lent to the driver.

use std::ffi::c_int;
use std::sync::Arc;

#[cfg(windows)]
use gpu_interop_core::handle::Win32Object;
use gpu_interop_core::{MemoryHandle, MemoryImport, Result, SemaphoreHandle, SemaphoreImport};

use crate::call::no_number;
use crate::context::Context;
use crate::driver::{CallPurpose, Driver, Vendor, not_null};
use crate::exportable::Allocation;
use crate::functions::Handle;
use crate::status::Status;
use crate::trace::DriverFunction;

/// Imports memory that the same driver exported with `cuMemImportFromShareableHandle` or
/// `hipMemImportFromShareableHandle`, on the current device. Returns `None` for other memory and for drivers without
/// the function. The request keeps its handle.
pub(crate) fn native<V: Vendor>(context: &Arc<Context<V>>, request: &MemoryImport) -> Option<Result<Allocation<V>>> {
    let has = context.driver.functions.mem_import_from_shareable_handle.function.get().is_some();
    if !(V::IMPORTS_NATIVE_MEMORY && request.is_native() && has) {
        return None;
    }
    #[cfg(unix)]
    let imported = request.handle().lend(false, |fd| {
        Allocation::imported(context, request.size(), std::ptr::without_provenance_mut(fd.cast_unsigned() as usize))
    });
    #[cfg(windows)]
    let imported = match request.handle().as_win32()? {
        Win32Object::Handle(handle) => Allocation::imported(context, request.size(), handle.as_raw().cast()),
        // The function accepts no object names.
        _ => return None,
    };
    Some(imported)
}

/// Imports memory, on the current device. The request keeps its handle.
pub(crate) fn memory<V: Vendor>(driver: &Driver<V>, request: &MemoryImport) -> Result<Handle> {
    let entry = &driver.functions.import_external_memory;
    let (import, operation) = (entry.require(&driver.version)?, entry.operation);
    V::check_memory(driver, operation, request)?;
    request.handle().lend(V::CONSUMES_DESCRIPTORS, |fd| {
        let desc = V::memory_desc(driver, request, fd).ok_or_else(|| no_number(operation, V::NAMING.api()))?;
        let mut memory = 0;
        // SAFETY: the descriptor is fully initialised, and the request it borrows from outlives the call.
        let result = unsafe { import.traced(operation, (&raw mut memory, &raw const desc)) };
        driver.check_for(CallPurpose::ImportingMemory, operation, result)?;
        not_null(operation, memory)
    })
}

/// Imports a semaphore, on the current device. The request keeps its handle.
pub(crate) fn semaphore<V: Vendor>(driver: &Driver<V>, request: &SemaphoreImport) -> Result<Handle> {
    let entry = &driver.functions.import_external_semaphore;
    let (import, operation) = (entry.require(&driver.version)?, entry.operation);
    request.handle().lend(V::CONSUMES_DESCRIPTORS, |fd| {
        let desc =
            V::semaphore_desc(driver, request.handle(), fd).ok_or_else(|| no_number(operation, V::NAMING.api()))?;
        let mut semaphore = 0;
        // SAFETY: the descriptor is fully initialised, and the request it borrows from outlives the call.
        let mut call = |desc: &_| unsafe { import.traced(operation, (&raw mut semaphore, &raw const *desc)) };
        let mut result = call(&desc);
        if let Some(other) = V::other_semaphore_desc(driver, request.handle(), fd, result) {
            tracing::debug!(first = result.0, kind = other.kind, "importing a semaphore as another kind");
            // If both attempts fail, the first error is reported: it concerns the handle's actual kind.
            result = if call(&other) == Status::SUCCESS { Status::SUCCESS } else { result };
        }
        driver.check_for(CallPurpose::ImportingSemaphore, operation, result)?;
        not_null(operation, semaphore)
    })
}

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
