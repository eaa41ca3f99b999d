//! What the flags of allocations mean.

use cubecl_hip_sys as hip;

use super::era::Era;
use crate::code;

/// Where memory is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// With the device.
    Device,
    /// With the host, pinned, at an address that the device uses too.
    Host,
}

/// Where `hipExtMallocWithFlags` allocates.
///
/// # Errors
/// [`code::INVALID_VALUE`] for flags that there are not, and for signal memory that is not one word of 64 bits.
pub fn extended(size: usize, flags: u32) -> Result<Place, u32> {
    match flags {
        hip::hipDeviceMallocDefault | hip::hipDeviceMallocFinegrained => Ok(Place::Device),
        hip::hipDeviceMallocUncached if Era::now() >= Era::Five => Ok(Place::Device),
        hip::hipDeviceMallocContiguous if Era::now() >= Era::Six => Ok(Place::Device),
        hip::hipMallocSignalMemory if size == 8 => Ok(Place::Host),
        _ => Err(code::INVALID_VALUE),
    }
}

/// Fails for memory that is to be coherent and not to be: the one thing about flags of `hipHostMalloc` that any version
/// looks at. The rest ask for what every such allocation has, hint at its use, or mean nothing.
///
/// # Errors
/// [`code::INVALID_VALUE`].
pub fn check_host(flags: u32) -> Result<(), u32> {
    const BOTH: u32 = hip::hipHostMallocCoherent | hip::hipHostMallocNonCoherent;
    code::reject_if(flags & BOTH == BOTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signal_memory_is_one_word_of_the_host() {
        assert_eq!(extended(8, 2), Ok(Place::Host));
        assert_eq!([extended(4, 2), extended(16, 2), extended(0, 2)], [Err(code::INVALID_VALUE); 3]);
        // Not a bit: 3 is memory without a cache.
        assert_eq!([extended(4096, 0), extended(4096, 1), extended(4096, 3)], [Ok(Place::Device); 3]);
        assert_eq!(extended(8, 5), Err(code::INVALID_VALUE));
        assert_eq!([check_host(0x4000_0003), check_host(8), check_host(0x8000_0000)], [Ok(()); 3]);
        assert_eq!(check_host(0xc000_0000), Err(code::INVALID_VALUE));
    }
}
