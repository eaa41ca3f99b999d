//! Windows handles. The types exist on every system, so that requests can be built and tested anywhere;
//! [`super::HandleType::is_current`] states where they can be imported.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;

use crate::error::{Error, Result};

/// An owned NT handle, closed with `CloseHandle` on drop.
///
/// No driver takes ownership of NT handles: the imported object holds its own reference, and this handle is closed
/// after the import. On systems other than Windows the value is never closed.
#[derive(Debug)]
pub struct NtHandle {
    #[cfg(windows)]
    handle: std::os::windows::io::OwnedHandle,
    #[cfg(not(windows))]
    value: NonNull<c_void>,
}

// SAFETY: a handle value is a number that names a kernel object from any thread of the process.
unsafe impl Send for NtHandle {}
// SAFETY: as above; no method mutates through a shared reference.
unsafe impl Sync for NtHandle {}

impl NtHandle {
    /// Takes ownership of a raw NT handle.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if `value` is null or
    /// `INVALID_HANDLE_VALUE`.
    ///
    /// # Safety
    /// `value` must be an open handle that nothing else closes.
    pub unsafe fn from_raw(value: *mut c_void) -> Result<Self> {
        let Some(value) = NonNull::new(value).filter(|value| value.as_ptr().addr() != usize::MAX) else {
            return Err(Error::invalid("NtHandle::from_raw", "the handle is null or INVALID_HANDLE_VALUE"));
        };
        #[cfg(windows)]
        {
            use std::os::windows::io::{FromRawHandle, OwnedHandle};
            // SAFETY: the caller hands over an open handle.
            Ok(Self { handle: unsafe { OwnedHandle::from_raw_handle(value.as_ptr()) } })
        }
        #[cfg(not(windows))]
        Ok(Self { value })
    }

    /// Raw value, still owned by `self`.
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        #[cfg(windows)]
        {
            use std::os::windows::io::AsRawHandle;
            self.handle.as_raw_handle()
        }
        #[cfg(not(windows))]
        self.value.as_ptr()
    }
}

#[cfg(windows)]
impl From<std::os::windows::io::OwnedHandle> for NtHandle {
    fn from(handle: std::os::windows::io::OwnedHandle) -> Self {
        Self { handle }
    }
}

#[cfg(windows)]
impl From<NtHandle> for std::os::windows::io::OwnedHandle {
    fn from(handle: NtHandle) -> Self {
        handle.handle
    }
}

/// A global share (KMT) handle: a number that holds no reference and is never closed. The exporter must keep the object
/// alive until the import has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KmtHandle(usize);

impl KmtHandle {
    /// In place of a handle that was taken.
    pub(crate) const NONE: Self = Self(0);

    /// Wraps a KMT handle.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if `value` is 0.
    pub fn new(value: usize) -> Result<Self> {
        if value == 0 {
            return Err(Error::invalid("KmtHandle::new", "the handle is 0"));
        }
        Ok(Self(value))
    }

    /// Returns the value.
    #[must_use]
    pub fn as_raw(self) -> usize {
        self.0
    }
}

/// The name of a shared kernel object: UTF-16 with exactly one NUL, at its end.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectName(Vec<u16>);

impl ObjectName {
    /// Converts a name such as `Local\my-buffer`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if `name` is empty or contains a NUL.
    pub fn new(name: &str) -> Result<Self> {
        if name.is_empty() || name.contains('\0') {
            return Err(Error::invalid("ObjectName::new", "the name is empty or contains a NUL character")
                .with_context("name", format_args!("{name:?}")));
        }
        Ok(Self(name.encode_utf16().chain([0]).collect()))
    }

    /// Wraps UTF-16 code units without the terminating NUL. Invalid UTF-16 is allowed, as in Windows.
    ///
    /// # Errors
    /// As [`ObjectName::new`].
    pub fn from_utf16(name: &[u16]) -> Result<Self> {
        if name.is_empty() || name.contains(&0) {
            return Err(Error::invalid("ObjectName::from_utf16", "the name is empty or contains a NUL character")
                .with_context("name", format_args!("{:?}", String::from_utf16_lossy(name))));
        }
        Ok(Self(name.iter().copied().chain([0]).collect()))
    }

    /// The UTF-16 code units, the terminating NUL included.
    #[must_use]
    pub fn as_utf16(&self) -> &[u16] {
        &self.0
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectName({:?})", String::from_utf16_lossy(self.0.strip_suffix(&[0]).unwrap_or(&self.0)))
    }
}

/// A shared NT object, by handle or by name.
#[derive(Debug)]
#[non_exhaustive]
pub enum Win32Object {
    /// An open handle.
    Handle(NtHandle),
    /// The object's name.
    Name(ObjectName),
}

impl Win32Object {
    /// The name, if the object is given by name.
    #[must_use]
    pub fn name(&self) -> Option<&ObjectName> {
        match self {
            Self::Handle(_) => None,
            Self::Name(name) => Some(name),
        }
    }
}

impl Error {
    /// Adds the object's name, if the import was by name.
    #[must_use]
    pub fn with_object_name(self, object: Option<&Win32Object>) -> Self {
        match object.and_then(Win32Object::name) {
            Some(name) => self.with_context("name", format_args!("{name:?}")),
            None => self,
        }
    }
}

impl From<NtHandle> for Win32Object {
    fn from(handle: NtHandle) -> Self {
        Self::Handle(handle)
    }
}

impl From<ObjectName> for Win32Object {
    fn from(name: ObjectName) -> Self {
        Self::Name(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_utf16_with_one_nul() {
        let name = ObjectName::new("Local\\Grüße").expect("a valid name");
        assert_eq!(name.as_utf16().last(), Some(&0));
        assert_eq!(name.as_utf16().iter().filter(|unit| **unit == 0).count(), 1);
        assert!(ObjectName::new("").is_err());
        assert!(ObjectName::new("a\0b").is_err());
        let wide: Vec<u16> = "Local\\Grüße".encode_utf16().collect();
        assert_eq!(ObjectName::from_utf16(&wide).expect("a valid name"), name);
        let unpaired = ObjectName::from_utf16(&[0xd83e, u16::from(b'x')]).expect("an unpaired surrogate is valid");
        assert_eq!(unpaired.as_utf16(), [0xd83e, u16::from(b'x'), 0]);
        for wrong in [&[][..], &[0], &[1, 0, 2]] {
            assert!(ObjectName::from_utf16(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn null_and_invalid_handles_are_rejected() {
        for value in [0, usize::MAX] {
            // SAFETY: neither value is an open handle, and neither is accepted.
            let result = unsafe { NtHandle::from_raw(std::ptr::without_provenance_mut(value)) };
            assert!(result.is_err(), "{value:#x}");
        }
        assert!(KmtHandle::new(0).is_err());
    }
}
