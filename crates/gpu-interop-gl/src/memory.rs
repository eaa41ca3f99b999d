//! Memory that another API exported, imported into OpenGL.

use std::ffi::{c_int, c_uint, c_void};
use std::rc::Rc;

use gpu_interop_core::handle::Win32Object;
use gpu_interop_core::{Error, ImportError, MemoryHandle, MemoryHandleKind, MemoryImport, Result, Support};

use crate::error;
use crate::functions::need;
use crate::interop::GlInterop;
#[cfg(unix)]
use crate::lend::lend;
use crate::lend::lend_win32;
use crate::sys;

/// A memory object of OpenGL with memory that another API exported. Deleted once it and everything made from it is gone.
///
/// Cheap to clone; the clones are one object.
#[derive(Debug, Clone)]
pub struct ImportedMemory {
    pub(crate) inner: Rc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) interop: GlInterop,
    name: c_uint,
    size: u64,
    dedicated: bool,
    handle: MemoryHandleKind,
}

const OPERATION: &str = "GlInterop::import_memory";

impl GlInterop {
    /// Imports memory. The request owns its handle: after a success a file descriptor belongs to the driver, and a handle
    /// of Windows, which no driver takes over, has been closed. Rests on `glCreateMemoryObjectsEXT`,
    /// `glMemoryObjectParameterivEXT` for a dedicated allocation, and `glImportMemoryFdEXT`, `glImportMemoryWin32HandleEXT`
    /// or `glImportMemoryWin32NameEXT`. Protected memory is not supported.
    ///
    /// Some drivers (Mesa's) take a descriptor that they do not understand without an error. What is made of it then fails
    /// with `ImportRejected`.
    ///
    /// # Errors
    /// All of them give the request back, its handle open and usable, whatever the driver did to the duplicate it got.
    /// * `Unsupported`, `SymbolMissing`: what [`memory_support`](Self::memory_support) says.
    /// * `InvalidArgument`, `DeviceMismatch`: those of [`MemoryImport::validate`], and no context
    ///   is current. The driver was not called.
    /// * `ImportRejected`, `OutOfMemory`, `Driver`: the driver refused.
    /// * `System`: the process is out of descriptors.
    pub fn import_memory(&self, request: MemoryImport) -> Result<ImportedMemory, ImportError<MemoryImport>> {
        match self.try_import_memory(&request) {
            Ok(memory) => Ok(memory),
            Err(error) => {
                let error = error
                    .with_device(self.identity())
                    .with_context("handle", request.handle().kind())
                    .with_context("import size", format_args!("{} bytes", request.size()))
                    .with_object_name(request.handle().as_win32());
                Err(ImportError::new(error, request))
            }
        }
    }

    fn try_import_memory(&self, request: &MemoryImport) -> Result<ImportedMemory> {
        let kind = request.handle().kind();
        supported(self.memory_support(kind), OPERATION, "memory of this kind cannot be imported")?;
        request.validate(OPERATION, self.importer(request.exporter()))?;
        if request.is_native_of_the_cpu() {
            return Err(Error::unsupported(
                OPERATION,
                "memory of a backend on the CPU is no memory of OpenGL's driver; export Vulkan's, and import it in both",
            ));
        }
        self.check_current(OPERATION)?;
        let functions = need(&self.functions().memory_object, OPERATION)?;

        let mut name = 0;
        // SAFETY: the context is current and has the extension; there is room for one name.
        self.named("glCreateMemoryObjectsEXT", &mut name, |name| unsafe { (functions.create)(1, name) })?;
        // From here on it is deleted when dropped, also after a failure.
        let inner = Inner {
            interop: self.clone(),
            name,
            size: request.size(),
            dedicated: request.is_dedicated(),
            handle: kind,
        };
        if request.is_dedicated() {
            let dedicated: c_int = 1;
            self.call("glMemoryObjectParameterivEXT", error::driver, |_| {
                // SAFETY: the context is current, the object is new, and the parameter has one value.
                unsafe { (functions.parameter_iv)(name, sys::DEDICATED_MEMORY_OBJECT_EXT, &raw const dedicated) }
            })?;
        }
        self.import_into(&inner, request)?;
        Ok(ImportedMemory { inner: Rc::new(inner) })
    }

    fn import_into(&self, memory: &Inner, request: &MemoryImport) -> Result<()> {
        let kind = request.handle().kind();
        match request.handle() {
            #[cfg(unix)]
            MemoryHandle::OpaqueFd(fd) => self.import_fd(memory, std::os::fd::AsFd::as_fd(fd)),
            MemoryHandle::OpaqueWin32(object)
            | MemoryHandle::D3d12Heap(object)
            | MemoryHandle::D3d12Resource(object)
            | MemoryHandle::D3d11Resource(object) => self.import_win32(memory, kind, object),
            MemoryHandle::OpaqueWin32Kmt(handle) | MemoryHandle::D3d11ResourceKmt(handle) => {
                self.import_win32_handle(memory, kind, std::ptr::without_provenance_mut(handle.as_raw()))
            }
            // `memory_support` has refused these.
            _ => Err(Error::unsupported(OPERATION, "OpenGL has no import of such handles")),
        }
    }

    #[cfg(unix)]
    fn import_fd(&self, memory: &Inner, fd: std::os::fd::BorrowedFd<'_>) -> Result<()> {
        const OPERATION: &str = "glImportMemoryFdEXT";
        let functions = need(&self.functions().memory_fd, OPERATION)?;
        lend(self, OPERATION, fd, |fd| {
            // SAFETY: the context is current and has the extension, the object has no memory yet, and the descriptor is
            // a duplicate that the driver may close.
            unsafe { (functions.import)(memory.name, memory.size, sys::HANDLE_TYPE_OPAQUE_FD_EXT, fd) }
        })
    }

    fn import_win32(&self, memory: &Inner, kind: MemoryHandleKind, object: &Win32Object) -> Result<()> {
        const OPERATION: &str = "glImportMemoryWin32NameEXT";
        let by_name = |name| {
            let functions = need(&self.functions().memory_win32, OPERATION)?;
            let ty = handle_type(kind, OPERATION)?;
            // SAFETY: the context is current and has the extension, the object has no memory yet, and the name is UTF-16
            // that ends with a NUL.
            self.call(OPERATION, error::import, |_| unsafe {
                (functions.import_name)(memory.name, memory.size, ty, name);
            })
        };
        lend_win32(object, OPERATION, |handle| self.import_win32_handle(memory, kind, handle), by_name)
    }

    fn import_win32_handle(&self, memory: &Inner, kind: MemoryHandleKind, handle: *mut c_void) -> Result<()> {
        const OPERATION: &str = "glImportMemoryWin32HandleEXT";
        let functions = need(&self.functions().memory_win32, OPERATION)?;
        let ty = handle_type(kind, OPERATION)?;
        // SAFETY: the context is current and has the extension, the object has no memory yet, and the request owns the
        // handle, which is open; drivers do not take it over.
        self.call(OPERATION, error::import, |_| unsafe {
            (functions.import_handle)(memory.name, memory.size, ty, handle);
        })
    }
}

/// What OpenGL calls memory handles of Windows.
fn handle_type(kind: MemoryHandleKind, operation: &'static str) -> Result<c_uint> {
    Ok(match kind {
        MemoryHandleKind::OpaqueWin32 => sys::HANDLE_TYPE_OPAQUE_WIN32_EXT,
        MemoryHandleKind::OpaqueWin32Kmt => sys::HANDLE_TYPE_OPAQUE_WIN32_KMT_EXT,
        MemoryHandleKind::D3d12Heap => sys::HANDLE_TYPE_D3D12_TILEPOOL_EXT,
        MemoryHandleKind::D3d12Resource => sys::HANDLE_TYPE_D3D12_RESOURCE_EXT,
        MemoryHandleKind::D3d11Resource => sys::HANDLE_TYPE_D3D11_IMAGE_EXT,
        MemoryHandleKind::D3d11ResourceKmt => sys::HANDLE_TYPE_D3D11_IMAGE_KMT_EXT,
        other => {
            return Err(Error::unsupported(operation, "not a handle of Windows").with_context("handle", other));
        }
    })
}

/// Fails with the reason unless a capability is there.
pub(crate) fn supported(support: Support, operation: &'static str, what: &str) -> Result<()> {
    support.unsupported_error(operation, what).map_or(Ok(()), Err)
}

impl ImportedMemory {
    /// Size of the exporter's allocation, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// Whether it is a dedicated allocation.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.inner.dedicated
    }

    /// What it was imported from.
    #[must_use]
    pub fn handle_kind(&self) -> MemoryHandleKind {
        self.inner.handle
    }

    /// OpenGL's name of the memory object, valid while this object or something made from it lives.
    #[must_use]
    pub fn as_raw(&self) -> u32 {
        self.inner.name
    }

    /// The context that it belongs to.
    #[must_use]
    pub fn interop(&self) -> &GlInterop {
        &self.inner.interop
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        delete(&self.interop, "glDeleteMemoryObjectsEXT", |interop| {
            if let Ok(functions) = &interop.functions().memory_object {
                // SAFETY: the context is current (`delete`), and the name is this object's own. What still uses the
                // memory in the driver keeps it.
                unsafe { (functions.delete)(1, &raw const self.name) };
            }
        });
    }
}

/// Deletes something of OpenGL, unless its context is known not to be current: then it is left to the end of the context.
pub(crate) fn delete(interop: &GlInterop, operation: &'static str, delete: impl FnOnce(&GlInterop)) {
    if !interop.is_current() {
        tracing::warn!(operation, "the OpenGL context is not current; the object stays until the context ends");
        return;
    }
    if let Err(error) = interop.call(operation, error::driver, |_| delete(interop)) {
        tracing::error!(%error, "an object of OpenGL could not be deleted");
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    #[test]
    fn handles_have_the_numbers_of_the_registry() {
        let numbers = [
            (MemoryHandleKind::OpaqueWin32, 0x9587),
            (MemoryHandleKind::OpaqueWin32Kmt, 0x9588),
            (MemoryHandleKind::D3d12Heap, 0x9589),
            (MemoryHandleKind::D3d12Resource, 0x958A),
            (MemoryHandleKind::D3d11Resource, 0x958B),
            (MemoryHandleKind::D3d11ResourceKmt, 0x958C),
        ];
        for kind in MemoryHandleKind::ALL {
            let number = numbers.iter().find(|(known, _)| known == kind).map(|(_, number)| *number);
            assert_eq!(handle_type(*kind, "op").ok(), number, "{kind}");
        }
        #[cfg(unix)]
        assert_eq!(sys::HANDLE_TYPE_OPAQUE_FD_EXT, 0x9586);
        assert_eq!(sys::DEDICATED_MEMORY_OBJECT_EXT, 0x9581);
    }

    #[test]
    fn support_becomes_the_kind_that_says_what_to_do() {
        let kind = |support| supported(support, "op", "what").map_err(|error| error.kind());
        assert_eq!(kind(Support::Native), Ok(()));
        assert_eq!(kind(Support::no("not here")), Err(ErrorKind::Unsupported));
        assert_eq!(kind(Support::DriverTooOld("old".into())), Err(ErrorKind::DriverTooOld));
        assert_eq!(kind(Support::SymbolMissing("gone".into())), Err(ErrorKind::SymbolMissing));
    }
}
