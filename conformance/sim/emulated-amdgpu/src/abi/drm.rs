//! The render node: DRM's and amdgpu's ioctl numbers and argument structures, as in libdrm's `drm.h` and
//! `amdgpu_drm.h`.

use super::{ioctls, plain_structs};

ioctls! { "drm-";
    VERSION = 0x00, GET_CLIENT = 0x05, GEM_CLOSE = 0x09, GET_CAP = 0x0c, PRIME_HANDLE_TO_FD = 0x2d,
    PRIME_FD_TO_HANDLE = 0x2e, GEM_CREATE = 0x40, GEM_MMAP = 0x41, CTX = 0x42, BO_LIST = 0x43, CS = 0x44, INFO = 0x45,
    GEM_METADATA = 0x46, GEM_WAIT_IDLE = 0x47, GEM_VA = 0x48, WAIT_CS = 0x49, GEM_OP = 0x50, GEM_USERPTR = 0x51,
    WAIT_FENCES = 0x52, VM = 0x53, FENCE_TO_HANDLE = 0x54, SCHED = 0x55, SYNCOBJ_CREATE = 0xbf,
    SYNCOBJ_DESTROY = 0xc0, SYNCOBJ_HANDLE_TO_FD = 0xc1, SYNCOBJ_FD_TO_HANDLE = 0xc2, SYNCOBJ_WAIT = 0xc3,
    SYNCOBJ_RESET = 0xc4, SYNCOBJ_SIGNAL = 0xc5, SYNCOBJ_TIMELINE_WAIT = 0xca, SYNCOBJ_QUERY = 0xcb,
    SYNCOBJ_TRANSFER = 0xcc, SYNCOBJ_TIMELINE_SIGNAL = 0xcd, SYNCOBJ_EVENTFD = 0xcf,
}

/// The major device number of DRM, and the first minor number of its render nodes.
pub(crate) const MAJOR: u32 = 226;
pub(crate) const FIRST_RENDER_MINOR: u32 = 128;

/// Capabilities.
pub(crate) const CAP_PRIME: u64 = 0x05;
pub(crate) const CAP_MONOTONIC_TIMESTAMPS: u64 = 0x06;
pub(crate) const CAP_SYNCOBJ: u64 = 0x13;
pub(crate) const CAP_SYNCOBJ_TIMELINE: u64 = 0x14;

pub(crate) const INFO_ACCEL_WORKING: u32 = 0x00;
pub(crate) const INFO_HW_IP_INFO: u32 = 0x02;
pub(crate) const INFO_HW_IP_COUNT: u32 = 0x03;
pub(crate) const INFO_TIMESTAMP: u32 = 0x05;
pub(crate) const INFO_FW_VERSION: u32 = 0x0e;
pub(crate) const INFO_NUM_BYTES_MOVED: u32 = 0x0f;
pub(crate) const INFO_VRAM_USAGE: u32 = 0x10;
pub(crate) const INFO_GTT_USAGE: u32 = 0x11;
pub(crate) const INFO_VRAM_GTT: u32 = 0x14;
pub(crate) const INFO_READ_MMR_REG: u32 = 0x15;
pub(crate) const INFO_DEV_INFO: u32 = 0x16;
pub(crate) const INFO_VIS_VRAM_USAGE: u32 = 0x17;
pub(crate) const INFO_NUM_EVICTIONS: u32 = 0x18;
pub(crate) const INFO_MEMORY: u32 = 0x19;
pub(crate) const INFO_VRAM_LOST_COUNTER: u32 = 0x1f;
pub(crate) const INFO_VIDEO_CAPS: u32 = 0x21;

/// Kinds of engines that `HW_IP_INFO` knows. Those from 3 on are for video.
pub(crate) const ENGINE_KINDS: u32 = 9;
/// The register of the memory's layout, by its word offset.
pub(crate) const REGISTER_GB_ADDR_CONFIG: u32 = 0x263e;
/// `drm_amdgpu_info_video_caps`: all codecs.
pub(crate) const VIDEO_CAPS_SIZE: usize = 8 * 24;
/// Video memory is of the kind HBM.
pub(crate) const VRAM_HBM: u32 = 6;

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

plain_structs! {
    struct EngineInfo {
        major: u32, minor: u32, capabilities: u64, start_alignment: u32, size_alignment: u32,
        /// A bit for each ring.
        rings: u32,
        /// Major, minor and revision of the engine, a byte each.
        discovery: u32,
    }

    struct DeviceInfo {
        device_id: u32, chip_revision: u32, external_revision: u32, pci_revision: u32, family: u32,
        shader_engines: u32, arrays_per_engine: u32,
        /// In kHz, as both clocks.
        counter_frequency: u32,
        engine_clock: u64, memory_clock: u64,
        active_units: u32, always_on_mask: u32,
        /// By engine and array.
        units: [[u32; 4]; 4],
        render_backends: u32, render_backend_count: u32, graphics_contexts: u32, pcie_generation: u32,
        ids_flags: u64, virtual_start: u64, virtual_end: u64, virtual_alignment: u32, fragment_size: u32,
        gart_page_size: u32, ce_ram_size: u32, vram_type: u32, vram_bits: u32, vce_harvest: u32,
        double_offchip_lds: u32, ngg_addresses: [u64; 4], ngg_sizes: [u32; 4], wave_size: u32, visible_vgprs: u32,
        units_per_array: u32, texture_cache_channels: u32, gs_vertex_depth: u32, gs_primitive_depth: u32,
        gs_waves: u32, pcie_lanes: u32, always_on_units: [[u32; 4]; 4], high_start: u64, high_end: u64,
        tile_steering: u32, pad: u32, disabled_texture_caches: u64, least_engine_clock: u64, least_memory_clock: u64,
        vector_cache_kib: u32, scalar_caches_per_group: u32, scalar_data_cache_kib: u32,
        scalar_instruction_cache_kib: u32, gl1_cache_kib: u32, gl2_cache_kib: u32, mall_size: u64,
    }
}

/// Memory for an object.
pub(crate) const DOMAIN_GTT: u64 = 2;
pub(crate) const DOMAIN_VRAM: u64 = 4;

/// Operations of `GEM_VA`, and its flags: for writing, and for a range without memory that causes no page fault.
pub(crate) const VA_MAP: u32 = 1;
pub(crate) const VA_UNMAP: u32 = 2;
pub(crate) const VA_CLEAR: u32 = 3;
pub(crate) const VA_REPLACE: u32 = 4;
pub(crate) const VA_WRITEABLE: u32 = 1 << 2;
pub(crate) const VA_PRT: u32 = 1 << 4;

pub(crate) const METADATA_SET: u32 = 1;
pub(crate) const METADATA_GET: u32 = 2;

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

    struct GemMetadata {
        handle: u32, operation: u32, flags: u64, tiling: u64, bytes: u32, data: [[u32; 32]; 2], pad: u32,
    }

    struct GemOp { handle: u32, operation: u32, value: u64 }

    /// The creation parameters of an object.
    struct CreateInfo { size: u64, alignment: u64, domains: u64, flags: u64 }

    struct GemUserptr { address: u64, size: u64, flags: u32, handle: u32 }
}

pub(crate) const CONTEXT_ALLOCATE: u32 = 1;
pub(crate) const CONTEXT_FREE: u32 = 2;
pub(crate) const CONTEXT_QUERY: u32 = 3;
pub(crate) const CONTEXT_QUERY_2: u32 = 4;
pub(crate) const CONTEXT_GET_PSTATE: u32 = 5;
pub(crate) const CONTEXT_SET_PSTATE: u32 = 6;

/// Results of `CONTEXT_QUERY`.
pub(crate) const NO_RESET: u32 = 0;
pub(crate) const GUILTY_RESET: u32 = 1;

/// Flags of `CONTEXT_QUERY_2`.
pub(crate) const QUERY_2_RESET: u32 = 1 << 0;
pub(crate) const QUERY_2_GUILTY: u32 = 1 << 2;

pub(crate) const LIST_CREATE: u32 = 0;
pub(crate) const LIST_DESTROY: u32 = 1;
pub(crate) const LIST_UPDATE: u32 = 2;

pub(crate) const CHUNK_IB: u32 = 1;
pub(crate) const CHUNK_FENCE: u32 = 2;
pub(crate) const CHUNK_DEPENDENCIES: u32 = 3;
pub(crate) const CHUNK_SYNCOBJ_IN: u32 = 4;
pub(crate) const CHUNK_SYNCOBJ_OUT: u32 = 5;
pub(crate) const CHUNK_BO_HANDLES: u32 = 6;
pub(crate) const CHUNK_SCHEDULED_DEPENDENCIES: u32 = 7;
pub(crate) const CHUNK_TIMELINE_WAIT: u32 = 8;
pub(crate) const CHUNK_TIMELINE_SIGNAL: u32 = 9;

/// Commands for the constant engine.
pub(crate) const IB_CONSTANT_ENGINE: u32 = 1;

pub(crate) const FENCE_TO_SYNCOBJ: u32 = 0;
pub(crate) const FENCE_TO_SYNCOBJ_FD: u32 = 1;
pub(crate) const FENCE_TO_SYNC_FILE: u32 = 2;

plain_structs! {
    /// In: the operation, flags, the context, a priority. Out: by operation.
    struct ContextOperation { words: [u32; 4] }

    /// In: the operation. Out: flags.
    struct VmOperation { operation: u32, flags: u32 }

    /// In: this. Out: the handle, in the first.
    struct ObjectList { operation: u32, list: u32, count: u32, size: u32, objects: u64 }

    struct ObjectEntry { handle: u32, priority: u32 }

    /// In: this. Out: the submission's number, in the first two.
    struct Submission { context: u32, list: u32, count: u32, flags: u32, chunks: u64 }

    struct Chunk { kind: u32, words: u32, data: u64 }

    struct ChunkCommands {
        pad: u32, flags: u32, address: u64, bytes: u32, engine: u32, instance: u32, ring: u32,
    }

    struct ChunkDependency { engine: u32, instance: u32, ring: u32, context: u32, sequence: u64 }

    struct ChunkFence { handle: u32, offset: u32 }

    struct ChunkPoint { handle: u32, flags: u32, point: u64 }

    /// In: this. Out: whether it is busy, in the first.
    struct WaitSubmission { sequence: u64, timeout: u64, engine: u32, instance: u32, ring: u32, context: u32 }

    struct SubmissionFence { context: u32, engine: u32, instance: u32, ring: u32, sequence: u64 }

    /// In: this. Out: whether they are done, and the first that is, in the first.
    struct WaitFences { fences: u64, count: u32, all: u32, timeout: u64 }

    /// In: this. Out: the handle or the descriptor, in the first.
    struct FenceToHandle { context: u32, engine: u32, instance: u32, ring: u32, sequence: u64, what: u32, pad: u32 }
}

pub(crate) const SYNCOBJ_SIGNALED: u32 = 1;
/// A sync file in place of a syncobj.
pub(crate) const SYNCOBJ_SYNC_FILE: u32 = 1;
pub(crate) const WAIT_ALL: u32 = 1;
pub(crate) const WAIT_FOR_SUBMIT: u32 = 2;
pub(crate) const WAIT_AVAILABLE: u32 = 4;
pub(crate) const QUERY_LAST_SUBMITTED: u32 = 1;

plain_structs! {
    struct SyncobjCreate { handle: u32, flags: u32 }

    struct SyncobjDestroy { handle: u32, pad: u32 }

    struct SyncobjHandle { handle: u32, flags: u32, descriptor: i32, pad: u32 }

    struct SyncobjTransfer { from: u32, to: u32, from_point: u64, to_point: u64, flags: u32, pad: u32 }

    struct SyncobjWait { handles: u64, deadline: i64, count: u32, flags: u32, first_signaled: u32, pad: u32 }

    struct SyncobjTimelineWait {
        handles: u64, points: u64, deadline: i64, count: u32, flags: u32, first_signaled: u32, pad: u32,
    }

    struct SyncobjArray { handles: u64, count: u32, pad: u32 }

    struct SyncobjTimelineArray { handles: u64, points: u64, count: u32, flags: u32 }

    struct SyncobjEventfd { handle: u32, flags: u32, point: u64, descriptor: i32, pad: u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes in the request numbers of the kernel's header, and of what arrays and queries have.
    #[test]
    fn structures_have_the_kernels_sizes() {
        for (name, size, expected) in [
            ("engine info", size_of::<EngineInfo>(), 32),
            ("metadata", size_of::<GemMetadata>(), 288),
            ("context", size_of::<ContextOperation>(), 16),
            ("list", size_of::<ObjectList>(), 24),
            ("submission", size_of::<Submission>(), 24),
            ("commands", size_of::<ChunkCommands>(), 32),
            ("dependency", size_of::<ChunkDependency>(), 24),
            ("point", size_of::<ChunkPoint>(), 16),
            ("wait for a submission", size_of::<WaitSubmission>(), 32),
            ("wait for fences", size_of::<WaitFences>(), 24),
            ("fence to handle", size_of::<FenceToHandle>(), 32),
            ("syncobj wait", size_of::<SyncobjWait>(), 32),
            ("syncobj timeline wait", size_of::<SyncobjTimelineWait>(), 40),
            ("syncobj transfer", size_of::<SyncobjTransfer>(), 32),
            ("syncobj eventfd", size_of::<SyncobjEventfd>(), 24),
        ] {
            assert_eq!(size, expected, "{name}");
        }
    }

    #[test]
    fn device_info_is_laid_out_as_in_the_kernels_header() {
        use std::mem::offset_of;
        for (name, offset, expected) in [
            ("virtual_start", offset_of!(DeviceInfo, virtual_start), 144),
            ("wave_size", offset_of!(DeviceInfo, wave_size), 240),
            ("high_start", offset_of!(DeviceInfo, high_start), 336),
            ("disabled_texture_caches", offset_of!(DeviceInfo, disabled_texture_caches), 360),
        ] {
            assert_eq!(offset, expected, "{name}");
        }
    }
}
