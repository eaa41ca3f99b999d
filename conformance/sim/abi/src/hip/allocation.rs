//! Flags of allocations.

use cubecl_hip_sys as hip;

use super::era::Era;
use crate::code;

/// Placement of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Device memory.
    Device,
    /// Pinned host memory, at an address that the device also uses.
    Host,
}

/// The placement that `hipExtMallocWithFlags` flags request.
///
/// # Errors
/// [`code::INVALID_VALUE`] for unknown flags, and for signal memory that is not one 64-bit word.
pub fn extended(size: usize, flags: u32) -> Result<Place, u32> {
    match flags {
        hip::hipDeviceMallocDefault | hip::hipDeviceMallocFinegrained => Ok(Place::Device),
        hip::hipDeviceMallocUncached if Era::now() >= Era::Five => Ok(Place::Device),
        hip::hipDeviceMallocContiguous if Era::now() >= Era::Six => Ok(Place::Device),
        hip::hipMallocSignalMemory if size == 8 => Ok(Place::Host),
        _ => Err(code::INVALID_VALUE),
    }
}

/// Rejects memory that is requested as both coherent and non-coherent: the only check of the flags of `hipHostMalloc`
/// in any version. Other flags request the default, are hints, or have no effect.
///
/// # Errors
/// [`code::INVALID_VALUE`].
pub fn check_host(flags: u32) -> Result<(), u32> {
    const BOTH: u32 = hip::hipHostMallocCoherent | hip::hipHostMallocNonCoherent;
    if flags & BOTH == BOTH { Err(code::INVALID_VALUE) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_memory_is_one_word_of_the_host() {
        assert_eq!(extended(8, 2), Ok(Place::Host));
        assert_eq!([extended(4, 2), extended(16, 2), extended(0, 2)], [Err(code::INVALID_VALUE); 3]);
        // Not a bit: 3 is uncached memory.
        assert_eq!([extended(4096, 0), extended(4096, 1), extended(4096, 3)], [Ok(Place::Device); 3]);
        assert_eq!(extended(8, 5), Err(code::INVALID_VALUE));
        assert_eq!([check_host(0x4000_0003), check_host(8), check_host(0x8000_0000)], [Ok(()); 3]);
        assert_eq!(check_host(0xc000_0000), Err(code::INVALID_VALUE));
    }
}
