//! Handles of the operating system.

use std::ffi::c_void;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};

use windows::Win32::Foundation::{
    DUPLICATE_SAME_ACCESS, DuplicateHandle, ERROR_ALREADY_EXISTS, GetHandleInformation, GetLastError, HANDLE, HMODULE,
    INVALID_HANDLE_VALUE,
};
use windows::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
};
use windows::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_ALL_ACCESS, MEMORY_BASIC_INFORMATION, MEMORY_MAPPED_VIEW_ADDRESS, MapViewOfFile,
    OpenFileMappingW, PAGE_READWRITE, UnmapViewOfFile, VirtualQuery,
};
use windows::Win32::System::Threading::{GetCurrentProcess, GetProcessHandleCount, Sleep};
use windows::core::{PCWSTR, Result};

/// Creates a section of this size, with or without a name; rejects a name that is taken.
pub fn create_section(size: usize, name: PCWSTR) -> Result<OwnedHandle> {
    let size = size as u64;
    let (high, low) = ((size >> 32) as u32, (size & 0xffff_ffff) as u32);
    // SAFETY: the name is null or ends with NUL, as in Direct3D's methods; the result is a new handle, and the error is
    // queried before another call can set one.
    let (created, taken) = unsafe {
        let created = CreateFileMappingW(INVALID_HANDLE_VALUE, None, PAGE_READWRITE, high, low, name);
        (created, GetLastError() == ERROR_ALREADY_EXISTS)
    };
    // SAFETY: as above.
    let created = unsafe { OwnedHandle::from_raw_handle(created?.0) };
    if taken && !name.is_null() { Err(super::NAME_ALREADY_EXISTS.into()) } else { Ok(created) }
}

/// Opens the section of this name.
///
/// # Errors
/// The system's error, in particular if the name does not exist.
pub fn open_section(name: PCWSTR) -> Result<OwnedHandle> {
    // SAFETY: the name ends with NUL; the result is a new handle.
    unsafe { Ok(OwnedHandle::from_raw_handle(OpenFileMappingW(FILE_MAP_ALL_ACCESS.0, false, name)?.0)) }
}

/// Duplicates `handle`.
///
/// # Errors
/// The system's error, in particular if the handle is not open.
pub fn duplicate(handle: HANDLE) -> Result<OwnedHandle> {
    let mut twin = HANDLE::default();
    // SAFETY: the process is this one, and the result, a new handle, is written to a live variable.
    unsafe {
        let process = GetCurrentProcess();
        DuplicateHandle(process, handle, process, &raw mut twin, 0, false, DUPLICATE_SAME_ACCESS)?;
        Ok(OwnedHandle::from_raw_handle(twin.0))
    }
}

/// The handle's number.
pub fn raw(handle: &OwnedHandle) -> HANDLE {
    HANDLE(handle.as_raw_handle())
}

/// `true` if a number is an open handle.
pub fn is_open(handle: HANDLE) -> bool {
    let mut flags = 0;
    // SAFETY: the result is written to a live variable; any number is valid.
    unsafe { GetHandleInformation(handle, &raw mut flags) }.is_ok()
}

/// The number of open handles of the process. Wine always returns 0; then each possible number is tested.
///
/// # Panics
/// If the query fails.
pub fn handle_count() -> u32 {
    let mut count = 0;
    // SAFETY: the result is written to a live variable.
    unsafe { GetProcessHandleCount(GetCurrentProcess(), &raw mut count) }.expect("the number of handles");
    if count > 0 {
        return count;
    }
    let open = (1..=16_384).filter(|index| is_open(HANDLE(std::ptr::without_provenance_mut(index * 4)))).count();
    u32::try_from(open).expect("few")
}

/// Keeps the library that contains `address` loaded until the process ends: its threads never end.
pub(crate) fn keep_loaded(address: *const c_void) {
    let flags = GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS;
    let mut module = HMODULE::default();
    // SAFETY: with these flags, the name is an address in a loaded library; the result is written to a live variable.
    let kept = unsafe { GetModuleHandleExW(flags, PCWSTR(address.cast()), &raw mut module) };
    kept.expect("a loaded library");
}

/// Sleeps for a millisecond, without the timer object that the standard library creates.
pub(crate) fn pause() {
    // SAFETY: no pointers.
    unsafe { Sleep(1) };
}

/// The mapped memory of a section.
#[derive(Debug)]
pub struct View {
    base: MEMORY_MAPPED_VIEW_ADDRESS,
    length: usize,
}

// SAFETY: an address of the process and a length, valid on every thread.
unsafe impl Send for View {}
// SAFETY: as above; each access to the bytes has its own justification.
unsafe impl Sync for View {}

impl View {
    /// Maps the first `length` bytes; all of them for 0.
    ///
    /// # Errors
    /// The system's error, in particular for a handle that is not a section.
    pub fn new(handle: HANDLE, length: usize) -> Result<Self> {
        // SAFETY: the system checks handle and size.
        let base = unsafe { MapViewOfFile(handle, FILE_MAP_ALL_ACCESS, 0, 0, length) };
        if base.Value.is_null() {
            return Err(windows::core::Error::from_thread());
        }
        let mut view = Self { base, length };
        if length == 0 {
            let mut region = MEMORY_BASIC_INFORMATION::default();
            // SAFETY: the result is written to a live variable of the stated size.
            let length =
                unsafe { VirtualQuery(Some(base.Value), &raw mut region, size_of::<MEMORY_BASIC_INFORMATION>()) };
            if length == 0 {
                return Err(windows::core::Error::from_thread());
            }
            view.length = region.RegionSize;
        }
        Ok(view)
    }

    /// The first byte.
    pub fn base(&self) -> *mut u8 {
        self.base.Value.cast()
    }

    /// Size in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Sets every byte.
    pub fn write(&self, byte: u8) {
        // SAFETY: the view is that long, and no reference to it exists.
        unsafe { self.base().write_bytes(byte, self.length) };
    }

    /// Every byte.
    pub fn read(&self) -> Vec<u8> {
        // SAFETY: the view has that size; the calling test excludes concurrent writes.
        unsafe { std::slice::from_raw_parts(self.base(), self.length) }.to_vec()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: the view is mapped, and nothing refers to it.
        unsafe { UnmapViewOfFile(self.base) }.expect("a view");
    }
}
