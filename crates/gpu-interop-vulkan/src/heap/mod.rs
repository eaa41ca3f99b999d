//! Many buffers in few shared allocations.

mod buffer;
pub(crate) mod space;

use std::sync::{Arc, Mutex};

use ash::vk;
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Device, Error, MappedBuffer, MemoryHandleKind, Result};

use self::space::{Lease, Space, Units};
use crate::buffer::{Unbound, check};
use crate::export::exportable_as;
use crate::handles;
use crate::interop::VulkanInterop;
use crate::memory::{Memory, Sharing};
use crate::placement::MemoryPlacement;
use buffer::Deferred;

pub use self::buffer::SharedHeapBuffer;

/// Memory of Vulkan that a compute device imports and maps once, and from which buffers are cut for both sides.
///
/// Memory is allocated in blocks ([`SharedHeapOptions::block_size`]); one import, one mapping and one descriptor each.
/// [`allocate`](Self::allocate) creates a `VkBuffer` bound to a range of a block, and the same range of the mapping: no
/// call of the compute driver, and no descriptor. A block is never a dedicated allocation, and nothing is moved.
///
/// Blocks stay allocated until [`trim`](Self::trim), or until the heap and the last buffer of the block are dropped and
/// its work has completed. Cheap to clone; all clones are the same heap.
#[derive(Debug, Clone)]
pub struct SharedHeap {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    interop: VulkanInterop,
    device: Device,
    options: SharedHeapOptions,
    types: vk::ExternalMemoryHandleTypeFlags,
    units: Units,
    blocks: Mutex<Vec<Block>>,
    /// Held while a block is added, so that threads that need memory at the same time add one.
    growing: Mutex<()>,
    deferred: Arc<Deferred>,
}

/// A block: Vulkan's memory, and the compute device's mapping of it.
#[derive(Debug)]
struct Block {
    mapped: Arc<MappedBuffer>,
    space: Arc<Space>,
}

/// Memory that a [`SharedHeap`] uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedHeapUsage {
    /// Number of blocks.
    pub blocks: usize,
    /// Size of all blocks, bytes.
    pub size: u64,
    /// Number of buffers that are allocated, including dropped ones whose work is pending.
    pub buffers: usize,
}

impl SharedHeap {
    /// Creates a heap with one block, which `device` imports and maps. `device` must be on the same hardware as
    /// `interop`, and stays open as long as the heap or a buffer of it lives.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument): a block size of 0, above 256 GiB
    ///   or above [`VulkanInterop::max_allocation_size`]; no usage.
    /// * `Unsupported`: the Vulkan device does not export buffers of this usage as this kind, requires a dedicated
    ///   allocation for each, or has no memory of this placement; the compute device does not import this kind.
    /// * `DeviceMismatch`: the devices are not the same hardware.
    /// * `OutOfMemory`; `ImportRejected`: the compute driver rejected the import.
    pub fn new(interop: &VulkanInterop, device: &Device, options: &SharedHeapOptions) -> Result<Self> {
        const OPERATION: &str = "SharedHeap::new";
        check(OPERATION, interop, options.block_size, options.usage)?;
        let features = interop.buffer_features(options.handle, options.usage)?;
        let unsupported = |message| {
            Error::unsupported(OPERATION, message)
                .with_device(interop.identity())
                .with_context("handle", options.handle)
                .with_context("usage", format_args!("{:?}", options.usage))
        };
        let Some(types) = exportable_as(options.handle, &features) else {
            return Err(unsupported("the device cannot export buffers of this usage as this kind of handle"));
        };
        let too_large = |most| {
            Error::invalid(OPERATION, "the block is too large; request smaller blocks, the heap adds more as needed")
                .with_device(interop.identity())
                .with_context("block size", options.block_size)
                .with_context("most", most)
        };
        // Vulkan: the alignment depends on usage and handle types only, not on the size.
        let needs = Unbound::new(interop, 1, options.usage, types)?.needs();
        if features.dedicated_only || needs.requires_dedicated {
            return Err(unsupported(
                "the driver requires a dedicated allocation for each buffer of this usage; use ExportableBuffer",
            ));
        }
        let units = Units::new(options.block_size, needs.requirements.alignment).ok_or_else(|| too_large(1 << 38))?;
        let most = interop.max_allocation_size();
        if units.size() > most {
            return Err(too_large(most));
        }
        let shared = Shared {
            interop: interop.clone(),
            device: device.clone(),
            options: *options,
            types,
            units,
            blocks: Mutex::default(),
            growing: Mutex::default(),
            deferred: Arc::default(),
        };
        let block = shared.block()?;
        lock(&shared.blocks).push(block);
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Allocates a buffer of `size` bytes with the heap's usage, at a multiple of 256 bytes and of the alignment that
    /// Vulkan requires. Adds a block if no block has a free range of this size.
    ///
    /// Calls `vkCreateBuffer`, `vkGetBufferMemoryRequirements2` and `vkBindBufferMemory`, and for a new block
    /// `vkAllocateMemory` and the import.
    ///
    /// # Errors
    /// * [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument): a size of 0, or one larger than a
    ///   block. No driver was called.
    /// * `OutOfMemory`: no memory for another block. Drop buffers, or wait for their work, and try again.
    /// * The errors of the import of a new block.
    pub fn allocate(&self, size: u64) -> Result<SharedHeapBuffer> {
        self.allocate_aligned(size, 1)
    }

    /// As [`allocate`](Self::allocate), at an offset in the block that is also a multiple of `alignment` bytes. The
    /// compute device maps blocks at multiples of its page size, to which addresses are aligned accordingly.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate), and `InvalidArgument` for an alignment that is not a power of two, or with which
    /// no block has room for the buffer.
    pub fn allocate_aligned(&self, size: u64, alignment: u64) -> Result<SharedHeapBuffer> {
        const OPERATION: &str = "SharedHeap::allocate";
        let shared = &*self.shared;
        let invalid = |message| {
            Error::invalid(OPERATION, message)
                .with_device(shared.interop.identity())
                .with_context("size", size)
                .with_context("alignment", alignment)
                .with_context("block", format_args!("{} bytes", shared.units.size()))
        };
        if size == 0 {
            return Err(invalid("the buffer's size is 0 bytes; request at least 1"));
        }
        if !alignment.is_power_of_two() {
            return Err(invalid("the alignment is not a power of two"));
        }
        let too_large =
            || invalid("the buffer is larger than a block; create the heap with larger blocks, or an ExportableBuffer");
        if shared.units.needed(size, alignment).is_none() {
            return Err(too_large());
        }
        let buffer = Unbound::new(&shared.interop, size, shared.options.usage, shared.types)?;
        let required = buffer.needs().requirements;
        let alignment = alignment.max(required.alignment).max(shared.units.unit);
        // The range also has the buffer's own size: the mapping of less would reach into the next range.
        let needed = required.size.max(size);
        if shared.units.needed(needed, alignment).is_none() {
            return Err(too_large());
        }
        let (lease, mapped) = self.range(needed, alignment)?;
        let range = lease.offset()..lease.offset() + size;
        let mapped = mapped.range_with_owner(range, lease.clone())?;
        Ok(SharedHeapBuffer::new(buffer.bind_lease(lease)?, mapped, shared.deferred.clone()))
    }

    /// Allocates a range that fits a block, in a new block if needed.
    fn range(&self, size: u64, alignment: u64) -> Result<(Arc<Lease>, Arc<MappedBuffer>)> {
        let shared = &*self.shared;
        if let Some(found) = shared.find(size, alignment) {
            return Ok(found);
        }
        // Without a lock: this drops objects of the application.
        self.collect();
        let _growing = lock(&shared.growing);
        if let Some(found) = shared.find(size, alignment) {
            return Ok(found);
        }
        let block = shared.block()?;
        // From the new block before other threads see it.
        let lease = block.space.allocate(size, alignment);
        let mapped = block.mapped.clone();
        lock(&shared.blocks).push(block);
        let lease = lease.ok_or_else(|| {
            Error::invalid("SharedHeap::allocate", "an empty block has no room for the buffer; create larger blocks")
                .with_context("size", size)
                .with_context("alignment", alignment)
        })?;
        Ok((lease, mapped))
    }

    /// Frees the ranges of dropped buffers whose work has completed, also that of submissions which were dropped while
    /// they were pending ([`Submission`](crate::Submission)). Called implicitly before the heap grows.
    pub fn collect(&self) {
        self.shared.interop.free_finished();
        self.shared.deferred.collect();
        self.shared.device.collect();
    }

    /// Frees blocks without buffers, after [`collect`](Self::collect). Returns the number of blocks freed.
    pub fn trim(&self) -> usize {
        self.collect();
        let empty: Vec<Block> = {
            let mut blocks = lock(&self.shared.blocks);
            // Only under this lock does a range become allocated, so an empty block stays empty.
            let (empty, used) = std::mem::take(&mut *blocks).into_iter().partition(|block| block.space.live() == 0);
            *blocks = used;
            empty
        };
        empty.len()
    }

    /// Memory in use.
    #[must_use]
    pub fn usage(&self) -> SharedHeapUsage {
        let blocks = lock(&self.shared.blocks);
        SharedHeapUsage {
            blocks: blocks.len(),
            size: blocks.iter().map(|block| block.space.memory.size()).sum(),
            buffers: blocks.iter().map(|block| block.space.live()).sum(),
        }
    }

    /// Size of a block, bytes: the requested size, rounded up.
    #[must_use]
    pub fn block_size(&self) -> u64 {
        self.shared.units.size()
    }

    /// The compute device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.shared.device
    }

    /// The Vulkan device.
    #[must_use]
    pub fn interop(&self) -> &VulkanInterop {
        &self.shared.interop
    }
}

impl Shared {
    /// Allocates a range of the blocks there are.
    fn find(&self, size: u64, alignment: u64) -> Option<(Arc<Lease>, Arc<MappedBuffer>)> {
        let blocks = lock(&self.blocks);
        blocks.iter().find_map(|block| Some((block.space.allocate(size, alignment)?, block.mapped.clone())))
    }

    /// Allocates, exports, imports and maps a block.
    fn block(&self) -> Result<Block> {
        let Self { interop, device, options, units, types, .. } = self;
        // A buffer over the whole block: the memory requirements of its ranges are no greater.
        let whole = Unbound::new(interop, units.size(), options.usage, *types)?;
        let memory = Memory::new(interop, &whole.needs(), &Sharing::Export(*types), options.memory, false)?;
        drop(whole);
        let imported = device.import_memory(memory.import_request(options.handle)?)?;
        let mapped = Arc::new(imported.map_buffer(0..units.size())?);
        Ok(Block { mapped, space: Space::new(memory, *units) })
    }
}

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
