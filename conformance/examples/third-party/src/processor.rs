//! The backend: mapped memory files, and work that is executed at once.

use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpu_interop::backend::{ExportableAllocation, RawAllocation, RawEvent, RawMemory, RawStream};
use gpu_interop::{
    Backend, BackendDevice, BackendInfo, Capabilities, DeviceIdentity, DeviceKind, DevicePtr, Error, ErrorKind,
    Feature, MemoryHandle, MemoryHandleKind, MemoryImport, Result, Support,
};
use rustix::fd::{AsFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags};

pub(crate) const NAME: &str = "third-party";

#[derive(Debug)]
pub(crate) struct Processor {
    info: BackendInfo,
}

impl Processor {
    pub(crate) fn new() -> Self {
        let driver = format!("none ({} memory files)", std::env::consts::OS);
        Self { info: BackendInfo::new(NAME, driver) }
    }

    fn identity() -> DeviceIdentity {
        DeviceIdentity::new("the processor", DeviceKind::Cpu)
    }
}

impl Backend for Processor {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn devices(&self) -> Result<Vec<DeviceIdentity>> {
        Ok(vec![Self::identity()])
    }

    fn open(&self, ordinal: usize) -> Result<Arc<dyn BackendDevice>> {
        if ordinal != 0 {
            return Err(Error::new(ErrorKind::NoDevice, "Processor::open", "there is one processor"));
        }
        let capabilities = [Feature::MappedBuffer, Feature::ExportableMemory].into_iter().fold(
            Capabilities::none().with_memory(MemoryHandleKind::OpaqueFd, Support::Native),
            |capabilities, feature| capabilities.with_feature(feature, Support::Native),
        );
        let (identity, maps) = (Self::identity(), Mutex::default());
        Ok(Arc::new(Device { identity, capabilities, maps, names: AtomicUsize::new(1) }))
    }
}

/// A memory file, mapped.
#[derive(Debug)]
struct Map {
    file: OwnedFd,
    address: usize,
    size: usize,
}

impl Map {
    fn new(operation: &'static str, file: OwnedFd, size: u64) -> Result<Self> {
        let failed = |error: rustix::io::Errno| {
            Error::new(ErrorKind::System, operation, "the memory file cannot be mapped").with_source(error)
        };
        let size =
            usize::try_from(size).map_err(|_| Error::invalid(operation, "the size exceeds the address space"))?;
        let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an unused address.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), size, access, shared, &file, 0) }.map_err(failed)?;
        Ok(Self { file, address: start.expose_provenance(), size })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which is no longer used.
        let _ = unsafe { rustix::mm::munmap(at(self.address as u64).cast(), self.size) };
    }
}

fn at(address: u64) -> *mut u8 {
    ptr::with_exposed_provenance_mut(address as usize)
}

#[derive(Debug)]
struct Device {
    identity: DeviceIdentity,
    capabilities: Capabilities,
    /// Imports and exportable allocations, by their numbers.
    maps: Mutex<HashMap<usize, Map>>,
    names: AtomicUsize,
}

impl Device {
    fn name(&self) -> usize {
        self.names.fetch_add(1, Ordering::Relaxed)
    }

    fn maps(&self) -> MutexGuard<'_, HashMap<usize, Map>> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, operation: &'static str, name: usize) -> Result<()> {
        self.maps().remove(&name).map(drop).ok_or_else(|| Error::invalid(operation, "there is no such memory"))
    }
}

// SAFETY (of the methods): the safe objects guarantee the contract in `gpu_interop::backend`: ranges are inside live
// memory, raw values are live. Work is done when its method returns. SAFETY: each method executes its work on the CPU
// at once: a completed query means that all work has run.
unsafe impl BackendDevice for Device {
    fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    unsafe fn import_memory(&self, request: &MemoryImport) -> Result<RawMemory> {
        const OPERATION: &str = "Device::import_memory";
        let fd = request.handle().as_fd().ok_or_else(|| Error::unsupported(OPERATION, "only descriptors"))?;
        let refused = |why: &str| Error::new(ErrorKind::ImportRejected, OPERATION, why.to_owned());
        // The request keeps its descriptor: a backend takes a duplicate.
        let own = fd.try_clone_to_owned().map_err(|error| refused("no duplicate").with_source(error))?;
        let length = rustix::fs::fstat(own.as_fd()).map_or(0, |stat| stat.st_size as u64);
        if length < request.size() {
            return Err(refused("this is no memory file of that size"));
        }
        let (name, map) = (self.name(), Map::new(OPERATION, own, request.size())?);
        self.maps().insert(name, map);
        Ok(RawMemory::new(name))
    }

    unsafe fn destroy_memory(&self, memory: RawMemory) -> Result<()> {
        self.forget("Device::destroy_memory", memory.get())
    }

    unsafe fn map_buffer(&self, memory: RawMemory, offset: u64, _size: u64) -> Result<DevicePtr> {
        let maps = self.maps();
        let map = maps.get(&memory.get()).ok_or_else(|| Error::invalid("Device::map_buffer", "no such memory"))?;
        Ok(DevicePtr::new(map.address as u64 + offset))
    }

    unsafe fn free_buffer(&self, _memory: RawMemory, _buffer: DevicePtr) -> Result<()> {
        Ok(())
    }

    fn create_exportable(&self, size: u64) -> Result<ExportableAllocation> {
        const OPERATION: &str = "Device::create_exportable";
        let failed = |error: rustix::io::Errno| {
            Error::new(ErrorKind::OutOfMemory, OPERATION, "no memory file of this size").with_source(error)
        };
        let size = size.next_multiple_of(4096);
        let file = rustix::fs::memfd_create(NAME, rustix::fs::MemfdFlags::CLOEXEC).map_err(failed)?;
        rustix::fs::ftruncate(&file, size).map_err(failed)?;
        let (name, map) = (self.name(), Map::new(OPERATION, file, size)?);
        let ptr = DevicePtr::new(map.address as u64);
        self.maps().insert(name, map);
        Ok(ExportableAllocation { raw: RawAllocation::new(name), ptr, size })
    }

    unsafe fn export_allocation(&self, allocation: &ExportableAllocation) -> Result<MemoryHandle> {
        let maps = self.maps();
        let refused = || Error::invalid("Device::export_allocation", "the allocation cannot be exported");
        let map = maps.get(&allocation.raw.get()).ok_or_else(refused)?;
        Ok(MemoryHandle::OpaqueFd(map.file.try_clone().map_err(|error| refused().with_source(error))?))
    }

    unsafe fn destroy_exportable(&self, allocation: &ExportableAllocation) -> Result<()> {
        self.forget("Device::destroy_exportable", allocation.raw.get())
    }

    fn create_stream(&self) -> Result<RawStream> {
        Ok(RawStream::new(self.name()))
    }

    unsafe fn destroy_stream(&self, _stream: RawStream) -> Result<()> {
        Ok(())
    }

    unsafe fn synchronize_stream(&self, _stream: RawStream) -> Result<()> {
        Ok(())
    }

    unsafe fn query_stream(&self, _stream: RawStream) -> Result<bool> {
        Ok(true)
    }

    fn create_event(&self) -> Result<RawEvent> {
        Ok(RawEvent::new(self.name()))
    }

    unsafe fn destroy_event(&self, _event: RawEvent) -> Result<()> {
        Ok(())
    }

    unsafe fn record_event(&self, _event: RawEvent, _stream: RawStream) -> Result<()> {
        Ok(())
    }

    unsafe fn query_event(&self, _event: RawEvent) -> Result<bool> {
        Ok(true)
    }

    unsafe fn wait_event(&self, _stream: RawStream, _event: RawEvent) -> Result<()> {
        Ok(())
    }

    unsafe fn copy(&self, _stream: RawStream, target: DevicePtr, source: DevicePtr, size: u64) -> Result<()> {
        // SAFETY: inside live memory, and disjoint.
        unsafe { at(target.get()).copy_from_nonoverlapping(at(source.get()), size as usize) };
        Ok(())
    }

    unsafe fn copy_to_host(&self, _stream: RawStream, target: *mut u8, source: DevicePtr, size: u64) -> Result<()> {
        // SAFETY: inside live memory; the caller's memory has that size.
        unsafe { target.copy_from_nonoverlapping(at(source.get()), size as usize) };
        Ok(())
    }

    unsafe fn copy_from_host(&self, _stream: RawStream, target: DevicePtr, source: *const u8, size: u64) -> Result<()> {
        // SAFETY: as above.
        unsafe { at(target.get()).copy_from_nonoverlapping(source, size as usize) };
        Ok(())
    }

    unsafe fn fill_u8(&self, _stream: RawStream, target: DevicePtr, value: u8, size: u64) -> Result<()> {
        // SAFETY: inside live memory.
        unsafe { at(target.get()).write_bytes(value, size as usize) };
        Ok(())
    }

    unsafe fn fill_u32(&self, _stream: RawStream, target: DevicePtr, value: u32, count: u64) -> Result<()> {
        for index in 0..count as usize {
            // SAFETY: inside live memory, and aligned.
            unsafe { at(target.get()).cast::<u32>().add(index).write(value) };
        }
        Ok(())
    }
}
