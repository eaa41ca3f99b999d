//! The address space of a GPU: its mapped addresses and their memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpu_interop_sim_gfx9::Mapping;
use rustix::io::Errno;

use super::storage::Storage;
use crate::abi::Result;

/// The granularity of page tables.
const PAGE: u64 = 4096;

/// An access to an unmapped address, or one that the mapping does not permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageFault {
    pub(crate) gpu: usize,
    pub(crate) address: u64,
    /// The mapping is read-only.
    pub(crate) read_only: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// Creator of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Kfd,
    Gem,
}

/// A range of addresses mapped to a range of an object.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) length: u64,
    pub(crate) storage: Arc<Storage>,
    pub(crate) offset: u64,
    pub(crate) writable: bool,
    pub(crate) owner: Owner,
}

#[derive(Debug, Default)]
pub(crate) struct Space(BTreeMap<u64, Span>);

impl Space {
    /// Maps addresses starting at `start`. Fails if one of them is mapped already.
    pub(crate) fn map(&mut self, start: u64, span: Span) -> Result<()> {
        let end = start.checked_add(span.length).ok_or(Errno::INVAL)?;
        if !start.is_multiple_of(PAGE) || span.length == 0 {
            return Err(Errno::INVAL);
        }
        if self.0.range(..end).next_back().is_some_and(|(before, span)| before + span.length > start) {
            return Err(Errno::INVAL);
        }
        self.0.insert(start, span);
        Ok(())
    }

    /// Removes the mapping at `start`.
    pub(crate) fn unmap(&mut self, start: u64) -> Result<Span> {
        self.0.remove(&start).ok_or(Errno::INVAL)
    }

    /// Removes all mappings within a range, and truncates those that extend beyond it.
    pub(crate) fn clear(&mut self, start: u64, length: u64) {
        let end = start.saturating_add(length);
        let touched: Vec<_> =
            self.0.range(..end).filter(|(at, span)| *at + span.length > start).map(|(at, _)| *at).collect();
        for at in touched {
            let Some(span) = self.0.remove(&at) else { continue };
            let span_end = at + span.length;
            if at < start {
                self.0.insert(at, Span { length: start - at, ..span.clone() });
            }
            if span_end > end {
                let (length, offset) = (span_end - end, span.offset + (end - at));
                self.0.insert(end, Span { length, offset, ..span });
            }
        }
    }

    /// Calls `visit` with the contiguous pieces of an access, in order: address in this process, offset within the
    /// access, length. Visits nothing if any byte causes a page fault.
    pub(crate) fn visit(
        &self,
        gpu: usize,
        address: u64,
        size: u64,
        access: Access,
        mut visit: impl FnMut(*mut u8, u64, usize),
    ) -> std::result::Result<(), PageFault> {
        let end = address.checked_add(size).ok_or(PageFault { gpu, address, read_only: false })?;
        for found in [false, true] {
            let mut at = address;
            while at < end {
                let (start, span) = self.find(at).ok_or(PageFault { gpu, address: at, read_only: false })?;
                if access == Access::Write && !span.writable {
                    return Err(PageFault { gpu, address: at, read_only: true });
                }
                let part = (start + span.length).min(end) - at;
                if found {
                    // Both are below the size of a mapping in this process.
                    let (skip, part) = (usize::try_from(span.offset + (at - start)), usize::try_from(part));
                    let (Ok(skip), Ok(part)) = (skip, part) else { break };
                    visit(span.storage.address().wrapping_add(skip), at - address, part);
                }
                at += part;
            }
        }
        Ok(())
    }

    fn find(&self, address: u64) -> Option<(u64, &Span)> {
        let (start, span) = self.0.range(..=address).next_back()?;
        (address < start + span.length).then_some((*start, span))
    }

    /// Removes all mappings of an object made by its GEM handle.
    pub(crate) fn unmap_object(&mut self, storage: &Arc<Storage>) {
        self.0.retain(|_, span| span.owner != Owner::Gem || !Arc::ptr_eq(&span.storage, storage));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

// SAFETY: a span's bytes are mapped in this process while its storage lives, which is as long as the span is here; the
// application and the other queues access them at the same time only as with a real GPU.
unsafe impl gpu_interop_sim_gfx9::Memory for Space {
    fn find(&self, address: u64) -> Option<Mapping> {
        let (start, span) = Self::find(self, address)?;
        let offset = usize::try_from(span.offset).ok()?;
        let host = span.storage.address().wrapping_add(offset);
        Some(Mapping { start, length: span.length, host, writable: span.writable })
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::Pool;
    use super::*;

    fn span(pool: &Arc<Pool>, size: u64, writable: bool) -> Span {
        Span { length: size, storage: Storage::new(pool, size, None).unwrap(), offset: 0, writable, owner: Owner::Kfd }
    }

    fn parts(
        space: &Space,
        address: u64,
        size: u64,
        access: Access,
    ) -> std::result::Result<Vec<(u64, usize)>, PageFault> {
        let mut parts = Vec::new();
        space.visit(3, address, size, access, |_, offset, length| parts.push((offset, length)))?;
        Ok(parts)
    }

    #[test]
    fn an_access_crosses_neighbours_and_faults_at_the_first_hole() {
        let pool = Arc::new(Pool::new().unwrap());
        let mut space = Space::default();
        space.map(0x1000, span(&pool, 0x1000, true)).unwrap();
        space.map(0x2000, span(&pool, 0x2000, false)).unwrap();
        assert_eq!(parts(&space, 0x1ff0, 0x20, Access::Read), Ok(vec![(0, 16), (16, 16)]));
        let fault = |address, read_only| Err(PageFault { gpu: 3, address, read_only });
        assert_eq!(parts(&space, 0x1ff0, 0x20, Access::Write), fault(0x2000, true));
        assert_eq!(parts(&space, 0x3fff, 2, Access::Read), fault(0x4000, false));
        assert_eq!(parts(&space, 0xfff, 2, Access::Read), fault(0xfff, false));
        assert_eq!(parts(&space, 0x1008, u64::MAX - 8, Access::Read), fault(0x1008, false), "the end wraps");
        assert_eq!(parts(&space, 0x1000, 0, Access::Read), Ok(Vec::new()));
    }

    #[test]
    fn mappings_do_not_overlap_and_are_cut() {
        let pool = Arc::new(Pool::new().unwrap());
        let mut space = Space::default();
        space.map(0x2000, span(&pool, 0x3000, true)).unwrap();
        for (start, size) in [(0x1000, 0x2000), (0x4000, 0x1000), (0x1000, 0x9000), (0x1234, 0x10)] {
            assert_eq!(space.map(start, span(&pool, size, true)), Err(Errno::INVAL), "{start:#x}");
        }
        space.clear(0x3000, 0x1000);
        let ranges: Vec<_> = space.0.iter().map(|(at, span)| (*at, span.length, span.offset)).collect();
        assert_eq!(ranges, [(0x2000, 0x1000, 0), (0x4000, 0x1000, 0x2000)]);
        assert!(space.unmap(0x3000).is_err());
        assert_eq!(space.unmap(0x4000).unwrap().offset, 0x2000);
    }
}
