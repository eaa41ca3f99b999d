//! NT handles: `VK_KHR_external_memory_win32`, `VK_KHR_external_semaphore_win32`.
//!
//! Imports do not transfer ownership of a handle to the driver. An object may be exported only once per handle type
//! (VUIDs 00663 of `VkMemoryGetWin32HandleInfoKHR` and 01127 of `VkSemaphoreGetWin32HandleInfoKHR`), so the first
//! handle is stored with the object, and every export duplicates it.

use std::marker::PhantomData;
use std::os::windows::io::{FromRawHandle, OwnedHandle};
use std::sync::Mutex;

use ash::vk;
use gpu_interop_core::handle::{HandleObjectRef, KmtHandle, Win32Object};
use gpu_interop_core::sync::lock;
use gpu_interop_core::{
    Error, ErrorKind, MemoryHandle, MemoryHandleKind, Result, SemaphoreHandle, SemaphoreHandleKind,
};

use super::{not_importable, nothing_exported};
use crate::error::{self, Checked};
use crate::interop::VulkanInterop;

/// The default kinds of exported handles.
pub(crate) const MEMORY: MemoryHandleKind = MemoryHandleKind::OpaqueWin32;
pub(crate) const BINARY_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::OpaqueWin32;
pub(crate) const TIMELINE_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineWin32;

/// What this platform imports.
pub(super) const IMPORTABLE: &str = "Windows handles";

/// Reports whether this crate exports memory as this kind.
pub(crate) fn exports(kind: MemoryHandleKind) -> bool {
    kind == MemoryHandleKind::OpaqueWin32
}

/// The handle of an object's first export.
#[derive(Debug, Default)]
pub(crate) struct Exported(Mutex<Option<OwnedHandle>>);

impl Exported {
    /// Duplicates the handle, which the first call obtains from `get`.
    fn duplicate(
        &self,
        operation: &'static str,
        get: impl FnOnce() -> ash::prelude::VkResult<vk::HANDLE>,
    ) -> Result<Win32Object> {
        let mut first = lock(&self.0);
        let handle = match first.take() {
            Some(handle) => handle,
            None => {
                let handle = std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(
                    get().checked(operation)?.cast_unsigned(),
                );
                if handle.is_null() {
                    return Err(nothing_exported(operation));
                }
                // SAFETY: a successful export makes a new handle, which the caller owns.
                unsafe { OwnedHandle::from_raw_handle(handle) }
            }
        };
        let duplicate = first.insert(handle).try_clone().map_err(|error| {
            Error::new(ErrorKind::System, operation, "cannot duplicate the exported handle").with_source(error)
        })?;
        Ok(Win32Object::Handle(duplicate.into()))
    }
}

/// Exports memory that was allocated for this kind, as a new handle.
pub(crate) fn export_memory(
    interop: &VulkanInterop,
    memory: vk::DeviceMemory,
    (_kind, types): (MemoryHandleKind, vk::ExternalMemoryHandleTypeFlags),
    exported: &Exported,
) -> Result<MemoryHandle> {
    let info = vk::MemoryGetWin32HandleInfoKHR::default().memory(memory).handle_type(types);
    // SAFETY: the memory is live and was allocated for export as this type, and this is its first export;
    // `Functions::load` checked that the function exists.
    let get = || unsafe { interop.functions().memory.get_memory_win32_handle(&info) };
    exported.duplicate("vkGetMemoryWin32HandleKHR", get).map(MemoryHandle::OpaqueWin32)
}

/// Exports a semaphore that was created for this kind, as a new handle.
pub(crate) fn export_semaphore(
    interop: &VulkanInterop,
    semaphore: vk::Semaphore,
    (kind, types): (SemaphoreHandleKind, vk::ExternalSemaphoreHandleTypeFlags),
    exported: &Exported,
) -> Result<SemaphoreHandle> {
    const OPERATION: &str = "vkGetSemaphoreWin32HandleKHR";
    let info = vk::SemaphoreGetWin32HandleInfoKHR::default().semaphore(semaphore).handle_type(types);
    let functions = interop.functions().semaphore(OPERATION)?;
    // SAFETY: the semaphore is live and was created for export as this type, and this is its first export;
    // `Functions::semaphore` has the function.
    let get = || unsafe { functions.get_semaphore_win32_handle(&info) };
    let object = exported.duplicate(OPERATION, get)?;
    Ok(match kind {
        SemaphoreHandleKind::TimelineWin32 => SemaphoreHandle::TimelineWin32(object),
        _ => SemaphoreHandle::OpaqueWin32(object),
    })
}

/// A handle of a kind that this platform imports, for Vulkan's structures: the handle or the name; the other one is
/// null.
#[derive(Debug, Clone, Copy)]
struct Location<'a> {
    handle: vk::HANDLE,
    name: vk::LPCWSTR,
    _of: PhantomData<&'a Win32Object>,
}

impl<'a> Location<'a> {
    fn of(object: &'a Win32Object) -> Self {
        let (handle, name) = match object {
            Win32Object::Handle(handle) => (handle.as_raw().expose_provenance().cast_signed(), std::ptr::null()),
            Win32Object::Name(name) => (0, name.as_utf16().as_ptr()),
            // Neither; drivers reject that.
            _ => (0, std::ptr::null()),
        };
        Self { handle, name, _of: PhantomData }
    }

    fn kmt(handle: &KmtHandle) -> Self {
        Self { handle: handle.as_raw().cast_signed(), name: std::ptr::null(), _of: PhantomData }
    }
}

/// The structure of `vkAllocateMemory` for an import.
pub(crate) type ImportInfo<'a> = vk::ImportMemoryWin32HandleInfoKHR<'a>;

/// A memory handle of a kind that this platform imports. Lent to the driver as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Importable<'a>(Location<'a>);

pub(crate) use Importable as Incoming;

impl<'a> Importable<'a> {
    pub(crate) fn new(operation: &'static str, handle: &'a MemoryHandle) -> Result<Self> {
        match handle.object() {
            HandleObjectRef::Win32(object) => Ok(Self(Location::of(object))),
            HandleObjectRef::Kmt(handle) => Ok(Self(Location::kmt(handle))),
            _ => Err(not_importable(operation)),
        }
    }

    pub(crate) fn lend(self) -> Result<Self> {
        Ok(self)
    }

    /// The memory types that the handle can be imported as, one bit each.
    pub(crate) fn memory_types(
        &self,
        interop: &VulkanInterop,
        kind: MemoryHandleKind,
        types: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<u32> {
        let Location { handle, name, .. } = self.0;
        // Vulkan forbids this query for opaque handles; they have the memory type of the exporter. The query takes no
        // names.
        if matches!(kind, MemoryHandleKind::OpaqueWin32 | MemoryHandleKind::OpaqueWin32Kmt) || !name.is_null() {
            return Ok(u32::MAX);
        }
        let mut properties = vk::MemoryWin32HandlePropertiesKHR::default();
        let functions = &interop.functions().memory;
        // SAFETY: the handle is open and not of an opaque type; the function does not take it over.
        unsafe { functions.get_memory_win32_handle_properties(types, handle, &mut properties) }
            .map_err(|code| error::import("vkGetMemoryWin32HandlePropertiesKHR", code))?;
        Ok(properties.memory_type_bits)
    }

    pub(crate) fn info(&self, types: vk::ExternalMemoryHandleTypeFlags) -> ImportInfo<'_> {
        let Location { handle, name, .. } = self.0;
        ImportInfo::default().handle_type(types).handle(handle).name(name)
    }

    /// Ends the loan after the import. The caller still owns the handle.
    pub(crate) fn finish<T, E>(self, outcome: Result<T, E>) -> Result<T, E> {
        outcome
    }
}

/// A semaphore handle of a kind that this platform imports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImportableSemaphore<'a>(Location<'a>);

impl<'a> ImportableSemaphore<'a> {
    pub(crate) fn new(operation: &'static str, handle: &'a SemaphoreHandle) -> Result<Self> {
        match handle {
            SemaphoreHandle::OpaqueWin32(object)
            | SemaphoreHandle::TimelineWin32(object)
            | SemaphoreHandle::D3d12Fence(object)
            | SemaphoreHandle::D3d11Fence(object) => Ok(Self(Location::of(object))),
            SemaphoreHandle::OpaqueWin32Kmt(handle) => Ok(Self(Location::kmt(handle))),
            _ => Err(not_importable(operation)),
        }
    }

    /// Imports the payload into `semaphore`, permanently.
    ///
    /// # Safety
    /// The semaphore must be live, of the handle's payload type, and not in use.
    pub(crate) unsafe fn import(
        self,
        interop: &VulkanInterop,
        semaphore: vk::Semaphore,
        types: vk::ExternalSemaphoreHandleTypeFlags,
    ) -> Result<()> {
        const OPERATION: &str = "vkImportSemaphoreWin32HandleKHR";
        let functions = interop.functions().semaphore(OPERATION)?;
        let Location { handle, name, .. } = self.0;
        let info = vk::ImportSemaphoreWin32HandleInfoKHR::default()
            .semaphore(semaphore)
            .handle_type(types)
            .handle(handle)
            .name(name);
        // SAFETY: the caller's promise; during the call the handle is open, or the name is NUL-terminated.
        unsafe { functions.import_semaphore_win32_handle(&info) }.map_err(|code| error::import(OPERATION, code))
    }
}
