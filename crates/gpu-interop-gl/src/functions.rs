//! Which of OpenGL's functions a context has.

use std::ffi::CStr;
use std::fmt;

use gpu_interop_core::{Error, ErrorKind, Result, Support};

use crate::extension::Extension;
use crate::sys::{
    Base, DirectAccess, Loader, MemoryFd, MemoryObject, MemoryObject1d, MemoryWin32, Semaphore, SemaphoreFd,
    SemaphoreWin32, TimelineSemaphore, Uuids,
};

/// Why functions of an extension are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The context does not list the extension.
    Extension(Extension),
    /// It lists the extension and lacks one of its functions.
    Symbol(Extension, &'static CStr),
}

impl Absent {
    /// What a capability says of it.
    pub(crate) fn support(self) -> Support {
        match self {
            Self::Extension(_) => Support::Unsupported(self.to_string()),
            Self::Symbol(..) => Support::SymbolMissing(self.to_string()),
        }
    }

    fn error(self, operation: &'static str) -> Error {
        let kind = match self {
            Self::Extension(_) => ErrorKind::Unsupported,
            Self::Symbol(..) => ErrorKind::SymbolMissing,
        };
        Error::new(kind, operation, self.to_string())
    }
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extension(extension) => write!(
                f,
                "the OpenGL context has no {extension}; use a driver that lists it, and for a GPU its vendor's own"
            ),
            Self::Symbol(extension, symbol) => write!(
                f,
                "the OpenGL context lists {extension} but its loader finds no {}; pass the loader of the context's own \
                 window system or EGL",
                symbol.to_string_lossy()
            ),
        }
    }
}

/// Functions of an extension, or why they are not there.
pub(crate) type Found<T> = Result<T, Absent>;

/// All of them.
pub(crate) struct Functions {
    pub(crate) base: Base,
    pub(crate) uuids: Found<Uuids>,
    pub(crate) memory_object: Found<MemoryObject>,
    pub(crate) memory_object_1d: Found<MemoryObject1d>,
    /// `None`: objects are made through binding points.
    pub(crate) direct_access: Option<DirectAccess>,
    pub(crate) memory_fd: Found<MemoryFd>,
    pub(crate) memory_win32: Found<MemoryWin32>,
    pub(crate) semaphore: Found<Semaphore>,
    pub(crate) semaphore_fd: Found<SemaphoreFd>,
    pub(crate) semaphore_win32: Found<SemaphoreWin32>,
    pub(crate) timeline: Found<TimelineSemaphore>,
}

/// The functions of an extension if it is listed. Loaders give addresses for names that no driver knows, so the list
/// decides, not the address.
fn listed<T>(listed: &[Extension], extension: Extension, load: impl FnOnce() -> Result<T, &'static CStr>) -> Found<T> {
    if !listed.contains(&extension) {
        return Err(Absent::Extension(extension));
    }
    load().map_err(|symbol| Absent::Symbol(extension, symbol))
}

impl Functions {
    /// Looks up what belongs to these extensions; `direct` says whether objects can be changed by their names.
    ///
    /// # Safety
    /// What `load` gives for a name must be null or OpenGL's function of that name, and the extensions those of its
    /// context.
    pub(crate) unsafe fn load(base: Base, extensions: &[Extension], direct: bool, load: &mut Loader<'_>) -> Self {
        use Extension as E;
        let either = if extensions.contains(&E::MemoryObject) { E::MemoryObject } else { E::Semaphore };
        // SAFETY: the caller's promise, for every table of this function.
        unsafe {
            Self {
                base,
                uuids: listed(extensions, either, || Uuids::load(load)),
                memory_object: listed(extensions, E::MemoryObject, || MemoryObject::load(load)),
                memory_object_1d: listed(extensions, E::MemoryObject, || MemoryObject1d::load(load)),
                direct_access: if direct && extensions.contains(&E::MemoryObject) {
                    DirectAccess::load(load).ok()
                } else {
                    None
                },
                memory_fd: listed(extensions, E::MemoryObjectFd, || MemoryFd::load(load)),
                memory_win32: listed(extensions, E::MemoryObjectWin32, || MemoryWin32::load(load)),
                semaphore: listed(extensions, E::Semaphore, || Semaphore::load(load)),
                semaphore_fd: listed(extensions, E::SemaphoreFd, || SemaphoreFd::load(load)),
                semaphore_win32: listed(extensions, E::SemaphoreWin32, || SemaphoreWin32::load(load)),
                timeline: listed(extensions, E::TimelineSemaphore, || TimelineSemaphore::load(load)),
            }
        }
    }
}

/// The functions, or the error that names the extension or function that is missing.
pub(crate) fn need<'a, T>(found: &'a Found<T>, operation: &'static str) -> Result<&'a T> {
    found.as_ref().map_err(|absent| absent.error(operation))
}
