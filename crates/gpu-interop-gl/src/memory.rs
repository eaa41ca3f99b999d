//! Imported memory.

use std::ffi::{c_int, c_uint, c_void};
use std::rc::Rc;

use gpu_interop_core::handle::Win32Object;
use gpu_interop_core::{
    Error, ImportError, MemoryHandle, MemoryHandleKind, MemoryImport, MipmappedArrayDesc, Result, Support,
};

use crate::error;
use crate::functions::need;
use crate::interop::GlInterop;
#[cfg(unix)]
use crate::interop::lend;
use crate::interop::lend_win32;
use crate::sys;

/// An OpenGL memory object with memory that another API exported. Deleted when it and everything made from it are
/// dropped.
///
/// Cheap to clone; clones share the object.
#[doc(alias = "glDeleteMemoryObjectsEXT")]
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
    /// The image that the exporter declared.
    image: Option<MipmappedArrayDesc>,
    handle: MemoryHandleKind,
}

const OPERATION: &str = "GlInterop::import_memory";

impl GlInterop {
    /// Imports memory. The request owns its handle: after a success the driver owns a file descriptor, and a Windows
    /// handle, which drivers do not take ownership of, is closed. Calls `glCreateMemoryObjectsEXT`,
    /// `glMemoryObjectParameterivEXT` for a dedicated allocation, and `glImportMemoryFdEXT`,
    /// `glImportMemoryWin32HandleEXT` or `glImportMemoryWin32NameEXT`. Protected memory is not supported.
    ///
    /// Some drivers (Mesa's) accept an invalid descriptor without an error. Creating a buffer or texture in it then
    /// fails with `ImportRejected`.
    ///
    /// # Errors
    /// Every error returns the request with its handle open and usable, whatever the driver did with its duplicate.
    /// * `Unsupported`, `SymbolMissing`: the reason of
    ///   [`memory_support`](Self::memory_support).
    /// * `InvalidArgument`, `DeviceMismatch`: those of [`MemoryImport::validate`]; no context
    ///   is current. The driver was not called.
    /// * `ImportRejected`, `OutOfMemory`, `Driver`: the driver rejected the
    ///   import.
    /// * `System`: the process is out of descriptors.
    #[doc(alias(
        "glCreateMemoryObjectsEXT",
        "glMemoryObjectParameterivEXT",
        "glImportMemoryFdEXT",
        "glImportMemoryWin32HandleEXT",
        "glImportMemoryWin32NameEXT"
    ))]
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
                "memory of a CPU backend cannot be imported into OpenGL; export it from Vulkan and import it into both",
            ));
        }
        self.check_current(OPERATION)?;
        let functions = need(&self.functions().memory_object, OPERATION)?;

        let mut name = 0;
        // SAFETY: the context is current and has the extension; `name` has space for one name.
        self.named("glCreateMemoryObjectsEXT", &mut name, |name| unsafe { (functions.create)(1, name) })?;
        // Dropping this deletes the name after a failure.
        let inner = Inner {
            interop: self.clone(),
            name,
            size: request.size(),
            dedicated: request.is_dedicated(),
            image: request.image().copied(),
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
            // `memory_support` rejected these.
            _ => Err(Error::unsupported(OPERATION, "OpenGL does not import this kind of handle")),
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
            // SAFETY: the context is current and has the extension, the object has no memory yet, and the name is
            // NUL-terminated UTF-16.
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
        // open handle, which drivers do not take ownership of.
        self.call(OPERATION, error::import, |_| unsafe {
            (functions.import_handle)(memory.name, memory.size, ty, handle);
        })
    }
}

fn handle_type(kind: MemoryHandleKind, operation: &'static str) -> Result<c_uint> {
    Ok(match kind {
        MemoryHandleKind::OpaqueWin32 => sys::HANDLE_TYPE_OPAQUE_WIN32_EXT,
        MemoryHandleKind::OpaqueWin32Kmt => sys::HANDLE_TYPE_OPAQUE_WIN32_KMT_EXT,
        MemoryHandleKind::D3d12Heap => sys::HANDLE_TYPE_D3D12_TILEPOOL_EXT,
        MemoryHandleKind::D3d12Resource => sys::HANDLE_TYPE_D3D12_RESOURCE_EXT,
        MemoryHandleKind::D3d11Resource => sys::HANDLE_TYPE_D3D11_IMAGE_EXT,
        MemoryHandleKind::D3d11ResourceKmt => sys::HANDLE_TYPE_D3D11_IMAGE_KMT_EXT,
        other => {
            return Err(Error::unsupported(operation, "not a Windows handle").with_context("handle", other));
        }
    })
}

/// Fails with the reason if a capability is unsupported.
pub(crate) fn supported(support: Support, operation: &'static str, what: &str) -> Result<()> {
    support.unsupported_error(operation, what).map_or(Ok(()), Err)
}

impl ImportedMemory {
    /// Size of the exporter's allocation, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// The image of optimal tiling that the memory contains, if the exporter declared it.
    pub(crate) fn image(&self) -> Option<&MipmappedArrayDesc> {
        self.inner.image.as_ref()
    }

    /// Reports whether the memory is a dedicated allocation.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.inner.dedicated
    }

    /// The kind of the imported handle.
    #[must_use]
    pub fn handle_kind(&self) -> MemoryHandleKind {
        self.inner.handle
    }

    /// The OpenGL name of the memory object, valid while this object or something made from it lives.
    #[must_use]
    pub fn as_raw(&self) -> u32 {
        self.inner.name
    }

    /// The context of the memory object.
    #[must_use]
    pub fn interop(&self) -> &GlInterop {
        &self.inner.interop
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        delete(&self.interop, "glDeleteMemoryObjectsEXT", |interop| {
            if let Ok(functions) = &interop.functions().memory_object {
                // SAFETY: the context is current (`delete`), and this object owns the name. OpenGL keeps memory that is
                // still in use.
                unsafe { (functions.delete)(1, &raw const self.name) };
            }
        });
    }
}

/// Accessors and deletion of an object in imported memory; `$delete` is the field of the base functions.
macro_rules! object_in_memory {
    ($object:ident, $noun:literal, $function:literal, $delete:ident) => {
        impl $object {
            #[doc = concat!("The OpenGL name of the ", $noun, ", valid while this object lives.")]
            #[must_use]
            pub fn as_raw(&self) -> u32 {
                self.name
            }

            #[doc = concat!("The memory that contains the ", $noun, ".")]
            #[must_use]
            pub fn memory(&self) -> &$crate::memory::ImportedMemory {
                &self.memory
            }

            pub(crate) fn interop(&self) -> &$crate::interop::GlInterop {
                self.memory.interop()
            }
        }

        impl Drop for $object {
            fn drop(&mut self) {
                if self.name == 0 {
                    return;
                }
                $crate::memory::delete(self.interop(), $function, |interop| {
                    // SAFETY: the context is current (`delete`), and this object owns the name. OpenGL completes the
                    // context's pending work with the object first.
                    unsafe { (interop.functions().base.$delete)(1, &raw const self.name) };
                });
            }
        }
    };
}
pub(crate) use object_in_memory;

/// Deletes an OpenGL object. If the context is known not to be current, the object stays until the context is
/// destroyed.
pub(crate) fn delete(interop: &GlInterop, operation: &'static str, delete: impl FnOnce(&GlInterop)) {
    if !interop.is_current() {
        tracing::warn!(operation, "the OpenGL context is not current; the object stays until the context is destroyed");
        return;
    }
    if let Err(error) = interop.call(operation, error::driver, |_| delete(interop)) {
        tracing::error!(%error, "cannot delete an OpenGL object");
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::*;

    #[test]
    fn handle_types_match_the_registry() {
        let numbers = [
            (MemoryHandleKind::OpaqueWin32, 0x9587),
            (MemoryHandleKind::OpaqueWin32Kmt, 0x9588),
            (MemoryHandleKind::D3d12Heap, 0x9589),
            (MemoryHandleKind::D3d12Resource, 0x958A),
            (MemoryHandleKind::D3d11Resource, 0x958B),
            (MemoryHandleKind::D3d11ResourceKmt, 0x958C),
        ];
        for kind in MemoryHandleKind::ALL {
            let number = numbers.iter().find(|(kind_in_table, _)| kind_in_table == kind).map(|(_, number)| *number);
            assert_eq!(handle_type(*kind, "op").ok(), number, "{kind}");
        }
        #[cfg(unix)]
        assert_eq!(sys::HANDLE_TYPE_OPAQUE_FD_EXT, 0x9586);
        assert_eq!(sys::DEDICATED_MEMORY_OBJECT_EXT, 0x9581);
    }

    #[test]
    fn support_maps_to_error_kinds() {
        let kind = |support| supported(support, "op", "what").map_err(|error| error.kind());
        assert_eq!(kind(Support::Native), Ok(()));
        assert_eq!(kind(Support::no("missing")), Err(ErrorKind::Unsupported));
        assert_eq!(kind(Support::DriverTooOld("old".into())), Err(ErrorKind::DriverTooOld));
        assert_eq!(kind(Support::SymbolMissing("missing".into())), Err(ErrorKind::SymbolMissing));
    }
}
