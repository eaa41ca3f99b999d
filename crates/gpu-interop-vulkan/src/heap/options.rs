//! Options of a heap.

use ash::vk;
use gpu_interop_core::MemoryHandleKind;

use crate::handles;
use crate::placement::MemoryPlacement;

/// Options of a [`SharedHeap`](crate::SharedHeap).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedHeapOptions {
    /// Least size of a block, bytes; the largest buffer has this size. A heap starts with one block, and more are
    /// allocated as needed. The actual size is up to an eighth larger.
    pub block_size: u64,
    /// Vulkan's use of every buffer. `SHADER_DEVICE_ADDRESS` needs the feature `bufferDeviceAddress` enabled.
    pub usage: vk::BufferUsageFlags,
    /// Placement of the memory.
    pub memory: MemoryPlacement,
    /// Handle kind of the exports. [`MemoryHandleKind::DmaBufFd`] needs `VK_EXT_external_memory_dma_buf` enabled.
    pub handle: MemoryHandleKind,
}

impl SharedHeapOptions {
    /// Options for buffers for `usage` in blocks of 64 MiB of device-local memory, exported as opaque fds or NT handles.
    #[must_use]
    pub fn new(usage: vk::BufferUsageFlags) -> Self {
        Self { block_size: 64 << 20, usage, memory: MemoryPlacement::DeviceLocal, handle: handles::MEMORY }
    }
}

setters! {
    SharedHeapOptions {
        /// Sets the size of a block, bytes.
        block_size: u64;
        /// Sets the placement of the memory.
        memory: MemoryPlacement;
        /// Sets the handle kind of the exports.
        handle: MemoryHandleKind;
    }
}
