//! Exportable device memory, for imports by another API (the reverse direction).

use std::ops::RangeBounds;
use std::sync::Arc;

use super::buffer::BufferSlice;
use super::device_state::DeviceInner;
use super::owned::Owned;
use super::resource::Resource;
use crate::backend::{DevicePtr, ExportableAllocation};
use crate::error::Result;
use crate::handle::MemoryHandle;
use crate::import::MemoryImport;

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
