//! Handles of the operating system in import structures.

use std::ffi::c_void;
use std::ptr::NonNull;

use gpu_interop::handle::{
    FdHandle, HandleObject, HandleType, KmtHandle, NtHandle, NvSciBufObject, NvSciSyncObject, ObjectName, Win32Object,
};
use gpu_interop::{Error, Result};

/// The fields of an import structure that name an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OsHandle {
    pub(crate) operation: &'static str,
    pub(crate) fd: i32,
    pub(crate) object: *mut c_void,
    pub(crate) name: *const u16,
}

/// Longest name of a Windows object in UTF-16 units (`UNICODE_STRING` has 16 bits for the number of bytes).
const LONGEST_NAME: usize = 32_767;

impl OsHandle {
    /// Takes ownership of the descriptor. After a later failure, [`give_back`] returns it to the caller.
    ///
    /// # Safety
    /// If the descriptor is open, nothing else closes it while the result lives.
    #[cfg(unix)]
    pub(crate) unsafe fn fd(self) -> Result<FdHandle> {
        use gpu_interop::MemoryHandle;
        // SAFETY: the caller's promise. The function checks the descriptor, whatever it refers to.
        let handle = unsafe { MemoryHandle::opaque_from_raw_fd(self.fd) }?;
        handle.into_fd().map_err(|_| Error::invalid(self.operation, "the handle has no descriptor"))
    }

    /// # Safety
    /// None.
    #[cfg(not(unix))]
    pub(crate) unsafe fn fd(self) -> Result<FdHandle> {
        Err(Error::unsupported(self.operation, "this system has no file descriptors; pass a Win32 handle")
            .with_context("fd", self.fd))
    }

    /// The object by its name if there is one, else by its handle, of which ownership is taken.
    ///
    /// # Safety
    /// `name` is null or ends with NUL. The handle is open, and nothing else closes it while the result lives.
    pub(crate) unsafe fn win32(self) -> Result<Win32Object> {
        if !self.name.is_null() {
            // SAFETY: the caller's promise: the name ends with NUL.
            return unsafe { self.object_name() }.map(Win32Object::Name);
        }
        // SAFETY: the caller's promise.
        unsafe { NtHandle::from_raw(self.object) }.map(Win32Object::Handle)
    }

    /// # Safety
    /// `name` is not null and ends with NUL.
    unsafe fn object_name(self) -> Result<ObjectName> {
        if !self.name.is_aligned() {
            return Err(Error::invalid(self.operation, "the name is not aligned to 2 bytes"));
        }
        // SAFETY: aligned, and by the caller's promise every unit up to the NUL may be read.
        let length = (0..=LONGEST_NAME).find(|index| unsafe { self.name.add(*index).read() } == 0);
        let length = length
            .ok_or_else(|| Error::invalid(self.operation, "the name is longer than 32,767 units; end it with NUL"))?;
        // SAFETY: as above.
        ObjectName::from_utf16(unsafe { std::slice::from_raw_parts(self.name, length) })
    }

    /// Takes ownership of the object of a kind's handle. After a later failure, [`give_back`] returns it to the caller.
    ///
    /// # Safety
    /// The fields name an object of this type, and nothing else closes it while the result lives.
    pub(crate) unsafe fn object_of(self, handle_type: HandleType) -> Result<HandleObject> {
        // SAFETY: the caller's promise.
        unsafe {
            Ok(match handle_type {
                HandleType::Fd => self.fd()?.into(),
                HandleType::Win32 => self.win32()?.into(),
                HandleType::Kmt => KmtHandle::new(self.object.addr())?.into(),
                HandleType::NvSciBuf => NvSciBufObject::from_raw(self.object()?).into(),
                HandleType::NvSciSync => NvSciSyncObject::from_raw(self.object()?).into(),
                _ => return Err(Error::unsupported(self.operation, "this version does not import this kind")),
            })
        }
    }

    fn object(self) -> Result<NonNull<c_void>> {
        NonNull::new(self.object).ok_or_else(|| Error::invalid(self.operation, "the object is null"))
    }
}

/// Gives an object back to the caller without closing it: a descriptor, and an NT handle or null.
pub(crate) fn give_back(object: HandleObject) -> (i32, *mut c_void) {
    match object {
        HandleObject::Fd(fd) => (forget_fd(fd), std::ptr::null_mut()),
        HandleObject::Win32(object) => (-1, forget_win32(object)),
        _ => (-1, std::ptr::null_mut()),
    }
}

/// Gives a descriptor back to the caller without closing it.
#[cfg(unix)]
fn forget_fd(fd: FdHandle) -> i32 {
    std::os::fd::IntoRawFd::into_raw_fd(fd)
}

#[cfg(not(unix))]
fn forget_fd(fd: FdHandle) -> i32 {
    match fd {}
}

/// Closes a descriptor.
#[cfg(unix)]
pub(crate) fn close_fd(fd: FdHandle) {
    drop(fd);
}

#[cfg(not(unix))]
pub(crate) fn close_fd(fd: FdHandle) {
    match fd {}
}

/// Gives a handle back to the caller without closing it; null for a name.
fn forget_win32(object: Win32Object) -> *mut c_void {
    let raw = match &object {
        Win32Object::Handle(handle) => handle.as_raw(),
        _ => std::ptr::null_mut(),
    };
    std::mem::forget(object);
    raw
}
