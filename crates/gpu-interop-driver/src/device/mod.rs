//! [`VendorDevice`]: an open device.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use gpu_interop_core::backend::{DevicePtr, ExportableAllocation, RawAllocation, RawMemory, RawStream};
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Capabilities, DeviceIdentity, Error, MemoryHandle, MemoryImport, Result};

use crate::abi::MemoryBufferDesc;
use crate::call::{call, count, number};
use crate::context::Context;
use crate::driver::{Driver, Vendor};
use crate::exportable::Allocation;
use crate::fills::{Unfenced, Values};
use crate::functions::{DeviceAddress, DeviceNumber};
use crate::graph::Graphs;
use crate::mapping::{Imports, Levels};
use crate::signal_memory::{HostWords, Spare, Value};
use crate::{capabilities, fills, import};

/// Calls a function of the driver with the device current, like `call`. Expands inside an `unsafe` block.
macro_rules! current {
    ($device:ident.$enter:ident().$function:ident $($rest:tt)*) => {{
        let (driver, _current) = $device.context.$enter()?;
        call!(driver.$function $($rest)*)
    }};
}

/// Counterpart of `current` for functions that write a handle to their first argument. Yields the handle and the
/// function's name in errors.
macro_rules! create {
    ($device:ident.$function:ident($($argument:expr),* $(,)?)) => {{
        let mut made = 0;
        current!($device.enter().$function(&raw mut made $(, $argument)*))
            .map(|()| (made, $device.context.driver.functions.$function.operation))
    }};
}

mod calls;

/// Open device of a vendor's driver.
#[derive(Debug)]
pub(crate) struct VendorDevice<V: Vendor> {
    context: Arc<Context<V>>,
    identity: DeviceIdentity,
    capabilities: Capabilities,
    architecture: Option<String>,
    /// Exportable allocations and native imports, by first address.
    allocations: Mutex<HashMap<usize, Arc<Allocation<V>>>>,
    unfenced: Unfenced,
    graphs: Graphs,
    /// Imports that are mapped as a whole.
    imports: Imports,
    /// Mipmap level arrays, for drivers that require freeing each.
    levels: Levels,
    /// Signal memory, for drivers on which the host writes its words.
    host_words: HostWords,
    spare: Spare,
    /// Source of fills, for drivers with defective fills.
    copied_fills: Option<Values>,
}

impl<V: Vendor> VendorDevice<V> {
    pub(crate) fn open(driver: Arc<Driver<V>>, device: DeviceNumber, identity: DeviceIdentity) -> Result<Self> {
        let (capabilities, architecture) = (capabilities::of(&driver, device), V::architecture(&driver, device));
        let context = Arc::new(Context::open(driver, device)?);
        let copied_fills = if V::fills_by_copies(&context.driver) {
            let (driver, _current) = context.enter()?;
            Some(Values::new(driver, context.device)?)
        } else {
            None
        };
        Ok(Self {
            context,
            identity,
            capabilities,
            architecture,
            allocations: Mutex::default(),
            unfenced: Unfenced::default(),
            graphs: Graphs::default(),
            imports: Imports::default(),
            levels: Levels::default(),
            host_words: HostWords::default(),
            spare: Spare::default(),
            copied_fills,
        })
    }

    /// Notes a fill of `size` bytes that was enqueued, or may have been although the driver returned an error.
    #[inline]
    fn note_fill(&self, stream: RawStream, size: u64) {
        if size < V::OVERTAKEN_FILLS {
            self.unfenced.add(stream.get());
        }
    }

    /// Orders later signals after the stream's fills, on drivers whose signals overtake them.
    ///
    /// # Safety
    /// The stream is live.
    #[inline(always)]
    unsafe fn fence_fills(&self, stream: RawStream) -> Result<()> {
        if V::OVERTAKEN_FILLS == 0 || self.unfenced.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { self.fence_noted_fills(stream) }
    }

    /// The rest of [`fence_fills`](Self::fence_fills), called only while some stream has unfenced fills.
    ///
    /// # Safety
    /// The stream is live.
    #[inline(never)]
    unsafe fn fence_noted_fills(&self, stream: RawStream) -> Result<()> {
        if let Some(fill) = self.unfenced.last(stream.get()) {
            let (driver, _current) = self.context.enter_to_enqueue()?;
            // SAFETY: the caller's promise; the device is current.
            unsafe { V::fence(driver, stream.get()) }?;
            self.unfenced.fenced(stream.get(), fill);
        }
        Ok(())
    }

    /// Enqueues the write of a word. On drivers where other streams do not see such writes, the host writes words of
    /// signal memory.
    ///
    /// # Safety
    /// The stream is live, and the word is aligned, and live until it is written.
    unsafe fn write_value(&self, stream: RawStream, word: DevicePtr, value: Value) -> Result<()> {
        if !V::WRITES_ARE_SEEN {
            let (driver, _current) = self.context.enter()?;
            // SAFETY: the caller's promise; the device is current.
            if let Some(written) = unsafe { self.host_words.write(driver, stream, word, value) } {
                return written;
            }
        }
        let (driver, _current) = self.context.enter_to_enqueue()?;
        let (stream, word) = (stream.get(), word.get());
        // SAFETY: the caller's promise; the device is current.
        unsafe {
            match value {
                Value::Narrow(value) => call!(driver.stream_write_value_32(stream, word, value, 0)),
                Value::Wide(value) => call!(driver.stream_write_value_64(stream, word, value, 0)),
            }
        }
    }

    fn allocations(&self) -> MutexGuard<'_, HashMap<usize, Arc<Allocation<V>>>> {
        lock(&self.allocations)
    }
}

impl<V: Vendor> Drop for VendorDevice<V> {
    fn drop(&mut self) {
        // Allocations whose free failed because the device could not be made current.
        let unfreed = std::mem::take(&mut *self.allocations());
        if self.context.abandoned.load(Ordering::Relaxed) && !unfreed.is_empty() {
            // Pending work may still use them.
            tracing::error!(allocations = unfreed.len(), "exportable memory of an abandoned device is leaked");
            std::mem::forget(unfreed);
            return;
        }
        if unfreed.is_empty() && self.copied_fills.is_none() && self.spare.is_empty() {
            return;
        }
        let entered = self.context.enter();
        drop(unfreed);
        let free_would_block = V::FREES_WAIT_FOR_STREAMS && self.context.abandoned.load(Ordering::Relaxed);
        match entered {
            Ok((driver, _current)) if !free_would_block => {
                self.spare.free(driver);
                if let Some(values) = &self.copied_fills {
                    // SAFETY: the streams of a dropped device are idle, by contract; the device is current.
                    unsafe { values.free(driver) };
                }
            }
            Err(error) => {
                self.spare.leak(&error);
                if self.copied_fills.is_some() {
                    fills::report(&error);
                }
            }
            Ok(_) => {}
        }
    }
}

impl<V: Vendor> VendorDevice<V> {
    /// Imports memory natively if the request and the driver allow it, otherwise as external memory.
    fn import(&self, request: &MemoryImport) -> Result<RawMemory> {
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
    unsafe fn end_import(&self, memory: RawMemory) -> Result<()> {
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
    unsafe fn map(&self, memory: RawMemory, offset: u64, size: u64) -> Result<DevicePtr> {
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
    unsafe fn unmap(&self, memory: RawMemory, buffer: DevicePtr) -> Result<()> {
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
    fn native(&self, memory: RawMemory) -> Option<DeviceAddress> {
        let of = || self.allocations().get(&memory.get()).map(|allocation| allocation.address());
        if V::IMPORTS_NATIVE_MEMORY { of() } else { None }
    }

    /// Allocates at least `size` bytes of exportable memory.
    fn allocate(&self, size: u64) -> Result<ExportableAllocation> {
        let (_driver, _current) = self.context.enter()?;
        let allocation = Allocation::new(&self.context, size)?;
        let (ptr, size) = (DevicePtr::new(allocation.address()), allocation.size());
        let raw = RawAllocation::new(self.add(allocation)?);
        Ok(ExportableAllocation { raw, ptr, size })
    }

    /// Exports a new handle of an allocation.
    fn export(&self, raw: RawAllocation) -> Result<MemoryHandle> {
        let (driver, _current) = self.context.enter()?;
        let operation = driver.functions.mem_export_to_shareable_handle.operation;
        // Without the lock, which every mapping takes: the driver may wait here.
        let allocation = self.allocations().get(&raw.get()).cloned();
        allocation.ok_or_else(|| Error::invalid(operation, "the allocation is unknown to this device"))?.export()
    }

    /// Frees an exportable allocation or a native import.
    fn free_allocation(&self, raw: RawAllocation) -> Result<()> {
        // If the device cannot be made current, the allocation is kept for this device's drop, unless another library
        // has reset the device.
        let _entered = match self.context.enter() {
            Err(error) if !self.context.is_reset() => return Err(error),
            entered => entered,
        };
        let removed = self.allocations().remove(&raw.get());
        let operation = self.context.driver.functions.mem_release.operation;
        let allocation =
            removed.ok_or_else(|| Error::invalid(operation, "the allocation is unknown to this device"))?;
        // If another thread exports the allocation now, that thread frees it.
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
