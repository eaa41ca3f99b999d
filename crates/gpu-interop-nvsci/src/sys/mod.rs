//! The C interfaces of NvSciBuf and NvSciSync, as far as this crate uses them.
//!
//! Written from NVIDIA's public headers, as part of DRIVE OS: `nvscibuf.h` 2.0, 2.8, 2.9 and 2.11, `nvscisync.h` 2.0, 2.3, 2.5
//! and 2.8, `nvscierror.h`, and the API reference that is generated from them. A number, layout or signature is the same in
//! every version that has it. C's enumerations have 32 bits, as the ABIs of AArch64 and x86-64 Linux have it; the exception
//! is `NvSciSyncAccessPerm`. Whether a library deviates from its header was not seen: none was at hand.

pub(crate) mod buf;
pub(crate) mod sync;

use std::ffi::{c_uint, c_void};
use std::mem::{offset_of, size_of};

/// `NvSciBufModule`, `NvSciSyncObj` and the like: opaque pointers.
pub(crate) type Handle = usize;

/// `NvSciBufAttrKeyValuePair`, `NvSciSyncAttrKeyValuePair`: laid out alike.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyValuePair {
    pub(crate) key: c_uint,
    pub(crate) value: *const c_void,
    /// Bytes.
    pub(crate) length: usize,
}

/// What an attribute's value may be read as: every bit pattern is one.
///
/// # Safety
/// Every bit pattern of the type's size is a value of it, and it has no bytes that belong to no field.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: numbers.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for [u8; 16] {}
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<KeyValuePair>() == 24);
    assert!(offset_of!(KeyValuePair, value) == 8);
    assert!(offset_of!(KeyValuePair, length) == 16);
};
