//! Allocation of ranges of one `VkDeviceMemory`.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use gpu_interop_core::HostMapping;
use gpu_interop_core::sync::lock;
use offset_allocator::{Allocation, Allocator};

use crate::memory::Memory;

/// Smallest unit of allocation, bytes: the alignment that kernels and copies of every vendor are fastest with.
pub(super) const UNIT: u64 = 256;

/// Greatest number of units of a space: sizes up to it have a size class of the allocator.
const MOST_UNITS: u64 = 1 << 30;

/// Greatest number of ranges of a space that are allocated at a time.
const MOST_RANGES: u64 = 1 << 16;

/// Division of memory into units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Units {
    /// Bytes of a unit, a power of two.
    pub(super) unit: u64,
    /// Number of units.
    pub(super) count: u32,
}

impl Units {
    /// Divides at least `size` bytes into units with an alignment of `alignment` bytes, a power of two. The number of
    /// units is rounded up to a size class of the allocator, by less than an eighth: otherwise an empty space would
    /// reject a range of its own size. `None` if there are too many.
    pub(super) fn new(size: u64, alignment: u64) -> Option<Self> {
        let unit = alignment.max(UNIT);
        let count = u32::try_from(size.div_ceil(unit)).ok().filter(|count| u64::from(*count) <= MOST_UNITS)?;
        // Also the result of rounding is at most `MOST_UNITS`, a power of two.
        Some(Self { unit, count: offset_allocator::ext::min_allocator_size(count) })
    }

    /// Total size, bytes.
    pub(super) fn size(self) -> u64 {
        u64::from(self.count) * self.unit
    }

    /// Units to allocate for a range, so that `size` bytes of it begin at a multiple of `alignment`; `None` if they
    /// never fit.
    pub(super) fn needed(self, size: u64, alignment: u64) -> Option<u32> {
        let before = alignment.saturating_sub(self.unit);
        let count = size.checked_add(before)?.div_ceil(self.unit);
        u32::try_from(count).ok().filter(|count| *count <= self.count)
    }
}

/// Memory, and its ranges.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) memory: Memory,
    units: Units,
    ranges: Mutex<Ranges>,
}

struct Ranges {
    allocator: Allocator<u32>,
    live: usize,
}

impl std::fmt::Debug for Ranges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ranges").field("live", &self.live).finish_non_exhaustive()
    }
}

impl Space {
    /// Divides memory of at least `units.size()` bytes.
    pub(super) fn new(memory: Memory, units: Units) -> Arc<Self> {
        // The allocator needs two more nodes than ranges at most: one for free units, one that is never used.
        let nodes = u32::try_from(u64::from(units.count).min(MOST_RANGES) + 2).unwrap_or(u32::MAX >> 1);
        let ranges = Ranges { allocator: Allocator::with_max_allocs(units.count, nodes), live: 0 };
        Arc::new(Self { memory, units, ranges: Mutex::new(ranges) })
    }

    /// Allocates `size` bytes at a multiple of `alignment`, a power of two; `None` if no free range is large enough.
    pub(super) fn allocate(self: &Arc<Self>, size: u64, alignment: u64) -> Option<Arc<Lease>> {
        let count = self.units.needed(size, alignment)?;
        let allocation = {
            let mut ranges = lock(&self.ranges);
            let allocation = ranges.allocator.allocate(count)?;
            ranges.live += 1;
            allocation
        };
        let offset = (u64::from(allocation.offset) * self.units.unit).next_multiple_of(alignment);
        Some(Arc::new(Lease { space: self.clone(), allocation, offset, size }))
    }

    /// Number of ranges that are allocated.
    pub(super) fn live(&self) -> usize {
        lock(&self.ranges).live
    }
}

/// An allocated range. The last clone of the `Arc` frees it: that of the Vulkan buffer, or that of the compute side
/// after its work.
pub(crate) struct Lease {
    space: Arc<Space>,
    allocation: Allocation<u32>,
    offset: u64,
    size: u64,
}

impl Lease {
    /// Memory that contains the range.
    pub(crate) fn memory(&self) -> &Memory {
        &self.space.memory
    }

    /// Offset of the range in the memory, bytes.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Host mapping of the first `size` bytes of the range; `None` if the memory is not mapped or the range is smaller.
    pub(crate) fn host_mapping(self: &Arc<Self>, size: u64) -> Option<HostMapping> {
        let base = self.space.memory.mapped_ptr().filter(|_| size <= self.size)?;
        let offset = usize::try_from(self.offset).ok()?;
        // SAFETY: the whole memory is mapped at `base`, and contains the range.
        let start: NonNull<u8> = unsafe { base.add(offset) };
        // SAFETY: the bytes stay mapped while the memory lives, which the caller's clone of this object keeps alive. No
        // other range contains them, and the memory's own mapping is not used for access.
        Some(unsafe { HostMapping::new(start, size) })
    }
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { offset, size, .. } = self;
        f.debug_struct("Lease").field("offset", offset).field("size", size).finish_non_exhaustive()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut ranges = lock(&self.space.ranges);
        ranges.allocator.free(self.allocation);
        ranges.live -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_is_a_size_class_at_least_as_large() {
        for size in [1, 255, 256, 257, 4096, 65_537, 1_000_000, 64 << 20, (64 << 20) + 1, 1 << 38] {
            for alignment in [1, 16, 256, 4096] {
                let units = Units::new(size, alignment).expect("it fits");
                assert_eq!(units.unit, alignment.max(UNIT));
                assert!(units.size() >= size, "{units:?} for {size}");
                assert!(units.size() - size <= size / 8 + units.unit, "{units:?} for {size}");
                // An empty allocator has a range of its own size.
                if units.count < 1 << 20 {
                    assert!(Allocator::<u32>::with_max_allocs(units.count, 4).allocate(units.count).is_some());
                }
            }
        }
        assert_eq!(Units::new((1 << 38) + 1, 1), None);
        assert_eq!(Units::new(u64::MAX, 1), None);
    }

    #[test]
    fn alignment_above_the_unit_takes_more_units() {
        let units = Units { unit: 256, count: 64 };
        assert_eq!(units.needed(1, 1), Some(1));
        assert_eq!(units.needed(257, 256), Some(2));
        assert_eq!(units.needed(256, 1024), Some(4));
        assert_eq!(units.needed(64 * 256, 256), Some(64));
        assert_eq!(units.needed(64 * 256 + 1, 256), None);
        assert_eq!(units.needed(64 * 256, 512), None);
        assert_eq!(units.needed(u64::MAX, 256), None);
    }
}
