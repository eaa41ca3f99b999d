//! File mappings and `WaitOnAddress`.

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

/// What stands for shared memory.
pub(crate) type Owned = OwnedHandle;
pub(crate) type Borrowed<'a> = BorrowedHandle<'a>;

/// The kinds of handle that stand for it.
pub(crate) const MEMORY: MemoryHandleKind = MemoryHandleKind::OpaqueWin32;
pub(crate) const BINARY_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::OpaqueWin32;
pub(crate) const TIMELINE_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineWin32;

/// `WaitOnAddress` hears only of what its own process does: what another one wrote is found after so long.
const LOOKS_EVERY: Duration = Duration::from_millis(1);

pub(crate) fn borrow(memory: &Owned) -> Borrowed<'_> {
    memory.as_handle()
}

fn system() -> SYSTEM_INFO {
    let mut info = SYSTEM_INFO::default();
    // SAFETY: the pointer is valid for the call, which fills what it points to.
    unsafe { GetSystemInfo(&raw mut info) };
    info
}

/// The size of a page, bytes.
pub(crate) fn page() -> u64 {
    system().dwPageSize.into()
}

/// What offsets of mappings are multiples of, bytes.
pub(crate) fn granularity() -> u64 {
    system().dwAllocationGranularity.into()
}

/// The file mapping of a memory handle: a duplicate, or opened by its name.
pub(crate) fn of_memory(operation: &'static str, handle: &MemoryHandle) -> Result<Owned> {
    match handle {
        MemoryHandle::OpaqueWin32(object) => of_object(operation, object),
        _ => Err(Error::unsupported(operation, "the host backend imports opaque Win32 handles only")),
    }
}

/// The file mapping of a semaphore handle: a duplicate, or opened by its name.
pub(crate) fn of_semaphore(operation: &'static str, handle: &SemaphoreHandle) -> Result<Owned> {
    match handle {
        SemaphoreHandle::OpaqueWin32(object) | SemaphoreHandle::TimelineWin32(object) => of_object(operation, object),
        _ => Err(Error::unsupported(operation, "the host backend imports opaque Win32 handles only")),
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
                Error::new(ErrorKind::ImportRejected, "OpenFileMappingW", "there is no shared memory of this name")
                    .with_source(source)
            })
        }
        _ => Err(Error::unsupported(operation, "the host backend imports handles and names")),
    }
}

/// Takes over what a function answered, which is null on failure.
fn owned(handle: RawHandle) -> io::Result<Owned> {
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new handle, this caller's.
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

/// Refuses what is no shared memory.
pub(crate) fn check_is_memory(memory: Borrowed<'_>) -> Result<(), io::Error> {
    whole_view(memory).map(drop)
}

/// File mappings never shrink.
pub(crate) fn cannot_shrink(_memory: Borrowed<'_>) -> bool {
    true
}

/// Nothing to do, see [`cannot_shrink`].
pub(crate) fn keep_from_shrinking(_memory: Borrowed<'_>) -> io::Result<()> {
    Ok(())
}

/// There are no seals.
pub(crate) fn is_sealed_completely(_memory: Borrowed<'_>) -> bool {
    false
}

/// Copies its first bytes. Whether it has as many.
pub(crate) fn read_start(memory: Borrowed<'_>, bytes: &mut [u8]) -> bool {
    let Ok(view) = whole_view(memory) else { return false };
    if view.length < bytes.len() {
        return false;
    }
    // SAFETY: the view is as long, and `bytes` is this process's own. Another process may write meanwhile; then the copy
    // is of some mixture, which is as good as any other.
    unsafe { std::ptr::copy_nonoverlapping(view.base.as_ptr().cast_const(), bytes.as_mut_ptr(), bytes.len()) };
    true
}

/// A view of all of a file mapping, to read.
struct View {
    base: NonNull<u8>,
    length: usize,
}

fn whole_view(memory: Borrowed<'_>) -> io::Result<View> {
    // SAFETY: a new view at an address of the system's choice touches no existing memory. Of an object of another sort
    // it is refused.
    let base = unsafe { MapViewOfFile(memory.as_raw_handle(), FILE_MAP_READ, 0, 0, 0) };
    let mut view =
        View { base: NonNull::new(base.Value.cast::<u8>()).ok_or_else(io::Error::last_os_error)?, length: 0 };
    let mut region = MEMORY_BASIC_INFORMATION::default();
    // SAFETY: the address is the view's, and the pointer is to as many bytes as are said.
    let told = unsafe { VirtualQuery(base.Value, &raw mut region, size_of::<MEMORY_BASIC_INFORMATION>()) };
    if told == 0 {
        return Err(io::Error::last_os_error());
    }
    // Pages can be reserved without memory (`SEC_RESERVE`), and an access to such a page is a violation. Once it has
    // memory, a page of a file mapping keeps it.
    if region.State != MEM_COMMIT {
        return Err(io::Error::other("its pages are reserved, not committed"));
    }
    view.length = region.RegionSize;
    Ok(view)
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: made by `whole_view`, and not used any more.
        if let Err(error) = unsafe { unmap(self.base, self.length) } {
            tracing::error!(%error, "UnmapViewOfFile failed");
        }
    }
}

/// A duplicate that is not inherited.
pub(crate) fn duplicate(operation: &'static str, memory: Borrowed<'_>) -> Result<Owned> {
    memory
        .try_clone_to_owned()
        .map_err(|error| Error::new(ErrorKind::System, operation, "cannot duplicate the handle").with_source(error))
}

/// Its size in whole pages, bytes.
pub(crate) fn size(operation: &'static str, memory: Borrowed<'_>) -> Result<u64> {
    let failed = |error| Error::new(ErrorKind::System, operation, "cannot examine the handle").with_source(error);
    whole_view(memory).map(|view| view.length as u64).map_err(failed)
}

/// Nameless shared memory of `size` bytes.
pub(crate) fn create(_name: &str, size: u64) -> Result<Owned> {
    let [low, high] = halves(size);
    // SAFETY: no pointer but null, which means nameless and not inherited; memory of the paging file.
    let made = unsafe {
        CreateFileMappingW(INVALID_HANDLE_VALUE, std::ptr::null(), PAGE_READWRITE, high, low, std::ptr::null())
    };
    owned(made).map_err(|source| {
        Error::new(kind_of(&source), "CreateFileMappingW", "cannot make shared memory")
            .with_context("size", size)
            .with_source(source)
    })
}

/// The low and the high 32 bits.
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

/// Maps a range, read and write, shared. `offset` is a multiple of [`granularity`].
pub(crate) fn map(memory: Borrowed<'_>, offset: u64, length: usize) -> Result<NonNull<u8>> {
    let [low, high] = halves(offset);
    // SAFETY: a new view at an address of the system's choice touches no existing memory.
    let base = unsafe { MapViewOfFile(memory.as_raw_handle(), FILE_MAP_ALL_ACCESS, high, low, length) };
    NonNull::new(base.Value.cast::<u8>()).ok_or_else(|| {
        let source = io::Error::last_os_error();
        Error::new(kind_of(&source), "MapViewOfFile", "the system does not map the memory").with_source(source)
    })
}

/// Undoes [`map`].
///
/// # Safety
/// It is a mapping of [`map`], whole, and nothing uses it any more.
pub(crate) unsafe fn unmap(base: NonNull<u8>, _length: usize) -> io::Result<()> {
    let view = MEMORY_MAPPED_VIEW_ADDRESS { Value: base.as_ptr().cast::<c_void>() };
    // SAFETY: the caller's promise.
    if unsafe { UnmapViewOfFile(view) } == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Sleeps while `word` has the value `expected`, at most so long. May wake early.
pub(crate) fn sleep(word: &AtomicU32, expected: u32, longest: Duration) {
    sleep_on(Word { word, expected, shared: true }, longest);
}

fn sleep_on(Word { word, expected, shared }: Word<'_>, longest: Duration) {
    let longest = if shared { longest.min(LOOKS_EVERY) } else { longest };
    let longest = u32::try_from(longest.as_micros().div_ceil(1000)).unwrap_or(u32::MAX);
    // SAFETY: both addresses are of four bytes that live for the call.
    unsafe { WaitOnAddress(word.as_ptr().cast::<c_void>(), (&raw const expected).cast(), size_of::<u32>(), longest) };
}

/// Wakes whoever of this process sleeps on a word. Others look by themselves.
pub(crate) fn wake(word: &AtomicU32, _shared: bool) {
    // SAFETY: the address is only compared with those that are slept on.
    unsafe { WakeByAddressAll(word.as_ptr().cast::<c_void>()) };
}

/// Sleeps while all words have the values that are expected, at most so long. May wake early. One word at a time.
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
            // SAFETY: no pointer but null.
            let made = unsafe {
                CreateFileMappingW(INVALID_HANDLE_VALUE, none, PAGE_READWRITE | flags, 0, low, std::ptr::null())
            };
            let memory = owned(made).expect("a file mapping");
            let checked = check_is_memory(memory.as_handle());
            assert_eq!(checked.is_ok(), usable, "{flags:#x}: {checked:?}");
        }
    }
}
