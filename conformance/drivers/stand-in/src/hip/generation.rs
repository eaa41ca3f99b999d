//! The two layouts of HIP's interop structs. Those of HIP 6 and later come from the vendor's header; those of HIP 5, which
//! no current header has, are written down as a C program printed them with the headers of HIP 5.2 and 5.7.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};

use crate::{code, settings};
use cubecl_hip_sys as hip;

/// `hipExternalMemoryHandleDesc` of HIP 5.
#[repr(C)]
struct Memory5 {
    kind: c_uint,
    handle: [*const c_void; 2],
    size: u64,
    flags: c_uint,
}

/// `hipExternalMemoryBufferDesc` of HIP 5.
#[repr(C)]
struct Buffer5 {
    offset: u64,
    size: u64,
    flags: c_uint,
}

/// `hipExternalSemaphoreHandleDesc` of HIP 5.
#[repr(C)]
struct Semaphore5 {
    kind: c_uint,
    handle: [*const c_void; 2],
    flags: c_uint,
}

/// `hipExternalSemaphoreSignalParams` and `hipExternalSemaphoreWaitParams` of HIP 5.
#[repr(C)]
struct Params5 {
    members: [u64; 8],
    flags: c_uint,
    reserved: [c_uint; 16],
}

const _: () =
    assert!(size_of::<Memory5>() == 40 && offset_of!(Memory5, size) == 24 && offset_of!(Memory5, flags) == 32);
const _: () = assert!(size_of::<Buffer5>() == 24 && offset_of!(Buffer5, flags) == 16);
const _: () = assert!(size_of::<Semaphore5>() == 32 && offset_of!(Semaphore5, flags) == 24);
const _: () = assert!(size_of::<Params5>() == 136 && offset_of!(Params5, flags) == 64);

type Memory6 = hip::hipExternalMemoryHandleDesc_st;
type Buffer6 = hip::hipExternalMemoryBufferDesc_st;
type Semaphore6 = hip::hipExternalSemaphoreHandleDesc_st;
type Signal6 = hip::hipExternalSemaphoreSignalParams_st;
type Wait6 = hip::hipExternalSemaphoreWaitParams_st;

const _: () = assert!(size_of::<Memory6>() == 104 && size_of::<Buffer6>() == 88 && size_of::<Semaphore6>() == 96);
const _: () = assert!(size_of::<Signal6>() == 144 && size_of::<Wait6>() == 144);
const _: () = assert!(offset_of!(Signal6, flags) == offset_of!(Wait6, flags));

/// Which layout callers use: `SIM_HIP_LAYOUT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// HIP 5.
    Five,
    /// HIP 6 and later.
    Six,
}

/// The last kind of memory that the runtime takes: it refuses NvSciBuf.
const LAST_MEMORY: u32 = hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeD3D11ResourceKmt;

/// An import of memory, as either layout has it.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    kind: u32,
    /// The descriptor, whatever the kind: on Linux nothing else is looked at.
    pub fd: c_int,
    /// Bytes.
    pub size: u64,
    /// 1: the allocation is dedicated.
    pub flags: u32,
}

impl Memory {
    /// What the runtime looks at before it tries.
    ///
    /// # Errors
    /// [`code::INVALID_VALUE`].
    pub fn checked(self) -> Result<Self, u32> {
        let sound = self.size > 0 && self.flags <= 1 && (1..=LAST_MEMORY).contains(&self.kind);
        if sound { Ok(self) } else { Err(code::INVALID_VALUE) }
    }
}

impl Generation {
    /// What the environment says.
    #[must_use]
    pub fn now() -> Self {
        if settings::number("SIM_HIP_LAYOUT", 6) == 5 { Self::Five } else { Self::Six }
    }

    /// What the runtime says of its version.
    #[must_use]
    pub fn version(self) -> c_int {
        settings::number(
            "SIM_VERSION",
            match self {
                // Debian's, which was looked at.
                Self::Five => 50_221_153,
                Self::Six => 60_443_484,
            },
        )
    }

    /// Whether `hipFree` knows mapped imports: since HIP 5.6.
    #[must_use]
    pub fn frees_mappings(self) -> bool {
        self.version() >= 50_600_000
    }

    /// An import. Reads as much as the layout has, and no more.
    ///
    /// # Safety
    /// `desc` is valid.
    pub unsafe fn memory(self, desc: *const c_void) -> Memory {
        // SAFETY: the caller's promise; kinds are read as numbers, and a descriptor is at the beginning of either handle.
        unsafe {
            match self {
                Self::Five => {
                    let desc = desc.cast::<Memory5>();
                    let fd = (&raw const (*desc).handle).cast::<c_int>().read();
                    Memory { kind: (*desc).kind, fd, size: (*desc).size, flags: (*desc).flags }
                }
                Self::Six => {
                    let desc = desc.cast::<Memory6>();
                    Memory { kind: (*desc).type_, fd: (*desc).handle.fd, size: (*desc).size, flags: (*desc).flags }
                }
            }
        }
    }

    /// Offset and size of a mapping.
    ///
    /// # Errors
    /// [`code::INVALID_VALUE`] for flags: there are none.
    ///
    /// # Safety
    /// `desc` is valid.
    pub unsafe fn buffer(self, desc: *const c_void) -> Result<(u64, u64), u32> {
        // SAFETY: the caller's promise.
        let (offset, size, flags) = unsafe {
            match self {
                Self::Five => {
                    let desc = desc.cast::<Buffer5>();
                    ((*desc).offset, (*desc).size, (*desc).flags)
                }
                Self::Six => {
                    let desc = desc.cast::<Buffer6>();
                    ((*desc).offset, (*desc).size, (*desc).flags)
                }
            }
        };
        if flags == 0 { Ok((offset, size)) } else { Err(code::INVALID_VALUE) }
    }

    /// Kind, descriptor and flags of a semaphore.
    ///
    /// # Safety
    /// `desc` is valid.
    pub unsafe fn semaphore(self, desc: *const c_void) -> (u32, c_int, u32) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Five => {
                    let desc = desc.cast::<Semaphore5>();
                    ((*desc).kind, (&raw const (*desc).handle).cast::<c_int>().read(), (*desc).flags)
                }
                Self::Six => {
                    let desc = desc.cast::<Semaphore6>();
                    ((*desc).type_, (*desc).handle.fd, (*desc).flags)
                }
            }
        }
    }

    /// The flags of an element of an array of signals or waits, which lie at the same place in both.
    ///
    /// # Safety
    /// There is such an element.
    pub unsafe fn flags(self, params: *const c_void, index: usize) -> u32 {
        let (stride, flags) = match self {
            Self::Five => (size_of::<Params5>(), offset_of!(Params5, flags)),
            Self::Six => (size_of::<Signal6>(), offset_of!(Signal6, flags)),
        };
        // SAFETY: the caller's promise.
        unsafe { params.byte_add(index * stride + flags).cast::<u32>().read() }
    }
}
