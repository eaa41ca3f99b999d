//! Handles that one API exports and another imports. The types express their ownership.

mod fd;
#[cfg(unix)]
mod lend;
mod memory;
#[cfg(windows)]
mod nt_kind;
mod nv_sci;
mod semaphore;
mod win32;

pub use fd::FdHandle;
#[cfg(unix)]
pub(crate) use fd::open_file;
#[cfg(unix)]
pub use fd::{FdKind, cannot_duplicate, classify_fd};
#[cfg(unix)]
pub use lend::LentFd;
pub use memory::{MemoryHandle, MemoryHandleKind};
#[cfg(windows)]
pub(crate) use nt_kind::{NtKind, classify};
pub use nv_sci::{NvSciBufObject, NvSciFence, NvSciSyncAttrList, NvSciSyncObject};
pub use semaphore::{SemaphoreHandle, SemaphoreHandleKind, SemaphorePayload};
pub use win32::{KmtHandle, NtHandle, ObjectName, Win32Object};

use std::any::Any;
use std::sync::Arc;

/// Owner of the object that a handle points to; kept until the driver has destroyed every import of it.
pub(crate) type Owner = Arc<dyn Any + Send + Sync>;

/// Operating systems on which a handle kind exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum HandlePlatform {
    /// File descriptors.
    Unix,
    /// NT and KMT handles.
    Windows,
    /// NvSci objects, which are plain pointers.
    Any,
}

impl HandlePlatform {
    /// `true` if handles of this platform can exist in this process.
    #[must_use]
    pub const fn is_current(self) -> bool {
        match self {
            Self::Unix => cfg!(unix),
            Self::Windows => cfg!(windows),
            Self::Any => true,
        }
    }
}

/// Declares a handle-kind enum with JSON name, display text and platform of each kind.
macro_rules! handle_kinds {
    (
        $(#[$meta:meta])*
        $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $text:literal on $platform:ident, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
        #[non_exhaustive]
        pub enum $name { $( $(#[$variant_meta])* $variant, )+ }

        impl $name {
            /// Every kind, in the order of the vendor headers.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The operating system on which handles of this kind exist.
            #[must_use]
            pub const fn platform(self) -> $crate::handle::HandlePlatform {
                match self { $( Self::$variant => $crate::handle::HandlePlatform::$platform, )+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $( Self::$variant => $text, )+ })
            }
        }
    };
}
use handle_kinds;

/// Methods of a handle enum: its kind, and access to the objects of the listed variants.
macro_rules! handle_methods {
    (
        $handle:ident: $kind:ident { $($variant:ident)+ }
        Win32Object { $($win32:ident)+ } FdHandle { $($fd:ident)+ } owned { $owned:ident }
    ) => {
        impl $handle {
            /// Kind of the handle.
            #[must_use]
            pub const fn kind(&self) -> $kind {
                match self { $( Self::$variant(_) => $kind::$variant, )+ }
            }

            /// Owner of the object that the handle points to, if any.
            pub(crate) fn owner(&self) -> Option<&Owner> {
                match self {
                    Self::$owned(object) => object.owner(),
                    _ => None,
                }
            }

            /// The NT object of an NT handle or name, still owned by `self`.
            #[must_use]
            pub fn as_win32(&self) -> Option<&Win32Object> {
                match self {
                    $( Self::$win32(object) )|+ => Some(object),
                    _ => None,
                }
            }

            /// Returns the NT object of an NT handle or name, owned by the caller.
            ///
            /// # Errors
            /// Returns `self` if it is neither.
            pub fn into_win32(self) -> Result<Win32Object, Self> {
                match self {
                    $( Self::$win32(object) )|+ => Ok(object),
                    other => Err(other),
                }
            }

            /// The descriptor of an fd-based handle, still owned by `self`.
            #[cfg(unix)]
            #[must_use]
            pub fn as_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
                match self {
                    $( Self::$fd(fd) )|+ => Some(std::os::fd::AsFd::as_fd(fd)),
                    _ => None,
                }
            }

            /// Returns the descriptor of an fd-based handle, owned by the caller.
            ///
            /// # Errors
            /// Returns `self` if it is not fd-based.
            #[cfg(unix)]
            pub fn into_fd(self) -> Result<FdHandle, Self> {
                match self {
                    $( Self::$fd(fd) )|+ => Ok(fd),
                    other => Err(other),
                }
            }
        }
    };
}
use handle_methods;

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
