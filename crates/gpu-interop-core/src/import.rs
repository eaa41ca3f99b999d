//! What an application asks to import.

mod origin;

use std::any::Any;
use std::sync::Arc;

use self::origin::Origin;
use crate::array::MipmappedArrayDesc;
use crate::error::{Error, Result};
use crate::handle::{MemoryHandle, SemaphoreHandle};
use crate::identity::{DeviceIdentity, DeviceKind};

/// More than any processor or GPU can address, bytes: 57 bits of address are the most there are. CUDA's driver accepts
/// even 2^64 - 1.
const MAX_SIZE: u64 = 1 << 57;

/// A request to import memory: the handle, and what its exporter knows about it.
///
/// gpu-interop's exporters build it: `import_request` of their objects and of
/// [`ExportableMemory`](crate::ExportableMemory). From a bare handle it takes `unsafe`, because drivers cannot tell whether
/// it is true:
///
/// ```compile_fail,E0133
/// # use gpu_interop_core::{MemoryHandle, MemoryImport};
/// fn request(handle: MemoryHandle) -> MemoryImport {
///     MemoryImport::new(handle, 4096) // `unsafe { .. }` is what it takes
/// }
/// ```
///
/// So it does to change what an exporter said of the memory:
///
/// ```compile_fail,E0133
/// # use gpu_interop_core::MemoryImport;
/// fn changed(request: MemoryImport) -> MemoryImport {
///     request.dedicated(false)
/// }
/// ```
/// ```compile_fail,E0133
/// # use gpu_interop_core::MemoryImport;
/// fn changed(request: MemoryImport) -> MemoryImport {
///     request.native(true)
/// }
/// ```
/// ```compile_fail,E0133
/// # use gpu_interop_core::MemoryImport;
/// fn changed(request: MemoryImport) -> MemoryImport {
///     request.of_image(None)
/// }
/// ```
#[derive(Debug)]
pub struct MemoryImport {
    pub(crate) handle: MemoryHandle,
    pub(crate) size: u64,
    pub(crate) dedicated: bool,
    pub(crate) native: bool,
    pub(crate) image: Option<MipmappedArrayDesc>,
    pub(crate) trusted_peer: bool,
    origin: Origin,
}

impl MemoryImport {
    /// Memory of `size` bytes. Pass the size of the exporter's *allocation* (`VkMemoryAllocateInfo::allocationSize`),
    /// not of the payload; a part of it can be mapped later.
    ///
    /// # Safety
    /// A driver cannot check these statements. Each must be true until the import has returned or the request is dropped:
    /// * The handle refers to exported memory, never to a semaphore, and to the API and kind of object that its variant names.
    ///   A name or KMT handle still refers to that object: something else keeps the object.
    /// * The exporter's allocation has exactly `size` bytes. An importer with a larger size maps memory beyond it.
    /// * The allocation is dedicated exactly if the request says so. It does not unless [`dedicated`](Self::dedicated) is
    ///   called.
    /// * The memory is the importing backend's own exactly if the request says so. It does not unless
    ///   [`native`](Self::native) is called.
    /// * The importing device is the one that exported the memory. If that is not certain, name the exporter with
    ///   [`exported_by`](Self::exported_by): another device is rejected then. `gpu_interop_vulkan::device_identity` has the
    ///   identity of a Vulkan device; a Vulkan driver on the CPU and the host backend are one device.
    ///
    /// Nothing need be true of a request that fails validation, such as size 0.
    ///
    /// Memory of another process: it sends the descriptor, the allocation's size, whether it is dedicated, and its
    /// [`DeviceIdentity`], which can be serialised. The caller promises that the sender told the truth.
    #[must_use]
    pub unsafe fn new(handle: MemoryHandle, size: u64) -> Self {
        let origin = Origin::default();
        Self { handle, size, dedicated: false, native: false, image: None, trusted_peer: false, origin }
    }

    /// Says that the memory is a dedicated allocation. Set it exactly if the exporter used
    /// `VkMemoryDedicatedAllocateInfo` or a committed resource. On Windows 7 NVIDIA's driver imports no other memory of
    /// Vulkan's.
    ///
    /// # Safety
    /// `dedicated` is true exactly if the exporter's allocation is a dedicated one. Drivers lay out and map dedicated memory
    /// in another way, and believe the flag.
    #[must_use]
    pub unsafe fn dedicated(mut self, dedicated: bool) -> Self {
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
    ///
    /// # Safety
    /// `native` is true exactly if the memory is of the backend that imports it. A driver may crash
    /// otherwise.
    #[must_use]
    pub unsafe fn native(mut self, native: bool) -> Self {
        self.native = native;
        self
    }

    /// Says that the memory holds this image and no other, or with `None` that this is not known. Mapping it as another image
    /// is an error then ([`ExternalMemory::map_mipmapped_array`](crate::ExternalMemory::map_mipmapped_array)). gpu-interop's
    /// exporters of images say it; a heap may hold several, and they say nothing of one.
    ///
    /// # Safety
    /// The memory holds this very image. With `None`, no check is left: it is mapped as an image only as the exporter laid that
    /// image out.
    #[must_use]
    pub unsafe fn of_image(mut self, image: impl Into<Option<MipmappedArrayDesc>>) -> Self {
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

    /// Says which device exported the memory, so that importing it on another one is rejected with a clear error. This adds a
    /// check and removes none: a device that was named before stays named, and the importer must not differ from either.
    ///
    /// NVIDIA's programming guide excludes Vulkan devices of a group with several physical devices
    /// (`vkEnumeratePhysicalDeviceGroups`). The identity does not show the group: the application must check it.
    #[must_use]
    pub fn exported_by(mut self, exporter: DeviceIdentity) -> Self {
        self.origin.add_exporter(exporter);
        self
    }

    /// Keeps `owner` until the request is gone, which is after its import. For names and KMT handles, which keep nothing
    /// themselves: with a handle of the object, or the object, the request stays true.
    #[must_use]
    pub fn keeping(mut self, owner: Arc<dyn Any + Send + Sync>) -> Self {
        self.origin.keep(owner);
        self
    }

    /// The handle, still owned by the request.
    #[must_use]
    pub fn handle(&self) -> &MemoryHandle {
        &self.handle
    }

    /// The handle, owned by the caller from here on. The owner that the request [keeps](Self::keeping) is dropped.
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

    /// Whether the memory is a backend's own that computes on the CPU. Its content is the application's, and a driver that
    /// shares memory with itself only, as Mesa's on the CPU does, takes it for its own description.
    #[must_use]
    pub fn is_native_of_the_cpu(&self) -> bool {
        let on_cpu = |exporter: &DeviceIdentity| exporter.kind == DeviceKind::Cpu && exporter.uuid.is_none();
        self.native && self.exporter().is_none_or(on_cpu)
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

    /// The exporting device, if the exporter or the application said which; the first that was named.
    #[must_use]
    pub fn exporter(&self) -> Option<&DeviceIdentity> {
        self.origin.exporter()
    }

    /// Checks everything about the request that can be known without a driver: the size, the dedicated flag where
    /// the kind demands it, whether a native handle is opaque, whether the descriptor or NT handle is open and can be memory at all, and whether `importer` is
    /// the exporter.
    ///
    /// [`Device`](crate::Device) does this itself; importers of other APIs call it. `operation` goes into the error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) or
    /// [`ErrorKind::DeviceMismatch`](crate::ErrorKind::DeviceMismatch). The importer adds the handle's kind and the
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
        self.origin.check(operation, importer)
    }
}

/// A request to import a semaphore.
///
/// gpu-interop's exporters build it: `import_request` of their objects. From a bare handle it takes `unsafe`, because drivers
/// cannot tell whether it is true:
///
/// ```compile_fail,E0133
/// # use gpu_interop_core::{SemaphoreHandle, SemaphoreImport};
/// fn request(handle: SemaphoreHandle) -> SemaphoreImport {
///     SemaphoreImport::new(handle) // `unsafe { .. }` is what it takes
/// }
/// ```
///
/// Nor is a bare handle a request:
///
/// ```compile_fail,E0277
/// # use gpu_interop_core::{SemaphoreHandle, SemaphoreImport};
/// fn request(handle: SemaphoreHandle) -> SemaphoreImport {
///     handle.into()
/// }
/// ```
/// ```compile_fail,E0308
/// # use gpu_interop_core::{Device, SemaphoreHandle};
/// fn import(device: &Device, handle: SemaphoreHandle) {
///     drop(device.import_semaphore(handle));
/// }
/// ```
#[derive(Debug)]
pub struct SemaphoreImport {
    pub(crate) handle: SemaphoreHandle,
    origin: Origin,
}

impl SemaphoreImport {
    /// The semaphore behind `handle`.
    ///
    /// # Safety
    /// A driver cannot check these statements. Each must be true until the import has returned or the request is dropped:
    /// * The handle is of an exported semaphore, fence or keyed mutex, and never of memory, and of the API and sort that its
    ///   variant names: a timeline is not binary. A name or KMT handle is of that object still: something else keeps the
    ///   object.
    /// * The importing device is the one that exported the semaphore. If that is not certain, name the exporter with
    ///   [`exported_by`](Self::exported_by): another device is rejected then.
    #[must_use]
    pub unsafe fn new(handle: SemaphoreHandle) -> Self {
        Self { handle, origin: Origin::default() }
    }

    /// Says which device exported the semaphore, so that importing it on another one is rejected with a clear error. This
    /// adds a check and removes none, as [`MemoryImport::exported_by`] does.
    #[must_use]
    pub fn exported_by(mut self, exporter: DeviceIdentity) -> Self {
        self.origin.add_exporter(exporter);
        self
    }

    /// Keeps `owner` until the request is gone, which is after its import. For names and KMT handles, which keep nothing
    /// themselves: with a handle of the object, or the object, the request stays true.
    #[must_use]
    pub fn keeping(mut self, owner: Arc<dyn Any + Send + Sync>) -> Self {
        self.origin.keep(owner);
        self
    }

    /// The handle, still owned by the request.
    #[must_use]
    pub fn handle(&self) -> &SemaphoreHandle {
        &self.handle
    }

    /// The handle, owned by the caller from here on. The owner that the request [keeps](Self::keeping) is dropped.
    #[must_use]
    pub fn into_handle(self) -> SemaphoreHandle {
        self.handle
    }

    /// The exporting device, if the exporter or the application said which; the first that was named.
    #[must_use]
    pub fn exporter(&self) -> Option<&DeviceIdentity> {
        self.origin.exporter()
    }
}

impl SemaphoreImport {
    /// The twin of [`MemoryImport::validate`].
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) or
    /// [`ErrorKind::DeviceMismatch`](crate::ErrorKind::DeviceMismatch).
    pub fn validate(&self, operation: &'static str, importer: &DeviceIdentity) -> Result<()> {
        #[cfg(unix)]
        descriptor::check_semaphore(operation, &self.handle)?;
        #[cfg(windows)]
        nt::check(operation, self.handle.as_win32(), "a semaphore")?;
        self.origin.check(operation, importer)
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
    use crate::error::ErrorKind;
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
            // SAFETY: it is validated and not imported.
            let request = unsafe { MemoryImport::new(handle, 4096) };
            let checked = request.validate("op", &DeviceIdentity::default());
            match checked {
                Ok(()) => assert!(!needs_it, "{:?}", request.handle),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                    assert!(needs_it && error.message().contains("dedicated flag"), "{:?}: {error}", request.handle);
                }
            }
            // SAFETY: as above.
            let request = unsafe { request.dedicated(true) };
            request.validate("op", &DeviceIdentity::default()).expect("dedicated");
        }
    }

    #[test]
    fn sizes_that_no_device_can_address_are_refused() {
        let importer = DeviceIdentity::default();
        for (size, valid) in [(1, true), (MAX_SIZE + 1, false), (1 << 63, false), (u64::MAX, false)] {
            let fd = rustix::fs::memfd_create("size", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
            rustix::fs::ftruncate(&fd, i64::MAX.unsigned_abs()).expect("ftruncate");
            // SAFETY: it is validated and not imported.
            let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(fd), size) };
            let checked = request.validate("op", &importer);
            assert_eq!(checked.is_ok(), valid, "{size}: {checked:?}");
            // Not for the length of the file, which only memory files have.
            if let Err(error) = checked {
                assert!(error.message().contains("address space"), "{size}: {error}");
            }
        }
    }
}
