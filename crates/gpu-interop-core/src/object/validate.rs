//! Checks shared by the safe objects. Errors name the operation, the value and its bound.

use crate::capability::{Capabilities, Feature};
use crate::error::Result;
use crate::handle::Win32Object;
use crate::identity::DeviceIdentity;
use crate::import::{MemoryImport, SemaphoreImport};

/// Validates a memory import before the backend is called.
pub(super) fn memory_import(
    request: &MemoryImport,
    capabilities: &Capabilities,
    importer: &DeviceIdentity,
) -> Result<()> {
    const OPERATION: &str = "Device::import_memory";
    let kind = request.handle().kind();
    if let Some(error) =
        capabilities.memory(kind).unsupported_error(OPERATION, "memory of this kind cannot be imported")
    {
        return Err(error);
    }
    by_name(OPERATION, capabilities, request.handle().as_win32(), Feature::NamedMemory)?;
    request.validate(OPERATION, importer)
}

/// Validates a semaphore import before the backend is called.
pub(super) fn semaphore_import(
    request: &SemaphoreImport,
    capabilities: &Capabilities,
    importer: &DeviceIdentity,
) -> Result<()> {
    const OPERATION: &str = "Device::import_semaphore";
    let kind = request.handle().kind();
    if let Some(error) =
        capabilities.semaphore(kind).unsupported_error(OPERATION, "semaphores of this kind cannot be imported")
    {
        return Err(error);
    }
    by_name(OPERATION, capabilities, request.handle().as_win32(), Feature::NamedSemaphores)?;
    request.validate(OPERATION, importer)
}

/// Rejects an object's name where the device requires a handle.
fn by_name(
    operation: &'static str,
    capabilities: &Capabilities,
    object: Option<&Win32Object>,
    needed: Feature,
) -> Result<()> {
    match object {
        Some(Win32Object::Name(_)) => feature(operation, capabilities, needed),
        _ => Ok(()),
    }
}

/// Checks that the device supports a feature.
pub(super) fn feature(operation: &'static str, capabilities: &Capabilities, feature: Feature) -> Result<()> {
    if capabilities.has_feature(feature) {
        return Ok(());
    }
    let error =
        capabilities.feature(feature).unsupported_error(operation, format_args!("this device has no {feature}"));
    error.map_or(Ok(()), Err)
}
