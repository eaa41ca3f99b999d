//! Memory ranges, memory files and futexes.

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::{io, ptr};

use rustix::fs::{FileType, MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags};
use rustix::thread::futex;

use crate::system::Opened;
use crate::{descriptor, settings};

/// The handle of an import: a descriptor, which stays open.
pub type ImportHandle = RawFd;
/// The handle of an export: a descriptor owned by the caller.
pub type ExportHandle = RawFd;

/// The object of a handle that is passed as a pointer.
pub fn given(pointer: *mut std::ffi::c_void) -> ImportHandle {
    RawFd::try_from(pointer.addr()).unwrap_or(-1)
}

/// Both vendors' number of the exported handle type.
pub const EXPORTED_AS: u32 = 1;
/// Required alignment of the offsets of mappings, bytes.
pub(crate) const PAGE: usize = 4096;

/// Size of lavapipe's header, bytes. Its second word contains it.
const LAVAPIPE_HEADER: usize = 4096;

/// Crashes the process, as a driver does on an invalid pointer. The handler of Rust's runtime would return from a
/// raised signal.
pub fn die() -> ! {
    // SAFETY: both calls accept any signal number; the default action ends the process.
    unsafe {
        libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        libc::raise(libc::SIGSEGV);
    }
    std::process::abort()
}

/// Maps the file behind a descriptor; `None` if it is not memory.
pub(crate) fn map(fd: ImportHandle) -> Option<Mapping> {
    let fd = descriptor::borrow(fd)?;
    let stat = rustix::fs::fstat(fd).ok()?;
    let length = usize::try_from(stat.st_size).ok().filter(|length| *length > 0)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    Mapping::of_file(fd, 0, length).ok()
}

/// Opens the memory behind a descriptor; `None` if it is not memory.
pub(crate) fn open(fd: ImportHandle) -> Option<Opened> {
    let mapping = map(fd)?;
    let images = is_lavapipe(descriptor::borrow(fd)?, &mapping);
    Some(Opened { mapping, header: if images { LAVAPIPE_HEADER } else { 0 }, images })
}

/// `true` if a file is lavapipe's memory: sealed, and beginning with the sizes of the file and of the header.
fn is_lavapipe(fd: BorrowedFd<'_>, file: &Mapping) -> bool {
    let sealed = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
    let mut words = [0_u8; 16];
    file.length() > LAVAPIPE_HEADER
        && rustix::fs::fcntl_get_seals(fd).is_ok_and(|seals| seals.contains(sealed))
        && rustix::io::pread(fd, &mut words[..], 0).is_ok_and(|read| read == words.len())
        && words[..8] == file.length().to_ne_bytes()
        && words[8..] == LAVAPIPE_HEADER.to_ne_bytes()
}

/// The name of the memory files that these libraries export.
const NAME: &str = "simulated GPU memory";

/// `true` if a descriptor refers to memory exported by one of these libraries.
pub fn is_own(fd: ImportHandle) -> bool {
    let link = rustix::fs::readlink(format!("/proc/self/fd/{fd}"), Vec::new());
    link.is_ok_and(|link| link.to_string_lossy().starts_with(&format!("/memfd:{NAME}")))
}

/// A memory file that can be exported.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    file: Arc<OwnedFd>,
    header: usize,
}

impl SharedMemory {
    /// Creates one of `size` bytes, in the layout of `GPU_INTEROP_SIM_EXPORT`.
    pub(crate) fn new(size: usize) -> io::Result<Self> {
        let plain = settings::text("GPU_INTEROP_SIM_EXPORT").is_some_and(|kind| kind == "plain");
        let header = if plain { 0 } else { LAVAPIPE_HEADER };
        let file = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let length = (size.checked_add(header)).ok_or(rustix::io::Errno::FBIG)?;
        rustix::fs::ftruncate(&file, length as u64)?;
        if header > 0 {
            let mut words = [length.to_ne_bytes(), header.to_ne_bytes()].concat();
            words.extend(settings::bytes("GPU_INTEROP_SIM_EXPORT_HEADER").unwrap_or_default());
            rustix::io::pwrite(&file, &words, 0)?;
            // lavapipe finds its header by this word before the data when it frees the memory.
            rustix::io::pwrite(&file, &header.to_ne_bytes(), (header - size_of::<usize>()) as u64)?;
            rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW)?;
        }
        let file = Arc::new(file);
        Ok(Self { file, header })
    }

    /// Opens a file that any process exported, and returns its size; `None` if the descriptor is not one. The caller
    /// still owns the descriptor.
    pub(crate) fn open(fd: ImportHandle) -> Option<(Self, usize)> {
        if !is_own(fd) {
            return None;
        }
        let mapping = map(fd)?;
        let fd = descriptor::borrow(fd)?;
        let header = if is_lavapipe(fd, &mapping) { LAVAPIPE_HEADER } else { 0 };
        let file = Arc::new(rustix::io::fcntl_dupfd_cloexec(fd, 0).ok()?);
        Some((Self { file, header }, mapping.length() - header))
    }

    /// A new descriptor.
    pub(crate) fn export(&self) -> io::Result<ExportHandle> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&*self.file, 0)?.into_raw_fd())
    }

    /// Maps a range of it into reserved addresses, not accessible yet.
    pub(crate) fn map(&self, reserved: &Mapping, at: usize, size: usize, offset: usize) -> io::Result<()> {
        Ok(reserved.place(at, size, self.file.as_fd(), (self.header + offset) as u64)?)
    }
}

/// Sleeps while `word`, shared between processes, has the value `expected`. Has a timeout, because a process may have
/// been killed before waking others.
pub(crate) fn sleep(word: &AtomicU32, expected: u32) {
    let pause = futex::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let _ = futex::wait(word, futex::Flags::empty(), expected, Some(&pause));
}

/// Wakes all threads that sleep on a word.
pub(crate) fn wake(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX.cast_unsigned());
}

/// A mapped range, unmapped on drop. Its provenance is exposed, because it is passed as an address.
#[derive(Debug)]
pub struct Mapping {
    base: usize,
    length: usize,
}

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

impl Mapping {
    /// Maps `length` bytes of a file from `offset`, which is a multiple of the page size.
    pub(super) fn of_file(fd: BorrowedFd<'_>, offset: u64, length: usize) -> rustix::io::Result<Self> {
        // SAFETY: a new mapping at an address chosen by the kernel affects no other memory.
        let base = unsafe { rustix::mm::mmap(ptr::null_mut(), length, READ_WRITE, MapFlags::SHARED, fd, offset) }?;
        Ok(Self { base: base.expose_provenance(), length })
    }

    /// Maps `length` bytes of new memory, zeroed.
    pub fn anonymous(length: usize) -> rustix::io::Result<Self> {
        Self::fresh(length, READ_WRITE)
    }

    /// Reserves addresses without memory.
    pub fn reserved(length: usize) -> rustix::io::Result<Self> {
        Self::fresh(length, ProtFlags::empty())
    }

    fn fresh(length: usize, protection: ProtFlags) -> rustix::io::Result<Self> {
        // SAFETY: as in `of_file`.
        let base = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), length, protection, MapFlags::PRIVATE) }?;
        Ok(Self { base: base.expose_provenance(), length })
    }

    /// Maps the same memory again at another address: `length` bytes from `offset`, a multiple of the page size. For
    /// mappings of files.
    pub fn again(&self, offset: usize, length: usize) -> rustix::io::Result<Self> {
        let from = ptr::with_exposed_provenance_mut(self.base.wrapping_add(offset));
        // SAFETY: an old length of 0 keeps the old mapping, which is shared, and creates another.
        let base = unsafe { rustix::mm::mremap(from, 0, length, MremapFlags::MAYMOVE) }?;
        Ok(Self { base: base.expose_provenance(), length })
    }

    /// The first address.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Replaces the mapping at `at` by `length` bytes of a file, not accessible yet.
    ///
    /// # Errors
    /// The kernel's error; `INVAL` if the range is not inside this one.
    pub(super) fn place(&self, at: usize, length: usize, fd: BorrowedFd<'_>, offset: u64) -> rustix::io::Result<()> {
        let address = self.within(at, length)?;
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: the range belongs to this mapping, and its user requested the replacement.
        unsafe { rustix::mm::mmap(address, length, ProtFlags::empty(), flags, fd, offset) }.map(drop)
    }

    /// Makes a range accessible.
    ///
    /// # Errors
    /// The kernel's error; `INVAL` if the range is not inside this one.
    pub fn allow(&self, at: usize, length: usize) -> rustix::io::Result<()> {
        let address = self.within(at, length)?;
        // SAFETY: as in `place`.
        unsafe { rustix::mm::mprotect(address, length, MprotectFlags::READ | MprotectFlags::WRITE) }
    }

    /// Makes the whole range read-only.
    pub fn forbid_writes(&self) -> rustix::io::Result<()> {
        let address = self.within(self.base, self.length)?;
        // SAFETY: as in `place`.
        unsafe { rustix::mm::mprotect(address, self.length, MprotectFlags::READ) }
    }

    /// Removes the memory of a range; the addresses stay reserved.
    ///
    /// # Errors
    /// The kernel's error; `INVAL` if the range is not inside this one.
    pub fn clear(&self, at: usize, length: usize) -> rustix::io::Result<()> {
        let address = self.within(at, length)?;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        // SAFETY: as in `place`.
        unsafe { rustix::mm::mmap_anonymous(address, length, ProtFlags::empty(), flags) }.map(drop)
    }

    fn within(&self, at: usize, length: usize) -> rustix::io::Result<*mut std::ffi::c_void> {
        let inside = at.checked_sub(self.base).and_then(|start| start.checked_add(length));
        match inside {
            Some(end) if end <= self.length => Ok(ptr::with_exposed_provenance_mut(at)),
            _ => Err(rustix::io::Errno::INVAL),
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this object, as a whole. A later access crashes the process, as on a GPU.
        let unmapped = unsafe { rustix::mm::munmap(ptr::with_exposed_provenance_mut(self.base), self.length) };
        debug_assert_eq!(unmapped, Ok(()));
    }
}
