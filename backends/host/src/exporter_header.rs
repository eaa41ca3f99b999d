//! Offset of the data in memory exported by a CPU renderer.

use crate::sys;

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
