//! OpenGL functions of a context, by extension.

use std::ffi::{CStr, c_uint};
use std::fmt;

use gpu_interop_core::{Error, ErrorKind, Result, Support};

use crate::extension::Extension;
use crate::sys::{
    Base, DirectAccess, Loader, MemoryFd, MemoryObject, MemoryObject1d, MemoryWin32, Semaphore, SemaphoreFd,
    SemaphoreWin32, TimelineSemaphore, Uuids,
};

/// Reason why the functions of an extension are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// The context does not list the extension.
    Extension(Extension),
    /// The context lists the extension but lacks one of its functions.
    Symbol(Extension, &'static CStr),
}

impl Absent {
    /// The reason as a capability.
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
            Self::Extension(extension) => {
                write!(f, "the OpenGL context lacks {extension}; use a driver that has it, for a GPU its vendor's own")
            }
            Self::Symbol(extension, symbol) => write!(
                f,
                "the OpenGL context lists {extension} but the loader does not find {}; pass the loader of the \
                 context's window system or EGL",
                symbol.to_string_lossy()
            ),
        }
    }
}

/// Functions of an extension, or the reason why they are missing.
pub(crate) type Found<T> = Result<T, Absent>;

/// The functions of a context.
pub(crate) struct Functions {
    pub(crate) base: Base,
    pub(crate) uuids: Found<Uuids>,
    pub(crate) memory_object: Found<MemoryObject>,
    pub(crate) memory_object_1d: Found<MemoryObject1d>,
    /// `None` without direct state access: objects are changed through binding points.
    pub(crate) direct_access: Option<DirectAccess>,
    pub(crate) memory_fd: Found<MemoryFd>,
    pub(crate) memory_win32: Found<MemoryWin32>,
    pub(crate) semaphore: Found<Semaphore>,
    pub(crate) semaphore_fd: Found<SemaphoreFd>,
    pub(crate) semaphore_win32: Found<SemaphoreWin32>,
    pub(crate) timeline: Found<TimelineSemaphore>,
}

/// Loads the functions of an extension if the context lists it. Loaders return addresses even for unknown names, so the
/// list decides, not the address.
fn load_if_listed<T>(
    listed: &[Extension],
    extension: Extension,
    load: impl FnOnce() -> Result<T, &'static CStr>,
) -> Found<T> {
    if !listed.contains(&extension) {
        return Err(Absent::Extension(extension));
    }
    load().map_err(|symbol| Absent::Symbol(extension, symbol))
}

impl Functions {
    /// Loads the functions of these extensions. `direct` enables direct state access.
    ///
    /// # Safety
    /// `load` must return null or OpenGL's function of the given name, and `extensions` must be those of its context.
    pub(crate) unsafe fn load(base: Base, extensions: &[Extension], direct: bool, load: &mut Loader<'_>) -> Self {
        use Extension as E;
        let either = if extensions.contains(&E::MemoryObject) { E::MemoryObject } else { E::Semaphore };
        // SAFETY: the caller's promise, for every table of this function.
        unsafe {
            Self {
                base,
                uuids: load_if_listed(extensions, either, || Uuids::load(load)),
                memory_object: load_if_listed(extensions, E::MemoryObject, || MemoryObject::load(load)),
                memory_object_1d: load_if_listed(extensions, E::MemoryObject, || MemoryObject1d::load(load)),
                direct_access: if direct && extensions.contains(&E::MemoryObject) {
                    DirectAccess::load(load).ok()
                } else {
                    None
                },
                memory_fd: load_if_listed(extensions, E::MemoryObjectFd, || MemoryFd::load(load)),
                memory_win32: load_if_listed(extensions, E::MemoryObjectWin32, || MemoryWin32::load(load)),
                semaphore: load_if_listed(extensions, E::Semaphore, || Semaphore::load(load)),
                semaphore_fd: load_if_listed(extensions, E::SemaphoreFd, || SemaphoreFd::load(load)),
                semaphore_win32: load_if_listed(extensions, E::SemaphoreWin32, || SemaphoreWin32::load(load)),
                timeline: load_if_listed(extensions, E::TimelineSemaphore, || TimelineSemaphore::load(load)),
            }
        }
    }
}

/// Returns the functions, or an error that names the missing extension or function.
pub(crate) fn need<'a, T>(found: &'a Found<T>, operation: &'static str) -> Result<&'a T> {
    found.as_ref().map_err(|absent| absent.error(operation))
}

pub(crate) fn integer(base: &Base, name: c_uint) -> i32 {
    let mut value = 0;
    // SAFETY: the context is current; every name that this crate queries has one value.
    unsafe { (base.get_integer_v)(name, &raw mut value) };
    value
}
