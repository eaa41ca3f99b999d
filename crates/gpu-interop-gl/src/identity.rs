//! Device identity of a context, in terms that other APIs share.

use gpu_interop_core::{DeviceIdentity, DeviceKind, Luid, Uuid};

use crate::extension::Extension;
use crate::functions::Functions;
use crate::functions::integer;
use crate::sys;

/// Upper limit for the number of devices in one context.
const MOST_DEVICES: i32 = 64;

/// The devices of the current context: one per UUID, or one without a UUID. Never empty.
///
/// Calls `glGetUnsignedBytei_vEXT` with `GL_DEVICE_UUID_EXT`, and on Windows `glGetUnsignedBytevEXT` with
/// `GL_DEVICE_LUID_EXT`.
pub(crate) fn devices(functions: &Functions, extensions: &[Extension], renderer: &str) -> Vec<DeviceIdentity> {
    // OpenGL does not report the kind; without a UUID nothing is proven.
    let base = DeviceIdentity::new(renderer, DeviceKind::Unknown).with_luid(luid(functions, extensions));
    let Ok(uuids) = &functions.uuids else { return vec![base] };
    let count = integer(&functions.base, sys::NUM_DEVICE_UUIDS_EXT).clamp(1, MOST_DEVICES);
    let of = |index: i32| {
        let mut bytes = [0; sys::UUID_SIZE_EXT];
        // SAFETY: the context is current, has this extension and `count` UUIDs, each of 16 bytes.
        unsafe { (uuids.get_unsigned_byte_i_v)(sys::DEVICE_UUID_EXT, index.unsigned_abs(), bytes.as_mut_ptr()) };
        base.clone().with_uuid(Uuid::from_bytes(bytes))
    };
    (0..count).map(of).collect()
}

/// `GL_DRIVER_UUID_EXT`.
pub(crate) fn driver_uuid(functions: &Functions) -> Option<Uuid> {
    let uuids = functions.uuids.as_ref().ok()?;
    let mut bytes = [0; sys::UUID_SIZE_EXT];
    // SAFETY: the context is current and has this extension; the UUID has 16 bytes.
    unsafe { (uuids.get_unsigned_byte_v)(sys::DRIVER_UUID_EXT, bytes.as_mut_ptr()) };
    Uuid::from_bytes(bytes)
}

/// LUID and node mask, if the context has them.
fn luid(functions: &Functions, extensions: &[Extension]) -> Option<Luid> {
    let windows = [Extension::MemoryObjectWin32, Extension::SemaphoreWin32];
    if !windows.iter().any(|extension| extensions.contains(extension)) {
        return None;
    }
    let uuids = functions.uuids.as_ref().ok()?;
    let mut bytes = [0; sys::LUID_SIZE_EXT];
    // SAFETY: the context is current and has one of the extensions; the LUID has 8 bytes.
    unsafe { (uuids.get_unsigned_byte_v)(sys::DEVICE_LUID_EXT, bytes.as_mut_ptr()) };
    let node_mask = integer(&functions.base, sys::DEVICE_NODE_MASK_EXT).cast_unsigned();
    (bytes != [0; sys::LUID_SIZE_EXT]).then_some(Luid { bytes, node_mask })
}
