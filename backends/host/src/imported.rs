//! Memory this backend can map: imports, and allocations of its own.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use gpu_interop_core::handle::{FdKind, classify_fd};
use gpu_interop_core::{DevicePtr, Error, ErrorKind, MemoryHandle, MemoryImport, Result};

use crate::exporter_header::ExporterHeader;
use crate::mapping::{Mapping, sealed_memfd};
use crate::shared_semaphore;

/// Imported memory: a duplicate of the exporter's descriptor, and where its data begins.
#[derive(Debug)]
pub(crate) struct ImportedMemory {
    fd: OwnedFd,
    data_offset: u64,
}

impl ImportedMemory {
    /// Imports what `request` names, without touching its handle.
    pub(crate) fn new(request: &MemoryImport, header: ExporterHeader) -> Result<Self> {
        const OPERATION: &str = "HostBackend::import_memory";
        let rejected = |message: &str| Error::new(ErrorKind::ImportRejected, OPERATION, message);
        let Some(fd) = request.handle().as_fd() else {
            return Err(Error::unsupported(OPERATION, "the host backend imports file descriptors only"));
        };
        match classify_fd(fd) {
            FdKind::Memory => {}
            other => {
                return Err(rejected("the host backend maps memory of the CPU only; the descriptor is something else")
                    .with_context("descriptor", other));
            }
        }
        if shared_semaphore::is_semaphore(fd) {
            return Err(rejected("the descriptor is a semaphore of the host backend, not memory"));
        }
        let file_size = file_size(OPERATION, fd)?;
        let data_offset = header.data_offset(fd, file_size);
        let available = file_size - data_offset;
        if request.size() > available {
            return Err(rejected("the memory is smaller than the request says")
                .with_context("memory", format_args!("{available} bytes")));
        }
        Ok(Self { fd: duplicate(OPERATION, fd)?, data_offset })
    }

    /// Maps a range of the data.
    pub(crate) fn map(&self, offset: u64, size: u64) -> Result<Mapping> {
        let Some(offset) = self.data_offset.checked_add(offset) else {
            return Err(
                Error::invalid("HostBackend::map_buffer", "the offset overflows").with_context("offset", offset)
            );
        };
        Mapping::new(self.fd.as_fd(), offset, size)
    }
}

/// An allocation of this backend's own that can be exported.
#[derive(Debug)]
pub(crate) struct Allocation {
    fd: OwnedFd,
    mapping: Mapping,
    pub(crate) size: u64,
}

impl Allocation {
    /// Allocates at least `size` bytes, rounded up to whole pages.
    pub(crate) fn new(size: u64) -> Result<Self> {
        let page = rustix::param::page_size() as u64;
        let size =
            size.checked_next_multiple_of(page).filter(|size| i64::try_from(*size).is_ok()).ok_or_else(|| {
                Error::new(ErrorKind::OutOfMemory, "HostBackend::create_exportable", "no machine has this much memory")
                    .with_context("size", size)
            })?;
        let fd = sealed_memfd("gpu-interop memory", size)?;
        let mapping = Mapping::new(fd.as_fd(), 0, size)?;
        Ok(Self { fd, mapping, size })
    }

    /// The first byte.
    pub(crate) fn ptr(&self) -> DevicePtr {
        DevicePtr::new(self.mapping.ptr().addr() as u64)
    }

    /// A new descriptor of the memory.
    pub(crate) fn export(&self) -> Result<MemoryHandle> {
        duplicate("HostBackend::export_allocation", self.fd.as_fd()).map(MemoryHandle::OpaqueFd)
    }
}

/// A duplicate with close-on-exec set.
pub(crate) fn duplicate(operation: &'static str, fd: BorrowedFd<'_>) -> Result<OwnedFd> {
    fd.try_clone_to_owned()
        .map_err(|error| Error::new(ErrorKind::System, operation, "cannot duplicate the descriptor").with_source(error))
}

/// The size of the file behind `fd`, bytes.
pub(crate) fn file_size(operation: &'static str, fd: BorrowedFd<'_>) -> Result<u64> {
    let stat = rustix::fs::fstat(fd).map_err(|errno| {
        Error::new(ErrorKind::System, operation, "cannot examine the descriptor")
            .with_source(std::io::Error::from(errno))
    })?;
    Ok(u64::try_from(stat.st_size).unwrap_or(0))
}
