//! Import requests for memory and semaphores.

#[cfg(unix)]
mod descriptor;

use std::any::Any;
use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::array::MipmappedArrayDesc;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::{KmtHandle, MemoryHandle, Owner, SemaphoreHandle};
use crate::identity::{DeviceIdentity, DeviceKind, IdentityMatch};
use crate::mapping::byte_range;

/// Upper bound of a size in bytes: no processor or GPU has more than 57 address bits. CUDA's driver accepts even 2^64 -
/// 1.
const MAX_SIZE: u64 = 1 << 57;

/// Methods of a request that concern its handle, exporters and owners.
macro_rules! request_methods {
    ($request:ident of $handle:ident) => {
        /// A descriptor that is not open is not closed: its number may soon be that of another file.
        impl Drop for $request {
            fn drop(&mut self) {
                #[cfg(unix)]
                if !self.open.load(std::sync::atomic::Ordering::Relaxed) && descriptor::is_closed(self.handle.as_fd()) {
                    std::mem::forget(self.take_handle());
                }
            }
        }

        impl $request {
            fn take_handle(&mut self) -> $handle {
                std::mem::replace(&mut self.handle, $handle::OpaqueWin32Kmt(KmtHandle::NONE))
            }

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
            ///
            /// After an error that the descriptor is not open, forget the returned one: `OwnedFd` aborts debug builds when it
            /// closes such a number. The drop of the request does not close it.
            #[must_use]
            pub fn into_handle(mut self) -> $handle {
                self.take_handle()
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
#[doc(alias("CUDA_EXTERNAL_MEMORY_HANDLE_DESC", "cudaExternalMemoryHandleDesc", "hipExternalMemoryHandleDesc"))]
#[derive(Debug)]
pub struct MemoryImport {
    pub(crate) handle: MemoryHandle,
    pub(crate) size: u64,
    pub(crate) dedicated: bool,
    pub(crate) native: bool,
    pub(crate) image: Option<MipmappedArrayDesc>,
    pub(crate) trusted_peer: bool,
    /// The descriptor was found open: its drop need not look again.
    #[cfg_attr(not(unix), allow(dead_code))]
    open: AtomicBool,
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
    /// The requirements do not apply to a request that fails validation, such as size 0, or a descriptor that is not open;
    /// [`MemoryHandle::opaque_from_raw_fd`] checks a number before it is owned.
    ///
    /// For memory of another process, that process sends the descriptor, the allocation's size, whether it is
    /// dedicated, the [image](Self::of_image), if any, and its [`DeviceIdentity`]; the last two can be serialised. The
    /// caller guarantees that these are correct. A check of the table at [`ExternalMemory`](crate::ExternalMemory) whose
    /// value is not sent does not take place in the importing process.
    #[must_use]
    pub unsafe fn new(handle: MemoryHandle, size: u64) -> Self {
        let (open, origin) = (AtomicBool::new(false), Origin::default());
        Self { handle, size, dedicated: false, native: false, image: None, trusted_peer: false, open, origin }
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

    /// Declares the only image that the memory contains, of optimal tiling; `None` if it is unknown. Mapping another image
    /// ([`ExternalMemory::map_mipmapped_array`](crate::ExternalMemory::map_mipmapped_array)) or its texels as a buffer
    /// ([`ExternalMemory::map_buffer`](crate::ExternalMemory::map_buffer)) is then an error. gpu-interop's image
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

    /// Rejects a buffer over a range of the memory, in bytes, that contains texels of the declared
    /// [image](Self::image). Importers that map memory as buffers call it. `operation` is reported in the error.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument).
    pub fn check_buffer(&self, operation: &'static str, range: impl RangeBounds<u64>) -> Result<()> {
        let (offset, size) = byte_range(operation, range, self.size)?;
        check_buffer(operation, self.image(), offset, size)
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
        descriptor::check_memory(operation, &self.handle, self.size, &self.open)?;
        #[cfg(windows)]
        nt::check(operation, self.handle.as_win32(), "memory")?;
        if let Some(properties) = self.handle.nv_sci_buf() {
            properties.check_gpu(operation, importer)?;
        }
        self.origin.check(operation, importer)
    }
}

/// Rejects a range that contains texels of an image of optimal tiling. The image's end is unknown: only bytes before it
/// are no texels.
#[doc(hidden)]
pub fn check_buffer(operation: &'static str, image: Option<&MipmappedArrayDesc>, offset: u64, size: u64) -> Result<()> {
    match image {
        Some(image) if offset.saturating_add(size) > image.offset => {
            let message = "the range contains an image of optimal tiling, whose bytes are not rows of texels; create the \
                           image with linear tiling, map it as an array (map_mipmapped_array), or have the exporter copy \
                           it to a shared buffer; map_image_bytes maps the bytes as the driver stores them";
            Err(Error::invalid(operation, message)
                .with_context("offset", offset)
                .with_context("length", size)
                .with_context("image", image))
        }
        _ => Ok(()),
    }
}

/// The error of a size that is greater than the memory behind a handle, without values.
#[doc(hidden)]
#[must_use]
pub fn exceeds_memory(operation: &'static str) -> Error {
    let message = "the size is greater than the memory behind the descriptor; pass the exporter's \
                   VkMemoryAllocateInfo::allocationSize, which may exceed the size of its buffer or image";
    Error::invalid(operation, message)
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
#[doc(alias(
    "CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC",
    "cudaExternalSemaphoreHandleDesc",
    "hipExternalSemaphoreHandleDesc"
))]
#[derive(Debug)]
pub struct SemaphoreImport {
    pub(crate) handle: SemaphoreHandle,
    /// As in [`MemoryImport`].
    #[cfg_attr(not(unix), allow(dead_code))]
    open: AtomicBool,
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
        Self { handle, open: AtomicBool::new(false), origin: Origin::default() }
    }

    /// Validates the request without a driver, as [`MemoryImport::validate`] does.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) or
    /// [`ErrorKind::DeviceMismatch`](crate::ErrorKind::DeviceMismatch).
    pub fn validate(&self, operation: &'static str, importer: &DeviceIdentity) -> Result<()> {
        #[cfg(unix)]
        descriptor::check_semaphore(operation, &self.handle, &self.open)?;
        #[cfg(windows)]
        nt::check(operation, self.handle.as_win32(), "a semaphore")?;
        self.origin.check(operation, importer)
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

/// Exporting devices named in a request, and owners of its object. Entries are only added, so that safe code cannot
/// remove a check that the exporter added.
#[derive(Default)]
struct Origin {
    first: Option<DeviceIdentity>,
    others: Vec<DeviceIdentity>,
    owners: Vec<Owner>,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exporters: Vec<_> = self.first.iter().chain(&self.others).collect();
        f.debug_struct("Origin").field("exporters", &exporters).field("owners", &self.owners.len()).finish()
    }
}

impl Origin {
    fn add_exporter(&mut self, exporter: DeviceIdentity) {
        match &self.first {
            None => self.first = Some(exporter),
            Some(_) => self.others.push(exporter),
        }
    }

    fn exporter(&self) -> Option<&DeviceIdentity> {
        self.first.as_ref()
    }

    fn keep(&mut self, owner: Owner) {
        self.owners.push(owner);
    }

    /// Rejects an importer that differs from a named exporter.
    fn check(&self, operation: &'static str, importer: &DeviceIdentity) -> Result<()> {
        let differs = |exporter: &&DeviceIdentity| exporter.compare(importer) == IdentityMatch::Different;
        match self.first.iter().chain(&self.others).find(differs) {
            Some(exporter) => Err(Error::new(
                ErrorKind::DeviceMismatch,
                operation,
                "the handle was exported by another device; open the device that matches the exporter",
            )
            .with_mismatch(exporter.clone(), importer.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::error::ErrorKind;
    use crate::handle::{KmtHandle, MemoryHandle, ObjectName, SemaphoreHandle};
    use crate::identity::Uuid;

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

    fn requests() -> (MemoryImport, SemaphoreImport) {
        let kmt = KmtHandle::new(0x40).expect("a handle");
        // SAFETY: the request is never passed to a driver.
        let memory = unsafe { MemoryImport::new(MemoryHandle::OpaqueWin32Kmt(kmt), 4096) };
        // SAFETY: as above.
        let semaphore = unsafe { SemaphoreImport::new(SemaphoreHandle::OpaqueWin32Kmt(kmt)) };
        (memory, semaphore)
    }

    #[test]
    fn a_later_exporter_does_not_undo_an_earlier_one() {
        let gpu = |byte| DeviceIdentity { uuid: Uuid::from_bytes([byte; 16]), ..Default::default() };
        let unknown = DeviceIdentity::default();
        for (said, importer, valid) in [
            ([gpu(1), gpu(1)], gpu(1), true),
            ([gpu(1), gpu(2)], gpu(1), false),
            ([gpu(1), gpu(2)], gpu(2), false),
            ([gpu(1), unknown.clone()], gpu(2), false),
            ([unknown.clone(), gpu(1)], gpu(2), false),
            ([unknown.clone(), unknown], gpu(2), true),
        ] {
            let [first, second] = said;
            let (memory, semaphore) = requests();
            let memory = memory.exported_by(first.clone()).exported_by(second.clone());
            let semaphore = semaphore.exported_by(first.clone()).exported_by(second);
            assert_eq!((memory.exporter(), semaphore.exporter()), (Some(&first), Some(&first)));
            for checked in [memory.origin.check("op", &importer), semaphore.origin.check("op", &importer)] {
                let kind = checked.err().map(|error| error.kind());
                assert_eq!(kind, (!valid).then_some(ErrorKind::DeviceMismatch), "{first}, {importer}");
            }
        }
    }

    #[test]
    fn owners_of_a_request_live_as_long_as_the_request() {
        let owners = [Arc::new(()), Arc::new(())];
        let counts = || owners.each_ref().map(Arc::strong_count);
        let (mut memory, mut semaphore) = requests();
        for owner in &owners {
            memory = memory.keeping(owner.clone());
            semaphore = semaphore.keeping(owner.clone());
        }
        assert_eq!(counts(), [3, 3]);
        drop(semaphore);
        assert_eq!(counts(), [2, 2]);
        drop(memory.into_handle());
        assert_eq!(counts(), [1, 1]);
    }
}
