//! File descriptors: `VK_KHR_external_memory_fd`, `VK_KHR_external_semaphore_fd`.

use std::marker::PhantomData;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use ash::vk;
use gpu_interop_core::handle::{HandleType, LentFd};
use gpu_interop_core::{
    Error, ErrorKind, MemoryHandle, MemoryHandleKind, Result, SemaphoreHandle, SemaphoreHandleKind,
};
use rustix::io::FdFlags;

use super::{not_importable, nothing_exported};
use crate::error::{self, Checked};
use crate::interop::VulkanInterop;

/// The default kinds of exported handles.
pub(crate) const MEMORY: MemoryHandleKind = MemoryHandleKind::OpaqueFd;
pub(crate) const BINARY_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::OpaqueFd;
pub(crate) const TIMELINE_SEMAPHORE: SemaphoreHandleKind = SemaphoreHandleKind::TimelineFd;

/// What this platform imports.
pub(super) const IMPORTABLE: &str = "file descriptors";

/// Reports whether this crate exports memory as this kind.
pub(crate) fn exports(kind: MemoryHandleKind) -> bool {
    kind.handle_type() == HandleType::Fd
}

/// State of an object's exports: empty, because each export makes a new descriptor.
#[derive(Debug, Default)]
pub(crate) struct Exported {}

/// Exports memory that was allocated for this kind, as a new descriptor.
pub(crate) fn export_memory(
    interop: &VulkanInterop,
    memory: vk::DeviceMemory,
    (kind, types): (MemoryHandleKind, vk::ExternalMemoryHandleTypeFlags),
    _exported: &Exported,
) -> Result<MemoryHandle> {
    const OPERATION: &str = "vkGetMemoryFdKHR";
    let info = vk::MemoryGetFdInfoKHR::default().memory(memory).handle_type(types);
    // SAFETY: the memory is live and was allocated for export as this type; `Functions::load` checked that the function
    // exists.
    let fd = unsafe { interop.functions().memory.get_memory_fd(&info) }.checked(OPERATION)?;
    // SAFETY: a successful export makes a new descriptor, which the caller owns.
    let fd = unsafe { take_over(OPERATION, fd) }?;
    MemoryHandle::new(kind, fd).map_err(|_| nothing_exported(OPERATION))
}

/// Exports a semaphore that was created for this kind, as a new descriptor.
pub(crate) fn export_semaphore(
    interop: &VulkanInterop,
    semaphore: vk::Semaphore,
    (kind, types): (SemaphoreHandleKind, vk::ExternalSemaphoreHandleTypeFlags),
    _exported: &Exported,
) -> Result<SemaphoreHandle> {
    const OPERATION: &str = "vkGetSemaphoreFdKHR";
    let info = vk::SemaphoreGetFdInfoKHR::default().semaphore(semaphore).handle_type(types);
    let functions = interop.functions().semaphore(OPERATION)?;
    // SAFETY: the semaphore is live and was created for export as this type; `Functions::semaphore` has the function.
    let fd = unsafe { functions.get_semaphore_fd(&info) }.checked(OPERATION)?;
    // SAFETY: a successful export makes a new descriptor, which the caller owns.
    let fd = unsafe { take_over(OPERATION, fd) }?;
    SemaphoreHandle::new(kind, fd).map_err(|_| nothing_exported(OPERATION))
}

/// Takes ownership of an exported descriptor and sets close-on-exec, which not every driver sets.
///
/// # Safety
/// `fd` must come from a successful `vkGetMemoryFdKHR` or `vkGetSemaphoreFdKHR`, and nothing else may own it.
unsafe fn take_over(operation: &'static str, fd: RawFd) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(nothing_exported(operation).with_context("fd", fd));
    }
    // SAFETY: the driver made the descriptor, and the caller promises that nothing else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC).map_err(|errno| {
        Error::new(ErrorKind::System, "fcntl(F_SETFD)", "the exported descriptor cannot be made close-on-exec")
            .with_source(std::io::Error::from(errno))
    })?;
    Ok(fd)
}

/// The structure of `vkAllocateMemory` for an import.
pub(crate) type ImportInfo<'a> = vk::ImportMemoryFdInfoKHR<'a>;

/// Duplicate of a memory descriptor, lent to the driver for an import.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    loan: LentFd<'a>,
}

/// A memory handle of a kind that this platform imports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Importable<'a>(BorrowedFd<'a>);

impl<'a> Importable<'a> {
    pub(crate) fn new(operation: &'static str, handle: &'a MemoryHandle) -> Result<Self> {
        handle.as_fd().map(Self).ok_or_else(|| not_importable(operation))
    }

    /// The descriptor of a dma-buf.
    pub(crate) fn of(fd: BorrowedFd<'a>) -> Self {
        Self(fd)
    }

    pub(crate) fn lend(self) -> Result<Incoming<'a>> {
        Ok(Incoming { loan: LentFd::new(self.0)? })
    }
}

impl Incoming<'_> {
    /// The memory types that the handle can be imported as, one bit each.
    pub(crate) fn memory_types(
        &self,
        interop: &VulkanInterop,
        kind: MemoryHandleKind,
        types: vk::ExternalMemoryHandleTypeFlags,
    ) -> Result<u32> {
        // Vulkan forbids this query for opaque descriptors; they have the memory type of the exporter.
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

    /// Ends the loan after the import. A successful import takes ownership of the duplicate.
    pub(crate) fn finish<T, E>(self, outcome: Result<T, E>) -> Result<T, E> {
        finish(self.loan, outcome)
    }
}

/// Ends a loan after the import. Some drivers close the descriptor of a failed import, others do not.
fn finish<T, E>(loan: LentFd<'_>, outcome: Result<T, E>) -> Result<T, E> {
    if outcome.is_ok() {
        loan.consumed();
    } else {
        loan.settle();
    }
    outcome
}

/// A semaphore handle of a kind that this platform imports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImportableSemaphore<'a>(BorrowedFd<'a>);

impl<'a> ImportableSemaphore<'a> {
    pub(crate) fn new(operation: &'static str, handle: &'a SemaphoreHandle) -> Result<Self> {
        handle.as_fd().map(Self).ok_or_else(|| not_importable(operation))
    }

    /// Imports the payload into `semaphore`, permanently. The driver gets a duplicate of the descriptor.
    ///
    /// # Safety
    /// The semaphore must be live, of the handle's payload type, and not in use.
    pub(crate) unsafe fn import(
        self,
        interop: &VulkanInterop,
        semaphore: vk::Semaphore,
        types: vk::ExternalSemaphoreHandleTypeFlags,
    ) -> Result<()> {
        const OPERATION: &str = "vkImportSemaphoreFdKHR";
        let functions = interop.functions().semaphore(OPERATION)?;
        let loan = LentFd::new(self.0)?;
        let info = vk::ImportSemaphoreFdInfoKHR::default().semaphore(semaphore).handle_type(types).fd(loan.as_raw_fd());
        // SAFETY: the caller's promise; the descriptor is open, and the loan lets the driver keep it.
        let outcome = unsafe { functions.import_semaphore_fd(&info) };
        finish(loan, outcome).map_err(|code| error::import(OPERATION, code))
    }
}

/// Imports the fence of a sync file into a binary semaphore, temporarily; `None` is a signalled fence. The driver gets a
/// duplicate of the descriptor.
///
/// # Safety
/// The semaphore must be live, binary, and not in use.
pub(crate) unsafe fn import_sync_file(
    interop: &VulkanInterop,
    semaphore: vk::Semaphore,
    file: Option<BorrowedFd<'_>>,
) -> Result<()> {
    const OPERATION: &str = "vkImportSemaphoreFdKHR";
    let functions = interop.functions().semaphore(OPERATION)?;
    let loan = file.map(LentFd::new).transpose()?;
    let info = vk::ImportSemaphoreFdInfoKHR::default()
        .semaphore(semaphore)
        .flags(vk::SemaphoreImportFlags::TEMPORARY)
        .handle_type(vk::ExternalSemaphoreHandleTypeFlags::SYNC_FD)
        .fd(loan.as_ref().map_or(-1, LentFd::as_raw_fd));
    // SAFETY: the caller's promise; the descriptor is open and the loan lets the driver keep it, or it is the -1 of a
    // signalled fence.
    let outcome = unsafe { functions.import_semaphore_fd(&info) };
    let outcome = match loan {
        Some(loan) => finish(loan, outcome),
        None => outcome,
    };
    outcome.map_err(|code| error::import(OPERATION, code))
}

/// Exports the payload of a binary semaphore as a new sync file, and resets it. `None` for the -1 of a signalled fence.
///
/// # Safety
/// The semaphore must be live, created for export as `SYNC_FD`, and have a submitted signal for which nothing waits, and so
/// must everything on which that signal depends.
pub(crate) unsafe fn export_sync_file(interop: &VulkanInterop, semaphore: vk::Semaphore) -> Result<Option<OwnedFd>> {
    const OPERATION: &str = "vkGetSemaphoreFdKHR";
    let sync_fd = vk::ExternalSemaphoreHandleTypeFlags::SYNC_FD;
    let info = vk::SemaphoreGetFdInfoKHR::default().semaphore(semaphore).handle_type(sync_fd);
    let functions = interop.functions().semaphore(OPERATION)?;
    // SAFETY: the caller's promises; `Functions::semaphore` has the function.
    let fd = unsafe { functions.get_semaphore_fd(&info) }.checked(OPERATION)?;
    if fd == -1 {
        return Ok(None);
    }
    // SAFETY: a successful export makes a new descriptor, which the caller owns.
    unsafe { take_over(OPERATION, fd) }.map(Some)
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd;

    use gpu_interop_core::ErrorKind;

    use super::*;

    /// Drivers need not set the flag.
    #[test]
    fn exported_descriptors_close_on_exec() {
        let fd = OwnedFd::from(std::fs::File::open("/dev/null").expect("open"));
        rustix::io::fcntl_setfd(&fd, FdFlags::empty()).expect("cleared");
        // SAFETY: the descriptor is open, and `into_raw_fd` gave up its ownership.
        let taken = unsafe { take_over("op", fd.into_raw_fd()) }.expect("takes over");
        assert!(rustix::io::fcntl_getfd(&taken).expect("open").contains(FdFlags::CLOEXEC));
        // SAFETY: -1 is no descriptor, so nothing owns it.
        let error = |operation| unsafe { take_over(operation, -1) }.expect_err("no descriptor");
        for (operation, words) in [
            (
                "vkGetMemoryFdKHR",
                &["VkExportMemoryAllocateInfo", "pTypeExternalMemoryHandleTypes", "gpu-allocator"][..],
            ),
            ("vkGetSemaphoreFdKHR", &["VkExportSemaphoreCreateInfo"]),
        ] {
            let error = error(operation);
            assert_eq!(error.kind(), ErrorKind::Driver);
            assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
        }
    }
}
