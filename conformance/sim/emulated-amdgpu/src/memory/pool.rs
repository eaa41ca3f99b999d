//! Memory of buffer objects: one memfd, mapped once as a whole. A buffer object is a range of it. Also offsets of
//! objects on a render node.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::abi::Result;
use crate::lock;
use crate::memory::{Keeper, Storage};

/// Address space, not memory: pages are allocated when they are written.
const CAPACITY: u64 = 1 << 40;
const PAGE: u64 = 4096;
const LARGE_PAGE: u64 = 2 << 20;

#[derive(Debug)]
pub(crate) struct Pool {
    file: OwnedFd,
    base: NonNull<u8>,
    extents: Mutex<Extents>,
    names: Mutex<Names>,
    keeper: Arc<Keeper>,
}

// SAFETY: `base` is the address of a mapping that lives as long as the process; access to it is by raw pointers only.
unsafe impl Send for Pool {}
// SAFETY: as above; the extents are behind a lock.
unsafe impl Sync for Pool {}

/// Moves a descriptor of the emulation to a high number, so that the application gets the usual numbers.
pub(crate) fn high_descriptor(file: OwnedFd) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(&file, 900).unwrap_or(file)
}

impl Pool {
    pub(crate) fn new() -> Result<Self> {
        let file = high_descriptor(rustix::fs::memfd_create(c"emulated-amdgpu-memory", MemfdFlags::CLOEXEC)?);
        rustix::fs::ftruncate(&file, CAPACITY)?;
        let capacity = usize::try_from(CAPACITY).map_err(|_| Errno::NOMEM)?;
        // SAFETY: a new mapping at an address chosen by the kernel affects no other memory.
        let base = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                capacity,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                &file,
                0,
            )?
        };
        // A child does not inherit the GPU's memory, and a core dump does not contain it.
        for advice in [Advice::LinuxDontFork, Advice::LinuxDontDump] {
            // SAFETY: the range is the new mapping; both calls concern only children and core dumps.
            unsafe { rustix::mm::madvise(base, capacity, advice)? };
        }
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self {
            file,
            base,
            extents: Mutex::new(Extents::new(CAPACITY)),
            names: Mutex::default(),
            keeper: Arc::default(),
        })
    }

    pub(crate) fn keeper(&self) -> &Arc<Keeper> {
        &self.keeper
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The objects, by their offset on a render node.
    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        lock(&self.names)
    }

    /// Allocates a zeroed range of at least `size` bytes.
    pub(crate) fn take(&self, size: u64) -> Result<u64> {
        let alignment = if size >= LARGE_PAGE { LARGE_PAGE } else { PAGE };
        let mut extents = lock(&self.extents);
        let size = size.checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        extents.take(size, alignment).ok_or(Errno::NOMEM)
    }

    /// Frees a range, and returns its pages to the system.
    pub(crate) fn give(&self, offset: u64, size: u64) {
        let size = size.next_multiple_of(PAGE);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, punch, offset, size) {
            Ok(()) => lock(&self.extents).give(offset, size),
            // Not reused: the next owner would see the old contents.
            Err(error) => crate::report::failure(format_args!("memory is lost: fallocate: {error}")),
        }
    }

    /// The address of a range that [`take`](Self::take) returned.
    pub(crate) fn address(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset < CAPACITY);
        // `offset` is below the capacity, which is the mapping's length.
        self.base.as_ptr().wrapping_add(usize::try_from(offset).unwrap_or(0))
    }
}

/// Free extents: start and length. Adjacent ones are merged.
#[derive(Debug)]
pub(crate) struct Extents(BTreeMap<u64, u64>);

impl Extents {
    /// Creates a free range from 0 to `capacity`.
    pub(crate) fn new(capacity: u64) -> Self {
        Self(BTreeMap::from([(0, capacity)]))
    }

    /// Allocates `size` bytes at the lowest free multiple of `alignment`.
    pub(crate) fn take(&mut self, size: u64, alignment: u64) -> Option<u64> {
        let (start, length, offset) = self.0.iter().find_map(|(&start, &length)| {
            let offset = start.checked_next_multiple_of(alignment)?;
            (offset.checked_add(size)? <= start + length).then_some((start, length, offset))
        })?;
        self.0.remove(&start);
        for (start, end) in [(start, offset), (offset + size, start + length)] {
            if start < end {
                self.0.insert(start, end - start);
            }
        }
        Some(offset)
    }

    /// Frees a result of [`take`](Self::take).
    pub(crate) fn give(&mut self, offset: u64, size: u64) {
        let (mut start, mut end) = (offset, offset + size);
        if let Some((&before, &length)) = self.0.range(..offset).next_back().filter(|(s, l)| *s + *l == offset) {
            self.0.remove(&before);
            start = before;
            debug_assert_eq!(before + length, offset);
        }
        if let Some(length) = self.0.remove(&end) {
            end += length;
        }
        self.0.insert(start, end - start);
    }
}

/// Each object has a range of 1 TiB.
const SHIFT: u32 = 40;
/// Number of objects: an offset is a positive 64-bit number.
const LIMIT: u32 = 1 << 22;

/// The objects of a process by number.
#[derive(Debug, Default)]
pub(crate) struct Names {
    objects: BTreeMap<u32, Weak<Storage>>,
    last: u32,
}

/// The offset of an object's first byte.
pub(super) fn mmap_offset(name: u32) -> u64 {
    u64::from(name) << SHIFT
}

impl Names {
    /// Assigns a number to an object. Numbers are not reused soon.
    pub(super) fn insert(&mut self, object: Weak<Storage>) -> u32 {
        loop {
            self.last = (self.last + 1) % LIMIT;
            if self.last != 0 && !self.objects.contains_key(&self.last) {
                self.objects.insert(self.last, object);
                return self.last;
            }
        }
    }

    pub(super) fn remove(&mut self, name: u32) {
        self.objects.remove(&name);
    }

    /// The object at an offset, and the offset within it.
    pub(super) fn find(&self, offset: u64) -> Option<(Arc<Storage>, u64)> {
        let name = u32::try_from(offset >> SHIFT).ok()?;
        let object = self.objects.get(&name)?.upgrade()?;
        Some((object, offset & ((1 << SHIFT) - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::dmabuf::Form;

    #[test]
    fn extents_are_taken_aligned_and_merge_when_given_back() {
        let mut extents = Extents::new(100);
        assert_eq!(extents.take(10, 1), Some(0));
        assert_eq!(extents.take(10, 16), Some(16));
        assert_eq!(extents.take(6, 1), Some(10), "the gap before the aligned one");
        assert_eq!(extents.take(80, 1), None);
        assert_eq!(extents.take(74, 1), Some(26));
        assert_eq!(extents.0, BTreeMap::new());
        for (offset, size) in [(10, 6), (26, 74), (0, 10), (16, 10)] {
            extents.give(offset, size);
        }
        assert_eq!(extents.0, BTreeMap::from([(0, 100)]));
    }

    #[test]
    fn objects_are_found_by_their_offsets_while_they_live() {
        let pool = Arc::new(Pool::new().unwrap());
        let objects: Vec<_> = (0..3).map(|_| Storage::new(&pool, 8192, None, Form::Plain).unwrap()).collect();
        for object in &objects {
            let (found, within) = pool.names().find(object.mmap_offset() + 4096).unwrap();
            assert!(Arc::ptr_eq(&found, object) && within == 4096);
        }
        let offset = objects[1].mmap_offset();
        drop(objects);
        assert!(pool.names().find(offset).is_none());
        assert!(super::mmap_offset(LIMIT - 1) < 1 << 63);
    }
}
