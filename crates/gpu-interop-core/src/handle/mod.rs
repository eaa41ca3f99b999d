//! Handles that one API exports and another imports. The types express their ownership.

mod fd;
mod kinds;
#[cfg(unix)]
mod lend;
#[cfg(windows)]
mod nt_kind;
mod nv_sci;
mod win32;

pub use fd::FdHandle;
#[cfg(unix)]
pub(crate) use fd::open_file;
#[cfg(unix)]
pub use fd::{FdKind, cannot_duplicate, classify_fd};
pub use kinds::{MemoryHandle, MemoryHandleKind, SemaphoreHandle, SemaphoreHandleKind, SemaphorePayload};
#[cfg(unix)]
pub use lend::LentFd;
#[cfg(windows)]
pub(crate) use nt_kind::{NtKind, classify};
pub use nv_sci::{NvSciBufObject, NvSciFence, NvSciSyncAttrList, NvSciSyncObject};
pub use win32::{KmtHandle, NtHandle, ObjectName, Win32Object};

use std::any::Any;
use std::sync::Arc;

/// Owner of the object that a handle points to; kept until the driver has destroyed every import of it.
pub(crate) type Owner = Arc<dyn Any + Send + Sync>;

/// Declares the types of the objects that handles contain, and what converts between them.
macro_rules! objects {
    ($( $(#[$doc:meta])* $variant:ident($type:ty); )+) => {
        /// Type of the object that a handle of a kind contains.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum HandleType { $( $(#[$doc])* $variant, )+ }

        /// The object that a handle contains.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum HandleObject { $( $(#[$doc])* $variant($type), )+ }

        /// The object that a handle contains, borrowed.
        #[derive(Debug, Clone, Copy)]
        #[non_exhaustive]
        pub enum HandleObjectRef<'a> { $( $(#[$doc])* $variant(&'a $type), )+ }

        $(
            impl Object for $type {
                const TYPE: HandleType = HandleType::$variant;
            }

            impl From<$type> for HandleObject {
                fn from(object: $type) -> Self {
                    Self::$variant(object)
                }
            }

            impl<'a> From<&'a $type> for HandleObjectRef<'a> {
                fn from(object: &'a $type) -> Self {
                    Self::$variant(object)
                }
            }

            impl TryFrom<HandleObject> for $type {
                type Error = HandleObject;

                fn try_from(object: HandleObject) -> std::result::Result<Self, HandleObject> {
                    match object {
                        HandleObject::$variant(object) => Ok(object),
                        other => Err(other),
                    }
                }
            }
        )+
    };
}

trait Object {
    const TYPE: HandleType;
}

objects! {
    /// A file descriptor.
    Fd(FdHandle);
    /// An NT handle, or the name of an NT object.
    Win32(Win32Object);
    /// A KMT handle.
    Kmt(KmtHandle);
    /// An NvSciBuf object.
    NvSciBuf(NvSciBufObject);
    /// An NvSciSync object.
    NvSciSync(NvSciSyncObject);
}

impl HandleType {
    /// `true` if handles of this type can exist in this process: descriptors on Unix, NT and KMT handles on Windows, NvSci
    /// objects, which are plain pointers, everywhere.
    #[must_use]
    pub const fn is_current(self) -> bool {
        match self {
            Self::Fd => cfg!(unix),
            Self::Win32 | Self::Kmt => cfg!(windows),
            Self::NvSciBuf | Self::NvSciSync => true,
        }
    }
}

/// Takes ownership of a raw descriptor after checking that it is open.
///
/// # Safety
/// If `fd` is open, nothing else may close it.
#[cfg(unix)]
unsafe fn owned_from_raw(operation: &'static str, fd: std::os::fd::RawFd) -> crate::error::Result<FdHandle> {
    use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
    let invalid = |what: &str| crate::error::Error::invalid(operation, what).with_context("fd", fd);
    if fd < 0 {
        return Err(invalid("the descriptor is negative"));
    }
    // SAFETY: the borrow lives for one call, which fails with EBADF for a number that is not open.
    if classify_fd(unsafe { BorrowedFd::borrow_raw(fd) }) == FdKind::Closed {
        return Err(invalid("the number is not an open file descriptor"));
    }
    // SAFETY: the descriptor is open, and the caller guarantees that nothing else closes it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
