//! File mappings and `WaitOnAddress`.

mod mapping;

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsRawHandle, BorrowedHandle, FromRawHandle, IntoRawHandle, OwnedHandle, RawHandle};
use std::sync::atomic::AtomicU32;

use windows_sys::Win32::Foundation::{INVALID_HANDLE_VALUE, STATUS_ACCESS_VIOLATION};
use windows_sys::Win32::System::Memory::{
    CreateFileMappingW, FILE_MAP_ALL_ACCESS, OpenFileMappingW, PAGE_READWRITE, SEC_COMMIT,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, TerminateProcess, WaitOnAddress, WakeByAddressAll};

pub use mapping::Mapping;
pub(crate) use mapping::PAGE;

use super::Opened;

/// The handle of an import.
#[derive(Debug, Clone, Copy)]
pub enum Given {
    /// An NT handle, which the caller still owns, or, if that is null, the name of an object.
    Object {
        /// The handle, or null.
        handle: *mut c_void,
        /// UTF-16 with a NUL, or null.
        name: *const c_void,
    },
    /// A KMT handle: the number of an object.
    Kmt(usize),
}

/// The handle of an export: an NT handle owned by the caller.
pub type Export = RawHandle;

/// The object of a handle that is passed as a pointer.
#[must_use]
pub fn given(handle: *mut c_void) -> Given {
    Given::Object { handle, name: std::ptr::null() }
}

/// Both vendors' number of the exported handle type.
pub const EXPORTED_AS: u32 = 2;
/// Crashes the process, as a driver does on an invalid pointer.
pub fn die() -> ! {
    // SAFETY: ends this process.
    unsafe { TerminateProcess(GetCurrentProcess(), STATUS_ACCESS_VIOLATION.cast_unsigned()) };
    std::process::abort()
}

/// Opens a separate handle of the file mapping.
fn section(given: Given) -> Option<OwnedHandle> {
    match given {
        Given::Object { handle, name } if handle.is_null() && !name.is_null() => by_name(name.cast()),
        Given::Object { handle, name } if !handle.is_null() && name.is_null() => {
            // SAFETY: the caller of the driver lends the handle for the call; duplicating an invalid handle fails.
            unsafe { BorrowedHandle::borrow_raw(handle) }.try_clone_to_owned().ok()
        }
        Given::Object { .. } => None,
        Given::Kmt(number) => {
            // KMT handles are defined by the simulators: an object with this name exists as long as its exporter.
            let name = format!("Local\\gpu-interop-sim-kmt-{number:x}\0");
            by_name(name.encode_utf16().collect::<Vec<u16>>().as_ptr())
        }
    }
}

fn by_name(name: *const u16) -> Option<OwnedHandle> {
    // SAFETY: the name ends with a NUL, as callers of the driver guarantee.
    let opened = unsafe { OpenFileMappingW(FILE_MAP_ALL_ACCESS, 0, name) };
    // SAFETY: a new handle, unless null.
    (!opened.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(opened) })
}

/// Maps the whole memory of a handle; `None` if it is not memory.
pub(crate) fn map(given: Given) -> Option<Mapping> {
    Mapping::of_section(section(given)?, 0, 0).ok()
}

/// Opens the memory of a handle; `None` if it is not memory. Every exporter here has lavapipe's layout of images.
pub(crate) fn open(given: Given) -> Option<Opened> {
    Some(Opened { mapping: map(given)?, header: 0, images: true })
}

/// A file mapping that can be exported.
#[derive(Debug)]
pub(crate) struct Shared(OwnedHandle);

impl Shared {
    /// Creates one of `size` bytes.
    pub(crate) fn new(size: usize) -> io::Result<Self> {
        let [low, high] = mapping::halves(size);
        // SAFETY: all pointers are null, which means without a name and not inherited; the memory is the paging file's.
        let made = unsafe {
            let protection = PAGE_READWRITE | SEC_COMMIT;
            CreateFileMappingW(INVALID_HANDLE_VALUE, std::ptr::null(), protection, high, low, std::ptr::null())
        };
        if made.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new handle.
        Ok(Self(unsafe { OwnedHandle::from_raw_handle(made) }))
    }

    /// Opens one by its handle, and returns its size; `None` if it is not one. The caller still owns the handle.
    pub(crate) fn open(given: Given) -> Option<(Self, usize)> {
        let section = section(given)?;
        let size = map(given)?.length();
        Some((Self(section), size))
    }

    /// A new handle.
    pub(crate) fn export(&self) -> io::Result<Export> {
        Ok(self.0.try_clone()?.into_raw_handle())
    }

    /// Maps it as a whole into reserved addresses, not accessible yet.
    pub(crate) fn map(&self, reserved: &Mapping, at: usize, size: usize, offset: usize) -> io::Result<()> {
        if offset != 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        reserved.place(at, size, self.0.as_raw_handle())
    }
}

/// Sleeps while `word`, shared between processes, has the value `expected`. Has a timeout, because other processes
/// cannot wake it.
pub(crate) fn sleep(word: &AtomicU32, expected: u32) {
    // SAFETY: both addresses refer to four bytes that live for the call.
    unsafe { WaitOnAddress(word.as_ptr().cast::<c_void>(), (&raw const expected).cast(), size_of::<u32>(), 1) };
}

/// Wakes all threads of this process that sleep on a word.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the address is only compared with those of sleeping threads.
    unsafe { WakeByAddressAll(word.as_ptr().cast::<c_void>()) };
}
