//! Memory that a buffer is bound to: its own, or a range of a heap.

use std::ptr::NonNull;
use std::sync::Arc;

use ash::vk;
use gpu_interop_core::{Error, HostMapping, Result};

use crate::heap::space::Lease;
use crate::memory::Memory;

#[derive(Debug)]
pub(crate) enum Backing {
    /// All of an allocation.
    Own(Memory),
    /// A range of an allocation.
    Range(Range),
}

/// A range of an allocation, with its host mapping.
#[derive(Debug)]
pub(crate) struct Range {
    // Field order is drop order: the mapping before the memory.
    mapping: Option<HostMapping>,
    lease: Arc<Lease>,
}

impl Backing {
    /// A range for a buffer of `size` bytes.
    pub(crate) fn of_lease(lease: Arc<Lease>, size: u64) -> Self {
        Self::Range(Range { mapping: lease.host_mapping(size), lease })
    }

    /// The allocation.
    pub(crate) fn memory(&self) -> &Memory {
        match self {
            Self::Own(memory) => memory,
            Self::Range(range) => range.lease.memory(),
        }
    }

    /// Offset in the allocation, bytes.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Self::Own(_) => 0,
            Self::Range(range) => range.lease.offset(),
        }
    }

    pub(crate) fn as_raw(&self) -> vk::DeviceMemory {
        self.memory().as_raw()
    }

    pub(crate) fn size(&self) -> u64 {
        self.memory().size()
    }

    pub(crate) fn memory_type(&self) -> u32 {
        self.memory().memory_type()
    }

    pub(crate) fn is_dedicated(&self) -> bool {
        self.memory().is_dedicated()
    }

    /// Address of the buffer's first byte.
    pub(crate) fn mapped_ptr(&self) -> Option<NonNull<u8>> {
        match self {
            Self::Own(memory) => memory.mapped_ptr(),
            Self::Range(range) => range.mapping.as_ref().map(HostMapping::as_ptr),
        }
    }

    pub(crate) fn mapping(&self, operation: &'static str) -> Result<&HostMapping> {
        match self {
            Self::Own(memory) => memory.mapping(operation),
            Self::Range(range) => range.mapping.as_ref().ok_or_else(|| {
                Error::invalid(operation, "the heap is not host-visible; create it with MemoryPlacement::HostVisible")
            }),
        }
    }
}
