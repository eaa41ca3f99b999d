//! Memory behind tensors: an import, an allocation, or a copy.

use std::sync::{Arc, Mutex, OnceLock};

use gpu_interop::sync::lock;
use gpu_interop::{BufferSlice, Error, ExportableMemory, ExternalMemory, MappedBuffer, MemoryHandleKind, Result};

use crate::device::Shared;

/// Memory of a device. Tensors, capsules and consumers share it; the last one frees it, on any thread.
#[derive(Debug)]
pub(crate) struct Backing {
    source: Source,
    /// Dropped last.
    pub(crate) device: Arc<Shared>,
}

#[derive(Debug)]
enum Source {
    Imported {
        // Field order is drop order: the mapping before its memory.
        mapping: OnceLock<MappedBuffer>,
        memory: ExternalMemory,
        /// Held while the memory is mapped, once.
        mapper: Mutex<()>,
    },
    Allocated(ExportableMemory),
    /// Host memory that no other API sees. Words, so that every type of elements is aligned.
    Copied(Box<[u64]>),
}

impl Backing {
    pub(crate) fn imported(device: Arc<Shared>, memory: ExternalMemory) -> Self {
        Self { source: Source::Imported { mapping: OnceLock::new(), memory, mapper: Mutex::default() }, device }
    }

    pub(crate) fn allocated(device: Arc<Shared>, memory: ExportableMemory) -> Self {
        Self { source: Source::Allocated(memory), device }
    }

    pub(crate) fn copied(device: Arc<Shared>, words: Box<[u64]>) -> Self {
        Self { source: Source::Copied(words), device }
    }

    /// Size in bytes.
    pub(crate) fn size(&self) -> u64 {
        match &self.source {
            Source::Imported { memory, .. } => memory.size(),
            Source::Allocated(memory) => memory.size(),
            Source::Copied(words) => words.len() as u64 * 8,
        }
    }

    /// Kind of the imported handle; `None` for memory of this backend.
    pub(crate) fn kind(&self) -> Option<MemoryHandleKind> {
        self.imported_memory().map(ExternalMemory::handle_kind)
    }

    pub(crate) fn exportable(&self) -> Option<&ExportableMemory> {
        match &self.source {
            Source::Allocated(memory) => Some(memory),
            Source::Imported { .. } | Source::Copied(_) => None,
        }
    }

    /// The import; `None` for memory of this backend.
    pub(crate) fn imported_memory(&self) -> Option<&ExternalMemory> {
        match &self.source {
            Source::Imported { memory, .. } => Some(memory),
            Source::Allocated(_) | Source::Copied(_) => None,
        }
    }

    /// The whole memory as an operand of streams. Maps an import at the first call.
    pub(crate) fn slice(&self) -> Result<BufferSlice<'_>> {
        match &self.source {
            Source::Imported { .. } => self.mapping()?.slice(..),
            Source::Allocated(memory) => memory.slice(..),
            Source::Copied(_) => Err(Error::invalid("Memory", "a copy is not memory of the device")),
        }
    }

    /// Address of the first byte in the device's address space.
    pub(crate) fn address(&self) -> Result<u64> {
        Ok(match &self.source {
            Source::Imported { .. } => self.mapping()?.as_raw().get(),
            Source::Allocated(memory) => memory.as_raw().get(),
            Source::Copied(words) => words.as_ptr().expose_provenance() as u64,
        })
    }

    /// True if the exporter allows reads only.
    pub(crate) fn is_read_only(&self) -> bool {
        match &self.source {
            Source::Imported { mapping, .. } => mapping.get().is_some_and(MappedBuffer::is_read_only),
            Source::Allocated(_) | Source::Copied(_) => false,
        }
    }

    fn mapping(&self) -> Result<&MappedBuffer> {
        let Source::Imported { mapping, memory, mapper } = &self.source else {
            return Err(Error::invalid("Memory", "only imported memory is mapped"));
        };
        if let Some(mapped) = mapping.get() {
            return Ok(mapped);
        }
        let _one_at_a_time = lock(mapper);
        if let Some(mapped) = mapping.get() {
            return Ok(mapped);
        }
        let mapped = memory.map_buffer(..)?;
        Ok(mapping.get_or_init(|| mapped))
    }
}
