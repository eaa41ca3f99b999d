//! Flags of allocations, and descriptions of exportable memory. The enums of a description are read as numbers, because
//! callers may pass any value.

use cubecl_hip_sys as hip;

use crate::code;
use crate::hip::version::Era;

/// Placement of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Device memory.
    Device,
    /// Pinned host memory, at an address that the device also uses.
    Host,
}

/// The placement that `hipExtMallocWithFlags` flags request.
///
/// # Errors
/// [`code::INVALID_VALUE`] for unknown flags, and for signal memory that is not one 64-bit word.
pub fn placement(size: usize, flags: u32) -> Result<Placement, u32> {
    match flags {
        hip::hipDeviceMallocDefault | hip::hipDeviceMallocFinegrained => Ok(Placement::Device),
        hip::hipDeviceMallocUncached if Era::now() >= Era::Five => Ok(Placement::Device),
        hip::hipDeviceMallocContiguous if Era::now() >= Era::Six => Ok(Placement::Device),
        hip::hipMallocSignalMemory if size == 8 => Ok(Placement::Host),
        _ => Err(code::INVALID_VALUE),
    }
}

/// Rejects memory that is requested as both coherent and non-coherent: the only check of the flags of `hipHostMalloc`
/// in any version. Other flags request the default, are hints, or have no effect.
///
/// # Errors
/// [`code::INVALID_VALUE`].
pub fn check_host_flags(flags: u32) -> Result<(), u32> {
    const BOTH: u32 = hip::hipHostMallocCoherent | hip::hipHostMallocNonCoherent;
    code::reject_if(flags & BOTH == BOTH)
}

/// A description of memory: `hipMemAllocationProp`.
pub type Prop = hip::hipMemAllocationProp;
/// A device that accesses a range, and the access: `hipMemAccessDesc`.
pub type Access = hip::hipMemAccessDesc;

/// Type, handle types, location and device of a description.
///
/// # Safety
/// `prop` is valid.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_memory_is_one_word_of_the_host() {
        assert_eq!(placement(8, 2), Ok(Placement::Host));
        assert_eq!([placement(4, 2), placement(16, 2), placement(0, 2)], [Err(code::INVALID_VALUE); 3]);
        // Not a bit: 3 is uncached memory.
        assert_eq!([placement(4096, 0), placement(4096, 1), placement(4096, 3)], [Ok(Placement::Device); 3]);
        assert_eq!(placement(8, 5), Err(code::INVALID_VALUE));
        assert_eq!([check_host_flags(0x4000_0003), check_host_flags(8), check_host_flags(0x8000_0000)], [Ok(()); 3]);
        assert_eq!(check_host_flags(0xc000_0000), Err(code::INVALID_VALUE));
    }
}
