//! The render node: DRM's and amdgpu's ioctl numbers and argument structures, as in libdrm's `drm.h` and `amdgpu_drm.h`.

use super::plain;

/// Names and numbers of the ioctls. Not all are implemented: the others are reported by name.
macro_rules! numbers {
    ($($name:ident = $number:literal),* $(,)?) => {
        $(
            #[allow(dead_code)]
            pub(crate) const $name: u8 = $number;
        )*

        /// The name of an ioctl in lower case with hyphens, as faults and reports use it.
        pub(crate) fn name(number: u8) -> Option<String> {
            let name = match number {
                $($number => stringify!($name),)*
                _ => return None,
            };
            Some(format!("drm-{}", name.to_ascii_lowercase().replace('_', "-")))
        }
    };
}

numbers! {
    VERSION = 0x00, GET_CLIENT = 0x05, GEM_CLOSE = 0x09, GET_CAP = 0x0c, PRIME_HANDLE_TO_FD = 0x2d,
    PRIME_FD_TO_HANDLE = 0x2e, GEM_CREATE = 0x40, GEM_MMAP = 0x41, CTX = 0x42, BO_LIST = 0x43, CS = 0x44, INFO = 0x45,
    GEM_METADATA = 0x46, GEM_WAIT_IDLE = 0x47, GEM_VA = 0x48, WAIT_CS = 0x49, GEM_OP = 0x50, GEM_USERPTR = 0x51,
    WAIT_FENCES = 0x52, VM = 0x53, FENCE_TO_HANDLE = 0x54, SCHED = 0x55,
}

/// The major device number of DRM, and the first minor number of its render nodes.
pub(crate) const MAJOR: u32 = 226;
pub(crate) const FIRST_RENDER_MINOR: u32 = 128;

pub(crate) const INFO_ACCEL_WORKING: u32 = 0x00;
pub(crate) const INFO_HW_IP_INFO: u32 = 0x02;
pub(crate) const INFO_HW_IP_COUNT: u32 = 0x03;
pub(crate) const INFO_TIMESTAMP: u32 = 0x05;
pub(crate) const INFO_VRAM_USAGE: u32 = 0x10;
pub(crate) const INFO_GTT_USAGE: u32 = 0x11;
pub(crate) const INFO_VRAM_GTT: u32 = 0x14;
pub(crate) const INFO_READ_MMR_REG: u32 = 0x15;
pub(crate) const INFO_DEV_INFO: u32 = 0x16;
pub(crate) const INFO_MEMORY: u32 = 0x19;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) patch: u32,
    pub(crate) pad: u32,
    /// Length and address of the name, the date and the description.
    pub(crate) texts: [[u64; 2]; 3],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Client {
    pub(crate) index: u32,
    pub(crate) authenticated: u32,
    pub(crate) rest: [u64; 4],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GetCap {
    pub(crate) capability: u64,
    pub(crate) value: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Info {
    pub(crate) return_pointer: u64,
    pub(crate) return_size: u32,
    pub(crate) query: u32,
    pub(crate) rest: [u32; 4],
}

/// The memory that an object is made of.
pub(crate) const DOMAIN_VRAM: u64 = 4;

/// Operations of `GEM_VA`, and its flag for writing.
pub(crate) const VA_MAP: u32 = 1;
pub(crate) const VA_UNMAP: u32 = 2;
pub(crate) const VA_CLEAR: u32 = 3;
pub(crate) const VA_REPLACE: u32 = 4;
pub(crate) const VA_WRITEABLE: u32 = 1 << 2;

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GemClose {
    pub(crate) handle: u32,
    pub(crate) pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PrimeHandle {
    pub(crate) handle: u32,
    pub(crate) flags: u32,
    pub(crate) descriptor: i32,
}

/// In: size, alignment, domains, flags. Out: the handle, in the first.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GemCreate {
    pub(crate) words: [u64; 4],
}

/// In: the handle. Out: the offset.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GemMmap {
    pub(crate) word: u64,
}

/// In: the handle, then a time limit. Out: whether it is busy.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GemWaitIdle {
    pub(crate) words: [u64; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GemVa {
    pub(crate) handle: u32,
    pub(crate) pad: u32,
    pub(crate) operation: u32,
    pub(crate) flags: u32,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// Without the data that follow.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GemMetadata {
    pub(crate) handle: u32,
    pub(crate) operation: u32,
    pub(crate) flags: u64,
    pub(crate) tiling: u64,
    pub(crate) bytes: u32,
    pub(crate) first_word: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GemOp {
    pub(crate) handle: u32,
    pub(crate) operation: u32,
    pub(crate) value: u64,
}

/// How an object was made.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct CreateInfo {
    pub(crate) size: u64,
    pub(crate) alignment: u64,
    pub(crate) domains: u64,
    pub(crate) flags: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GemUserptr {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) flags: u32,
    pub(crate) handle: u32,
}

plain!(
    Version,
    Client,
    GetCap,
    Info,
    GemClose,
    PrimeHandle,
    GemCreate,
    GemMmap,
    GemWaitIdle,
    GemVa,
    GemMetadata,
    GemOp,
    CreateInfo,
    GemUserptr,
);
