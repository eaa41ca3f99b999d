//! Checks shared by the safe objects. Errors name the operation, the value and its bound.

use std::fmt;

use crate::capability::{Capabilities, Feature, Support};
use crate::error::{Error, Result};
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
    let handle = request.handle();
    supported(OPERATION, capabilities.memory(handle.kind()), "memory of this kind cannot be imported")?;
    by_name(OPERATION, capabilities, handle.as_win32(), Feature::NamedMemory)?;
    request.validate(OPERATION, importer)
}

/// Validates a semaphore import before the backend is called.
pub(super) fn semaphore_import(
    request: &SemaphoreImport,
    capabilities: &Capabilities,
    importer: &DeviceIdentity,
) -> Result<()> {
    const OPERATION: &str = "Device::import_semaphore";
    let handle = request.handle();
    supported(OPERATION, capabilities.semaphore(handle.kind()), "semaphores of this kind cannot be imported")?;
    by_name(OPERATION, capabilities, handle.as_win32(), Feature::NamedSemaphores)?;
    request.validate(OPERATION, importer)
}

/// Error for an object that does not belong to the stream's device.
#[cold]
pub(super) fn other_device(
    operation: &'static str,
    what: &str,
    of_stream: &DeviceIdentity,
    of_object: &DeviceIdentity,
) -> Error {
    let remedy =
        if of_stream == of_object { "open the device once and clone it" } else { "use a stream of that device" };
    Error::invalid(operation, format!("the {what} belongs to another device than the stream; {remedy}"))
        .with_context("other device", of_object)
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
    supported(operation, capabilities.feature(feature), format_args!("this device has no {feature}"))
}

fn supported(operation: &'static str, support: Support, what: impl fmt::Display) -> Result<()> {
    support.unsupported_error(operation, what).map_or(Ok(()), Err)
}
