//! Capabilities of a device.

use std::ffi::c_char;

use gpu_interop::{Error, Feature, MemoryHandleKind, Result, SemaphoreHandleKind, Support};

use crate::call::call;
use crate::handle::gpi_device;
use crate::object;
use crate::pointer::{self, Out};
use crate::status::gpi_status;
use crate::text;

/// Support: implemented by the driver.
pub const GPI_SUPPORT_NATIVE: i32 = 0;
/// Support: emulated by this library.
pub const GPI_SUPPORT_EMULATED: i32 = 1;
/// Not supported.
pub const GPI_SUPPORT_NONE: i32 = 2;
/// Not supported by this version of the driver.
pub const GPI_SUPPORT_DRIVER_TOO_OLD: i32 = 3;
/// Not supported because the driver lacks a function that its version should have.
pub const GPI_SUPPORT_SYMBOL_MISSING: i32 = 4;

/// Support of a feature or a kind of handle by one device.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct gpi_support {
    /// A `GPI_SUPPORT_*`: supported are `GPI_SUPPORT_NATIVE` and `GPI_SUPPORT_EMULATED`.
    pub level: i32,
    /// How it is emulated, or why it is not supported. UTF-8, ends with NUL.
    pub detail: [c_char; 508],
}

impl From<&Support> for gpi_support {
    fn from(support: &Support) -> Self {
        let (level, detail) = match support {
            Support::Native => (GPI_SUPPORT_NATIVE, ""),
            Support::Emulated(how) => (GPI_SUPPORT_EMULATED, how.as_str()),
            Support::DriverTooOld(why) => (GPI_SUPPORT_DRIVER_TOO_OLD, why.as_str()),
            Support::SymbolMissing(why) => (GPI_SUPPORT_SYMBOL_MISSING, why.as_str()),
            other => (GPI_SUPPORT_NONE, other.reason().unwrap_or_default()),
        };
        Self { level, detail: text::to_array(detail) }
    }
}

fn by_name(operation: &'static str, device: &gpu_interop::Device, name: &str) -> Result<Support> {
    let capabilities = device.capabilities();
    let memory = || MemoryHandleKind::ALL.iter().find(|kind| name.strip_prefix("memory.") == Some(kind.name()));
    let semaphore =
        || SemaphoreHandleKind::ALL.iter().find(|kind| name.strip_prefix("semaphore.") == Some(kind.name()));
    let feature = || Feature::ALL.iter().find(|feature| name.strip_prefix("feature.") == Some(feature.name()));
    if name == "timeline" {
        return Ok(device.timeline_support());
    }
    None.or_else(|| memory().map(|kind| capabilities.memory(*kind)))
        .or_else(|| semaphore().map(|kind| capabilities.semaphore(*kind)))
        .or_else(|| feature().map(|feature| capabilities.feature(*feature)))
        .ok_or_else(|| {
            let message = "unknown capability; the header lists the names at gpi_device_get_support";
            Error::invalid(operation, message).with_context("name", name)
        })
}

/// Writes the support of a capability, by name:
///
/// * "memory." and the name of a kind, for imports, which the documentation of each `GPI_MEMORY_*` begins with:
///   "memory.opaque_fd";
/// * "semaphore." and the name of a kind, as at each `GPI_SEMAPHORE_*`;
/// * "feature." and `mapped_buffer`, `mapped_mipmapped_array`, `surfaces`, `textures`, `exportable_memory`,
///   `stream_memory_operations32`, `stream_memory_operations64`, `signal_memory`, `host_functions`, `kernels`, `graphs`,
///   `graph_kernels`, `graph_semaphores`, `graph_memory_operations`, `named_memory`, `named_semaphores`,
///   `nv_sci_sync_attributes`;
/// * "timeline": timelines of the system's usual kind, natively or over the bridge.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` for another name.
///
/// # Safety
/// `name` is null or a text that ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_device_get_support(
    device: gpi_device,
    name: *const c_char,
    support: *mut gpi_support,
) -> gpi_status {
    call("gpi_device_get_support", |operation| {
        // SAFETY: the caller's promise.
        let out = unsafe { Out::new(operation, "support", support) }?;
        // SAFETY: the caller's promise.
        let name = unsafe { pointer::utf8(operation, "name", name) }?;
        out.set((&by_name(operation, &*object::get(operation, device)?, name)?).into());
        Ok(())
    })
}

/// Writes the driver defect at `index`, counted from 0, that the backend cannot work around, as one sentence, to `text` of
/// `capacity` bytes, and ends it with NUL; a longer one loses its end. 1,024 bytes suffice.
///
/// Errors: `GPI_ERROR_INVALID_ARGUMENT` if there are no more.
///
/// # Safety
/// `text` is null, or points to `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gpi_device_get_known_defect(
    device: gpi_device,
    index: u32,
    text: *mut c_char,
    capacity: usize,
) -> gpi_status {
    call("gpi_device_get_known_defect", |operation| {
        // SAFETY: the caller's promise.
        let target = unsafe { pointer::bytes_mut(operation, "text", text.cast(), capacity) }?;
        let device = object::get(operation, device)?;
        let defects = device.capabilities().known_defects();
        let defect = usize::try_from(index).ok().and_then(|index| defects.get(index)).ok_or_else(|| {
            Error::invalid(operation, "there is no such defect").with_context("defects", defects.len())
        })?;
        let Some(room) = capacity.checked_sub(1) else {
            return Err(Error::invalid(operation, "the text has no room; pass at least 1 byte"));
        };
        let mut end = defect.len().min(room);
        while !defect.is_char_boundary(end) {
            end -= 1;
        }
        target[..end].copy_from_slice(&defect.as_bytes()[..end]);
        target[end] = 0;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_documented() {
        let source = include_str!("capability.rs");
        for feature in Feature::ALL {
            assert!(source.contains(&format!("`{}`", feature.name())), "{feature}");
        }
    }
}
