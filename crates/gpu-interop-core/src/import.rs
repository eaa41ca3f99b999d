//! Import requests for memory and semaphores.

mod origin;

use std::any::Any;
use std::sync::Arc;

use self::origin::Origin;
use crate::array::MipmappedArrayDesc;
use crate::error::{Error, Result};
use crate::handle::{MemoryHandle, SemaphoreHandle};
use crate::identity::{DeviceIdentity, DeviceKind};

/// Upper bound of a size in bytes: no processor or GPU has more than 57 address bits. CUDA's driver accepts even 2^64 -
/// 1.
const MAX_SIZE: u64 = 1 << 57;

/// Methods of a request that concern its handle, exporters and owners.
macro_rules! request_methods {
    ($request:ident of $handle:ident) => {
        impl $request {
            /// Names the exporting device, so that an import on another device is rejected. This only adds a check:
            /// devices named before remain, and the importer must match all of them.
            ///
            /// NVIDIA's programming guide excludes Vulkan devices of a group with several physical devices
            /// (`vkEnumeratePhysicalDeviceGroups`). The identity does not include the group: the application must check
            /// it.
            #[must_use]
            pub fn exported_by(mut self, exporter: DeviceIdentity) -> Self {
                self.origin.add_exporter(exporter);
                self
            }

            /// Keeps `owner` alive until the import has returned or the request is dropped. For names and KMT handles,
            /// which hold no reference: pass the object, or a handle of it, as owner.
            #[must_use]
            pub fn keeping(mut self, owner: Arc<dyn Any + Send + Sync>) -> Self {
                self.origin.keep(owner);
                self
            }

            /// The handle, still owned by the request.
            #[must_use]
            pub fn handle(&self) -> &$handle {
                &self.handle
            }

            /// Returns the handle, owned by the caller. The owners that the request [keeps](Self::keeping) are dropped.
            #[must_use]
            pub fn into_handle(self) -> $handle {
                self.handle
            }

            /// The first exporting device named by the exporter or the application, if any.
            #[must_use]
            pub fn exporter(&self) -> Option<&DeviceIdentity> {
                self.origin.exporter()
            }
        }
    };
}
request_methods!(MemoryImport of MemoryHandle);
request_methods!(SemaphoreImport of SemaphoreHandle);

/// A request to import memory: the handle and the exporter's description of it.
///
/// The `import_request` methods of gpu-interop's exporters and of [`ExportableMemory`](crate::ExportableMemory) build
/// it. Building one from a raw handle is `unsafe`, because drivers cannot verify the description:
///
/// ```compile_fail,E0133
/// # use gpu_interop_core::{MemoryHandle, MemoryImport};
/// fn request(handle: MemoryHandle) -> MemoryImport {
///     MemoryImport::new(handle, 4096) // requires `unsafe`
/// }
/// ```
///
/// Changing the exporter's description is `unsafe`, too:
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
    /// Creates a request for memory of `size` bytes: the size of the exporter's *allocation*
    /// (`VkMemoryAllocateInfo::allocationSize`), not of the payload. A range of it can be mapped later.
    ///
    /// # Safety
    /// Drivers cannot check these requirements. Each must hold until the import has returned or the request is dropped:
    /// * The handle refers to exported memory, never to a semaphore, and to the API and kind of object that its variant
    ///   names. A name or KMT handle still refers to that object: another owner keeps it alive.
    /// * The exporter's allocation has exactly `size` bytes. An importer with a larger size maps memory beyond it.
    /// * The allocation is dedicated exactly if [`dedicated`](Self::dedicated) was set.
    /// * The memory is the importing backend's own exactly if [`native`](Self::native) was set.
    /// * The importing device is the one that exported the memory. If that is not certain, name the exporter with
    ///   [`exported_by`](Self::exported_by), which rejects other devices. `gpu_interop_vulkan::device_identity` returns
    ///   the identity of a Vulkan device; a Vulkan driver on the CPU and the host backend are one device.
    ///
    /// The requirements do not apply to a request that fails validation, such as size 0.
    ///
    /// For memory of another process, that process sends the descriptor, the allocation's size, whether it is
    /// dedicated, and its [`DeviceIdentity`], which can be serialised. The caller guarantees that these are correct.
    #[must_use]
    pub unsafe fn new(handle: MemoryHandle, size: u64) -> Self {
        let origin = Origin::default();
        Self { handle, size, dedicated: false, native: false, image: None, trusted_peer: false, origin }
    }

    /// Sets the dedicated flag. Set it exactly if the exporter used `VkMemoryDedicatedAllocateInfo` or a committed
    /// resource. On Windows 7 NVIDIA's driver imports only dedicated Vulkan memory.
    ///
    /// # Safety
    /// `dedicated` is true exactly if the exporter's allocation is dedicated. Drivers lay out and map dedicated memory
    /// differently and do not check the flag.
    #[must_use]
    pub unsafe fn dedicated(mut self, dedicated: bool) -> Self {
        self.dedicated = dedicated;
        self
    }

    /// Marks the memory as [`ExportableMemory`](crate::ExportableMemory) of the importing backend, in this process or
    /// another, instead of another API's. Another process must send this flag with the handle.
    /// [`ExportableMemory::import_request`](crate::ExportableMemory::import_request) sets it.
    ///
    /// Descriptors do not reveal their origin, which matters with CUDA: on hosts with several GPUs the driver
    /// (580.159.04) crashes with SIGSEGV when `cuImportExternalMemory` gets 512 MiB or more of CUDA's own memory. The
    /// CUDA backend imports native memory with `cuMemImportFromShareableHandle` instead. Such an import supports
    /// buffers but no images.
    ///
    /// # Safety
    /// `native` is true exactly if the memory was exported by the importing backend. Otherwise a driver may crash.
    #[must_use]
    pub unsafe fn native(mut self, native: bool) -> Self {
        self.native = native;
        self
    }

    /// Declares the only image that the memory contains; `None` if it is unknown. Mapping another image is then an
    /// error ([`ExternalMemory::map_mipmapped_array`](crate::ExternalMemory::map_mipmapped_array)). gpu-interop's image
    /// exporters declare it; its heap exporters do not, because a heap may contain several images.
    ///
    /// # Safety
    /// The memory contains exactly this image. `None` removes the check: the memory must then be mapped only as images
    /// that the exporter has laid out in it.
    #[must_use]
    pub unsafe fn of_image(mut self, image: impl Into<Option<MipmappedArrayDesc>>) -> Self {
        self.image = image.into();
        self
    }

    /// Guarantees that no process removes pages of the memory. Off by default.
    ///
    /// Only the host backend on Linux uses it. That backend maps the file behind the descriptor, and an access to a
    /// page that the file does not have raises `SIGBUS`. Without the guarantee it seals the file with `F_SEAL_SHRINK`,
    /// and rejects a file that cannot be sealed: a memfd created without `MFD_ALLOW_SEALING`, POSIX shared memory, huge
    /// pages. `gpu-interop-vulkan` sets it in its requests.
    ///
    /// # Safety
    /// If `trusted`: while the imported memory or a mapping of it lives, no holder of a descriptor of the file
    /// truncates it below its present size. In POSIX shared memory and files of huge pages, whose pages can run out,
    /// every page is allocated, and no holder punches holes.
    #[must_use]
    pub unsafe fn trusted_peer(mut self, trusted: bool) -> Self {
        self.trusted_peer = trusted;
        self
    }

    /// Size of the allocation in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// `true` if the memory is a dedicated allocation.
    #[must_use]
    pub fn is_dedicated(&self) -> bool {
        self.dedicated
    }

    /// `true` if the memory is the importing backend's own.
    #[must_use]
    pub fn is_native(&self) -> bool {
        self.native
    }

    /// `true` if the memory was exported by a backend that computes on the CPU. Its content is application data, which
    /// a driver that shares memory only with itself, such as lavapipe, would interpret as its own header.
    #[must_use]
    pub fn is_native_of_the_cpu(&self) -> bool {
        let on_cpu = |exporter: &DeviceIdentity| exporter.kind == DeviceKind::Cpu && exporter.uuid.is_none();
        self.native && self.exporter().is_none_or(on_cpu)
    }

    /// The image that the memory contains, if the exporter declared it.
    #[must_use]
    pub fn image(&self) -> Option<&MipmappedArrayDesc> {
        self.image.as_ref()
    }

    /// `true` if [`trusted_peer`](Self::trusted_peer) guarantees that the file behind the descriptor does not shrink.
    #[must_use]
    pub fn is_peer_trusted(&self) -> bool {
        self.trusted_peer
    }

    /// Validates the request without a driver: the size, the dedicated flag where the kind requires it, that a native
    /// handle is opaque, that the descriptor or NT handle is open and can refer to memory, and that `importer` is the
    /// exporter.
    ///
    /// [`Device`](crate::Device) calls it; so do importers of other APIs. `operation` is reported in the error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) or
    /// [`ErrorKind::DeviceMismatch`](crate::ErrorKind::DeviceMismatch). The caller adds the handle's kind and the size,
    /// as it does for driver errors.
    pub fn validate(&self, operation: &'static str, importer: &DeviceIdentity) -> Result<()> {
        if self.size == 0 {
            return Err(Error::invalid(operation, "the size is 0; pass the size of the exporter's allocation"));
        }
        if self.size > MAX_SIZE {
            return Err(Error::invalid(
                operation,
                "the size exceeds the address space of every device; check for a negative value",
            ));
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
                "a backend exports its own memory as an opaque handle, which this is not; do not set `native`",
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
/// The `import_request` methods of gpu-interop's exporters build it. Building one from a raw handle is `unsafe`,
/// because drivers cannot verify the description:
///
/// ```compile_fail,E0133
/// # use gpu_interop_core::{SemaphoreHandle, SemaphoreImport};
/// fn request(handle: SemaphoreHandle) -> SemaphoreImport {
///     SemaphoreImport::new(handle) // requires `unsafe`
/// }
/// ```
///
/// A raw handle does not convert into a request:
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
    /// Creates a request for the semaphore behind `handle`.
    ///
    /// # Safety
    /// Drivers cannot check these requirements. Each must hold until the import has returned or the request is dropped:
    /// * The handle refers to an exported semaphore, fence or keyed mutex, never to memory, and to the API and type of
    ///   object that its variant names: a timeline is not binary. A name or KMT handle still refers to that object:
    ///   another owner keeps it alive.
    /// * The importing device is the one that exported the semaphore. If that is not certain, name the exporter with
    ///   [`exported_by`](Self::exported_by): another device is rejected then.
    #[must_use]
    pub unsafe fn new(handle: SemaphoreHandle) -> Self {
        Self { handle, origin: Origin::default() }
    }

    /// Validates the request without a driver, as [`MemoryImport::validate`] does.
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
    //! Checks of descriptors. Drivers block on some that are neither memory nor semaphores, and crash on others.

    use std::os::fd::{AsRawFd, BorrowedFd};

    use crate::error::{Error, Result};
    use crate::handle::{FdKind, MemoryHandle, MemoryHandleKind, SemaphoreHandle, classify_fd, open_file};

    pub(super) fn check_memory(operation: &'static str, handle: &MemoryHandle, size: u64) -> Result<()> {
        let Some(fd) = handle.as_fd() else { return Ok(()) };
        let opaque = handle.kind() == MemoryHandleKind::OpaqueFd;
        let file = open_file(fd);
        match file.kind {
            FdKind::DmaBuf => Ok(()),
            FdKind::Memory if opaque => check_length(operation, fd, file.length, size),
            FdKind::CharDevice | FdKind::Other if opaque => Ok(()),
            kind => Err(rejected(operation, fd, kind, "memory")),
        }
    }

    pub(super) fn check_semaphore(operation: &'static str, handle: &SemaphoreHandle) -> Result<()> {
        let Some(fd) = handle.as_fd() else { return Ok(()) };
        match classify_fd(fd) {
            FdKind::Memory | FdKind::CharDevice | FdKind::AnonymousInode | FdKind::Other => Ok(()),
            kind => Err(rejected(operation, fd, kind, "a semaphore")),
        }
    }

    /// Checks the length of a memory file, which CPU drivers export. lavapipe maps past its end.
    fn check_length(operation: &'static str, fd: BorrowedFd<'_>, length: Option<u64>, size: u64) -> Result<()> {
        match length {
            Some(length) if length < size => {
                Err(Error::invalid(operation, "the size is greater than the memory behind the descriptor")
                    .with_context("fd", fd.as_raw_fd())
                    .with_context("memory", format_args!("{length} bytes")))
            }
            _ => Ok(()),
        }
    }

    fn rejected(operation: &'static str, fd: BorrowedFd<'_>, kind: FdKind, wanted: &str) -> Error {
        let message = match kind {
            FdKind::Closed => {
                "the number is not an open file descriptor; it may have been closed or imported before".into()
            }
            _ => format!("the descriptor is {kind}, which no GPU API exports as {wanted}"),
        };
        Error::invalid(operation, message).with_context("fd", fd.as_raw_fd())
    }
}

#[cfg(windows)]
mod nt {
    //! Checks of NT handles. A driver that is given a closed handle may open the object that has recycled its number.

    use crate::error::{Error, Result};
    use crate::handle::{NtKind, Win32Object, classify};

    /// Rejects closed handles and objects that no GPU API exports. The driver checks names and sizes: no documented
    /// function returns the size of an object.
    pub(super) fn check(operation: &'static str, object: Option<&Win32Object>, wanted: &str) -> Result<()> {
        let Some(Win32Object::Handle(handle)) = object else { return Ok(()) };
        let message = match classify(handle) {
            NtKind::Other => return Ok(()),
            NtKind::Closed => "the number is not an open handle; it may have been closed elsewhere".into(),
            kind => format!("the handle is {kind}, which no GPU API exports as {wanted}"),
        };
        Err(Error::invalid(operation, message).with_context("number", format_args!("{:#x}", handle.as_raw().addr())))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::handle::{KmtHandle, ObjectName};

    /// Windows handles are validated on every system; a device on another system rejects them as unsupported.
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
            // SAFETY: the request is validated and not imported.
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
    fn sizes_beyond_every_address_space_are_rejected() {
        let importer = DeviceIdentity::default();
        for (size, valid) in [(1, true), (MAX_SIZE + 1, false), (1 << 63, false), (u64::MAX, false)] {
            let fd = rustix::fs::memfd_create("size", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
            rustix::fs::ftruncate(&fd, i64::MAX.unsigned_abs()).expect("ftruncate");
            // SAFETY: the request is validated and not imported.
            let request = unsafe { MemoryImport::new(MemoryHandle::OpaqueFd(fd), size) };
            let checked = request.validate("op", &importer);
            assert_eq!(checked.is_ok(), valid, "{size}: {checked:?}");
            // The error is about the address space, not the length of the file.
            if let Err(error) = checked {
                assert!(error.message().contains("address space"), "{size}: {error}");
            }
        }
    }
}
