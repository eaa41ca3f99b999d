//! Memory that this backend maps: imports and its own exportable allocations. A CPU renderer puts a header before the data of
//! memory that it exports.

use std::ptr::NonNull;

use gpu_interop_core::{DevicePtr, Error, ErrorKind, MemoryHandle, MemoryImport, Result, caught, exceeds_memory};

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
            return Err(exceeds_memory(OPERATION).with_context("memory", format_args!("{available} bytes")));
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

/// Header that precedes the data in imported memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExporterHeader {
    /// Detects and skips the page that Mesa's lavapipe puts before the data. SwiftShader and plain memfds have no
    /// header.
    #[default]
    Detect,
    /// No header: the data starts at the first byte of the file descriptor, whatever it contains.
    None,
}

/// Size of lavapipe's header in bytes, which is also the header's second word.
const LAVAPIPE_HEADER: u64 = 4096;

impl ExporterHeader {
    /// Returns the offset of the data in memory of `size` bytes.
    pub(crate) fn data_offset(self, memory: sys::Borrowed<'_>, size: u64) -> u64 {
        match self {
            Self::Detect if is_lavapipe(memory, size) => LAVAPIPE_HEADER,
            Self::Detect | Self::None => 0,
        }
    }
}

/// Detects lavapipe, which sets all seals on its memfd and writes the file size and the header size, 64 bits each, at
/// its start. Other exporters do not set these seals, so their data is not mistaken for a header.
fn is_lavapipe(memory: sys::Borrowed<'_>, file_size: u64) -> bool {
    if file_size < LAVAPIPE_HEADER || !sys::is_sealed_completely(memory) {
        return false;
    }
    let mut words = [0_u8; 16];
    if !sys::read_start(memory, &mut words) {
        return false;
    }
    let (size, header) = words.split_at(8);
    size == file_size.to_ne_bytes() && header == LAVAPIPE_HEADER.to_ne_bytes()
}

/// Mapping of a range of shared memory, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    /// Length of the whole mapping in bytes. It starts `lead` bytes before the requested range.
    length: usize,
    lead: usize,
}

// SAFETY: a shared mapping is valid from every thread; all access goes through raw pointers.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `size` bytes from `offset`, shared, for reads and writes. The offset needs no alignment.
    pub(crate) fn new(memory: sys::Borrowed<'_>, offset: u64, size: u64) -> Result<Self> {
        let lead = offset % sys::granularity();
        let describe = |error: Error| error.with_context("offset", offset).with_context("size", size);
        let too_large = || describe(Error::new(ErrorKind::OutOfMemory, "mmap", "the range exceeds the address space"));
        let length = size.checked_add(lead).and_then(|length| usize::try_from(length).ok()).ok_or_else(too_large)?;
        let base = sys::map(memory, offset - lead, length).map_err(describe)?;
        // `lead` is less than the mapping granularity.
        Ok(Self { base, length, lead: usize::try_from(lead).unwrap_or(0) })
    }

    /// Pointer to the first byte of the requested range. Its provenance is exposed because it is passed as an integer
    /// address.
    pub(crate) fn ptr(&self) -> *mut u8 {
        let ptr = self.base.as_ptr().wrapping_add(self.lead);
        let _ = ptr.expose_provenance();
        ptr
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping of `new`, of this length. Owners that hand out its addresses keep it until their
        // last use.
        if let Err(error) = unsafe { sys::unmap(self.base, self.length) } {
            let _ = caught(|| tracing::error!(%error, "unmapping shared memory failed"));
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::fs::{MemfdFlags, SealFlags};

    use super::*;

    fn memfd(size: u64, words: [u64; 2], seals: SealFlags) -> OwnedFd {
        let fd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memfd");
        rustix::fs::ftruncate(&fd, size).expect("ftruncate");
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        rustix::io::pwrite(&fd, &bytes, 0).expect("pwrite");
        rustix::fs::fcntl_add_seals(&fd, seals).expect("seal");
        fd
    }

    #[test]
    fn only_a_sealed_memfd_with_both_words_has_a_header() {
        let all = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW;
        let offset = |fd: &OwnedFd| ExporterHeader::Detect.data_offset(fd.as_fd(), 8192);
        let genuine = memfd(8192, [8192, 4096], all);
        assert_eq!(offset(&genuine), 4096);
        assert_eq!(ExporterHeader::None.data_offset(genuine.as_fd(), 8192), 0);
        assert_eq!(offset(&memfd(8192, [8191, 4096], all)), 0);
        assert_eq!(offset(&memfd(8192, [8192, 4095], all)), 0);
        assert_eq!(offset(&memfd(8192, [8192, 4096], SealFlags::SHRINK)), 0);
    }
}
