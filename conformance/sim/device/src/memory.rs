//! Imported memory, mappings and allocations.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::device::InUse;
use crate::objects::Objects;
use crate::system;
use crate::system::{ImportHandle, Mapping, Opened, PAGE};

/// An imported memory file.
#[derive(Debug)]
pub struct Imported {
    file: Mapping,
    /// Offset of the data.
    header: usize,
    /// Size of the data in bytes, for checks of ranges.
    size: u64,
    /// Can be mapped only from its first byte.
    dedicated: bool,
    /// Only permits reads.
    read_only: bool,
    /// `true` if images have lavapipe's layout.
    images: bool,
    /// `true` if its image is not pitch-linear, so that its content cannot be used as a buffer.
    no_rows: bool,
    /// Dropped with it.
    _keeps: Option<Arc<dyn Any + Send + Sync>>,
    _in_use: InUse,
}

/// Imported memory.
pub static IMPORTED: Objects<Imported> = Objects::new();
/// Mapped ranges of imported memory, and allocations, by their first address.
static MAPPED: Objects<Buffer> = Objects::new();

/// Pages of the process that are pinned, by their first address.
static PINNED: Objects<()> = Objects::new();

#[derive(Debug)]
struct Buffer {
    _keeps: KeptMemory,
    imported: bool,
    /// Not used twice.
    number: u64,
    /// A reset of the device leaves it, as memory for signals.
    survives: bool,
}

impl Buffer {
    fn new(keeps: KeptMemory, imported: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self { _keeps: keeps, imported, number: NEXT.fetch_add(1, Ordering::Relaxed), survives: false }
    }
}

/// The object that an address keeps alive.
#[derive(Debug)]
enum KeptMemory {
    /// A separate mapping.
    Mapping { _mapping: Mapping, _in_use: InUse },
    /// The import's own mapping.
    Import { _import: Arc<Imported> },
}

impl KeptMemory {
    fn mapping(mapping: Mapping) -> Self {
        Self::Mapping { _in_use: InUse::new(mapping.length()), _mapping: mapping }
    }
}

impl Imported {
    /// Imports a handle, which the caller still owns. `None` if it is not memory. Any memory is accepted, also a
    /// semaphore's, as by the real drivers.
    pub fn open(given: ImportHandle) -> Option<Self> {
        let Opened { mapping: file, header, images } = system::open(given)?;
        let (size, in_use) = ((file.length() - header) as u64, InUse::new(file.length()));
        let (dedicated, read_only, no_rows) = (false, false, false);
        Some(Self { file, header, size, dedicated, read_only, images, no_rows, _keeps: None, _in_use: in_use })
    }

    /// Bytes of data.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Keeps an object alive with the import.
    #[must_use]
    pub fn keeping(self, keeps: Arc<dyn Any + Send + Sync>) -> Self {
        Self { _keeps: Some(keeps), ..self }
    }

    /// Makes all mappings read-only: a write crashes the process, as a GPU fault does.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Sets whether images have lavapipe's layout.
    #[must_use]
    pub fn with_images(self, images: bool) -> Self {
        Self { images, ..self }
    }

    /// Sets whether its image is not pitch-linear: it cannot be mapped as a buffer.
    #[must_use]
    pub fn without_rows(self, no_rows: bool) -> Self {
        Self { no_rows, ..self }
    }

    /// Sets whether it is a dedicated allocation, which is mapped only from its first byte.
    #[must_use]
    pub fn dedicated(self, dedicated: bool) -> Self {
        Self { dedicated, ..self }
    }

    /// `true` if images have the layout of [`crate::array`]: in lavapipe's memory, and in memory with the same header.
    pub fn has_known_images(&self) -> bool {
        self.images
    }

    /// Sets the size to the importer's value. Accesses beyond the real size crash the process, as with a runtime that
    /// does not check it.
    #[must_use]
    pub fn sized(self, size: u64) -> Self {
        Self { size, ..self }
    }

    /// Maps a range at a new address; [`free`] unmaps it. `None` if the range is empty or not inside, or the image is
    /// not pitch-linear.
    pub fn map(&self, offset: u64, size: u64) -> Option<usize> {
        let end = offset.checked_add(size)?;
        if size == 0 || end > self.size || (self.dedicated && offset > 0) || self.no_rows {
            return None;
        }
        let (mapping, lead) = self.again(offset, size)?;
        let address = mapping.base() + lead;
        MAPPED.insert_as(address, Buffer::new(KeptMemory::mapping(mapping), true));
        Some(address)
    }

    /// Leaks as much of the device's memory as the import has.
    pub fn lose(&self) {
        std::mem::forget(InUse::new(self.file.length()));
    }

    /// The first address of the import's own mapping.
    pub fn first(&self) -> usize {
        self.file.base() + self.header
    }

    /// Records an address in the import's own mapping, which keeps the memory alive until [`free`]. An address has one
    /// entry, however often it is recorded.
    pub fn note(self: Arc<Self>, address: usize) {
        MAPPED.insert_as(address, Buffer::new(KeptMemory::Import { _import: self }, true));
    }
}

impl Imported {
    /// Maps the memory starting at `offset` again, for an image. Also returns the number of bytes before the image.
    /// `None` if the memory ends before `offset`.
    pub fn map_rest(&self, offset: u64) -> Option<(Mapping, usize)> {
        self.again(offset, self.size.checked_sub(offset).filter(|rest| *rest > 0)?)
    }

    /// As [`Imported::map_rest`], up to the real size of the memory.
    pub fn map_real_rest(&self, offset: u64) -> Option<(Mapping, usize)> {
        let real = (self.file.length() - self.header) as u64;
        self.again(offset, real.checked_sub(offset).filter(|rest| *rest > 0)?)
    }

    /// A mapping at a valid offset, and the position of the range in it.
    fn again(&self, offset: u64, size: u64) -> Option<(Mapping, usize)> {
        let start = self.header + usize::try_from(offset).ok()?;
        let lead = start % PAGE;
        let mapping = self.file.again(start - lead, usize::try_from(size).ok()? + lead).ok()?;
        if self.read_only {
            mapping.forbid_writes().ok()?;
        }
        Some((mapping, lead))
    }
}

/// Allocates memory; [`free`] ends it, and a reset of the device unless it `survives`.
pub fn allocate(size: usize, survives: bool) -> Option<usize> {
    let mapping = Mapping::anonymous(size).ok()?;
    let address = mapping.base();
    MAPPED.insert_as(address, Buffer { survives, ..Buffer::new(KeptMemory::mapping(mapping), false) });
    Some(address)
}

/// The number of the mapped range or allocation that begins at an address.
pub fn number(address: usize) -> Option<u64> {
    MAPPED.get(address).map(|buffer| buffer.number)
}

/// Pins a page of the process; `false` if it is pinned already.
pub fn pin(address: usize) -> bool {
    let new = PINNED.get(address).is_none();
    PINNED.insert_as(address, ());
    new
}

/// `true` if the page was pinned, and not unpinned.
pub fn is_pinned(address: usize) -> bool {
    PINNED.get(address).is_some()
}

/// Unpins a page; `false` if it is not pinned.
pub fn unpin(address: usize) -> bool {
    PINNED.remove(address).is_some()
}

/// Ends imports, mappings, allocations and pins, as a reset of the device does.
pub(crate) fn reset() {
    IMPORTED.take_all();
    PINNED.take_all();
    MAPPED.retain(|buffer| buffer.survives);
}

/// Frees a mapped range or an allocation by its first address; `false` if the address is unknown.
pub fn free(address: usize) -> bool {
    MAPPED.remove(address).is_some()
}

/// The number of mapped ranges of imported memory, and of allocations with pinned pages.
pub(crate) fn live() -> (u64, u64) {
    let all: Vec<Arc<Buffer>> = MAPPED.all();
    let imported = all.iter().filter(|buffer| buffer.imported).count() as u64;
    (imported, (all.len() + PINNED.len()) as u64 - imported)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};

    use super::*;

    fn file(size: u64) -> OwnedFd {
        let fd = rustix::fs::memfd_create("sim", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
        rustix::fs::ftruncate(&fd, size).expect("ftruncate");
        fd
    }

    /// Ranges that are empty or not inside are rejected: a driver that maps them would hide a defect of the library.
    #[test]
    fn ranges_are_those_of_the_import() {
        let fd = file(8192);
        let import = || Imported::open(fd.as_raw_fd()).expect("imports");
        let all = import();
        for (offset, size) in [(0, 8192), (0, 1), (8191, 1), (4096, 4096), (100, 5000)] {
            let address = all.map(offset, size).unwrap_or_else(|| panic!("{size} bytes from {offset} on"));
            assert!(free(address) && !free(address), "freed once");
        }
        for (offset, size) in [(0, 0), (0, 8193), (8192, 1), (4096, 4097), (u64::MAX, 2), (1, u64::MAX)] {
            assert_eq!(all.map(offset, size), None, "{size} bytes from {offset} on");
        }
        let dedicated = import().dedicated(true);
        assert_eq!(
            (dedicated.map(1, 1), dedicated.map(4096, 4096)),
            (None, None),
            "dedicated memory, not from its start"
        );
        assert!(dedicated.map(0, 4096).is_some_and(free));
        assert_eq!(import().without_rows(true).map(0, 1), None, "an image without rows");
        let half = import().sized(4096);
        assert_eq!((half.map(0, 4097), half.map(4096, 1)), (None, None), "the size that the importer said");
        assert!(half.map(0, 4096).is_some_and(free));
    }

    #[test]
    fn mappings_are_the_same_memory() {
        let fd = file(8192);
        let import = Imported::open(fd.as_raw_fd()).expect("imports");
        let [whole, part] = [(0, 8192), (4100, 8)].map(|(offset, size)| import.map(offset, size).expect("maps"));
        // SAFETY: both are mapped, and nothing else uses them.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<u8>(part).write_volatile(7);
            assert_eq!(std::ptr::with_exposed_provenance::<u8>(whole + 4100).read_volatile(), 7);
        }
        assert!(free(whole) && free(part));
    }
}
