//! The reverse direction: device memory that another API imports.

use std::ops::RangeBounds;
use std::sync::Arc;

use super::buffer::BufferSlice;
use super::device::DeviceInner;
use super::owned::Owned;
use super::resource::Resource;
use crate::backend::{DevicePtr, ExportableAllocation};
use crate::error::Result;
use crate::handle::MemoryHandle;
use crate::import::MemoryImport;

/// Memory of this device that can be exported. Handles exported from it outlive it.
#[derive(Debug)]
pub struct ExportableMemory {
    owned: Owned,
    allocation: ExportableAllocation,
}

impl ExportableMemory {
    pub(super) fn new(device: Arc<DeviceInner>, allocation: ExportableAllocation) -> Self {
        Self { owned: Owned::new(device, Resource::Allocation(allocation)), allocation }
    }

    /// Size in bytes, at least what was asked for. The importer must pass this size.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.allocation.size
    }

    /// The first byte's address on the device, valid while `self` lives.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.allocation.ptr
    }

    /// Exports the memory, for an import by this backend: on this device, opened once more or in the same process. Each
    /// call gives a request with a new handle. For another process send its handle and its size, and build the request there,
    /// with [`MemoryImport::new`] and [`MemoryImport::native`], which are `unsafe`.
    ///
    /// # Errors
    /// As for [`ExportableMemory::export`].
    pub fn import_request(&self) -> Result<MemoryImport> {
        let exporter = self.owned.device.raw.identity().clone();
        let handle = self.export()?;
        // SAFETY: the backend exported the handle just now, as one of this allocation (`BackendDevice::export_allocation`),
        // whose size it said when it made it. It is that backend's own memory, which is no dedicated allocation and holds
        // no image. The handle is a descriptor or NT handle of its own, which keeps the memory.
        let request = unsafe { MemoryImport::new(handle, self.size()).native(true) };
        Ok(request.exported_by(exporter))
    }

    /// Exports the memory, for an import by whichever API. Each call gives a new handle, owned by the caller.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn export(&self) -> Result<MemoryHandle> {
        let device = &self.owned.device;
        // SAFETY: the allocation is live.
        unsafe { device.raw.export_allocation(&self.allocation) }.map_err(|error| device.decorate(error))
    }

    /// A part of the memory, in bytes from its start.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or past the end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'_>> {
        BufferSlice::from(self).slice(range)
    }

    /// Frees it, and says if that failed. If work that uses it is pending, it is freed once that has run.
    ///
    /// # Errors
    /// What the driver answers; the object is gone either way.
    pub fn close(mut self) -> Result<()> {
        self.owned.release()
    }
}

impl<'a> From<&'a ExportableMemory> for BufferSlice<'a> {
    fn from(memory: &'a ExportableMemory) -> Self {
        Self::of(&memory.owned, memory.allocation.ptr, memory.allocation.size)
    }
}
