//! Windows: file mappings and `WaitOnAddress`.

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle, RawHandle};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use gpu_interop_core::handle::Win32Object;
use gpu_interop_core::{
    Error, ErrorKind, MemoryHandle, MemoryHandleKind, Result, SemaphoreHandle, SemaphoreHandleKind, SemaphorePayload,
};
use windows_sys::Win32::Foundation::{ERROR_COMMITMENT_LIMIT, ERROR_NOT_ENOUGH_MEMORY, INVALID_HANDLE_VALUE};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_ALL_ACCESS, FILE_MAP_READ, MEM_COMMIT, MEMORY_BASIC_INFORMATION,
    MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile, OpenFileMappingW, PAGE_READWRITE, UnmapViewOfFile, VirtualQuery,
};
use windows_sys::Win32::System::SystemInformation::{GetSystemInfo, SYSTEM_INFO};
use windows_sys::Win32::System::Threading::{WaitOnAddress, WakeByAddressAll};

use super::{CannotSleep, Word};

/// Handle of shared memory.
pub(crate) type Owned = OwnedHandle;
pub(crate) type Borrowed<'a> = BorrowedHandle<'a>;

/// Handle kinds of shared memory.
pub(crate) const MEMORY: MemoryHandleKind = MemoryHandleKind::OpaqueWin32;
pub(crate) const BINARY_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::OpaqueWin32;
pub(crate) const TIMELINE_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineWin32;

/// Polling interval for words of other processes: `WaitOnAddress` is woken by its own process only.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

pub(crate) fn borrow(memory: &Owned) -> Borrowed<'_> {
    memory.as_handle()
}

fn system() -> SYSTEM_INFO {
    let mut info = SYSTEM_INFO::default();
    // SAFETY: the pointer is valid for the call, which initialises `info`.
    unsafe { GetSystemInfo(&raw mut info) };
    info
}

/// Page size in bytes.
pub(crate) fn page() -> u64 {
    system().dwPageSize.into()
}

/// Alignment of mapping offsets in bytes.
pub(crate) fn granularity() -> u64 {
    system().dwAllocationGranularity.into()
}

/// Opens the file mapping of a memory handle: by duplicating the handle, or by name.
pub(crate) fn of_memory(operation: &'static str, handle: &MemoryHandle) -> Result<Owned> {
    match handle {
        MemoryHandle::OpaqueWin32(object) => of_object(operation, object),
        _ => Err(Error::unsupported(operation, "the host backend imports opaque Win32 handles only")),
    }
}

/// Opens the file mapping of a semaphore handle: by duplicating the handle, or by name.
pub(crate) fn of_semaphore(operation: &'static str, handle: &SemaphoreHandle) -> Result<Owned> {
    match handle {
        SemaphoreHandle::OpaqueWin32(object) | SemaphoreHandle::TimelineWin32(object) => of_object(operation, object),
        _ => Err(Error::unsupported(operation, "the host backend imports opaque and timeline Win32 handles only")),
    }
}

fn of_object(operation: &'static str, object: &Win32Object) -> Result<Owned> {
    match object {
        // SAFETY: the object keeps its handle open for the borrow.
        Win32Object::Handle(handle) => duplicate(operation, unsafe { BorrowedHandle::borrow_raw(handle.as_raw()) }),
        Win32Object::Name(name) => {
            // SAFETY: the name ends with a NUL, and lives for the call.
            let opened = unsafe { OpenFileMappingW(FILE_MAP_ALL_ACCESS, 0, name.as_utf16().as_ptr()) };
            owned(opened).map_err(|source| {
                let message = "cannot open the shared memory of this name; keep the exporter's handle open, and give this \
                               process read and write access";
                Error::new(ErrorKind::ImportRejected, "OpenFileMappingW", message).with_source(source)
            })
        }
        _ => Err(Error::unsupported(operation, "the host backend imports handles and names only")),
    }
}

/// Takes ownership of a returned handle, which is null on failure.
fn owned(handle: RawHandle) -> io::Result<Owned> {
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new handle that the caller owns.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

pub(crate) fn to_memory(memory: Owned) -> MemoryHandle {
    MemoryHandle::OpaqueWin32(Win32Object::Handle(memory.into()))
}

pub(crate) fn to_semaphore(memory: Owned, payload: SemaphorePayload) -> SemaphoreHandle {
    let object = Win32Object::Handle(memory.into());
    match payload {
        SemaphorePayload::Timeline => SemaphoreHandle::TimelineWin32(object),
        _ => SemaphoreHandle::OpaqueWin32(object),
    }
}

/// Rejects handles that are not shared memory.
pub(crate) fn check_is_memory(memory: Borrowed<'_>) -> Result<(), io::Error> {
    whole_view(memory).map(drop)
}

/// Returns true: file mappings never shrink.
pub(crate) fn cannot_shrink(_memory: Borrowed<'_>) -> bool {
    true
}

/// Succeeds without effect, see [`cannot_shrink`].
pub(crate) fn keep_from_shrinking(_memory: Borrowed<'_>) -> io::Result<()> {
    Ok(())
}

/// Returns false: Windows has no seals.
pub(crate) fn is_sealed_completely(_memory: Borrowed<'_>) -> bool {
    false
}

/// Reads the first bytes. Returns false if the memory is shorter than `bytes`.
pub(crate) fn read_start(memory: Borrowed<'_>, bytes: &mut [u8]) -> bool {
    let Ok(view) = whole_view(memory) else { return false };
    if view.length < bytes.len() {
        return false;
    }
    // SAFETY: the view is at least as long as `bytes`, which is private to this process. A concurrent write by another
    // process yields a mixture of old and new bytes, which callers validate like any other contents.
    unsafe { std::ptr::copy_nonoverlapping(view.base.as_ptr().cast_const(), bytes.as_mut_ptr(), bytes.len()) };
    true
}

/// Read-only view of a whole file mapping.
struct View {
    base: NonNull<u8>,
    length: usize,
}

fn whole_view(memory: Borrowed<'_>) -> io::Result<View> {
    // SAFETY: a new view at an address of the system's choice touches no existing memory. The call fails for objects of
    // other types.
    let base = unsafe { MapViewOfFile(memory.as_raw_handle(), FILE_MAP_READ, 0, 0, 0) };
    let mut view =
        View { base: NonNull::new(base.Value.cast::<u8>()).ok_or_else(io::Error::last_os_error)?, length: 0 };
    let mut region = MEMORY_BASIC_INFORMATION::default();
    // SAFETY: the address is inside the view, and `region` has the stated size.
    let written = unsafe { VirtualQuery(base.Value, &raw mut region, size_of::<MEMORY_BASIC_INFORMATION>()) };
    if written == 0 {
        return Err(io::Error::last_os_error());
    }
    // Pages can be reserved without memory (`SEC_RESERVE`), and accessing such a page is an access violation. Committed
    // pages of a file mapping stay committed.
    if region.State != MEM_COMMIT {
        return Err(io::Error::other(
            "the pages of the file mapping are reserved, not committed; create it without SEC_RESERVE",
        ));
    }
    view.length = region.RegionSize;
    Ok(view)
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: mapped by `whole_view` and not used afterwards.
        if let Err(error) = unsafe { unmap(self.base, self.length) } {
            tracing::error!(%error, "UnmapViewOfFile failed");
        }
    }
}

/// Duplicates a handle without inheritance.
pub(crate) fn duplicate(operation: &'static str, memory: Borrowed<'_>) -> Result<Owned> {
    memory
        .try_clone_to_owned()
        .map_err(|error| Error::new(ErrorKind::System, operation, "cannot duplicate the handle").with_source(error))
}

/// Size of the memory in bytes, in whole pages.
pub(crate) fn size(operation: &'static str, memory: Borrowed<'_>) -> Result<u64> {
    let failed = |error| {
        Error::new(ErrorKind::System, operation, "cannot query the size of the file mapping").with_source(error)
    };
    whole_view(memory).map(|view| view.length as u64).map_err(failed)
}

/// Creates unnamed shared memory of `size` bytes.
pub(crate) fn create(_name: &str, size: u64) -> Result<Owned> {
    let [low, high] = halves(size);
    // SAFETY: all pointers are null: unnamed, not inherited, and backed by the paging file.
    let made = unsafe {
        CreateFileMappingW(INVALID_HANDLE_VALUE, std::ptr::null(), PAGE_READWRITE, high, low, std::ptr::null())
    };
    owned(made).map_err(|source| {
        Error::new(kind_of(&source), "CreateFileMappingW", "cannot create shared memory")
            .with_context("size", size)
            .with_source(source)
    })
}

/// Splits a value into its low and high 32 bits.
fn halves(value: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

fn kind_of(error: &io::Error) -> ErrorKind {
    match error.raw_os_error().map(i32::cast_unsigned) {
        Some(ERROR_NOT_ENOUGH_MEMORY | ERROR_COMMITMENT_LIMIT) => ErrorKind::OutOfMemory,
        _ => ErrorKind::System,
    }
}

/// Maps a range, shared, for reads and writes. `offset` is a multiple of [`granularity`].
pub(crate) fn map(memory: Borrowed<'_>, offset: u64, length: usize) -> Result<NonNull<u8>> {
    let [low, high] = halves(offset);
    // SAFETY: a new view at an address of the system's choice touches no existing memory.
    let base = unsafe { MapViewOfFile(memory.as_raw_handle(), FILE_MAP_ALL_ACCESS, high, low, length) };
    NonNull::new(base.Value.cast::<u8>()).ok_or_else(|| {
        let source = io::Error::last_os_error();
        Error::new(kind_of(&source), "MapViewOfFile", "the system cannot map the memory").with_source(source)
    })
}

/// Unmaps a view.
///
/// # Safety
/// `base` is the start of a view of [`map`] or [`whole_view`] that is not used afterwards.
pub(crate) unsafe fn unmap(base: NonNull<u8>, _length: usize) -> io::Result<()> {
    let view = MEMORY_MAPPED_VIEW_ADDRESS { Value: base.as_ptr().cast::<c_void>() };
    // SAFETY: the caller's promise.
    if unsafe { UnmapViewOfFile(view) } == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sleeps while `word` has the value `expected`, for at most `longest`. Spurious wake-ups are possible.
pub(crate) fn sleep(word: &AtomicU32, expected: u32, longest: Duration) {
    sleep_on(Word { word, expected, shared: true }, longest);
}

fn sleep_on(Word { word, expected, shared }: Word<'_>, longest: Duration) {
    let longest = if shared { longest.min(POLL_INTERVAL) } else { longest };
    // One more would mean to sleep without an end.
    const MOST: u32 = u32::MAX - 1;
    let longest = u32::try_from(longest.as_micros().div_ceil(1000)).unwrap_or(MOST).min(MOST);
    // SAFETY: both addresses point to four bytes that live for the call.
    unsafe { WaitOnAddress(word.as_ptr().cast::<c_void>(), (&raw const expected).cast(), size_of::<u32>(), longest) };
}

/// Wakes sleepers of this process on a word. Waiters of other processes poll.
pub(crate) fn wake(word: &AtomicU32, _shared: bool) {
    // SAFETY: the address is only compared with those of sleepers.
    unsafe { WakeByAddressAll(word.as_ptr().cast::<c_void>()) };
}

/// Sleeps while all words have their expected values, for at most `longest`. Spurious wake-ups are possible. Supports
/// one word.
pub(crate) fn sleep_on_all(words: &[Word<'_>], longest: Duration) -> Result<(), CannotSleep> {
    match words {
        [only] => {
            sleep_on(*only, longest);
            Ok(())
        }
        _ => Err(CannotSleep),
    }
}

#[cfg(test)]
mod tests {
    use windows_sys::Win32::System::Memory::SEC_RESERVE;

    use super::*;

    #[test]
    fn pages_without_memory_are_rejected() {
        for (flags, usable) in [(0, true), (SEC_RESERVE, false)] {
            let (low, none) = (64 << 10, std::ptr::null());
            // SAFETY: all pointers are null.
            let made = unsafe {
                CreateFileMappingW(INVALID_HANDLE_VALUE, none, PAGE_READWRITE | flags, 0, low, std::ptr::null())
            };
            let memory = owned(made).expect("a file mapping");
            let checked = check_is_memory(memory.as_handle());
            assert_eq!(checked.is_ok(), usable, "{flags:#x}: {checked:?}");
        }
    }
}
