//! NT handles: `VK_KHR_external_memory_win32`, `VK_KHR_external_semaphore_win32`.
//!
//! No driver takes a handle over. One object gives out one handle of a type, ever (VUIDs 00663 of
//! `VkMemoryGetWin32HandleInfoKHR` and 01127 of `VkSemaphoreGetWin32HandleInfoKHR`), so the first is kept with the
//! object, and every export is a duplicate of it.

use std::ffi::CStr;
use std::os::windows::io::{FromRawHandle, OwnedHandle};
use std::sync::{Mutex, PoisonError};

use ash::vk;
use gpu_interop_core::handle::Win32Object;
use gpu_interop_core::{
    Error, ErrorKind, MemoryHandle, MemoryHandleKind, Result, SemaphoreHandle, SemaphoreHandleKind,
};

use super::missing;
use crate::error::{self, Checked};
use crate::interop::VulkanInterop;

/// What is exported unless something else is asked for.
pub(crate) const MEMORY: MemoryHandleKind = MemoryHandleKind::OpaqueWin32;
pub(crate) const BINARY_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::OpaqueWin32;
pub(crate) const TIMELINE_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineWin32;

pub(crate) const REQUIRED_EXTENSIONS: &[&CStr] = &[vk::KHR_EXTERNAL_MEMORY_WIN32_NAME];
pub(crate) const OPTIONAL_EXTENSIONS: &[&CStr] = &[vk::KHR_EXTERNAL_SEMAPHORE_WIN32_NAME];

/// The functions by which a device shares.
pub(crate) struct Functions {
    memory: ash::khr::external_memory_win32::Device,
    semaphore: Option<ash::khr::external_semaphore_win32::Device>,
}

impl Functions {
    /// Loads them. `has` is whether the device has a function.
    ///
    /// # Errors
    /// `Unsupported` if it does not share memory.
    pub(crate) fn load(
        operation: &'static str,
        instance: &ash::Instance,
        device: &ash::Device,
        has: impl Fn(&CStr) -> bool,
    ) -> Result<Self> {
        if !(has(c"vkGetMemoryWin32HandleKHR") && has(c"vkGetMemoryWin32HandlePropertiesKHR")) {
            return Err(missing(operation, "vkGetMemoryWin32HandleKHR", "VK_KHR_external_memory_win32"));
        }
        let semaphore = (has(c"vkGetSemaphoreWin32HandleKHR") && has(c"vkImportSemaphoreWin32HandleKHR"))
            .then(|| ash::khr::external_semaphore_win32::Device::new(instance, device));
        Ok(Self { memory: ash::khr::external_memory_win32::Device::new(instance, device), semaphore })
    }

    /// The functions of semaphores, or the error that says that they are not enabled.
    fn semaphore(&self, operation: &'static str) -> Result<&ash::khr::external_semaphore_win32::Device> {
        let semaphore = self.semaphore.as_ref();
        semaphore.ok_or_else(|| missing(operation, "vkGetSemaphoreWin32HandleKHR", "VK_KHR_external_semaphore_win32"))
    }
}

/// Whether this crate exports memory as this kind.
pub(crate) fn exports(kind: MemoryHandleKind) -> bool {
    kind == MemoryHandleKind::OpaqueWin32
}

/// The handle that an object has given out.
#[derive(Debug, Default)]
pub(crate) struct Exported(Mutex<Option<OwnedHandle>>);

impl Exported {
    /// A duplicate of the handle, which `get` makes the first time.
    fn duplicate(
        &self,
        operation: &'static str,
        get: impl FnOnce() -> ash::prelude::VkResult<vk::HANDLE>,
    ) -> Result<Win32Object> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = match kept.take() {
            Some(handle) => handle,
            None => {
                let handle = std::ptr::with_exposed_provenance_mut::<std::ffi::c_void>(
                    get().checked(operation)?.cast_unsigned(),
                );
                if handle.is_null() {
                    let message = "the driver reported success but gave no handle";
                    return Err(Error::new(ErrorKind::Driver, operation, message));
                }
                // SAFETY: a successful export makes a new handle, which is the caller's.
                unsafe { OwnedHandle::from_raw_handle(handle) }
            }
        };
        let duplicate = kept.insert(handle).try_clone().map_err(|error| {
            Error::new(ErrorKind::System, operation, "cannot duplicate the exported handle").with_source(error)
        })?;
        Ok(Win32Object::Handle(duplicate.into()))
    }
}

/// A new handle of memory that was allocated for export as this kind.
pub(crate) fn export_memory(
    interop: &VulkanInterop,
    memory: vk::DeviceMemory,
    (_kind, types): (MemoryHandleKind, vk::ExternalMemoryHandleTypeFlags),
    exported: &Exported,
) -> Result<MemoryHandle> {
    let info = vk::MemoryGetWin32HandleInfoKHR::default().memory(memory).handle_type(types);
    // SAFETY: the memory is live and was allocated for export as this type, and no handle of it was asked for before;
    // `Functions::load` saw the function.
    let get = || unsafe { interop.functions().memory.get_memory_win32_handle(&info) };
    exported.duplicate("vkGetMemoryWin32HandleKHR", get).map(MemoryHandle::OpaqueWin32)
}

/// Fails unless the device shares semaphores.
pub(crate) fn need_semaphores(operation: &'static str, interop: &VulkanInterop) -> Result<()> {
    interop.functions().semaphore(operation).map(drop)
}

/// A new handle of a semaphore that was created for export as this kind.
pub(crate) fn export_semaphore(
    interop: &VulkanInterop,
    semaphore: vk::Semaphore,
    (kind, types): (SemaphoreHandleKind, vk::ExternalSemaphoreHandleTypeFlags),
    exported: &Exported,
) -> Result<SemaphoreHandle> {
    const OPERATION: &str = "vkGetSemaphoreWin32HandleKHR";
    let info = vk::SemaphoreGetWin32HandleInfoKHR::default().semaphore(semaphore).handle_type(types);
    let functions = interop.functions().semaphore(OPERATION)?;
    // SAFETY: the semaphore is live and was created for export as this type, and no handle of it was asked for before; the
    // function is there.
    let get = || unsafe { functions.get_semaphore_win32_handle(&info) };
    let object = exported.duplicate(OPERATION, get)?;
    Ok(match kind {
        SemaphoreHandleKind::TimelineWin32 => SemaphoreHandle::TimelineWin32(object),
        _ => SemaphoreHandle::OpaqueWin32(object),
    })
}

/// A handle or a name as Vulkan's structures have them: one of both.
fn parts(object: &Win32Object) -> (vk::HANDLE, vk::LPCWSTR) {
    match object {
        Win32Object::Handle(handle) => (handle.as_raw().expose_provenance().cast_signed(), std::ptr::null()),
        Win32Object::Name(name) => (0, name.as_utf16().as_ptr()),
        // Neither, which drivers refuse.
        _ => (0, std::ptr::null()),
    }
}

/// What `vkAllocateMemory` is told of an import.
pub(crate) type ImportInfo<'a> = vk::ImportMemoryWin32HandleInfoKHR<'a>;

/// A handle that can be imported here, checked before anything else is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Importable<'a>(&'a MemoryHandle);

impl<'a> Importable<'a> {
    pub(crate) fn new(operation: &'static str, handle: &'a MemoryHandle) -> Result<Self> {
        match handle {
            MemoryHandle::OpaqueWin32(_)
            | MemoryHandle::OpaqueWin32Kmt(_)
            | MemoryHandle::D3d12Heap(_)
            | MemoryHandle::D3d12Resource(_)
            | MemoryHandle::D3d11Resource(_)
            | MemoryHandle::D3d11ResourceKmt(_) => Ok(Self(handle)),
            _ => Err(Error::unsupported(operation, "only handles of Windows can be imported here")),
        }
    }

    pub(crate) fn lend(self) -> Result<Incoming<'a>> {
        Ok(Incoming { handle: self.0 })
    }
}

/// Memory on its way into the driver, which keeps no handle.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    handle: &'a MemoryHandle,
}

impl Incoming<'_> {
    fn parts(&self) -> (vk::HANDLE, vk::LPCWSTR) {
        match self.handle {
            MemoryHandle::OpaqueWin32(object)
            | MemoryHandle::D3d12Heap(object)
            | MemoryHandle::D3d12Resource(object)
            | MemoryHandle::D3d11Resource(object) => parts(object),
            MemoryHandle::OpaqueWin32Kmt(handle) | MemoryHandle::D3d11ResourceKmt(handle) => {
                (handle.as_raw().cast_signed(), std::ptr::null())
            }
            _ => (0, std::ptr::null()),
        }
    }

    /// The memory types that it can be imported as, a bit each.
    pub(crate) fn memory_types(
        &self,
        interop: &VulkanInterop,
        kind: MemoryHandleKind,
        types: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<u32> {
        let (handle, name) = self.parts();
        // Opaque handles must not be asked about; only the exporter knows their type. Of a name the system's object is
        // not known here.
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
        let (handle, name) = self.parts();
        ImportInfo::default().handle_type(types).handle(handle).name(name)
    }

    /// Nothing was given away.
    pub(crate) fn imported(self) {}

    /// Nothing was given away.
    pub(crate) fn refused(self) {}
}

/// The handle of a semaphore that can be imported here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImportableSemaphore<'a>(&'a SemaphoreHandle);

impl<'a> ImportableSemaphore<'a> {
    pub(crate) fn new(operation: &'static str, handle: &'a SemaphoreHandle) -> Result<Self> {
        match handle {
            SemaphoreHandle::OpaqueWin32(_)
            | SemaphoreHandle::TimelineWin32(_)
            | SemaphoreHandle::OpaqueWin32Kmt(_)
            | SemaphoreHandle::D3d12Fence(_)
            | SemaphoreHandle::D3d11Fence(_) => Ok(Self(handle)),
            _ => Err(Error::unsupported(operation, "only handles of Windows can be imported here")),
        }
    }

    /// Gives a semaphore the payload of this one, permanently.
    ///
    /// # Safety
    /// The semaphore is live, of the handle's payload, and nothing else knows it yet.
    pub(crate) unsafe fn import(
        self,
        interop: &VulkanInterop,
        semaphore: vk::Semaphore,
        types: vk::ExternalSemaphoreHandleTypeFlags,
    ) -> Result<()> {
        const OPERATION: &str = "vkImportSemaphoreWin32HandleKHR";
        let functions = interop.functions().semaphore(OPERATION)?;
        let (handle, name) = match self.0 {
            SemaphoreHandle::OpaqueWin32(object)
            | SemaphoreHandle::TimelineWin32(object)
            | SemaphoreHandle::D3d12Fence(object)
            | SemaphoreHandle::D3d11Fence(object) => parts(object),
            SemaphoreHandle::OpaqueWin32Kmt(handle) => (handle.as_raw().cast_signed(), std::ptr::null()),
            _ => (0, std::ptr::null()),
        };
        let info = vk::ImportSemaphoreWin32HandleInfoKHR::default()
            .semaphore(semaphore)
            .handle_type(types)
            .handle(handle)
            .name(name);
        // SAFETY: the caller's promise; the handle is open, or the name ends with a NUL, for the call.
        unsafe { functions.import_semaphore_win32_handle(&info) }.map_err(|code| error::import(OPERATION, code))
    }
}
