//! Linux: memfds and futexes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use gpu_interop_core::handle::{FdKind, cannot_duplicate, classify_fd};
use gpu_interop_core::{
    Error, ErrorKind, MemoryHandle, MemoryHandleKind, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphorePayload,
    caught,
};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::{ClockId, futex};
use rustix::time::{Timespec, clock_gettime};

use super::{CannotSleep, Word};

/// Handle of shared memory.
pub(crate) type Owned = OwnedFd;
pub(crate) type Borrowed<'a> = BorrowedFd<'a>;

/// Handle kinds of shared memory.
pub(crate) const MEMORY: MemoryHandleKind = MemoryHandleKind::OpaqueFd;
pub(crate) const BINARY_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::OpaqueFd;
pub(crate) const TIMELINE_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineFd;

/// Maximum number of words per system call (`FUTEX_WAITV_MAX`).
const MOST_WORDS: usize = 128;
/// `f_type` of the huge page file system in `fstatfs` (`linux/magic.h`).
const HUGETLBFS_MAGIC: i64 = 0x9584_58f6;

pub(crate) fn borrow(memory: &Owned) -> Borrowed<'_> {
    memory.as_fd()
}

/// Page size in bytes.
pub(crate) fn page() -> u64 {
    rustix::param::page_size() as u64
}

/// Alignment of mapping offsets in bytes.
pub(crate) fn granularity() -> u64 {
    page()
}

/// Duplicates the file descriptor of a memory handle.
pub(crate) fn of_memory(operation: &'static str, handle: &MemoryHandle) -> Result<Owned> {
    let only = || Error::unsupported(operation, "the host backend imports file descriptors only");
    duplicate(operation, handle.as_fd().ok_or_else(only)?)
}

/// Duplicates the file descriptor of a semaphore handle.
pub(crate) fn of_semaphore(operation: &'static str, handle: &SemaphoreHandle) -> Result<Owned> {
    let only = || Error::unsupported(operation, "the host backend imports file descriptors only");
    duplicate(operation, handle.as_fd().ok_or_else(only)?)
}

pub(crate) fn to_memory(memory: Owned) -> MemoryHandle {
    MemoryHandle::OpaqueFd(memory)
}

pub(crate) fn to_semaphore(memory: Owned, payload: SemaphorePayload) -> SemaphoreHandle {
    match payload {
        SemaphorePayload::Timeline => SemaphoreHandle::TimelineFd(memory),
        _ => SemaphoreHandle::OpaqueFd(memory),
    }
}

/// Rejects file descriptors that are not shared memory; reading other descriptors could block.
pub(crate) fn check_is_memory(memory: Borrowed<'_>) -> Result<(), FdKind> {
    match classify_fd(memory) {
        FdKind::Memory => Ok(()),
        other => Err(other),
    }
}

/// Returns whether no other user can remove a page of the memory. An access to a removed page raises `SIGBUS`.
pub(crate) fn cannot_shrink(memory: Borrowed<'_>) -> bool {
    // Holes in huge page files can be filled only while the pool has free pages. The type of `f_type` differs between
    // targets; i64 holds all of them.
    #[allow(clippy::unnecessary_cast)]
    let small_pages = rustix::fs::fstatfs(memory).is_ok_and(|fs| fs.f_type as i64 != HUGETLBFS_MAGIC);
    small_pages && rustix::fs::fcntl_get_seals(memory).is_ok_and(|seals| seals.contains(SealFlags::SHRINK))
}

/// Seals the file permanently so that it [cannot shrink](cannot_shrink). Fails if it cannot be sealed.
pub(crate) fn keep_from_shrinking(memory: Borrowed<'_>) -> io::Result<()> {
    if !cannot_shrink(memory) {
        rustix::fs::fcntl_add_seals(memory, SealFlags::SHRINK)?;
    }
    if cannot_shrink(memory) {
        Ok(())
    } else {
        Err(io::Error::other("the memory has huge pages, whose pool can be exhausted"))
    }
}

/// Returns whether the memory has the seals against resizing and against further seals.
pub(crate) fn is_sealed_completely(memory: Borrowed<'_>) -> bool {
    let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
    rustix::fs::fcntl_get_seals(memory).is_ok_and(|seals| seals.contains(all))
}

/// Reads the first bytes. Returns false if the memory is shorter than `bytes`.
pub(crate) fn read_start(memory: Borrowed<'_>, bytes: &mut [u8]) -> bool {
    let length = bytes.len();
    rustix::io::pread(memory, bytes, 0).is_ok_and(|read| read == length)
}

/// Duplicates a file descriptor with close-on-exec set.
pub(crate) fn duplicate(operation: &'static str, memory: Borrowed<'_>) -> Result<Owned> {
    memory.try_clone_to_owned().map_err(|error| cannot_duplicate(operation, error))
}

/// Size of the memory in bytes.
pub(crate) fn size(operation: &'static str, memory: Borrowed<'_>) -> Result<u64> {
    let stat = rustix::fs::fstat(memory).map_err(|errno| {
        Error::new(ErrorKind::System, operation, "cannot query the size of the file descriptor")
            .with_source(io::Error::from(errno))
    })?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}

/// Creates an unnamed shared memory file of `size` bytes, sealed against resizing.
pub(crate) fn create(name: &str, size: u64) -> Result<Owned> {
    let failed = |operation: &'static str| {
        move |errno: Errno| {
            let kind = match errno {
                Errno::NOMEM | Errno::NOSPC | Errno::FBIG => ErrorKind::OutOfMemory,
                _ => ErrorKind::System,
            };
            Error::new(kind, operation, "cannot create shared memory")
                .with_context("size", size)
                .with_source(io::Error::from(errno))
        }
    };
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
        .map_err(failed("memfd_create"))?;
    rustix::fs::ftruncate(&fd, size).map_err(failed("ftruncate"))?;
    rustix::fs::fcntl_add_seals(fd.as_fd(), SealFlags::SHRINK | SealFlags::GROW)
        .map_err(failed("fcntl(F_ADD_SEALS)"))?;
    Ok(fd)
}

/// Maps a range, shared, for reads and writes. `offset` is a multiple of [`granularity`]. Rejects ranges beyond the end
/// of the memory, which the kernel would map.
pub(crate) fn map(memory: Borrowed<'_>, offset: u64, length: usize) -> Result<NonNull<u8>> {
    let size = size("mmap", memory)?;
    if offset.checked_add(length as u64).is_none_or(|end| end > size) {
        return Err(Error::new(
            ErrorKind::ImportRejected,
            "mmap",
            "the memory is smaller than the range; it was truncated after the import",
        )
        .with_context("memory", format_args!("{size} bytes")));
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh shared mapping at an address of the kernel's choice touches no existing memory.
    let base = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, memory, offset) };
    let failed = |kind, source| Error::new(kind, "mmap", "the kernel cannot map the memory").with_source(source);
    match base {
        Ok(base) => NonNull::new(base.cast::<u8>())
            .ok_or_else(|| failed(ErrorKind::System, io::Error::other("mmap returned the address 0"))),
        Err(errno @ Errno::NOMEM) => Err(failed(ErrorKind::OutOfMemory, errno.into())),
        Err(errno) => Err(failed(ErrorKind::System, errno.into())),
    }
}

/// Unmaps a mapping of [`map`].
///
/// # Safety
/// `base` and the length are those of a whole mapping of [`map`] that is not used afterwards.
pub(crate) unsafe fn unmap(base: NonNull<u8>, length: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    Ok(unsafe { rustix::mm::munmap(base.as_ptr().cast(), length) }?)
}

/// Sleeps while `word` has the value `expected`, for at most `longest`. Spurious wake-ups are possible.
pub(crate) fn sleep(word: &AtomicU32, expected: u32, longest: Duration) {
    let longest = Timespec {
        tv_sec: longest.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: i64::from(longest.subsec_nanos()),
    };
    // The caller checks its condition after every result: woken, value changed, interrupted, timed out. Without
    // FUTEX_PRIVATE, because another process may wake the word.
    let _ = futex::wait(word, futex::Flags::empty(), expected, Some(&longest));
}

/// Wakes all sleepers on a word; `shared` if they may be in other processes.
pub(crate) fn wake(word: &AtomicU32, shared: bool) {
    let flags = if shared { futex::Flags::empty() } else { futex::Flags::PRIVATE };
    if let Err(errno) = futex::wake(word, flags, i32::MAX.cast_unsigned()) {
        // A subscriber may panic, on the thread of a stream.
        let _ = caught(|| tracing::error!(%errno, "waking waiters failed; they resume at their next poll"));
    }
}

/// Sleeps while all words have their expected values, for at most `longest`. Spurious wake-ups are possible.
pub(crate) fn sleep_on_all(words: &[Word<'_>], longest: Duration) -> Result<(), CannotSleep> {
    let wait = |word: &Word<'_>| {
        let mut wait = futex::Wait::new();
        wait.val = word.expected.into();
        wait.uaddr = futex::WaitPtr::new(word.word.as_ptr().cast());
        wait.flags = futex::WaitFlags::SIZE_U32;
        if !word.shared {
            wait.flags |= futex::WaitFlags::PRIVATE;
        }
        wait
    };
    if words.len() > MOST_WORDS {
        return Err(CannotSleep);
    }
    let words: Vec<_> = words.iter().map(wait).collect();
    match futex::waitv(&words, futex::WaitvFlags::empty(), deadline(longest).as_ref(), ClockId::Monotonic) {
        // `futex_waitv` is missing (before Linux 5.16) or forbidden for this process.
        Err(Errno::NOSYS | Errno::PERM) => Err(CannotSleep),
        _ => Ok(()),
    }
}

/// Time at which a timeout expires; `None` if it cannot be represented.
fn deadline(timeout: Duration) -> Option<Timespec> {
    let now = clock_gettime(ClockId::Monotonic);
    let now = Duration::new(u64::try_from(now.tv_sec).ok()?, u32::try_from(now.tv_nsec).ok()?);
    Timespec::try_from(now.checked_add(timeout)?).ok()
}
