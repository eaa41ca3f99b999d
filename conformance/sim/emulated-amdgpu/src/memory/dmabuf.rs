//! Descriptors of other drivers' memory: memfds here, dma-bufs on a real machine.

use std::ffi::{CStr, CString};

use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, MemfdFlags};
use rustix::io::Errno;

use crate::abi::Result;

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
}

/// First and last bytes of lavapipe's memory files. Exports have the same form, because lavapipe imports no other.
const LAVAPIPE_HEADER: u64 = 4096;
const LAVAPIPE_TRAILER: u64 = 40;
/// Name of exported memfds.
const NAME: &CStr = c"emulated-amdgpu-dmabuf";

/// Creates a memfd for `size` bytes of memory, and returns the offset of the memory in it.
///
/// The header also contains a number of the Vulkan driver, which the Vulkan layer writes at an import.
pub(super) fn create(size: u64) -> Result<(OwnedFd, u64)> {
    let file = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC)?;
    let length = size.checked_add(LAVAPIPE_HEADER + LAVAPIPE_TRAILER).ok_or(Errno::NOMEM)?;
    rustix::fs::ftruncate(&file, length)?;
    rustix::io::pwrite(&file, &[length.to_le_bytes(), LAVAPIPE_HEADER.to_le_bytes()].concat(), 0)?;
    // lavapipe finds the header by the word before the memory.
    rustix::io::pwrite(&file, &LAVAPIPE_HEADER.to_le_bytes(), LAVAPIPE_HEADER - 8)?;
    Ok((file, LAVAPIPE_HEADER))
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
    let mut header = [0; 16];
    let read = rustix::io::pread(file, &mut header, 0)?;
    let (offset, size) = layout(length, header.get(..read).unwrap_or_default());
    if size == 0 {
        return Err(Errno::INVAL);
    }
    Ok(Dmabuf { inode: (status.st_dev, status.st_ino), offset, size })
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
