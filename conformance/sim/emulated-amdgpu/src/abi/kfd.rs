//! `/dev/kfd`: argument structures, ioctl numbers and flags, as in the kernel's `linux/kfd_ioctl.h`, interface 1.17.

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
            Some(name.to_ascii_lowercase().replace('_', "-"))
        }
    };
}

numbers! {
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

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GetVersion {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct CreateQueue {
    pub(crate) ring_base_address: u64,
    pub(crate) write_pointer_address: u64,
    pub(crate) read_pointer_address: u64,
    pub(crate) doorbell_offset: u64,
    pub(crate) ring_size: u32,
    pub(crate) gpu_id: u32,
    pub(crate) queue_type: u32,
    pub(crate) queue_percentage: u32,
    pub(crate) queue_priority: u32,
    pub(crate) queue_id: u32,
    pub(crate) eop_buffer_address: u64,
    pub(crate) eop_buffer_size: u64,
    pub(crate) ctx_save_restore_address: u64,
    pub(crate) ctx_save_restore_size: u32,
    pub(crate) ctl_stack_size: u32,
    pub(crate) sdma_engine_id: u32,
    pub(crate) pad: u32,
}

/// The argument of ioctls that name one object: a queue or an event.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct ById {
    pub(crate) id: u32,
    pub(crate) pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct UpdateQueue {
    pub(crate) ring_base_address: u64,
    pub(crate) queue_id: u32,
    pub(crate) ring_size: u32,
    pub(crate) queue_percentage: u32,
    pub(crate) queue_priority: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct SetCuMask {
    pub(crate) queue_id: u32,
    pub(crate) mask_bits: u32,
    pub(crate) mask_pointer: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct ClockCounters {
    pub(crate) gpu_clock_counter: u64,
    pub(crate) cpu_clock_counter: u64,
    pub(crate) system_clock_counter: u64,
    pub(crate) system_clock_freq: u64,
    pub(crate) gpu_id: u32,
    pub(crate) pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Apertures {
    pub(crate) lds_base: u64,
    pub(crate) lds_limit: u64,
    pub(crate) scratch_base: u64,
    pub(crate) scratch_limit: u64,
    pub(crate) gpuvm_base: u64,
    pub(crate) gpuvm_limit: u64,
    pub(crate) gpu_id: u32,
    pub(crate) pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct GetApertures {
    pub(crate) apertures: u64,
    pub(crate) count: u32,
    pub(crate) pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct CreateEvent {
    pub(crate) event_page_offset: u64,
    pub(crate) trigger_data: u32,
    pub(crate) event_type: u32,
    pub(crate) auto_reset: u32,
    pub(crate) node_id: u32,
    pub(crate) event_id: u32,
    pub(crate) slot_index: u32,
}

/// An event that is waited for. The first 32 bytes are a union: the age of a signal event, or an exception's data.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct EventData {
    pub(crate) data: [u64; 4],
    pub(crate) extension: u64,
    pub(crate) event_id: u32,
    pub(crate) pad: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct WaitEvents {
    pub(crate) events: u64,
    pub(crate) count: u32,
    pub(crate) wait_for_all: u32,
    pub(crate) timeout: u32,
    pub(crate) wait_result: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct TileConfig {
    pub(crate) tile_config: u64,
    pub(crate) macro_tile_config: u64,
    pub(crate) tile_configs: u32,
    pub(crate) macro_tile_configs: u32,
    pub(crate) gpu_id: u32,
    pub(crate) gb_addr_config: u32,
    pub(crate) banks: u32,
    pub(crate) ranks: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct AcquireVm {
    pub(crate) drm_fd: u32,
    pub(crate) gpu_id: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct AllocMemory {
    pub(crate) va_addr: u64,
    pub(crate) size: u64,
    pub(crate) handle: u64,
    pub(crate) mmap_offset: u64,
    pub(crate) gpu_id: u32,
    pub(crate) flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct FreeMemory {
    pub(crate) handle: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct MapMemory {
    pub(crate) handle: u64,
    pub(crate) device_ids: u64,
    pub(crate) devices: u32,
    pub(crate) successes: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct DmabufInfo {
    pub(crate) size: u64,
    pub(crate) metadata: u64,
    pub(crate) metadata_size: u32,
    pub(crate) gpu_id: u32,
    pub(crate) flags: u32,
    pub(crate) dmabuf_fd: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct ImportDmabuf {
    pub(crate) va_addr: u64,
    pub(crate) handle: u64,
    pub(crate) gpu_id: u32,
    pub(crate) dmabuf_fd: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct ExportDmabuf {
    pub(crate) handle: u64,
    pub(crate) flags: u32,
    pub(crate) dmabuf_fd: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct XnackMode {
    pub(crate) enabled: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct AvailableMemory {
    pub(crate) available: u64,
    pub(crate) gpu_id: u32,
    pub(crate) pad: u32,
}

plain!(
    GetVersion,
    CreateQueue,
    ById,
    UpdateQueue,
    SetCuMask,
    ClockCounters,
    Apertures,
    GetApertures,
    CreateEvent,
    EventData,
    WaitEvents,
    TileConfig,
    AcquireVm,
    AllocMemory,
    FreeMemory,
    MapMemory,
    DmabufInfo,
    ImportDmabuf,
    ExportDmabuf,
    XnackMode,
    AvailableMemory,
);

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
