//! The render node: DRM's and amdgpu's ioctl numbers and argument structures, as in libdrm's `drm.h` and
//! `amdgpu_drm.h`.

use super::{ioctls, plain_structs};

ioctls! { "drm-";
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

plain_structs! {
    struct Version {
        major: u32,
        minor: u32,
        patch: u32,
        pad: u32,
        /// Length and address of the name, the date and the description.
        texts: [[u64; 2]; 3],
    }

    struct Client { index: u32, authenticated: u32, rest: [u64; 4] }

    struct GetCap { capability: u64, value: u64 }

    struct Info { return_pointer: u64, return_size: u32, query: u32, rest: [u32; 4] }
}

/// Memory for an object.
pub(crate) const DOMAIN_VRAM: u64 = 4;

/// Operations of `GEM_VA`, and its flag for writing.
pub(crate) const VA_MAP: u32 = 1;
pub(crate) const VA_UNMAP: u32 = 2;
pub(crate) const VA_CLEAR: u32 = 3;
pub(crate) const VA_REPLACE: u32 = 4;
pub(crate) const VA_WRITEABLE: u32 = 1 << 2;

plain_structs! {
    struct GemClose { handle: u32, pad: u32 }

    struct PrimeHandle { handle: u32, flags: u32, descriptor: i32 }

    /// In: size, alignment, domains, flags. Out: the handle, in the first.
    struct GemCreate { words: [u64; 4] }

    /// In: the handle. Out: the offset.
    struct GemMmap { word: u64 }

    /// In: the handle, then a time limit. Out: whether it is busy.
    struct GemWaitIdle { words: [u64; 2] }

    struct GemVa { handle: u32, pad: u32, operation: u32, flags: u32, address: u64, offset: u64, size: u64 }

    /// Without the data that follows.
    struct GemMetadata { handle: u32, operation: u32, flags: u64, tiling: u64, bytes: u32, first_word: u32 }

    struct GemOp { handle: u32, operation: u32, value: u64 }

    /// The creation parameters of an object.
    struct CreateInfo { size: u64, alignment: u64, domains: u64, flags: u64 }

    struct GemUserptr { address: u64, size: u64, flags: u32, handle: u32 }
}
