//! The two layouts of HIP's interop structs. Those of HIP 6 and later come from the vendor's header; those of HIP 5
//! were printed by a C program with the headers of HIP 5.2 and 5.7, because no current header has them.

use std::ffi::{c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};
use std::sync::LazyLock;

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

/// The layout that callers use: `GPU_INTEROP_SIM_HIP_LAYOUT`, or that of `GPU_INTEROP_SIM_VERSION`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// HIP 5.
    Five,
    /// HIP 6 and later.
    Six,
}

/// The last supported kind of memory: the runtime rejects NvSciBuf.
const LAST_MEMORY: u32 = hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeD3D11ResourceKmt;

/// The handle of an import: a union of a file descriptor, of an NT handle and a name, and others.
#[derive(Debug, Clone, Copy)]
pub struct Handle(*const c_void);

impl Handle {
    /// The descriptor, for every kind: on Linux the runtime ignores the kind.
    ///
    /// # Safety
    /// The import's description is still valid.
    pub unsafe fn fd(self) -> c_int {
        // SAFETY: the caller's promise; a descriptor is at the beginning.
        unsafe { self.0.cast::<c_int>().read() }
    }

    /// An NT handle and a name. For kinds with KMT handles the first is the number.
    ///
    /// # Safety
    /// The import's description is still valid, and of such a kind.
    pub unsafe fn object(self) -> [*const c_void; 2] {
        // SAFETY: the caller's promise.
        unsafe { self.0.cast::<[*const c_void; 2]>().read() }
    }
}

/// Since this version the runtime validates imports, and `hipFree` accepts mapped imports.
pub(super) const CHECKS_IMPORTS: c_int = 50_500_000;
/// Since this version it also validates the kind of an import.
pub const CHECKS_KINDS: c_int = 50_700_000;
/// Since this version callers use the structs of HIP 6.
pub(super) const STRUCTS_OF_6: c_int = 60_000_000;

/// An import of memory, independent of the layout.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// The kind of handle.
    pub kind: u32,
    /// The handle.
    pub handle: Handle,
    /// Size in bytes.
    pub size: u64,
    /// 1 for a dedicated allocation.
    pub flags: u32,
}

impl Memory {
    /// Validates an import before the attempt: nothing before HIP 5.5, and not the kind before HIP 5.7.
    ///
    /// # Errors
    /// [`code::INVALID_VALUE`].
    pub fn checked(self) -> Result<Self, u32> {
        let version = Generation::now().version();
        let kind = version < CHECKS_KINDS || (1..=LAST_MEMORY).contains(&self.kind);
        let sound = version < CHECKS_IMPORTS || (self.size > 0 && self.flags <= 1 && kind);
        if sound { Ok(self) } else { Err(code::INVALID_VALUE) }
    }
}

/// The version that the environment selects. Every call of the runtime needs it.
static GIVEN: LazyLock<Option<c_int>> =
    LazyLock::new(|| settings::text("GPU_INTEROP_SIM_VERSION")?.trim().parse().ok());

impl Generation {
    /// The layout that the environment selects.
    pub fn now() -> Self {
        static NOW: LazyLock<Generation> = LazyLock::new(|| match settings::number("GPU_INTEROP_SIM_HIP_LAYOUT", 0) {
            5 => Generation::Five,
            6 => Generation::Six,
            _ if GIVEN.is_some_and(|given| given < STRUCTS_OF_6) => Generation::Five,
            _ => Generation::Six,
        });
        *NOW
    }

    /// The version that the runtime reports.
    pub fn version(self) -> c_int {
        GIVEN.unwrap_or(match self {
            // Debian's version, which was checked.
            Self::Five => 50_221_153,
            Self::Six => 60_443_484,
        })
    }

    /// `true` if `hipFree` accepts mapped imports: since HIP 5.5.
    pub fn frees_mappings(self) -> bool {
        self.version() >= CHECKS_IMPORTS
    }

    /// Reads an import, no more bytes than the layout has.
    ///
    /// # Safety
    /// `desc` is valid.
    pub unsafe fn memory(self, desc: *const c_void) -> Memory {
        // SAFETY: the caller's promise; kinds are read as numbers.
        unsafe {
            match self {
                Self::Five => {
                    let desc = desc.cast::<Memory5>();
                    let handle = Handle((&raw const (*desc).handle).cast());
                    Memory { kind: (*desc).kind, handle, size: (*desc).size, flags: (*desc).flags }
                }
                Self::Six => {
                    let desc = desc.cast::<Memory6>();
                    let handle = Handle((&raw const (*desc).handle).cast());
                    Memory { kind: (*desc).type_, handle, size: (*desc).size, flags: (*desc).flags }
                }
            }
        }
    }

    /// Reads offset and size of a mapping.
    ///
    /// # Errors
    /// [`code::INVALID_VALUE`] for flags, none of which exist. HIP before 5.5 ignores them.
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
        if flags == 0 || !self.frees_mappings() { Ok((offset, size)) } else { Err(code::INVALID_VALUE) }
    }

    /// Reads kind, handle and flags of a semaphore.
    ///
    /// # Safety
    /// `desc` is valid.
    pub unsafe fn semaphore(self, desc: *const c_void) -> (u32, Handle, u32) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Five => {
                    let desc = desc.cast::<Semaphore5>();
                    ((*desc).kind, Handle((&raw const (*desc).handle).cast()), (*desc).flags)
                }
                Self::Six => {
                    let desc = desc.cast::<Semaphore6>();
                    ((*desc).type_, Handle((&raw const (*desc).handle).cast()), (*desc).flags)
                }
            }
        }
    }

    /// Reads the flags of an element of an array of signals or waits, which have the same offset in both.
    ///
    /// # Safety
    /// The element exists.
    pub unsafe fn flags(self, params: *const c_void, index: usize) -> u32 {
        let flags = match self {
            Self::Five => offset_of!(Params5, flags),
            Self::Six => offset_of!(Signal6, flags),
        };
        // SAFETY: the caller's promise.
        unsafe { params.byte_add(index * self.stride() + flags).cast::<u32>().read() }
    }

    /// Reads a timeline's value and a mutex's key of an element, which have the same offsets in both.
    ///
    /// # Safety
    /// The element exists.
    pub unsafe fn value_and_key(self, params: *const c_void, index: usize) -> [u64; 2] {
        // SAFETY: the caller's promise. The word between them is skipped.
        unsafe {
            let params = params.byte_add(index * self.stride()).cast::<u64>();
            [params.read(), params.add(2).read()]
        }
    }

    /// Stride of the elements, bytes.
    fn stride(self) -> usize {
        match self {
            Self::Five => size_of::<Params5>(),
            Self::Six => size_of::<Signal6>(),
        }
    }
}
