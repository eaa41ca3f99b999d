//! File descriptors: `VK_KHR_external_memory_fd`, `VK_KHR_external_semaphore_fd`.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};

use ash::vk;
use gpu_interop_core::handle::LentFd;
use gpu_interop_core::{
    Error, ErrorKind, MemoryHandle, MemoryHandleKind, Result, SemaphoreHandle, SemaphoreHandleKind,
};
use rustix::io::FdFlags;

use super::missing;
use crate::error::{self, Checked};
use crate::interop::VulkanInterop;

/// What is exported unless something else is asked for.
pub(crate) const MEMORY: MemoryHandleKind = MemoryHandleKind::OpaqueFd;
pub(crate) const BINARY_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::OpaqueFd;
pub(crate) const TIMELINE_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineFd;

pub(crate) const REQUIRED_EXTENSIONS: &[&CStr] = &[vk::KHR_EXTERNAL_MEMORY_FD_NAME];
pub(crate) const OPTIONAL_EXTENSIONS: &[&CStr] =
    &[vk::KHR_EXTERNAL_SEMAPHORE_FD_NAME, vk::EXT_EXTERNAL_MEMORY_DMA_BUF_NAME];

/// The functions by which a device shares.
pub(crate) struct Functions {
    memory: ash::khr::external_memory_fd::Device,
    semaphore: Option<ash::khr::external_semaphore_fd::Device>,
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
        if !(has(c"vkGetMemoryFdKHR") && has(c"vkGetMemoryFdPropertiesKHR")) {
            return Err(missing(operation, "vkGetMemoryFdKHR", "VK_KHR_external_memory_fd"));
        }
        let semaphore = (has(c"vkGetSemaphoreFdKHR") && has(c"vkImportSemaphoreFdKHR"))
            .then(|| ash::khr::external_semaphore_fd::Device::new(instance, device));
        Ok(Self { memory: ash::khr::external_memory_fd::Device::new(instance, device), semaphore })
    }

    /// The functions of semaphores, or the error that says that they are not enabled.
    fn semaphore(&self, operation: &'static str) -> Result<&ash::khr::external_semaphore_fd::Device> {
        let semaphore = self.semaphore.as_ref();
        semaphore.ok_or_else(|| missing(operation, "vkGetSemaphoreFdKHR", "VK_KHR_external_semaphore_fd"))
    }
}

/// Whether this crate exports memory as this kind.
pub(crate) fn exports(kind: MemoryHandleKind) -> bool {
    matches!(kind, MemoryHandleKind::OpaqueFd | MemoryHandleKind::DmaBufFd)
}

/// What an object remembers of its exports: nothing, each makes a new descriptor.
#[derive(Debug, Default)]
pub(crate) struct Exported {}

/// A new descriptor of memory that was allocated for export as this kind.
pub(crate) fn export_memory(
    interop: &VulkanInterop,
    memory: vk::DeviceMemory,
    (kind, types): (MemoryHandleKind, vk::ExternalMemoryHandleTypeFlags),
    _exported: &Exported,
) -> Result<MemoryHandle> {
    const OPERATION: &str = "vkGetMemoryFdKHR";
    let info = vk::MemoryGetFdInfoKHR::default().memory(memory).handle_type(types);
    // SAFETY: the memory is live and was allocated for export as this type; `Functions::load` saw the function.
    let fd = unsafe { interop.functions().memory.get_memory_fd(&info) }.checked(OPERATION)?;
    // SAFETY: it comes from a successful export, which makes a new descriptor for the caller.
    let fd = unsafe { take_over(OPERATION, fd) }?;
    Ok(match kind {
        MemoryHandleKind::DmaBufFd => MemoryHandle::DmaBufFd(fd),
        _ => MemoryHandle::OpaqueFd(fd),
    })
}

/// Fails unless the device shares semaphores.
pub(crate) fn need_semaphores(operation: &'static str, interop: &VulkanInterop) -> Result<()> {
    interop.functions().semaphore(operation).map(drop)
}

/// A new descriptor of a semaphore that was created for export as this kind.
pub(crate) fn export_semaphore(
    interop: &VulkanInterop,
    semaphore: vk::Semaphore,
    (kind, types): (SemaphoreHandleKind, vk::ExternalSemaphoreHandleTypeFlags),
    _exported: &Exported,
) -> Result<SemaphoreHandle> {
    const OPERATION: &str = "vkGetSemaphoreFdKHR";
    let info = vk::SemaphoreGetFdInfoKHR::default().semaphore(semaphore).handle_type(types);
    let functions = interop.functions().semaphore(OPERATION)?;
    // SAFETY: the semaphore is live and was created for export as this type; the function is there.
    let fd = unsafe { functions.get_semaphore_fd(&info) }.checked(OPERATION)?;
    // SAFETY: it comes from a successful export, which makes a new descriptor for the caller.
    let fd = unsafe { take_over(OPERATION, fd) }?;
    Ok(match kind {
        SemaphoreHandleKind::TimelineFd => SemaphoreHandle::TimelineFd(fd),
        _ => SemaphoreHandle::OpaqueFd(fd),
    })
}

/// Takes over a descriptor that a driver exported, and makes it close on exec, which not every driver does.
///
/// # Safety
/// `fd` must come from a successful `vkGetMemoryFdKHR` or `vkGetSemaphoreFdKHR`, and nothing else may own it.
unsafe fn take_over(operation: &'static str, fd: RawFd) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(Error::new(ErrorKind::Driver, operation, "the driver reported success but gave no descriptor")
            .with_context("fd", fd));
    }
    // SAFETY: the driver made it, and the caller promises that nothing else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(|errno| {
        Error::new(ErrorKind::System, "fcntl(F_SETFD)", "the exported descriptor cannot be made close-on-exec")
            .with_source(std::io::Error::from(errno))
    })?;
    Ok(fd)
}

/// What `vkAllocateMemory` is told of an import.
pub(crate) type ImportInfo<'a> = vk::ImportMemoryFdInfoKHR<'a>;

/// Memory on its way into the driver, which gets a duplicate of the descriptor.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    loan: LentFd<'a>,
}

/// A handle that can be imported here, checked before anything else is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Importable<'a>(&'a OwnedFd);

impl<'a> Importable<'a> {
    pub(crate) fn new(operation: &'static str, handle: &'a MemoryHandle) -> Result<Self> {
        match handle {
            MemoryHandle::OpaqueFd(fd) | MemoryHandle::DmaBufFd(fd) => Ok(Self(fd)),
            _ => Err(Error::unsupported(operation, "only descriptors can be imported here")),
        }
    }

    pub(crate) fn lend(self) -> Result<Incoming<'a>> {
        Ok(Incoming { loan: LentFd::new(self.0.as_fd())? })
    }
}

impl Incoming<'_> {
    /// The memory types that it can be imported as, a bit each.
    pub(crate) fn memory_types(
        &self,
        interop: &VulkanInterop,
        kind: MemoryHandleKind,
        types: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<u32> {
        // Opaque descriptors must not be asked about; only the exporter knows their type.
        if kind == MemoryHandleKind::OpaqueFd {
            return Ok(u32::MAX);
        }
        let mut properties = vk::MemoryFdPropertiesKHR::default();
        let (functions, fd) = (&interop.functions().memory, self.loan.as_raw_fd());
        // SAFETY: the descriptor is open and not of an opaque type; the function does not take it over.
        unsafe { functions.get_memory_fd_properties(types, fd, &mut properties) }
            .map_err(|code| error::import("vkGetMemoryFdPropertiesKHR", code))?;
        Ok(properties.memory_type_bits)
    }

    pub(crate) fn info(&self, types: vk::ExternalMemoryHandleTypeFlags) -> ImportInfo<'_> {
        ImportInfo { _marker: PhantomData, ..ImportInfo::default().handle_type(types).fd(self.loan.as_raw_fd()) }
    }

    /// The driver has taken the duplicate over.
    pub(crate) fn imported(self) {
        self.loan.consumed();
    }

    /// Some drivers close the descriptor of a failed import, others do not.
    pub(crate) fn refused(self) {
        self.loan.settle();
    }
}

/// The descriptor of a semaphore that can be imported here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImportableSemaphore<'a>(&'a OwnedFd);

impl<'a> ImportableSemaphore<'a> {
    pub(crate) fn new(operation: &'static str, handle: &'a SemaphoreHandle) -> Result<Self> {
        match handle {
            SemaphoreHandle::OpaqueFd(fd) | SemaphoreHandle::TimelineFd(fd) => Ok(Self(fd)),
            _ => Err(Error::unsupported(operation, "only descriptors can be imported here")),
        }
    }

    /// Gives a semaphore the payload of this one, permanently. The driver gets a duplicate of the descriptor.
    ///
    /// # Safety
    /// The semaphore is live, of the handle's payload, and nothing else knows it yet.
    pub(crate) unsafe fn import(
        self,
        interop: &VulkanInterop,
        semaphore: vk::Semaphore,
        types: vk::ExternalSemaphoreHandleTypeFlags,
    ) -> Result<()> {
        const OPERATION: &str = "vkImportSemaphoreFdKHR";
        let functions = interop.functions().semaphore(OPERATION)?;
        let loan = LentFd::new(self.0.as_fd())?;
        let info = vk::ImportSemaphoreFdInfoKHR::default().semaphore(semaphore).handle_type(types).fd(loan.as_raw_fd());
        // SAFETY: the caller's promise; the descriptor is open and the driver may keep it.
        match unsafe { functions.import_semaphore_fd(&info) } {
            Ok(()) => {
                loan.consumed();
                Ok(())
            }
            Err(code) => {
                // Some drivers close the descriptor of a failed import, others do not.
                loan.settle();
                Err(error::import(OPERATION, code))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;

    use gpu_interop_core::ErrorKind;

    use super::*;

    /// Drivers need not set the flag.
    #[test]
    fn what_a_driver_exports_closes_on_exec() {
        let fd = OwnedFd::from(std::fs::File::open("/dev/null").expect("open"));
        rustix::io::fcntl_setfd(&fd, FdFlags::empty()).expect("cleared");
        // SAFETY: open, and given away.
        let taken = unsafe { take_over("op", fd.into_raw_fd()) }.expect("takes over");
        assert!(rustix::io::fcntl_getfd(&taken).expect("open").contains(FdFlags::CLOEXEC));
        // SAFETY: no descriptor.
        let error = unsafe { take_over("op", -1) }.expect_err("no descriptor");
        assert_eq!(error.kind(), ErrorKind::Driver);
    }
}
