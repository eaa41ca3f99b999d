//! Memory that can be exported: memory files, and the ranges of addresses at which they are mapped.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};

use crate::mapping::Mapping;
use crate::memory::{LAVAPIPE_HEADER, duplicate};
use crate::objects::Objects;
use crate::settings;

/// A memory file.
#[derive(Debug)]
pub struct Physical {
    file: OwnedFd,
    header: usize,
    size: usize,
}

/// Memory files by handle.
pub static PHYSICAL: Objects<Physical> = Objects::new();
/// Reserved addresses by the first of them.
pub static RESERVED: Objects<Mapping> = Objects::new();

/// Bytes, as on the GPU that was measured.
pub const GRANULARITY: usize = 2 << 20;

impl Physical {
    /// Makes memory, as `SIM_EXPORT` says.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn new(size: usize) -> rustix::io::Result<Self> {
        let plain = settings::text("SIM_EXPORT").is_some_and(|kind| kind == "plain");
        let header = if plain { 0 } else { LAVAPIPE_HEADER };
        let file = rustix::fs::memfd_create("stand-in GPU memory", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let length = (size.checked_add(header)).ok_or(rustix::io::Errno::FBIG)?;
        rustix::fs::ftruncate(&file, length as u64)?;
        if header > 0 {
            let mut words = [length.to_ne_bytes(), header.to_ne_bytes()].concat();
            words.extend(settings::bytes("SIM_EXPORT_HEADER").unwrap_or_default());
            rustix::io::pwrite(&file, &words, 0)?;
            // lavapipe finds its header by this word, just before the data, when it frees the memory.
            rustix::io::pwrite(&file, &header.to_ne_bytes(), (header - size_of::<usize>()) as u64)?;
            rustix::fs::fcntl_add_seals(&file, SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW)?;
        }
        Ok(Self { file, header, size })
    }

    /// A new descriptor.
    ///
    /// # Errors
    /// What the kernel answers.
    pub fn export(&self) -> rustix::io::Result<OwnedFd> {
        duplicate(&self.file)
    }

    /// Maps a part of it into reserved addresses, not accessible yet.
    ///
    /// # Errors
    /// What the kernel answers; `INVAL` if there is not as much.
    pub fn map(&self, reserved: &Mapping, at: usize, size: usize, offset: usize) -> rustix::io::Result<()> {
        if offset.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(rustix::io::Errno::INVAL);
        }
        reserved.place(at, size, self.file.as_fd(), (self.header + offset) as u64)
    }
}

/// The reserved range that an address is in.
#[must_use]
pub fn reservation(address: usize) -> Option<std::sync::Arc<Mapping>> {
    RESERVED.all().into_iter().find(|range| (range.base()..range.base() + range.length()).contains(&address))
}
