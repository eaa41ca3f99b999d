//! Imported memory, and what is mapped or allocated.

use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::fs::{FileType, SealFlags};

use crate::descriptor;
use crate::mapping::Mapping;
use crate::objects::Objects;

/// lavapipe's header, bytes. Its second word says so.
pub(crate) const LAVAPIPE_HEADER: usize = 4096;
const PAGE: usize = 4096;

/// A memory file that was imported.
#[derive(Debug)]
pub struct Imported {
    file: Mapping,
    /// Where the data begins.
    header: usize,
    /// Bytes of data, as far as ranges are checked.
    size: u64,
    /// Mapped from its first byte on only.
    dedicated: bool,
    /// Whether it may only be read.
    read_only: bool,
    /// Whether images lie in it as in lavapipe's memory.
    images: bool,
    /// Dropped with it.
    _keeps: Option<Arc<dyn Any + Send + Sync>>,
}

/// Imported memory.
pub static IMPORTED: Objects<Imported> = Objects::new();
/// Mapped ranges of imported memory, and allocations, by their first address.
static MAPPED: Objects<Buffer> = Objects::new();

#[derive(Debug)]
struct Buffer {
    _keeps: Kept,
    imported: bool,
}

/// What an address keeps alive.
#[derive(Debug)]
enum Kept {
    /// A mapping of its own.
    Mapping { _mapping: Mapping },
    /// The mapping that the import made.
    Import { _import: Arc<Imported> },
}

/// Maps the file behind a descriptor; `None` if it is no memory.
pub(crate) fn map_file(fd: RawFd) -> Option<Mapping> {
    let fd = descriptor::borrow(fd)?;
    let stat = rustix::fs::fstat(fd).ok()?;
    let length = usize::try_from(stat.st_size).ok().filter(|length| *length > 0)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    Mapping::of_file(fd, 0, length).ok()
}

impl Imported {
    /// Imports what a descriptor refers to, which stays open. `None` if it is no memory. Any memory will do, a
    /// semaphore's too, as with the real drivers.
    #[must_use]
    pub fn open(fd: RawFd) -> Option<Self> {
        let file = map_file(fd)?;
        let header = if is_lavapipe(descriptor::borrow(fd)?, &file) { LAVAPIPE_HEADER } else { 0 };
        let size = (file.length() - header) as u64;
        let images = header == LAVAPIPE_HEADER;
        Some(Self { file, header, size, dedicated: false, read_only: false, images, _keeps: None })
    }

    /// Imported with an object behind it, which lives as long.
    #[must_use]
    pub fn keeping(self, keeps: Arc<dyn Any + Send + Sync>) -> Self {
        Self { _keeps: Some(keeps), ..self }
    }

    /// Whatever is mapped may only be read: who writes dies, as with a GPU's fault.
    #[must_use]
    pub fn read_only(self, read_only: bool) -> Self {
        Self { read_only, ..self }
    }

    /// Images lie in it as in lavapipe's memory.
    #[must_use]
    pub fn with_images(self, images: bool) -> Self {
        Self { images, ..self }
    }

    /// Imported as a dedicated allocation, which is mapped from its first byte on only.
    #[must_use]
    pub fn dedicated(self, dedicated: bool) -> Self {
        Self { dedicated, ..self }
    }

    /// Whether images lie in it as [`crate::array`] has them: in the memory of lavapipe, and in what looks like it.
    #[must_use]
    pub fn has_known_images(&self) -> bool {
        self.images
    }

    /// As much memory as the importer said. Who uses more than there is dies, as with a runtime that does not look.
    #[must_use]
    pub fn sized(self, size: u64) -> Self {
        Self { size, ..self }
    }

    /// Maps a range at an address of its own; [`free`] ends it. `None` if the range is not inside, or empty.
    #[must_use]
    pub fn map(&self, offset: u64, size: u64) -> Option<usize> {
        let end = offset.checked_add(size)?;
        if size == 0 || end > self.size || (self.dedicated && offset > 0) {
            return None;
        }
        let (mapping, lead) = self.again(offset, size)?;
        let address = mapping.base() + lead;
        MAPPED.insert_as(address, Buffer { _keeps: Kept::Mapping { _mapping: mapping }, imported: true });
        Some(address)
    }

    /// The address of a range in the mapping that the import made. `None` if the range is not inside, or empty.
    #[must_use]
    pub fn address(&self, offset: u64, size: u64) -> Option<usize> {
        let inside = size > 0 && offset.checked_add(size).is_some_and(|end| end <= self.size);
        let start = self.file.base() + self.header;
        if inside { start.checked_add(usize::try_from(offset).ok()?) } else { None }
    }

    /// Notes an address of [`Imported::address`], which [`free`] forgets; until then the memory lives. There is one
    /// entry for each address, however often it is noted.
    pub fn note(self: Arc<Self>, address: usize) {
        MAPPED.insert_as(address, Buffer { _keeps: Kept::Import { _import: self }, imported: true });
    }
}

impl Imported {
    /// The memory from `offset` on, once more, for an image. Also how many bytes lie before the image. `None` if there is
    /// nothing at this offset.
    #[must_use]
    pub fn map_rest(&self, offset: u64) -> Option<(Mapping, usize)> {
        self.again(offset, self.size.checked_sub(offset).filter(|rest| *rest > 0)?)
    }

    /// A mapping of whole pages, and where in it the range begins.
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

/// Whether a file is memory of lavapipe: sealed, and it begins with the file's size and the header's.
fn is_lavapipe(fd: BorrowedFd<'_>, file: &Mapping) -> bool {
    let sealed = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
    let mut words = [0_u8; 16];
    file.length() > LAVAPIPE_HEADER
        && rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(sealed))
        && rustix::io::pread(fd, &mut words[..], 0).is_ok_and(|read| read == words.len())
        && words[..8] == file.length().to_ne_bytes()
        && words[8..] == LAVAPIPE_HEADER.to_ne_bytes()
}

/// Allocates memory; [`free`] ends it.
#[must_use]
pub fn allocate(size: usize) -> Option<usize> {
    let mapping = Mapping::anonymous(size).ok()?;
    let address = mapping.base();
    MAPPED.insert_as(address, Buffer { _keeps: Kept::Mapping { _mapping: mapping }, imported: false });
    Some(address)
}

/// Frees a mapped range or an allocation by its first address; `false` if there is none.
pub fn free(address: usize) -> bool {
    MAPPED.remove(address).is_some()
}

/// How many mapped ranges of imported memory there are, and how many allocations.
pub(crate) fn live() -> (u64, u64) {
    let all: Vec<Arc<Buffer>> = MAPPED.all();
    let imported = all.iter().filter(|buffer| buffer.imported).count() as u64;
    (imported, all.len() as u64 - imported)
}

/// A new descriptor of a file.
pub(crate) fn duplicate(fd: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), 0)
}
