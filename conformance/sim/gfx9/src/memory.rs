//! Accesses to memory by addresses of the GPU.
//!
//! The CPU may access the same bytes at the same time, as with a real GPU: aligned words are accessed as a whole.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::wave::LANES;
use crate::{Result, Stop, unknown};

/// A range of addresses and its bytes in this process.
#[derive(Debug, Clone, Copy)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// The bytes in this process.
    pub host: *mut u8,
    /// `true` if the GPU may write.
    pub writable: bool,
}

/// The address space of a GPU.
///
/// # Safety
///
/// The bytes of a returned [`Mapping`] are readable, and writable if it says so, while the space is borrowed. Other
/// threads access them only in ways that permit concurrent atomic accesses.
pub unsafe trait Memory {
    /// The mapping that contains an address.
    fn find(&self, address: u64) -> Option<Mapping>;
}

/// Bytes of a page of a program.
pub(crate) const PAGE: u64 = 4096;

/// The words of a page.
pub(crate) type Words = Box<[u32]>;

/// Mappings that were used last.
const KNOWN: usize = 8;

/// Accesses of a wave to one mapping, which contains `words` aligned words at the offset of each lane.
pub(crate) struct Window {
    host: *mut u8,
    offsets: [u64; LANES],
    words: u8,
    /// The first word of each lane is aligned for 8 bytes.
    wide: bool,
    writable: bool,
}

impl Window {
    /// Whether the words of an even number and the next one can be accessed together.
    pub(crate) fn has_pairs(&self) -> bool {
        self.wide && self.words >= 2
    }

    /// The pair of words from an even number on.
    fn pair(&self, lane: usize, word: u8) -> &AtomicU64 {
        assert!(self.has_pairs(), "the caller asked");
        let offset = self.offsets[lane] + 4 * u64::from((word & !1).min((self.words & !1) - 2));
        // SAFETY: the mapping contains both words, which are aligned for 8 bytes together and accessed atomically.
        unsafe { AtomicU64::from_ptr(self.host.wrapping_add(offset as usize).cast()) }
    }

    pub(crate) fn load_pair(&self, lane: usize, word: u8) -> u64 {
        self.pair(lane, word).load(Ordering::Relaxed)
    }

    pub(crate) fn store_pair(&self, lane: usize, word: u8, value: u64) {
        if self.writable {
            self.pair(lane, word).store(value, Ordering::Relaxed);
        }
    }

    fn word(&self, lane: usize, word: u8) -> &AtomicU32 {
        let offset = self.offsets[lane] + 4 * u64::from(word.min(self.words - 1));
        // SAFETY: the mapping contains the lane's words, which are aligned and accessed atomically.
        unsafe { AtomicU32::from_ptr(self.host.wrapping_add(offset as usize).cast()) }
    }

    /// Reads a word of a lane. That of an inactive one is some word of the mapping.
    pub(crate) fn load(&self, lane: usize, word: u8) -> u32 {
        self.word(lane, word).load(Ordering::Relaxed)
    }

    /// Writes a word of an active lane.
    pub(crate) fn store(&self, lane: usize, word: u8, value: u32) {
        if self.writable {
            self.word(lane, word).store(value, Ordering::Relaxed);
        }
    }
}

/// Access to an address space during one run.
pub(crate) struct Bus<'a> {
    memory: &'a dyn Memory,
    known: [Mapping; KNOWN],
    next: usize,
}

impl std::fmt::Debug for Bus<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Bus").field("known", &self.known).finish_non_exhaustive()
    }
}

impl<'a> Bus<'a> {
    pub(crate) fn new(memory: &'a dyn Memory) -> Self {
        let nothing = Mapping { start: 0, length: 0, host: std::ptr::null_mut(), writable: false };
        Self { memory, known: [nothing; KNOWN], next: 0 }
    }

    fn find(&mut self, address: u64) -> Result<Mapping> {
        let contains = |mapping: &Mapping| address.wrapping_sub(mapping.start) < mapping.length;
        if let Some(place) = self.known.iter().position(contains) {
            // The last one that was used is the first one that is tried.
            self.known.swap(0, place);
            return Ok(self.known[0]);
        }
        let Some(found) = self.memory.find(address).filter(contains) else {
            return Err(Stop::PageFault { address, read_only: false });
        };
        self.next = (self.next + 1) % KNOWN;
        self.known[self.next] = found;
        Ok(found)
    }

    /// The words of a page, if one mapping contains it.
    pub(crate) fn page(&mut self, address: u64) -> Option<Words> {
        let host = self.locate(address, PAGE, false).ok()??;
        if !host.addr().is_multiple_of(4) {
            return None;
        }
        let word = |place: usize| {
            // SAFETY: the page is readable by the trait's contract; the word is within it, aligned, and read atomically.
            unsafe { AtomicU32::from_ptr(host.cast::<u32>().wrapping_add(place)) }.load(Ordering::Relaxed)
        };
        Some((0..(PAGE / 4) as usize).map(word).collect())
    }

    /// The host's pointer to `size` bytes that one mapping contains, or `None` if they cross its end.
    fn locate(&mut self, address: u64, size: u64, write: bool) -> Result<Option<*mut u8>> {
        let mapping = self.find(address)?;
        if write && !mapping.writable {
            return Err(Stop::PageFault { address, read_only: true });
        }
        let offset = address - mapping.start;
        let whole = mapping.length - offset >= size;
        Ok(whole.then(|| mapping.host.wrapping_add(offset as usize)))
    }

    /// The accesses of a wave's active lanes to `words` words each, if one mapping contains all of them and they are
    /// aligned. Otherwise each is to be made on its own, which finds what is wrong with it.
    pub(crate) fn window(&mut self, addresses: &[u64; LANES], active: u64, words: u8, write: bool) -> Option<Window> {
        let first = *addresses.get(active.trailing_zeros() as usize)?;
        let mapping = self.find(first).ok()?;
        let size = u64::from(words) * 4;
        let last = mapping.length.checked_sub(size)?;
        let mut offsets = addresses.map(|address| address.wrapping_sub(mapping.start));
        if active != u64::MAX {
            for (lane, offset) in offsets.iter_mut().enumerate() {
                *offset &= 0_u64.wrapping_sub(active >> lane & 1);
            }
        }
        // The highest bit is set if an offset is beyond the last one.
        let beyond = offsets.iter().fold(last, |bits, offset| bits | offset | last.wrapping_sub(*offset));
        let unaligned = offsets.iter().fold(mapping.host.addr() as u64, |bits, offset| bits | offset) & 7;
        let fits = beyond >> 63 == 0 && unaligned & 3 == 0 && (mapping.writable || !write);
        fits.then_some(Window { host: mapping.host, offsets, words, wide: unaligned == 0, writable: write })
    }

    /// Reads a word of 1, 2, 4 or 8 bytes.
    pub(crate) fn load(&mut self, address: u64, size: u64) -> Result<u64> {
        if address.is_multiple_of(size)
            && let Some(host) = self.locate(address, size, false)?
        {
            // The host's address has the same alignment in its page.
            if host.addr().is_multiple_of(size as usize) {
                // SAFETY: the bytes are readable by the trait's contract, aligned, and accessed atomically.
                return Ok(unsafe {
                    match size {
                        1 => u64::from(AtomicU8::from_ptr(host).load(Ordering::Relaxed)),
                        2 => u64::from(AtomicU16::from_ptr(host.cast()).load(Ordering::Relaxed)),
                        4 => u64::from(AtomicU32::from_ptr(host.cast()).load(Ordering::Relaxed)),
                        _ => AtomicU64::from_ptr(host.cast()).load(Ordering::Relaxed),
                    }
                });
            }
        }
        let mut value = 0;
        for byte in 0..size {
            value |= u64::from(self.load_byte(address.wrapping_add(byte))?) << (8 * byte);
        }
        Ok(value)
    }

    fn load_byte(&mut self, address: u64) -> Result<u8> {
        let host = self.locate(address, 1, false)?;
        // SAFETY: one byte is always within its mapping, readable by the trait's contract.
        Ok(host.map_or(0, |host| unsafe { AtomicU8::from_ptr(host) }.load(Ordering::Relaxed)))
    }

    /// Writes a word of 1, 2, 4 or 8 bytes.
    pub(crate) fn store(&mut self, address: u64, size: u64, value: u64) -> Result<()> {
        if address.is_multiple_of(size)
            && let Some(host) = self.locate(address, size, true)?
            && host.addr().is_multiple_of(size as usize)
        {
            // SAFETY: the bytes are writable by the trait's contract, aligned, and accessed atomically.
            unsafe {
                match size {
                    1 => AtomicU8::from_ptr(host).store(value as u8, Ordering::Relaxed),
                    2 => AtomicU16::from_ptr(host.cast()).store(value as u16, Ordering::Relaxed),
                    4 => AtomicU32::from_ptr(host.cast()).store(value as u32, Ordering::Relaxed),
                    _ => AtomicU64::from_ptr(host.cast()).store(value, Ordering::Relaxed),
                }
            }
            return Ok(());
        }
        for byte in 0..size {
            if let Some(host) = self.locate(address.wrapping_add(byte), 1, true)? {
                // SAFETY: one byte is always within its mapping, writable by the trait's contract.
                unsafe { AtomicU8::from_ptr(host) }.store((value >> (8 * byte)) as u8, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Changes an aligned word of 4 or 8 bytes atomically, and returns what it was.
    pub(crate) fn atomic(&mut self, address: u64, size: u64, function: impl Fn(u64) -> u64) -> Result<u64> {
        let host = self.locate(address, size, true)?;
        let host = host.filter(|host| address.is_multiple_of(size) && host.addr().is_multiple_of(size as usize));
        let host = host.ok_or(unknown("an atomic access to an address that is not a multiple of its size"))?;
        // SAFETY: the bytes are writable by the trait's contract, aligned, and accessed atomically.
        unsafe {
            if size == 4 {
                let update = |old: u32| Some(function(old.into()) as u32);
                let word = AtomicU32::from_ptr(host.cast());
                let old = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, update);
                Ok(old.unwrap_or_else(|old| old).into())
            } else {
                let word = AtomicU64::from_ptr(host.cast());
                let old = word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(function(old)));
                Ok(old.unwrap_or_else(|old| old))
            }
        }
    }
}
