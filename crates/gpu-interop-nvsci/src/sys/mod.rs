//! The C interfaces of NvSciBuf and NvSciSync that this crate uses.
//!
//! Written from NVIDIA's public headers, as part of DRIVE OS: `nvscibuf.h` 2.0, 2.8, 2.9 and 2.11, `nvscisync.h` 2.0,
//! 2.3, 2.5 and 2.8, `nvscierror.h`, and the API reference generated from them. A number, layout or signature is the
//! same in every version that has it. C's enumerations have 32 bits, by the ABIs of AArch64 and x86-64 Linux; the
//! exception is `NvSciSyncAccessPerm`. No library was available to check for deviations.

pub(crate) mod buf;
pub(crate) mod sync;

use std::ffi::{c_uint, c_void};
use std::mem::{offset_of, size_of};

/// `NvSciBufModule`, `NvSciSyncObj` and the like: opaque pointers.
pub(crate) type Handle = usize;

/// `NvSciBufAttrKeyValuePair` and `NvSciSyncAttrKeyValuePair`, which have the same layout.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyValuePair {
    pub(crate) key: c_uint,
    pub(crate) value: *const c_void,
    /// Bytes.
    pub(crate) length: usize,
}

/// A type that an attribute's value may be read as: every bit pattern is valid.
///
/// # Safety
/// Every bit pattern of the type's size is a valid value, and the type has no padding.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: numbers.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for [u8; 16] {}
// SAFETY: numbers without padding: 17 bytes, aligned to 1.
unsafe impl Plain for buf::GpuCache {}
// SAFETY: numbers without padding: 20 bytes, aligned to 4.
unsafe impl Plain for buf::GpuCompression {}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<KeyValuePair>() == 24);
    assert!(offset_of!(KeyValuePair, value) == 8);
    assert!(offset_of!(KeyValuePair, length) == 16);
    assert!(size_of::<buf::GpuCache>() == 17);
    assert!(size_of::<buf::GpuCompression>() == 20);
    assert!(offset_of!(buf::GpuCompression, kind) == 16);
    assert!(size_of::<sync::Fence>() == 48);
};
