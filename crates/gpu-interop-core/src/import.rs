//! What an application asks to import.

use crate::array::MipmappedArrayDesc;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::{MemoryHandle, SemaphoreHandle};
use crate::identity::{DeviceIdentity, IdentityMatch};

/// More than any processor or GPU can address, bytes: 57 bits of address are the most there are. CUDA's driver accepts
/// even 2^64 - 1.
const MAX_SIZE: u64 = 1 << 57;

/// A request to import memory: the handle, and what its exporter knows about it.
#[derive(Debug)]
pub struct MemoryImport {
    pub(crate) handle: MemoryHandle,
    pub(crate) size: u64,
    pub(crate) dedicated: bool,
    pub(crate) native: bool,
    pub(crate) image: Option<MipmappedArrayDesc>,
    pub(crate) trusted_peer: bool,
    pub(crate) exporter: Option<DeviceIdentity>,
}

impl MemoryImport {
    /// Memory of `size` bytes. Pass the size of the exporter's *allocation* (`VkMemoryAllocateInfo::allocationSize`),
    /// not of the payload; a part of it can be mapped later.
    #[must_use]
    pub fn new(handle: MemoryHandle, size: u64) -> Self {
        Self { handle, size, dedicated: false, native: false, image: None, trusted_peer: false, exporter: None }
    }

    /// Says that the memory is a dedicated allocation. Set it exactly if the exporter used
    /// `VkMemoryDedicatedAllocateInfo` or a committed resource. On Windows 7 NVIDIA's driver imports no other memory of
    /// Vulkan's.
    #[must_use]
    pub fn dedicated(mut self, dedicated: bool) -> Self {
        self.dedicated = dedicated;
        self
    }

    /// Says that the memory is [`ExportableMemory`](crate::ExportableMemory) of the backend that imports it, in this process
    /// or another, and not of another API. What another process exported so, it must say to the one that imports.
    /// [`ExportableMemory::import_request`](crate::ExportableMemory::import_request) says it itself.
    ///
    /// Descriptors do not tell, and the difference matters with CUDA: on hosts with several GPUs the driver (580.159.04)
    /// ends the process with SIGSEGV when `cuImportExternalMemory` gets 512 MiB or more of its own memory. What is said to
    /// be native goes through `cuMemImportFromShareableHandle` instead. Such an import has buffers, and no images.
    #[must_use]
    pub fn native(mut self, native: bool) -> Self {
        self.native = native;
        self
    }

    /// Says that the memory holds this image and no other, or with `None` that this is not known. Mapping it as another image
    /// is an error then ([`ExternalMemory::map_mipmapped_array`](crate::ExternalMemory::map_mipmapped_array)). gpu-interop's
    /// exporters of images say it; a heap may hold several, and they say nothing of one.
    #[must_use]
    pub fn of_image(mut self, image: impl Into<Option<MipmappedArrayDesc>>) -> Self {
        self.image = image.into();
        self
    }

    /// Promises that no process takes pages of the memory away. Not promised unless set.
    ///
    /// Only the host backend on Linux reads it. That backend maps the file behind the descriptor, and an access to a page
    /// that the file does not have raises `SIGBUS`. Without the promise, it seals the file with `F_SEAL_SHRINK`, and
    /// rejects a file that cannot be sealed: a memfd made without `MFD_ALLOW_SEALING`, POSIX shared memory, huge pages.
    /// The requests of `gpu-interop-vulkan` have the promise.
    ///
    /// # Safety
    /// If `trusted`: while the imported memory or a mapping of it lives, no holder of a descriptor of the file truncates
    /// it below its present size. In POSIX shared memory and files of huge pages, whose pages can run out, every page is
    /// allocated, and no holder punches holes.
    #[must_use]
    pub unsafe fn trusted_peer(mut self, trusted: bool) -> Self {
        self.trusted_peer = trusted;
        self
    }

    /// Says which device exported the memory, so that importing it on another one is refused with a clear error.
    ///
    /// NVIDIA's programming guide excludes Vulkan devices of a group with several physical devices
    /// (`vkEnumeratePhysicalDeviceGroups`). The identity does not show the group: the application must check it.
    #[must_use]
    pub fn exported_by(mut self, exporter: DeviceIdentity) -> Self {
        self.exporter = Some(exporter);
        self
    }

    /// The handle, still owned by the request.
    #[must_use]
    pub fn handle(&self) -> &MemoryHandle {
        &self.handle
    }

    /// The handle, owned by the caller from here on.
    #[must_use]
    pub fn into_handle(self) -> MemoryHandle {
        self.handle
    }

    /// Size of the allocation, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Whether the memory is a dedicated allocation.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.dedicated
    }

    /// Whether the memory is the importing backend's own.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.native
    }

    /// The image that the memory holds, if the exporter said which.
    #[must_use]
    pub fn image(&self) -> Option<&MipmappedArrayDesc> {
        self.image.as_ref()
    }

    /// Whether the application promised with [`trusted_peer`](Self::trusted_peer) that the file behind the descriptor
    /// does not shrink.
    #[must_use]
    pub fn is_peer_trusted(&self) -> bool {
        self.trusted_peer
    }

    /// The exporting device, if the application said which.
    #[must_use]
    pub fn exporter(&self) -> Option<&DeviceIdentity> {
        self.exporter.as_ref()
    }

    /// Checks everything about the request that can be known without a driver: the size, the dedicated flag where
    /// the kind demands it, whether a native handle is opaque, whether the descriptor or NT handle is open and can be memory at all, and whether `importer` is
    /// the exporter.
    ///
    /// [`Device`](crate::Device) does this itself; importers of other APIs call it. `operation` goes into the error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] or [`ErrorKind::DeviceMismatch`]. The importer adds the handle's kind and the
    /// size, as it does to its driver's errors.
    pub fn validate(&self, operation: &'static str, importer: &DeviceIdentity) -> Result<()> {
        if self.size == 0 {
            return Err(Error::invalid(operation, "the size is 0; pass the size of the exporter's allocation"));
        }
        if self.size > MAX_SIZE {
            return Err(Error::invalid(operation, "no device's address space holds this much; is the size negative?"));
        }
        if self.handle.kind().requires_dedicated() && !self.dedicated {
            return Err(Error::invalid(
                operation,
                "memory of this kind is always a dedicated allocation; set the dedicated flag",
            ));
        }
        if self.native && !self.handle.kind().is_opaque() {
            return Err(Error::invalid(
                operation,
                "a backend exports its own memory as an opaque handle, which this is not; leave out `native`",
            ));
        }
        #[cfg(unix)]
        descriptor::check_memory(operation, &self.handle, self.size)?;
        #[cfg(windows)]
        nt::check(operation, self.handle.as_win32(), "memory")?;
        if let Some(properties) = self.handle.nv_sci_buf() {
            properties.check_gpu(operation, importer)?;
        }
        check_exporter(operation, self.exporter.as_ref(), importer)
    }
}

/// A request to import a semaphore.
#[derive(Debug)]
pub struct SemaphoreImport {
    pub(crate) handle: SemaphoreHandle,
    pub(crate) exporter: Option<DeviceIdentity>,
}

impl SemaphoreImport {
    /// The semaphore behind `handle`.
    #[must_use]
    pub fn new(handle: SemaphoreHandle) -> Self {
        Self { handle, exporter: None }
    }

    /// Says which device exported the semaphore, so that importing it on another one is refused with a clear error.
    #[must_use]
    pub fn exported_by(mut self, exporter: DeviceIdentity) -> Self {
        self.exporter = Some(exporter);
        self
    }

    /// The handle, still owned by the request.
    #[must_use]
    pub fn handle(&self) -> &SemaphoreHandle {
        &self.handle
    }

    /// The handle, owned by the caller from here on.
    #[must_use]
    pub fn into_handle(self) -> SemaphoreHandle {
        self.handle
    }

    /// The exporting device, if the application said which.
    #[must_use]
    pub fn exporter(&self) -> Option<&DeviceIdentity> {
        self.exporter.as_ref()
    }
}

impl SemaphoreImport {
    /// The twin of [`MemoryImport::validate`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] or [`ErrorKind::DeviceMismatch`].
    pub fn validate(&self, operation: &'static str, importer: &DeviceIdentity) -> Result<()> {
        #[cfg(unix)]
        descriptor::check_semaphore(operation, &self.handle)?;
        #[cfg(windows)]
        nt::check(operation, self.handle.as_win32(), "a semaphore")?;
        check_exporter(operation, self.exporter.as_ref(), importer)
    }
}

impl From<SemaphoreHandle> for SemaphoreImport {
    fn from(handle: SemaphoreHandle) -> Self {
        Self::new(handle)
    }
}

/// Refuses an exporter that is certainly another device.
fn check_exporter(operation: &'static str, exporter: Option<&DeviceIdentity>, importer: &DeviceIdentity) -> Result<()> {
    match exporter {
        Some(exporter) if exporter.compare(importer) == IdentityMatch::Different => Err(Error::new(
            ErrorKind::DeviceMismatch,
            operation,
            "the handle was exported by another device; open the device that matches the exporter",
        )
        .with_mismatch(exporter.clone(), importer.clone())),
        _ => Ok(()),
    }
}

#[cfg(unix)]
mod descriptor {
    //! What descriptors can stand for. Drivers block on some that are neither, and crash on others.

    use std::os::fd::{AsRawFd, BorrowedFd};

    use crate::error::{Error, Result};
    use crate::handle::{FdKind, MemoryHandle, MemoryHandleKind, SemaphoreHandle, classify_fd};

    pub(super) fn check_memory(operation: &'static str, handle: &MemoryHandle, size: u64) -> Result<()> {
        let Some(fd) = handle.as_fd() else { return Ok(()) };
        let opaque = handle.kind() == MemoryHandleKind::OpaqueFd;
        match classify_fd(fd) {
            FdKind::DmaBuf => Ok(()),
            FdKind::Memory if opaque => check_length(operation, fd, size),
            FdKind::CharDevice | FdKind::Other if opaque => Ok(()),
            kind => Err(refused(operation, fd, kind, "memory")),
        }
    }

    pub(super) fn check_semaphore(operation: &'static str, handle: &SemaphoreHandle) -> Result<()> {
        let Some(fd) = handle.as_fd() else { return Ok(()) };
        match classify_fd(fd) {
            FdKind::Memory | FdKind::CharDevice | FdKind::AnonymousInode | FdKind::Other => Ok(()),
            kind => Err(refused(operation, fd, kind, "a semaphore")),
        }
    }

    /// Drivers that run on the CPU export memory files, whose length is known. One of them maps past the end if asked.
    fn check_length(operation: &'static str, fd: BorrowedFd<'_>, size: u64) -> Result<()> {
        let length = rustix::fs::fstat(fd).ok().and_then(|stat| u64::try_from(stat.st_size).ok());
        match length {
            Some(length) if length < size => {
                Err(Error::invalid(operation, "the size is greater than the memory behind the descriptor")
                    .with_context("fd", fd.as_raw_fd())
                    .with_context("memory", format_args!("{length} bytes")))
            }
            _ => Ok(()),
        }
    }

    fn refused(operation: &'static str, fd: BorrowedFd<'_>, kind: FdKind, wanted: &str) -> Error {
        let message = match kind {
            FdKind::Closed => "the number is not an open file descriptor; was it closed, or imported before?".into(),
            _ => format!("the descriptor is {kind}, which is never {wanted} that a GPU API exported"),
        };
        Error::invalid(operation, message).with_context("fd", fd.as_raw_fd())
    }
}

#[cfg(windows)]
mod nt {
    //! What NT handles can stand for. A driver that is given a closed one may open what has the number by then.

    use crate::error::{Error, Result};
    use crate::handle::{NtKind, Win32Object, classify};

    /// Names are left to the driver, which opens them. So is the size: nothing that is documented tells that of an object.
    pub(super) fn check(operation: &'static str, object: Option<&Win32Object>, wanted: &str) -> Result<()> {
        let Some(Win32Object::Handle(handle)) = object else { return Ok(()) };
        let message = match classify(handle) {
            NtKind::Other => return Ok(()),
            NtKind::Closed => {
                "the number is not an open handle; was it closed, by somebody who does not own it?".into()
            }
            kind => format!("the handle is {kind}, which is never {wanted} that a GPU API exported"),
        };
        Err(Error::invalid(operation, message).with_context("number", format_args!("{:#x}", handle.as_raw().addr())))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::handle::{KmtHandle, ObjectName};

    /// Objects of Windows are validated on every system, where a device refuses them for another reason.
    #[test]
    fn resources_of_direct3d_need_the_dedicated_flag() {
        let name = || ObjectName::new("Local\\resource").expect("a name").into();
        let kmt = KmtHandle::new(0x40).expect("a handle");
        for (handle, needs_it) in [
            (MemoryHandle::D3d12Resource(name()), true),
            (MemoryHandle::D3d11Resource(name()), true),
            (MemoryHandle::D3d11ResourceKmt(kmt), true),
            (MemoryHandle::D3d12Heap(name()), false),
            (MemoryHandle::OpaqueWin32(name()), false),
            (MemoryHandle::OpaqueWin32Kmt(kmt), false),
        ] {
            let request = MemoryImport::new(handle, 4096);
            let checked = request.validate("op", &DeviceIdentity::default());
            match checked {
                Ok(()) => assert!(!needs_it, "{:?}", request.handle),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                    assert!(needs_it && error.message().contains("dedicated flag"), "{:?}: {error}", request.handle);
                }
            }
            request.dedicated(true).validate("op", &DeviceIdentity::default()).expect("dedicated");
        }
    }

    #[test]
    fn sizes_that_no_device_can_address_are_refused() {
        let importer = DeviceIdentity::default();
        for (size, valid) in [(1, true), (MAX_SIZE + 1, false), (1 << 63, false), (u64::MAX, false)] {
            let fd = rustix::fs::memfd_create("size", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
            rustix::fs::ftruncate(&fd, i64::MAX.unsigned_abs()).expect("ftruncate");
            let request = MemoryImport::new(MemoryHandle::OpaqueFd(fd), size);
            let checked = request.validate("op", &importer);
            assert_eq!(checked.is_ok(), valid, "{size}: {checked:?}");
            // Not for the length of the file, which only memory files have.
            if let Err(error) = checked {
                assert!(error.message().contains("address space"), "{size}: {error}");
            }
        }
    }
}
