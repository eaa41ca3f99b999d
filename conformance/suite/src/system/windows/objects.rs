//! Creation and inspection of kernel objects.

use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle, RawHandle};

use gpu_interop::handle::ObjectName;
use windows_sys::Win32::Foundation::{
    CompareObjectHandles, GetHandleInformation, INVALID_HANDLE_VALUE, WAIT_OBJECT_0, WAIT_TIMEOUT,
};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_ALL_ACCESS, MapViewOfFile, OpenFileMappingW, PAGE_READWRITE, UnmapViewOfFile,
};
use windows_sys::Win32::System::Threading::{
    CreateEventW, CreateMutexW, CreateSemaphoreW, GetCurrentProcess, GetCurrentThread, WaitForSingleObject,
};

use crate::outcome::{Stop, Verdict};

/// Takes ownership of a function's result, which is null on failure.
fn owned(handle: RawHandle) -> io::Result<OwnedHandle> {
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new handle, owned by this caller.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

pub(crate) fn is_open(number: RawHandle) -> bool {
    let mut flags = 0;
    // SAFETY: the pointer is valid for the call, which fails for an invalid handle.
    unsafe { GetHandleInformation(number, &raw mut flags) != 0 }
}

/// `true` if a number is a handle of the same object as another handle.
pub(crate) fn is_same_object(number: RawHandle, witness: &OwnedHandle) -> bool {
    // SAFETY: no pointers; the call returns 0 for an invalid handle.
    is_open(number) && unsafe { CompareObjectHandles(number, witness.as_raw_handle()) != 0 }
}

/// A signalled auto-reset event.
pub(crate) fn event() -> io::Result<OwnedHandle> {
    // SAFETY: no pointer but null: nameless, not inherited.
    owned(unsafe { CreateEventW(std::ptr::null(), 0, 1, std::ptr::null()) })
}

pub(crate) fn named_event(name: &ObjectName) -> io::Result<OwnedHandle> {
    // SAFETY: the name ends with a NUL, and lives for the call.
    owned(unsafe { CreateEventW(std::ptr::null(), 0, 0, name.as_utf16().as_ptr()) })
}

/// A free mutex.
pub(crate) fn mutex() -> io::Result<OwnedHandle> {
    // SAFETY: as for `event`.
    owned(unsafe { CreateMutexW(std::ptr::null(), 0, std::ptr::null()) })
}

/// A semaphore of the system with a count of 1.
pub(crate) fn semaphore() -> io::Result<OwnedHandle> {
    // SAFETY: as for `event`.
    owned(unsafe { CreateSemaphoreW(std::ptr::null(), 1, 1, std::ptr::null()) })
}

/// Returns `true` if an event is signalled or a semaphore's count positive; resets the event, or decrements the count.
pub(crate) fn take(object: &OwnedHandle) -> Verdict<bool> {
    // SAFETY: the handle is open.
    match unsafe { WaitForSingleObject(object.as_raw_handle(), 0) } {
        WAIT_OBJECT_0 => Ok(true),
        WAIT_TIMEOUT => Ok(false),
        other => Err(Stop::failed(format!("WaitForSingleObject returned {other:#x}"))),
    }
}

/// The pseudo handle of this process.
pub(crate) fn current_process() -> BorrowedHandle<'static> {
    // SAFETY: a constant that always refers to this process and need not be closed.
    unsafe { BorrowedHandle::borrow_raw(GetCurrentProcess()) }
}

pub(crate) fn this_process() -> io::Result<OwnedHandle> {
    current_process().try_clone_to_owned()
}

pub(crate) fn this_thread() -> io::Result<OwnedHandle> {
    // SAFETY: a constant that refers to this thread as long as it runs.
    unsafe { BorrowedHandle::borrow_raw(GetCurrentThread()) }.try_clone_to_owned()
}

/// Shared memory of the paging file, zeroed, with or without a name.
pub(crate) fn section(name: Option<&ObjectName>, size: u32) -> io::Result<OwnedHandle> {
    let name = name.map_or(std::ptr::null(), |name| name.as_utf16().as_ptr());
    // SAFETY: the name is null or ends with a NUL, and lives for the call; the other pointer is null.
    owned(unsafe { CreateFileMappingW(INVALID_HANDLE_VALUE, std::ptr::null(), PAGE_READWRITE, 0, size, name) })
}

/// `true` if shared memory of this name exists.
pub(crate) fn section_exists(name: &ObjectName) -> bool {
    // SAFETY: the name ends with a NUL, and lives for the call.
    owned(unsafe { OpenFileMappingW(FILE_MAP_ALL_ACCESS, 0, name.as_utf16().as_ptr()) }).is_ok()
}

/// Copies bytes to or from the start of a section, through a view of it.
fn with_view(section: RawHandle, length: usize, copy: impl FnOnce(*mut u8)) -> io::Result<()> {
    // SAFETY: a new view at an address chosen by the system affects no existing memory. For an object of another type,
    // or less memory, the call fails.
    let view = unsafe { MapViewOfFile(section, FILE_MAP_ALL_ACCESS, 0, 0, length) };
    if view.Value.is_null() {
        return Err(io::Error::last_os_error());
    }
    copy(view.Value.cast());
    // SAFETY: the view was created above, and nothing uses it any more.
    if unsafe { UnmapViewOfFile(view) } == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Writes into the beginning of a section.
pub(crate) fn write_section(section: &OwnedHandle, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the view has that size, and the two do not overlap.
    with_view(section.as_raw_handle(), bytes.len(), |view| unsafe { view.copy_from(bytes.as_ptr(), bytes.len()) })
}

/// Reads the start of an object that may be a section.
pub(crate) fn read_section(number: RawHandle, bytes: &mut [u8]) -> io::Result<()> {
    let length = bytes.len();
    // SAFETY: as for writing.
    with_view(number, length, |view| unsafe { view.copy_to(bytes.as_mut_ptr(), length) })
}
