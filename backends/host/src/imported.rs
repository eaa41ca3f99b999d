//! Memory that this backend maps: imports and its own exportable allocations.

use gpu_interop_core::{DevicePtr, Error, ErrorKind, MemoryHandle, MemoryImport, Result};

use crate::exporter_header::ExporterHeader;
use crate::mapping::Mapping;
use crate::{shared_semaphore, sys};

/// Imported memory: a duplicate of the exporter's handle and the offset of its data.
#[derive(Debug)]
pub(crate) struct ImportedMemory {
    memory: sys::Owned,
    data_offset: u64,
}

impl ImportedMemory {
    /// Imports memory through a duplicate of the request's handle. The memory is sealed against truncation unless the
    /// request promises that no peer truncates it.
    pub(crate) fn new(request: &MemoryImport, header: ExporterHeader) -> Result<Self> {
        const OPERATION: &str = "HostBackend::import_memory";
        let rejected = |message: &str| Error::new(ErrorKind::ImportRejected, OPERATION, message);
        let memory = sys::of_memory(OPERATION, request.handle())?;
        let borrowed = sys::borrow(&memory);
        sys::check_is_memory(borrowed).map_err(|other| {
            let message = "the host backend cannot map the handle as CPU memory; export the memory from the host backend or \
                           a Vulkan driver for the CPU";
            rejected(message).with_context("handle", other)
        })?;
        if shared_semaphore::is_semaphore(borrowed) {
            return Err(rejected("the handle is a semaphore of the host backend, not memory"));
        }
        if !request.is_peer_trusted() {
            sys::keep_from_shrinking(borrowed).map_err(|source| {
                rejected(
                    "another process can truncate the memory, and an access to it then raises SIGBUS; create it with \
                     MFD_ALLOW_SEALING, or promise a constant size with MemoryImport::trusted_peer",
                )
                .with_source(source)
            })?;
        }
        // Read after sealing: before, the size could change.
        let size = sys::size(OPERATION, borrowed)?;
        let data_offset = header.data_offset(borrowed, size);
        let available = size - data_offset;
        if request.size() > available {
            return Err(rejected("the memory is smaller than the request says")
                .with_context("memory", format_args!("{available} bytes")));
        }
        Ok(Self { memory, data_offset })
    }

    /// Maps a range of the data.
    pub(crate) fn map(&self, offset: u64, size: u64) -> Result<Mapping> {
        let Some(offset) = self.data_offset.checked_add(offset) else {
            return Err(
                Error::invalid("HostBackend::map_buffer", "the offset overflows").with_context("offset", offset)
            );
        };
        Mapping::new(sys::borrow(&self.memory), offset, size)
    }
}

/// Exportable allocation of this backend.
#[derive(Debug)]
pub(crate) struct Allocation {
    memory: sys::Owned,
    mapping: Mapping,
    pub(crate) size: u64,
}

impl Allocation {
    /// Allocates at least `size` bytes, rounded up to whole pages.
    pub(crate) fn new(size: u64) -> Result<Self> {
        let page = sys::page();
        let size =
            size.checked_next_multiple_of(page).filter(|size| i64::try_from(*size).is_ok()).ok_or_else(|| {
                Error::new(
                    ErrorKind::OutOfMemory,
                    "HostBackend::create_exportable",
                    "the size rounded up to pages exceeds the address space",
                )
                .with_context("size", size)
            })?;
        let memory = sys::create("gpu-interop memory", size)?;
        let mapping = Mapping::new(sys::borrow(&memory), 0, size)?;
        Ok(Self { memory, mapping, size })
    }

    /// Address of the first byte.
    pub(crate) fn ptr(&self) -> DevicePtr {
        DevicePtr::new(self.mapping.ptr().addr() as u64)
    }

    pub(crate) fn export(&self) -> Result<MemoryHandle> {
        sys::duplicate("HostBackend::export_allocation", sys::borrow(&self.memory)).map(sys::to_memory)
    }
}
