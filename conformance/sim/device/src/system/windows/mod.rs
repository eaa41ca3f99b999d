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

/// What an import is given.
#[derive(Debug, Clone, Copy)]
pub enum Given {
    /// An NT handle, which stays the caller's, or, where that is null, the name of an object.
    Object {
        /// The handle, or null.
        handle: *mut c_void,
        /// UTF-16 with a NUL, or null.
        name: *const c_void,
    },
    /// A number that stands for an object.
    Kmt(usize),
}

/// What an export gives: an NT handle that is the caller's.
pub type Export = RawHandle;

/// What a handle stands for that comes as a pointer.
pub fn given(handle: *mut c_void) -> Given {
    Given::Object { handle, name: std::ptr::null() }
}

/// The number of both vendors for what is exported.
pub const EXPORTED_AS: u32 = 2;
/// Dies as a driver does that follows a bad pointer.
pub fn die() -> ! {
    // SAFETY: ends this process.
    unsafe { TerminateProcess(GetCurrentProcess(), STATUS_ACCESS_VIOLATION.cast_unsigned()) };
    std::process::abort()
}

/// The file mapping that was meant: a handle of this module's own.
fn section(given: Given) -> Option<OwnedHandle> {
    match given {
        Given::Object { handle, name } if handle.is_null() && !name.is_null() => by_name(name.cast()),
        Given::Object { handle, name } if !handle.is_null() && name.is_null() => {
            // SAFETY: the caller of the driver lent it for the call; duplicating what is not open fails.
            unsafe { BorrowedHandle::borrow_raw(handle) }.try_clone_to_owned().ok()
        }
        Given::Object { .. } => None,
        Given::Kmt(number) => {
            // Numbers are the simulators' own business: there is an object of this name as long as its exporter lives.
            let name = format!("Local\\gpu-interop-sim-kmt-{number:x}\0");
            by_name(name.encode_utf16().collect::<Vec<u16>>().as_ptr())
        }
    }
}

fn by_name(name: *const u16) -> Option<OwnedHandle> {
    // SAFETY: the name ends with a NUL, which callers of the driver promise.
    let opened = unsafe { OpenFileMappingW(FILE_MAP_ALL_ACCESS, 0, name) };
    // SAFETY: a new handle, unless null.
    (!opened.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(opened) })
}

/// Maps all of what was meant; `None` if it is no memory.
pub(crate) fn map(given: Given) -> Option<Mapping> {
    Mapping::of_section(section(given)?, 0, 0).ok()
}

/// Opens the memory that was meant; `None` if it is no memory. Every exporter here has its images as lavapipe has them.
pub(crate) fn open(given: Given) -> Option<Opened> {
    Some(Opened { mapping: map(given)?, header: 0, images: true })
}

/// A file mapping that can be exported.
#[derive(Debug)]
pub(crate) struct Shared(OwnedHandle);

impl Shared {
    /// Makes one of `size` bytes.
    pub(crate) fn new(size: usize) -> io::Result<Self> {
        let [low, high] = mapping::halves(size);
        // SAFETY: no pointer but null, which means nameless and not inherited; memory of the paging file.
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

    /// Opens one by its handle, and says how large it is; `None` if it is none. The handle stays the caller's.
    pub(crate) fn open(given: Given) -> Option<(Self, usize)> {
        let section = section(given)?;
        let size = map(given)?.length();
        Some((Self(section), size))
    }

    /// A new handle.
    pub(crate) fn export(&self) -> io::Result<Export> {
        Ok(self.0.try_clone()?.into_raw_handle())
    }

    /// Maps it, whole, into reserved addresses, not accessible yet.
    pub(crate) fn map(&self, reserved: &Mapping, at: usize, size: usize, offset: usize) -> io::Result<()> {
        if offset != 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        reserved.place(at, size, self.0.as_raw_handle())
    }
}

/// Sleeps while `word`, which processes share, has the value `expected`. Wakes by itself after a while: only those of this
/// process can be woken.
pub(crate) fn sleep(word: &AtomicU32, expected: u32) {
    // SAFETY: both addresses are of four bytes that live for the call.
    unsafe { WaitOnAddress(word.as_ptr().cast::<c_void>(), (&raw const expected).cast(), size_of::<u32>(), 1) };
}

/// Wakes whoever of this process sleeps on a word.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the address is only compared with those that are slept on.
    unsafe { WakeByAddressAll(word.as_ptr().cast::<c_void>()) };
}
