//! A GPU's address space whose mappings are vectors.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Mapping, Memory};

/// Distance between the first addresses of mappings.
const DISTANCE: u64 = 1 << 32;
/// Address of the first mapping.
const FIRST: u64 = 0x7_0000_0000;

#[derive(Debug)]
struct Region {
    start: u64,
    length: u64,
    words: Vec<AtomicU64>,
    writable: bool,
}

impl Region {
    fn host(&self) -> *mut u8 {
        self.words.as_ptr().cast_mut().cast()
    }
}

/// Mappings at invented addresses, with gaps between them.
#[derive(Debug, Default)]
pub(crate) struct Space {
    regions: Vec<Region>,
}

// SAFETY: the words of a region live as long as the space, and are only accessed atomically.
unsafe impl Memory for Space {
    fn find(&self, address: u64) -> Option<Mapping> {
        self.region(address).map(|region| Mapping {
            start: region.start,
            length: region.length,
            host: region.host(),
            writable: region.writable,
        })
    }
}

impl Space {
    fn region(&self, address: u64) -> Option<&Region> {
        self.regions.iter().find(|region| address.wrapping_sub(region.start) < region.length)
    }

    /// Maps a copy of bytes, and returns its address.
    pub(crate) fn map(&mut self, bytes: &[u8], writable: bool) -> u64 {
        let start = FIRST + DISTANCE * self.regions.len() as u64;
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            AtomicU64::new(u64::from_le_bytes(word))
        });
        self.regions.push(Region { start, length: bytes.len() as u64, words: words.collect(), writable });
        start
    }

    /// The bytes of a mapping.
    pub(crate) fn bytes(&self, start: u64) -> Vec<u8> {
        let region = self.region(start).expect("a mapping");
        let mut bytes: Vec<_> =
            region.words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        bytes.truncate(region.length as usize);
        bytes
    }

    pub(crate) fn words(&self, start: u64) -> Vec<u32> {
        self.bytes(start).chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }
}

pub(crate) fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
