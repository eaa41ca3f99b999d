//! Memory: imported, exportable (the reverse direction), of the application or another library, and ranges of a mapping
//! with lifetimes of their own.

use std::any::Any;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::buffer::{BufferSlice, MappedBuffer};
use super::device::Device;
use super::device_state::{DeviceInner, Owned};
use super::lifetime::Resource;
use crate::array::MipmappedArrayDesc;
use crate::backend::{DevicePtr, ExportableAllocation, RawMemory};
use crate::error::{Error, Result};
use crate::handle::{MemoryHandle, MemoryHandleKind};
use crate::import::MemoryImport;
use crate::mapping::byte_range;
use crate::nv_sci::NvSciBufProperties;

#[derive(Debug)]
pub(super) struct MemoryInner {
    pub(super) owned: Owned,
    pub(super) raw: RawMemory,
    pub(super) size: u64,
    pub(super) kind: MemoryHandleKind,
    pub(super) image: Option<MipmappedArrayDesc>,
    nv_sci: Option<Arc<NvSciBufProperties>>,
}

impl MemoryInner {
    /// `true` if the exporter allows reads only.
    pub(super) fn is_read_only(&self) -> bool {
        self.nv_sci.as_ref().is_some_and(|properties| properties.read_only)
    }
}

/// Imported memory of another API. Map it to use it.
///
/// If the host maps the same memory through the exporting API, the application must keep the mappings coherent: with
/// Vulkan by barriers, and by `vkFlushMappedMemoryRanges` and `vkInvalidateMappedMemoryRanges` unless the memory type
/// is `HOST_COHERENT`. If other drivers map the same NvSciBuf object, signals and waits of NvSciSync semaphores keep it
/// coherent ([`SignalParams::NvSciSync`](crate::SignalParams::NvSciSync)); other semaphores do not.
///
/// Destroyed with its last mapping, or when it is closed or dropped without any.
///
#[doc(alias("CUexternalMemory", "cudaExternalMemory_t", "hipExternalMemory_t"))]
#[doc = include_str!("memory.md")]
#[derive(Debug)]
pub struct ExternalMemory {
    pub(super) inner: Arc<MemoryInner>,
}

impl ExternalMemory {
    pub(super) fn new(device: Arc<DeviceInner>, raw: RawMemory, request: &MemoryImport) -> Self {
        device.lifetimes.keep(Resource::Memory(raw), request.handle.owner());
        let owned = Owned::new(device, Resource::Memory(raw));
        let (size, kind) = (request.size, request.handle.kind());
        let nv_sci = match &request.handle {
            MemoryHandle::NvSciBuf(object) => object.shared_properties().cloned(),
            _ => None,
        };
        Self { inner: Arc::new(MemoryInner { owned, raw, size, kind, image: request.image, nv_sci }) }
    }

    /// Size of the import in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.size
    }

    /// Kind of the imported handle.
    #[must_use]
    pub fn handle_kind(&self) -> MemoryHandleKind {
        self.inner.kind
    }

    /// The image that the memory contains, if the exporter declared it. Map it with this description; the kernel usages
    /// ([`ArrayUsage::SURFACE_LOAD_STORE`](crate::ArrayUsage::SURFACE_LOAD_STORE),
    /// [`ArrayUsage::TEXTURE_GATHER`](crate::ArrayUsage::TEXTURE_GATHER)) may differ.
    #[must_use]
    pub fn image(&self) -> Option<&MipmappedArrayDesc> {
        self.inner.image.as_ref()
    }

    /// Reconciled properties of the NvSciBuf object, if the handle has them.
    #[must_use]
    pub fn nv_sci_buf(&self) -> Option<&NvSciBufProperties> {
        self.inner.nv_sci.as_deref()
    }

    /// The driver's object, valid while `self` or one of its mappings lives.
    #[must_use]
    pub fn as_raw(&self) -> RawMemory {
        self.inner.raw
    }

    /// Destroys the import and returns the driver's error. A live mapping defers this to the drop of the last one.
    ///
    /// # Errors
    /// The driver's error (`cuDestroyExternalMemory`). The object is consumed in either case.
    #[doc(alias("cuDestroyExternalMemory", "cudaDestroyExternalMemory", "hipDestroyExternalMemory"))]
    pub fn close(self) -> Result<()> {
        Arc::into_inner(self.inner).map_or(Ok(()), |mut inner| inner.owned.release())
    }
}

/// Exportable memory of this device. Exported handles outlive it.
#[derive(Debug)]
pub struct ExportableMemory {
    owned: Owned,
    allocation: ExportableAllocation,
}

impl ExportableMemory {
    pub(super) fn new(device: Arc<DeviceInner>, allocation: ExportableAllocation) -> Self {
        Self { owned: Owned::new(device, Resource::Allocation(allocation)), allocation }
    }

    /// Size in bytes, at least the requested size. The importer must pass this size.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.allocation.size
    }

    /// Device address of the first byte, valid while `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.allocation.ptr
    }

    /// Exports the memory as an import request for this backend, on this device or the same hardware opened again in
    /// this process. Each call returns a request with a new handle. For another process, send handle and size and build
    /// the request there with [`MemoryImport::new`] and [`MemoryImport::native`], which are `unsafe`.
    ///
    /// # Errors
    /// As for [`ExportableMemory::export`].
    pub fn import_request(&self) -> Result<MemoryImport> {
        let exporter = self.owned.device.raw.identity().clone();
        let handle = self.export()?;
        // SAFETY: `BackendDevice::export_allocation` returned a new handle of this allocation, whose size the backend
        // reported at its creation. The memory is that backend's own, is not a dedicated allocation and contains no
        // image. The handle is a descriptor or NT handle, which keeps the memory alive.
        let request = unsafe { MemoryImport::new(handle, self.size()).native(true) };
        Ok(request.exported_by(exporter))
    }

    /// Exports the memory for any API. Each call returns a new handle, owned by the caller.
    ///
    /// # Errors
    /// The driver's error.
    #[doc(alias("cuMemExportToShareableHandle", "hipMemExportToShareableHandle"))]
    pub fn export(&self) -> Result<MemoryHandle> {
        let device = &self.owned.device;
        device.check_process("ExportableMemory::export")?;
        // SAFETY: the allocation is live.
        unsafe { device.raw.export_allocation(&self.allocation) }.map_err(|error| device.decorate(error))
    }

    /// Returns a range of the memory, in bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or past the end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'_>> {
        BufferSlice::from(self).slice(range)
    }

    /// Frees the memory and returns the driver's error. Pending work that uses it defers this until the work has
    /// completed.
    ///
    /// # Errors
    /// The driver's error. The object is consumed in either case.
    #[doc(alias(
        "cuMemUnmap",
        "hipMemUnmap",
        "cuMemAddressFree",
        "hipMemAddressFree",
        "cuMemRelease",
        "hipMemRelease"
    ))]
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }
}

impl<'a> From<&'a ExportableMemory> for BufferSlice<'a> {
    fn from(memory: &'a ExportableMemory) -> Self {
        Self::of(&memory.owned, memory.allocation.ptr, memory.allocation.size)
    }
}

/// Device memory that the application or another library allocated. Copies, fills and kernels of this crate's streams
/// use it like a mapped buffer. Created by [`Device::borrow_memory`].
#[derive(Debug)]
pub struct BorrowedMemory {
    owned: Owned,
    ptr: DevicePtr,
    size: u64,
}

impl BorrowedMemory {
    /// Device address of the first byte.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.ptr
    }

    /// Size in bytes, never 0.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns a range of the memory, in bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or past the end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'_>> {
        BufferSlice::from(self).slice(range)
    }
}

impl<'a> From<&'a BorrowedMemory> for BufferSlice<'a> {
    fn from(memory: &'a BorrowedMemory) -> Self {
        Self::of(&memory.owned, memory.ptr, memory.size)
    }
}

impl Device {
    /// Wraps `size` bytes of device memory at `ptr`, which the application or another library allocated, and keeps
    /// `owner`, which owns that memory. Dropping the returned [`BorrowedMemory`] does not free the memory. For cudarc's
    /// `CudaSlice` see `SharedSlice` of `gpu_interop::cudarc`.
    ///
    /// The owner is dropped once the returned object has been dropped and the work of this crate's streams that uses
    /// the memory has completed: by that drop, or by the first call of [`Device::collect`], or of a method that
    /// collects implicitly, after that. A device that is closed with work that never completes leaks the owner. The
    /// owner must not contain this device or an object of it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for address 0, a size of 0, or a range past
    /// the end of the address space. The owner is then dropped.
    ///
    /// # Safety
    /// Streams of this device may read and write the range, and it stays allocated as long as `owner` lives. The
    /// application orders its other accesses, and those of other libraries, with the work of these streams.
    #[doc(alias("cuMemAlloc", "cudaMalloc", "hipMalloc"))]
    pub unsafe fn borrow_memory(
        &self,
        ptr: DevicePtr,
        size: u64,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<BorrowedMemory> {
        if ptr.get() == 0 || size == 0 || ptr.get().checked_add(size).is_none() {
            let message = "the range is empty, starts at address 0 or exceeds the address space";
            let error = Error::invalid("Device::borrow_memory", message).with_context("address", ptr);
            return Err(self.inner.decorate(error.with_context("size", size)));
        }
        let resource = Resource::next_borrowed();
        self.inner.lifetimes.keep(resource, Some(&owner));
        Ok(BorrowedMemory { owned: Owned::new(self.inner.clone(), resource), ptr, size })
    }
}

/// A range of a [`MappedBuffer`] with an owner of its own, such as the entry of an allocator that cuts buffers from one
/// mapping. Created by [`MappedBuffer::range_with_owner`]. Keeps the mapping alive.
#[derive(Debug)]
pub struct MappedRange {
    // Fields drop in this order: the range before its mapping.
    owned: Owned,
    mapping: Arc<MappedBuffer>,
    offset: u64,
    size: u64,
}

impl MappedBuffer {
    /// Returns a range of the mapping, in bytes, and keeps `owner`.
    ///
    /// The owner is dropped once the returned object has been dropped and the work of this crate's streams that uses the
    /// range has completed: by that drop, or by the first call of [`Device::collect`](crate::Device::collect), or of a
    /// method that collects implicitly, after that. Work on other ranges of the mapping does not delay it. A device that
    /// is closed with work that never completes leaks the owner. The owner must not contain the device or an object of
    /// it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or past the end. The
    /// owner is then dropped.
    pub fn range_with_owner(
        self: &Arc<Self>,
        range: impl RangeBounds<u64>,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<MappedRange> {
        let device = &self.owned.device;
        let (offset, size) =
            byte_range("MappedBuffer::range_with_owner", range, self.size()).map_err(|error| device.decorate(error))?;
        let resource = Resource::next_borrowed();
        device.lifetimes.keep(resource, Some(&owner));
        Ok(MappedRange { owned: Owned::new(device.clone(), resource), mapping: self.clone(), offset, size })
    }
}

impl MappedRange {
    /// Device address of the first byte, valid while `self` lives. Work enqueued by other libraries must have completed
    /// before `self` is dropped.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.mapping.as_raw().offset(self.offset)
    }

    /// Offset of the range in the mapping, in bytes.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Size of the range in bytes, never 0.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns a part of the range, in bytes from its start.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the part is empty or past the end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'_>> {
        BufferSlice::from(self).slice(range)
    }
}

impl<'a> From<&'a MappedRange> for BufferSlice<'a> {
    fn from(range: &'a MappedRange) -> Self {
        BufferSlice::from(&*range.mapping).part(range.offset, range.size).in_range(&range.owned)
    }
}
