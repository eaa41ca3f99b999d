//! Descriptions of exportable memory. Their enums are read as numbers, because callers may pass any value.

use cubecl_hip_sys as hip;

/// A description of memory: `hipMemAllocationProp`.
pub type Prop = hip::hipMemAllocationProp;
/// A device that accesses a range, and the access: `hipMemAccessDesc`.
pub type Access = hip::hipMemAccessDesc;

/// Type, handle types, location and device of a description.
///
/// # Safety
/// `prop` is valid.
#[must_use]
pub unsafe fn numbers(prop: *const Prop) -> [u32; 4] {
    // SAFETY: the caller's promise. Of a location the device comes after the type.
    unsafe {
        [
            (&raw const (*prop).type_).cast::<u32>().read(),
            (&raw const (*prop).__bindgen_anon_1).cast::<u32>().read(),
            (&raw const (*prop).location).cast::<u32>().read(),
            (&raw const (*prop).location).cast::<u32>().add(1).read(),
        ]
    }
}

/// Location, device and flags of an access.
///
/// # Safety
/// `access` is valid.
#[must_use]
pub unsafe fn access(access: *const Access) -> [u32; 3] {
    // SAFETY: as in `numbers`.
    unsafe {
        [
            (&raw const (*access).location).cast::<u32>().read(),
            (&raw const (*access).location).cast::<u32>().add(1).read(),
            (&raw const (*access).flags).cast::<u32>().read(),
        ]
    }
}
