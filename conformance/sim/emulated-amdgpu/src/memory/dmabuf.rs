//! Descriptors of other drivers' memory: memfds here, dma-bufs on a real machine.
//!
//! The memfd of an exported object also has the object's metadata, which the kernel has beside a dma-buf.

use std::ffi::{CStr, CString};

use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, MemfdFlags};
use rustix::io::Errno;

use crate::abi::{Result, bytes_of, from_bytes, plain_structs};

/// Identity of the file behind a descriptor.
pub(crate) type Inode = (u64, u64);

/// A memfd with a memory payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dmabuf {
    pub(crate) inode: Inode,
    /// Offset of the memory in the file.
    pub(crate) offset: u64,
    /// Size of the memory, in whole pages.
    pub(crate) size: u64,
    /// Of an object that this library exported.
    pub(crate) metadata: Option<Metadata>,
}

plain_structs! {
    /// The properties of an object that are not in its bytes.
    struct Metadata {
        magic: u64,
        /// The layout of an image, for the kernel.
        tiling: u64,
        /// The requested domains, and the flags of the creation.
        domains: u64,
        flags: u64,
        /// Bytes of `data` that are set.
        bytes: u64,
        /// The layout of an image, for user-space drivers.
        data: [[u32; 32]; 2],
    }
}

/// Marks metadata in a file.
const MAGIC: u64 = 0x616d_6467_7075_0001;

/// Contents of an exported memfd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// As lavapipe exports memory: a header, in which the metadata is, the memory, a trailer. Lavapipe imports no other.
    Lavapipe,
    /// The memory, then the metadata, so that the file can be mapped as a dma-buf.
    Plain,
}

/// First and last bytes of lavapipe's memory files.
const LAVAPIPE_HEADER: u64 = 4096;
const LAVAPIPE_TRAILER: u64 = 40;
/// Offset of the metadata in such a header, and its size after plain memory.
const LAVAPIPE_METADATA: u64 = 1024;
const PLAIN_TRAILER: u64 = 4096;
/// Name of exported memfds.
const NAME: &CStr = c"emulated-amdgpu-dmabuf";

/// Creates a memfd for `size` bytes of memory, and returns the offset of the memory in it.
///
/// Lavapipe's header also contains a number of the Vulkan driver, which the Vulkan layer writes at an import.
pub(super) fn create(size: u64, form: Form) -> Result<(OwnedFd, u64)> {
    let file = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC)?;
    let resize = |added: u64| {
        let length = size.checked_add(added).ok_or(Errno::NOMEM)?;
        rustix::fs::ftruncate(&file, length)?;
        Ok::<_, Errno>(length)
    };
    match form {
        Form::Plain => {
            resize(PLAIN_TRAILER)?;
            Ok((file, 0))
        }
        Form::Lavapipe => {
            let length = resize(LAVAPIPE_HEADER + LAVAPIPE_TRAILER)?;
            rustix::io::pwrite(&file, &[length.to_le_bytes(), LAVAPIPE_HEADER.to_le_bytes()].concat(), 0)?;
            // lavapipe finds the header by the word before the memory.
            rustix::io::pwrite(&file, &LAVAPIPE_HEADER.to_le_bytes(), LAVAPIPE_HEADER - 8)?;
            Ok((file, LAVAPIPE_HEADER))
        }
    }
}

/// Writes the metadata of an object with `size` bytes to its exported file.
pub(super) fn write_metadata(file: BorrowedFd<'_>, size: u64, form: Form, metadata: Metadata) -> Result<()> {
    let offset = if form == Form::Plain { size } else { LAVAPIPE_METADATA };
    rustix::io::pwrite(file, bytes_of(&Metadata { magic: MAGIC, ..metadata }), offset)?;
    Ok(())
}

/// The size of a dma-buf of this library, which `lseek` reports. `None` for other files.
pub(crate) fn exported_size(file: BorrowedFd<'_>) -> Option<u64> {
    is_exported(file).then(|| inspect(file).ok().map(|found| found.size)).flatten()
}

/// `true` if a descriptor is of a memfd exported by this library, in this or another process.
pub(crate) fn is_exported(file: BorrowedFd<'_>) -> bool {
    link(file)
        .is_ok_and(|link| link.as_bytes().strip_prefix(b"/memfd:").is_some_and(|it| it.starts_with(NAME.to_bytes())))
}

/// The name of a descriptor's file in `/proc`.
fn link(file: BorrowedFd<'_>) -> Result<CString> {
    rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())
}

/// Inspects a descriptor. A file that is not a memfd with memory is EINVAL, as a file that is not a dma-buf is to the
/// kernel.
pub(crate) fn inspect(file: BorrowedFd<'_>) -> Result<Dmabuf> {
    let status = rustix::fs::fstat(file)?;
    let link = link(file)?;
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile || !link.as_bytes().starts_with(b"/memfd:") {
        return Err(Errno::INVAL);
    }
    let length = u64::try_from(status.st_size).map_err(|_| Errno::INVAL)?;
    let inode = (status.st_dev, status.st_ino);
    if let Some(size) = length.checked_sub(PLAIN_TRAILER).filter(|size| *size > 0)
        && let metadata @ Some(_) = metadata_at(file, size)
    {
        return Ok(Dmabuf { inode, offset: 0, size, metadata });
    }
    let mut header = [0; 16];
    let read = rustix::io::pread(file, &mut header, 0)?;
    let (offset, size) = layout(length, header.get(..read).unwrap_or_default());
    if size == 0 {
        return Err(Errno::INVAL);
    }
    let metadata = if offset == 0 { None } else { metadata_at(file, LAVAPIPE_METADATA) };
    Ok(Dmabuf { inode, offset, size, metadata })
}

fn metadata_at(file: BorrowedFd<'_>, offset: u64) -> Option<Metadata> {
    let mut bytes = [0; size_of::<Metadata>()];
    let read = rustix::io::pread(file, &mut bytes, offset).ok()?;
    let metadata = from_bytes::<Metadata>(bytes.get(..read)?);
    (metadata.magic == MAGIC && is_exported(file)).then_some(metadata)
}

/// Offset and size of the memory in a file of `length` bytes that begins with these bytes.
fn layout(length: u64, header: &[u8]) -> (u64, u64) {
    let word = |at| header.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let offset = match (word(0), word(8)) {
        (Some(size), Some(LAVAPIPE_HEADER)) if size == length => LAVAPIPE_HEADER,
        _ => 0,
    };
    let trailer = if offset == 0 { 0 } else { LAVAPIPE_TRAILER };
    (offset, length.saturating_sub(offset + trailer).next_multiple_of(4096))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(size: u64, offset: u64) -> Vec<u8> {
        [size.to_le_bytes(), offset.to_le_bytes()].concat()
    }

    #[test]
    fn lavapipes_header_is_known_and_others_are_data() {
        let length = 4096 + 65536 + 40;
        assert_eq!(layout(length, &header(length, 4096)), (4096, 65536));
        assert_eq!(layout(length, &header(length + 1, 4096)), (0, 73728));
        assert_eq!(layout(65536, &header(65536, 0)), (0, 65536));
        assert_eq!(layout(10, &[1; 10]), (0, 4096));
        assert_eq!(layout(0, &[]), (0, 0));
    }

    #[test]
    fn metadata_is_in_the_file_in_both_forms_and_not_in_the_memory() {
        use rustix::fd::AsFd as _;
        let metadata = Metadata { tiling: 26, domains: 4, bytes: 4, data: [[7; 32]; 2], ..Default::default() };
        for (form, offset) in [(Form::Lavapipe, 4096), (Form::Plain, 0)] {
            let (file, start) = create(8192, form).unwrap();
            write_metadata(file.as_fd(), 8192, form, metadata).unwrap();
            let found = inspect(file.as_fd()).unwrap();
            assert_eq!((start, found.offset, found.size), (offset, offset, 8192), "{form:?}");
            assert_eq!(found.metadata, Some(Metadata { magic: MAGIC, ..metadata }), "{form:?}");
            assert_eq!(exported_size(file.as_fd()), Some(8192), "{form:?}");
            let mut memory = vec![1; 8192];
            rustix::io::pread(&file, &mut memory, offset).unwrap();
            assert_eq!(memory, vec![0; 8192], "{form:?}");
        }
        let other = rustix::fs::memfd_create(c"x", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&other, 12288).unwrap();
        write_metadata(other.as_fd(), 8192, Form::Plain, metadata).unwrap();
        assert_eq!(inspect(other.as_fd()).unwrap().size, 12288, "another library's memory");
        assert_eq!(exported_size(other.as_fd()), None);
    }

    #[test]
    fn only_memfds_are_accepted() {
        use rustix::fd::AsFd as _;
        let memfd = rustix::fs::memfd_create(c"x", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        assert_eq!(inspect(memfd.as_fd()), Err(Errno::INVAL), "it is empty");
        rustix::fs::ftruncate(&memfd, 5000).unwrap();
        let found = inspect(memfd.as_fd()).unwrap();
        assert_eq!((found.offset, found.size), (0, 8192));
        let (pipe, _other) = rustix::pipe::pipe().unwrap();
        assert_eq!(inspect(pipe.as_fd()), Err(Errno::INVAL));
        let folder = std::fs::File::open("/").unwrap();
        assert_eq!(inspect(folder.as_fd()), Err(Errno::INVAL));
        let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(inspect(file.as_fd()), Err(Errno::INVAL));
    }
}
