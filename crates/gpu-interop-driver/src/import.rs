//! Imports of memory and semaphores.

use std::sync::Arc;

#[cfg(windows)]
use gpu_interop_core::handle::Win32Object;
use gpu_interop_core::{MemoryImport, Result, SemaphoreImport};

use crate::arguments::no_number;
use crate::context::Context;
use crate::driver::{CallPurpose, Vendor};
use crate::driver::{Driver, not_null};
use crate::exportable::Allocation;
use crate::functions::Handle;
use crate::lending::Lend;
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
