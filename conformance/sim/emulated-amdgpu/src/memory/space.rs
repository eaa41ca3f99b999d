//! The address space of a GPU: its mapped addresses and their memory.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use gpu_interop_sim_gfx9::Mapping;
use rustix::io::Errno;

use super::storage::Storage;
use crate::abi::Result;

/// The granularity of page tables.
const PAGE: u64 = 4096;
/// A GPU's address has 48 bits; software extends the highest one, as a CPU does.
const BITS: u32 = 48;

/// The 48 bits of an address in any of its forms. An address without one is unchanged, and is mapped nowhere.
pub(crate) const fn bits_of(address: u64) -> u64 {
    let high = address >> (BITS - 1);
    if high == u64::MAX >> (BITS - 1) { address & ((1 << BITS) - 1) } else { address }
}

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
    /// An open file of the render node, by number.
    Gem(u64),
}

/// Memory of a range of addresses.
#[derive(Debug, Clone)]
pub(crate) enum Backing {
    Object {
        storage: Arc<Storage>,
        offset: u64,
    },
    /// None, without page faults: reads return 0, and writes have no effect.
    Nothing,
}

impl Backing {
    /// The memory `distance` bytes further on.
    fn advanced(self, distance: u64) -> Self {
        match self {
            Self::Object { storage, offset } => Self::Object { storage, offset: offset + distance },
            Self::Nothing => Self::Nothing,
        }
    }
}

/// A mapped range of addresses.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    pub(crate) length: u64,
    pub(crate) backing: Backing,
    pub(crate) writable: bool,
    pub(crate) owner: Owner,
}

/// Size of the memory that stands for a range without any.
const NOTHING: usize = 64 << 10;
/// What is read from such a range.
static ZEROES: [u8; NOTHING] = [0; NOTHING];

/// The target of writes to such a range. It is never read.
fn sink() -> *mut u8 {
    static SINK: OnceLock<usize> = OnceLock::new();
    let address =
        *SINK.get_or_init(|| Box::leak(vec![0_u8; NOTHING].into_boxed_slice()).as_mut_ptr().expose_provenance());
    std::ptr::with_exposed_provenance_mut(address)
}

impl Span {
    /// Calls `visit` with the contiguous pieces of `size` bytes that begin `from` bytes after the span's start.
    fn pieces(&self, from: u64, size: u64, access: Access, mut visit: impl FnMut(*mut u8, u64, usize)) {
        match &self.backing {
            Backing::Object { storage, offset } => {
                // Both are below the size of a mapping in this process.
                if let (Ok(skip), Ok(size)) = (usize::try_from(offset + from), usize::try_from(size)) {
                    visit(storage.address().wrapping_add(skip), 0, size);
                }
            }
            Backing::Nothing => {
                let start = if access == Access::Read { ZEROES.as_ptr().cast_mut() } else { sink() };
                for offset in (0..size).step_by(NOTHING) {
                    visit(start, offset, usize::try_from(size - offset).map_or(NOTHING, |rest| rest.min(NOTHING)));
                }
            }
        }
    }
}

/// Where Linux 6.6.1 to 6.6.13, 6.7.0 and 6.7.1 map the trap handler of a process: the lowest of the high addresses, where
/// RADV's first program or command buffer is. Other versions use addresses that they withhold from programs.
const TRAP_HANDLER: std::ops::Range<u64> = 1 << 47..(1 << 47) + 2 * PAGE;

#[derive(Debug, Default)]
pub(crate) struct Space {
    spans: BTreeMap<u64, Span>,
    /// The open file whose addresses include the trap handler: KFD uses its page tables.
    trap_handler_of: Option<u64>,
}

impl Space {
    /// Maps the trap handler among the addresses of an open file. Fails if it has mapped one of these addresses.
    pub(crate) fn map_trap_handler(&mut self, file: u64) -> Result<()> {
        if self.overlapping(TRAP_HANDLER).any(|(_, span)| span.owner == Owner::Gem(file)) {
            return Err(Errno::INVAL);
        }
        self.trap_handler_of = Some(file);
        Ok(())
    }

    /// The mappings that have an address of a range.
    fn overlapping(&self, range: std::ops::Range<u64>) -> impl Iterator<Item = (u64, &Span)> {
        let spans = self.spans.range(..range.end).map(|(at, span)| (*at, span));
        spans.filter(move |(at, span)| at + span.length > range.start)
    }

    /// Maps addresses starting at `start`. Fails if one of them is mapped already.
    pub(crate) fn map(&mut self, start: u64, span: Span) -> Result<()> {
        let start = bits_of(start);
        let end = start.checked_add(span.length).ok_or(Errno::INVAL)?;
        if !start.is_multiple_of(PAGE) || span.length == 0 {
            return Err(Errno::INVAL);
        }
        if self.spans.range(..end).next_back().is_some_and(|(before, span)| before + span.length > start) {
            return Err(Errno::INVAL);
        }
        let has_trap_handler = self.trap_handler_of.is_some_and(|file| span.owner == Owner::Gem(file));
        if has_trap_handler && start < TRAP_HANDLER.end && end > TRAP_HANDLER.start {
            return Err(Errno::INVAL);
        }
        self.spans.insert(start, span);
        Ok(())
    }

    /// Removes the mapping at `start` if it is one of this object by this owner.
    pub(crate) fn unmap_of(&mut self, start: u64, owner: Owner, object: Option<&Arc<Storage>>) -> Result<Span> {
        let span = self.spans.get(&bits_of(start)).ok_or(Errno::INVAL)?;
        let same = match (&span.backing, object) {
            (Backing::Object { storage, .. }, Some(object)) => Arc::ptr_eq(storage, object),
            (Backing::Nothing, None) => true,
            _ => false,
        };
        if same && span.owner == owner { self.unmap(start) } else { Err(Errno::INVAL) }
    }

    /// Removes the mapping at `start`.
    pub(crate) fn unmap(&mut self, start: u64) -> Result<Span> {
        self.spans.remove(&bits_of(start)).ok_or(Errno::INVAL)
    }

    /// Removes all mappings within a range, and truncates those that extend beyond it.
    pub(crate) fn clear(&mut self, start: u64, length: u64) {
        let start = bits_of(start);
        let end = start.saturating_add(length);
        let touched: Vec<_> = self.overlapping(start..end).map(|(at, _)| at).collect();
        for at in touched {
            let Some(span) = self.spans.remove(&at) else { continue };
            let span_end = at + span.length;
            if at < start {
                self.spans.insert(at, Span { length: start - at, ..span.clone() });
            }
            if span_end > end {
                let (length, backing) = (span_end - end, span.backing.advanced(end - at));
                self.spans.insert(end, Span { length, backing, ..span });
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
        let address = bits_of(address);
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
                    span.pieces(at - start, part, access, |pointer, offset, length| {
                        visit(pointer, at - address + offset, length);
                    });
                }
                at += part;
            }
        }
        Ok(())
    }

    fn find(&self, address: u64) -> Option<(u64, &Span)> {
        let (start, span) = self.spans.range(..=address).next_back()?;
        (address < start + span.length).then_some((*start, span))
    }

    /// Removes all mappings of an object made by its handle of an open file.
    pub(crate) fn unmap_object(&mut self, file: u64, object: &Arc<Storage>) {
        let is_object = |backing: &Backing| match backing {
            Backing::Object { storage, .. } => Arc::ptr_eq(storage, object),
            Backing::Nothing => false,
        };
        self.spans.retain(|_, span| span.owner != Owner::Gem(file) || !is_object(&span.backing));
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }
}

// SAFETY: a span's bytes are mapped in this process while its storage lives, which is as long as the span is here; the
// application and the other queues access them at the same time only as with a real GPU. The others are static.
unsafe impl gpu_interop_sim_gfx9::Memory for Space {
    fn find(&self, address: u64) -> Option<Mapping> {
        let bits = bits_of(address);
        let (start, span) = Self::find(self, bits)?;
        // In the form of the address, with or without its extension.
        let start = address - (bits - start);
        let (start, length, host, writable) = match &span.backing {
            Backing::Object { storage, offset } => {
                let skip = usize::try_from(*offset).ok()?;
                (start, span.length, storage.address().wrapping_add(skip), span.writable)
            }
            // Writes would be seen by reads, so they are page faults.
            Backing::Nothing => (address & !0xfff, 0x1000, ZEROES.as_ptr().cast_mut(), false),
        };
        Some(Mapping { start, length, host, writable })
    }
}

#[cfg(test)]
mod tests {
    use super::super::dmabuf::Form;
    use super::super::pool::Pool;
    use super::*;

    fn span(pool: &Arc<Pool>, size: u64, writable: bool) -> Span {
        let backing = Backing::Object { storage: Storage::new(pool, size, None, Form::Plain).unwrap(), offset: 0 };
        Span { length: size, backing, writable, owner: Owner::Kfd }
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
        let offset = |span: &Span| match span.backing {
            Backing::Object { offset, .. } => offset,
            Backing::Nothing => panic!("it has an object"),
        };
        let ranges: Vec<_> = space.spans.iter().map(|(at, span)| (*at, span.length, offset(span))).collect();
        assert_eq!(ranges, [(0x2000, 0x1000, 0), (0x4000, 0x1000, 0x2000)]);
        assert!(space.unmap(0x3000).is_err());
        assert_eq!(offset(&space.unmap(0x4000).unwrap()), 0x2000);
    }

    #[test]
    fn high_addresses_are_the_same_with_and_without_their_extension() {
        let pool = Arc::new(Pool::new().unwrap());
        let mut space = Space::default();
        space.map(0xffff_8000_0010_0000, span(&pool, 0x1000, true)).unwrap();
        for address in [0xffff_8000_0010_0ff0, 0x8000_0010_0ff0] {
            assert_eq!(parts(&space, address, 0x10, Access::Write), Ok(vec![(0, 16)]), "{address:#x}");
        }
        assert!(parts(&space, 0x1_8000_0010_0ff0, 0x10, Access::Read).is_err(), "not a 48-bit address");
        assert!(parts(&space, 0x10_0ff0, 0x10, Access::Read).is_err());
        space.clear(0x8000_0010_0000, 0x1000);
        assert_eq!(space.len(), 0);
    }

    #[test]
    fn a_range_without_memory_reads_as_zero_and_keeps_no_writes() {
        let mut space = Space::default();
        let span = Span { length: 0x2_0000, backing: Backing::Nothing, writable: true, owner: Owner::Gem(1) };
        space.map(0x1000, span).unwrap();
        let mut lengths = Vec::new();
        let write = |pointer: *mut u8, offset, length| {
            lengths.push((offset, length));
            // SAFETY: the piece has this length.
            unsafe { pointer.write_bytes(7, length) };
        };
        space.visit(0, 0x2000, 0x1_1000, Access::Write, write).unwrap();
        assert_eq!(lengths, [(0, 0x1_0000), (0x1_0000, 0x1000)]);
        let mut found = Vec::new();
        space
            .visit(0, 0x2000, 0x1_1000, Access::Read, |pointer, _, length| {
                // SAFETY: the piece has this length.
                found.extend_from_slice(unsafe { std::slice::from_raw_parts(pointer, length) });
            })
            .unwrap();
        assert_eq!(found, vec![0; 0x1_1000]);
    }

    #[test]
    fn the_interpreter_finds_mappings_by_both_forms_of_an_address() {
        use gpu_interop_sim_gfx9::Memory;
        let pool = Arc::new(Pool::new().unwrap());
        let mut space = Space::default();
        let storage = Storage::new(&pool, 0x3000, None, Form::Plain).unwrap();
        let host = storage.address().wrapping_add(0x1000);
        let backing = Backing::Object { storage, offset: 0x1000 };
        space.map(0x8000_0000_1000, Span { length: 0x2000, backing, writable: false, owner: Owner::Kfd }).unwrap();
        for form in [0x8000_0000_0000, 0xffff_8000_0000_0000] {
            let found = Memory::find(&space, form + 0x2ffc).unwrap();
            assert_eq!((found.start, found.length, found.host, found.writable), (form + 0x1000, 0x2000, host, false));
        }
        assert!(Memory::find(&space, 0x8000_0000_3000).is_none());
    }

    #[test]
    fn the_trap_handler_and_memory_of_one_file_exclude_each_other() {
        let pool = Arc::new(Pool::new().unwrap());
        let mapped = |file| Span { owner: Owner::Gem(file), ..span(&pool, 0x1000, true) };
        let mut space = Space::default();
        space.map(0xffff_8000_0000_1000, mapped(1)).unwrap();
        assert_eq!(space.map_trap_handler(1), Err(Errno::INVAL), "the memory was first");
        space.map_trap_handler(2).unwrap();
        assert_eq!(space.map(0xffff_8000_0000_0000, mapped(2)), Err(Errno::INVAL), "the trap handler was first");
        space.map(0xffff_8000_0000_2000, mapped(2)).unwrap();
        space.map(0xffff_8000_0000_0000, mapped(1)).unwrap();
    }

    #[test]
    fn closing_a_handle_unmaps_what_its_file_mapped() {
        let pool = Arc::new(Pool::new().unwrap());
        let mut space = Space::default();
        let storage = Storage::new(&pool, 0x1000, None, Form::Plain).unwrap();
        for (start, owner) in [(0x1000, Owner::Gem(1)), (0x2000, Owner::Gem(2)), (0x3000, Owner::Kfd)] {
            let backing = Backing::Object { storage: Arc::clone(&storage), offset: 0 };
            space.map(start, Span { length: 0x1000, backing, writable: true, owner }).unwrap();
        }
        space.unmap_object(1, &storage);
        assert_eq!(space.spans.keys().copied().collect::<Vec<_>>(), [0x2000, 0x3000]);
    }
}
