//! Memory of a device: imports, mappings and exportable allocations.

use std::sync::Arc;

use gpu_interop_core::backend::{ExportableAllocation, RawAllocation, RawMemory};
use gpu_interop_core::{DevicePtr, Error, MemoryHandle, MemoryImport, Result};

use super::VendorDevice;
use crate::abi::MemoryBufferDesc;
use crate::arguments::{count, number};
use crate::call::call;
use crate::driver::Vendor;
use crate::exportable::Allocation;
use crate::functions::DeviceAddress;
use crate::import;

impl<V: Vendor> VendorDevice<V> {
    /// Imports memory natively if the request and the driver allow it, otherwise as external memory.
    pub(super) fn import(&self, request: &MemoryImport) -> Result<RawMemory> {
        let (driver, _current) = self.context.enter()?;
        if let Some(imported) = import::native(&self.context, request) {
            return self.add(imported?).map(RawMemory::new);
        }
        let memory = import::memory(driver, request).map(RawMemory::new)?;
        if V::MAPS_WHOLE_IMPORTS || (V::MAPS_WHOLE_DEDICATED && request.is_dedicated()) {
            self.imports.add(memory, request.size());
        }
        Ok(memory)
    }

    /// Destroys an import.
    ///
    /// # Safety
    /// The import is live and destroyed once, and no range of it is in use.
    pub(super) unsafe fn end_import(&self, memory: RawMemory) -> Result<()> {
        if self.native(memory).is_some() {
            return self.free_allocation(RawAllocation::new(memory.get()));
        }
        // SAFETY: mapped as a whole, and no range of it is in use, by the caller's promise.
        let free = |whole| unsafe { current!(self.enter().mem_free(whole)) };
        // SAFETY: live and destroyed once, by the caller's promise.
        let destroy = || unsafe { current!(self.enter().destroy_external_memory(memory.get())) };
        let whole = self.imports.remove(memory).filter(|_| V::frees_mappings(&self.context.driver));
        if let Err(error) = whole.map_or(Ok(()), free)
            && !self.context.is_reset()
        {
            // The import is destroyed regardless, and the caller gets that result.
            tracing::error!(%error, "freeing a mapping failed; it is leaked");
        }
        destroy()
    }

    /// Maps a range of an import, in bytes.
    ///
    /// # Safety
    /// The import is live, and the range is inside it.
    pub(super) unsafe fn map(&self, memory: RawMemory, offset: u64, size: u64) -> Result<DevicePtr> {
        if let Some(all) = self.native(memory) {
            return Ok(DevicePtr::new(all.wrapping_add(offset)));
        }
        let map = |offset, size| {
            let desc = MemoryBufferDesc::new(offset, size);
            // SAFETY: live, and the range is inside it, by the caller's promise.
            let (address, operation) = unsafe { create!(self.get_mapped_buffer(memory.get(), &raw const desc)) }?;
            number(operation, address).map(|address| address as u64)
        };
        let address = self.imports.map(memory, offset, |all| map(0, all)).unwrap_or_else(|| map(offset, size));
        address.map(DevicePtr::new)
    }

    /// Frees a mapping.
    ///
    /// # Safety
    /// `buffer` was returned by `map` for this import, and is freed once.
    pub(super) unsafe fn unmap(&self, memory: RawMemory, buffer: DevicePtr) -> Result<()> {
        if self.native(memory).is_some() {
            return Ok(());
        }
        // SAFETY: mapped by `map` and freed once, by the caller's promise.
        let free = |address| unsafe { current!(self.enter().mem_free(address)) };
        let frees = V::frees_mappings(&self.context.driver);
        let whole = (!V::KEEPS_MAPPINGS).then_some(|address| if frees { free(address) } else { Ok(()) });
        self.imports.free(memory, whole).unwrap_or_else(|| free(buffer.get()))
    }

    /// Returns the first address of a native import; `None` for external memory.
    pub(super) fn native(&self, memory: RawMemory) -> Option<DeviceAddress> {
        let of = || self.allocations().get(&memory.get()).map(|allocation| allocation.address());
        if V::IMPORTS_NATIVE_MEMORY { of() } else { None }
    }

    /// Allocates at least `size` bytes of exportable memory.
    pub(super) fn allocate(&self, size: u64) -> Result<ExportableAllocation> {
        let (_driver, _current) = self.context.enter()?;
        let allocation = Allocation::new(&self.context, size)?;
        let (ptr, size) = (DevicePtr::new(allocation.address()), allocation.size());
        let raw = RawAllocation::new(self.add(allocation)?);
        Ok(ExportableAllocation { raw, ptr, size })
    }

    /// Exports a new handle of an allocation.
    pub(super) fn export(&self, raw: RawAllocation) -> Result<MemoryHandle> {
        let (driver, _current) = self.context.enter()?;
        let operation = driver.functions.mem_export_to_shareable_handle.operation;
        // Without the lock, which every mapping takes: the driver may wait here.
        let allocation = self.allocations().get(&raw.get()).cloned();
        allocation.ok_or_else(|| Error::invalid(operation, "the allocation is unknown to this device"))?.export()
    }

    /// Frees an exportable allocation or a native import.
    pub(super) fn free_allocation(&self, raw: RawAllocation) -> Result<()> {
        // If the device cannot be made current, the allocation is kept for this device's drop, unless another library has
        // reset the device.
        let _entered = match self.context.enter() {
            Err(error) if !self.context.is_reset() => return Err(error),
            entered => entered,
        };
        let removed = self.allocations().remove(&raw.get());
        let operation = self.context.driver.functions.mem_release.operation;
        let allocation =
            removed.ok_or_else(|| Error::invalid(operation, "the allocation is unknown to this device"))?;
        // A thread that exports it meanwhile frees it.
        Arc::into_inner(allocation).map_or(Ok(()), Allocation::free)
    }

    /// Stores an allocation by its first address, which differs from every handle of the driver.
    fn add(&self, allocation: Allocation<V>) -> Result<usize> {
        let operation = self.context.driver.functions.mem_address_reserve.operation;
        let key = count(operation, allocation.address())?;
        self.allocations().insert(key, Arc::new(allocation));
        Ok(key)
    }
}
