//! `/dev/kfd`: argument structures, ioctl numbers and flags, as in the kernel's `linux/kfd_ioctl.h`, interface 1.17.

use super::{ioctls, plain_structs};

ioctls! { "";
    GET_VERSION = 0x01, CREATE_QUEUE = 0x02, DESTROY_QUEUE = 0x03, SET_MEMORY_POLICY = 0x04, GET_CLOCK_COUNTERS = 0x05,
    GET_PROCESS_APERTURES = 0x06, UPDATE_QUEUE = 0x07, CREATE_EVENT = 0x08, DESTROY_EVENT = 0x09, SET_EVENT = 0x0a,
    RESET_EVENT = 0x0b, WAIT_EVENTS = 0x0c, SET_SCRATCH_BACKING_VA = 0x11, GET_TILE_CONFIG = 0x12, SET_TRAP_HANDLER = 0x13,
    GET_PROCESS_APERTURES_NEW = 0x14, ACQUIRE_VM = 0x15, ALLOC_MEMORY_OF_GPU = 0x16, FREE_MEMORY_OF_GPU = 0x17,
    MAP_MEMORY_TO_GPU = 0x18, UNMAP_MEMORY_FROM_GPU = 0x19, SET_CU_MASK = 0x1a, GET_QUEUE_WAVE_STATE = 0x1b,
    GET_DMABUF_INFO = 0x1c, IMPORT_DMABUF = 0x1d, ALLOC_QUEUE_GWS = 0x1e, SMI_EVENTS = 0x1f, SVM = 0x20,
    SET_XNACK_MODE = 0x21, CRIU_OP = 0x22, AVAILABLE_MEMORY = 0x23, EXPORT_DMABUF = 0x24, RUNTIME_ENABLE = 0x25,
    DBG_TRAP = 0x26, IPC_IMPORT_HANDLE = 0x80, IPC_EXPORT_HANDLE = 0x81, DBG_TRAP_OLD = 0x82, CROSS_MEMORY_COPY = 0x83,
}

pub(crate) const QUEUE_TYPE_SDMA: u32 = 1;
pub(crate) const QUEUE_TYPE_COMPUTE_AQL: u32 = 2;
pub(crate) const QUEUE_TYPE_SDMA_XGMI: u32 = 3;

pub(crate) const EVENT_SIGNAL: u32 = 0;
pub(crate) const EVENT_HW_EXCEPTION: u32 = 3;
pub(crate) const EVENT_MEMORY: u32 = 8;
/// Events of a process.
pub(crate) const EVENT_LIMIT: u32 = 4096;

pub(crate) const WAIT_RESULT_COMPLETE: u32 = 0;
pub(crate) const WAIT_RESULT_TIMEOUT: u32 = 1;
pub(crate) const WAIT_RESULT_FAIL: u32 = 2;

pub(crate) const FLAG_VRAM: u32 = 1;
pub(crate) const FLAG_GTT: u32 = 1 << 1;
pub(crate) const FLAG_USERPTR: u32 = 1 << 2;
pub(crate) const FLAG_DOORBELL: u32 = 1 << 3;
pub(crate) const FLAG_MMIO_REMAP: u32 = 1 << 4;
pub(crate) const FLAG_WRITABLE: u32 = 1 << 31;

/// Offsets for `mmap` of `/dev/kfd`: the kind in the highest two bits, then the GPU's number.
pub(crate) const MMAP_TYPE_SHIFT: u32 = 62;
pub(crate) const MMAP_TYPE_REGISTERS: u64 = 0;
pub(crate) const MMAP_TYPE_EVENTS: u64 = 2;
pub(crate) const MMAP_TYPE_DOORBELL: u64 = 3;
pub(crate) const MMAP_GPU_SHIFT: u32 = 46;
pub(crate) const MMAP_GPU_MASK: u64 = 0xffff;

plain_structs! {
    struct GetVersion {
        major: u32,
        minor: u32,
    }

    struct CreateQueue {
        ring_base_address: u64,
        write_pointer_address: u64,
        read_pointer_address: u64,
        doorbell_offset: u64,
        ring_size: u32,
        gpu_id: u32,
        queue_type: u32,
        queue_percentage: u32,
        queue_priority: u32,
        queue_id: u32,
        eop_buffer_address: u64,
        eop_buffer_size: u64,
        ctx_save_restore_address: u64,
        ctx_save_restore_size: u32,
        ctl_stack_size: u32,
        sdma_engine_id: u32,
        pad: u32,
    }

    /// The argument of ioctls that name one object: a queue or an event.
    struct ById {
        id: u32,
        pad: u32,
    }

    struct UpdateQueue {
        ring_base_address: u64,
        queue_id: u32,
        ring_size: u32,
        queue_percentage: u32,
        queue_priority: u32,
    }

    struct SetCuMask {
        queue_id: u32,
        mask_bits: u32,
        mask_pointer: u64,
    }

    struct ClockCounters {
        gpu_clock_counter: u64,
        cpu_clock_counter: u64,
        system_clock_counter: u64,
        system_clock_freq: u64,
        gpu_id: u32,
        pad: u32,
    }

    struct Apertures {
        lds_base: u64,
        lds_limit: u64,
        scratch_base: u64,
        scratch_limit: u64,
        gpuvm_base: u64,
        gpuvm_limit: u64,
        gpu_id: u32,
        pad: u32,
    }

    struct GetApertures {
        apertures: u64,
        count: u32,
        pad: u32,
    }

    struct CreateEvent {
        event_page_offset: u64,
        trigger_data: u32,
        event_type: u32,
        auto_reset: u32,
        node_id: u32,
        event_id: u32,
        slot_index: u32,
    }

    /// An event of a wait. The first 32 bytes are a union: the age of a signal event, or an exception's data.
    struct EventData {
        data: [u64; 4],
        extension: u64,
        event_id: u32,
        pad: u32,
    }

    struct WaitEvents {
        events: u64,
        count: u32,
        wait_for_all: u32,
        timeout: u32,
        wait_result: u32,
    }

    struct TileConfig {
        tile_config: u64,
        macro_tile_config: u64,
        tile_configs: u32,
        macro_tile_configs: u32,
        gpu_id: u32,
        gb_addr_config: u32,
        banks: u32,
        ranks: u32,
    }

    struct AcquireVm {
        drm_fd: u32,
        gpu_id: u32,
    }

    struct AllocMemory {
        va_addr: u64,
        size: u64,
        handle: u64,
        mmap_offset: u64,
        gpu_id: u32,
        flags: u32,
    }

    struct FreeMemory {
        handle: u64,
    }

    struct MapMemory {
        handle: u64,
        device_ids: u64,
        devices: u32,
        successes: u32,
    }

    struct DmabufInfo {
        size: u64,
        metadata: u64,
        metadata_size: u32,
        gpu_id: u32,
        flags: u32,
        dmabuf_fd: u32,
    }

    struct ImportDmabuf {
        va_addr: u64,
        handle: u64,
        gpu_id: u32,
        dmabuf_fd: u32,
    }

    struct ExportDmabuf {
        handle: u64,
        flags: u32,
        dmabuf_fd: u32,
    }

    struct XnackMode {
        enabled: u32,
    }

    struct AvailableMemory {
        available: u64,
        gpu_id: u32,
        pad: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes in the request numbers of the kernel's header.
    #[test]
    fn structures_have_the_kernels_sizes() {
        for (name, size, expected) in [
            ("update queue", size_of::<UpdateQueue>(), 24),
            ("clock counters", size_of::<ClockCounters>(), 40),
            ("apertures", size_of::<Apertures>(), 56),
            ("create event", size_of::<CreateEvent>(), 32),
            ("event data", size_of::<EventData>(), 48),
            ("wait events", size_of::<WaitEvents>(), 24),
            ("alloc memory", size_of::<AllocMemory>(), 40),
            ("map memory", size_of::<MapMemory>(), 24),
            ("dma-buf info", size_of::<DmabufInfo>(), 32),
            ("import", size_of::<ImportDmabuf>(), 24),
            ("export", size_of::<ExportDmabuf>(), 16),
        ] {
            assert_eq!(size, expected, "{name}");
        }
    }

    #[test]
    fn ioctls_have_names() {
        assert_eq!(name(ALLOC_MEMORY_OF_GPU).as_deref(), Some("alloc-memory-of-gpu"));
        assert_eq!(name(0x7f), None);
    }
}
