//! Copies and fills by atomic accesses of aligned 64-bit words, and of the bytes before and after them.
//!
//! For memory that may be uncached, such as device memory: string instructions access that byte by byte. Rust leaves
//! concurrent atomic accesses of different sizes undefined, so threads of one process must serialise these accesses
//! where the bytes are the same.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

const WORD: usize = size_of::<u64>();

/// Calls `word` with the offset of each aligned word in `size` bytes at `memory`, and `byte` with the offsets of the
/// other bytes.
fn each(memory: *const u8, size: usize, byte: impl Fn(usize), word: impl Fn(usize)) {
    let head = memory.align_offset(WORD).min(size);
    let tail = size - (size - head) % WORD;
    (0..head).for_each(&byte);
    (head..tail).step_by(WORD).for_each(word);
    (tail..size).for_each(byte);
}

/// Copies shared memory.
///
/// # Safety
/// Both ranges are valid for reads and writes of `size` bytes, and do not overlap.
pub unsafe fn copy(source: *mut u8, target: *mut u8, size: usize) {
    // SAFETY: the caller guarantees that each byte of the range is valid.
    let byte = |at| unsafe {
        AtomicU8::from_ptr(target.add(at)).store(AtomicU8::from_ptr(source.add(at)).load(Relaxed), Relaxed);
    };
    if source.addr() % WORD != target.addr() % WORD {
        return (0..size).for_each(byte);
    }
    // SAFETY: the caller guarantees valid ranges; the offset is that of an aligned word on both sides.
    each(target, size, byte, |at| unsafe {
        let word = AtomicU64::from_ptr(source.add(at).cast()).load(Relaxed);
        AtomicU64::from_ptr(target.add(at).cast()).store(word, Relaxed);
    });
}

/// Copies shared memory to memory of this process that nothing else accesses.
///
/// # Safety
/// Both ranges are valid for reads and writes of `size` bytes, and do not overlap. Nothing else accesses `target`.
pub unsafe fn read(source: *mut u8, target: *mut u8, size: usize) {
    // SAFETY: the caller guarantees that each byte of the range is valid.
    let byte = |at| unsafe { target.add(at).write(AtomicU8::from_ptr(source.add(at)).load(Relaxed)) };
    // SAFETY: the caller guarantees valid ranges; the offset is that of an aligned word of the shared memory.
    each(source, size, byte, |at| unsafe {
        let word = AtomicU64::from_ptr(source.add(at).cast()).load(Relaxed);
        target.add(at).cast::<u64>().write_unaligned(word);
    });
}

/// Copies memory of this process that nothing writes to shared memory.
///
/// # Safety
/// `source` is valid for reads and `target` for reads and writes of `size` bytes, and they do not overlap. Nothing writes
/// to `source`.
pub unsafe fn write(source: *const u8, target: *mut u8, size: usize) {
    // SAFETY: the caller guarantees that each byte of the range is valid.
    let byte = |at| unsafe { AtomicU8::from_ptr(target.add(at)).store(source.add(at).read(), Relaxed) };
    // SAFETY: the caller guarantees valid ranges; the offset is that of an aligned word of the shared memory.
    each(target, size, byte, |at| unsafe {
        let word = source.add(at).cast::<u64>().read_unaligned();
        AtomicU64::from_ptr(target.add(at).cast()).store(word, Relaxed);
    });
}

/// Sets every byte of shared memory.
///
/// # Safety
/// The range is valid for reads and writes of `size` bytes.
pub unsafe fn fill_u8(target: *mut u8, value: u8, size: usize) {
    let word = u64::from_ne_bytes([value; WORD]);
    // SAFETY: the caller guarantees that each byte of the range is valid.
    let byte = |at| unsafe { AtomicU8::from_ptr(target.add(at)).store(value, Relaxed) };
    // SAFETY: the caller guarantees a valid range; the offset is that of an aligned word.
    each(target, size, byte, |at| unsafe { AtomicU64::from_ptr(target.add(at).cast()).store(word, Relaxed) });
}

/// Sets every 32-bit word of shared memory.
///
/// # Safety
/// The range is aligned and valid for reads and writes of `count` words.
pub unsafe fn fill_u32(target: *mut u32, value: u32, count: usize) {
    for index in 0..count {
        // SAFETY: the caller guarantees that the aligned range is valid.
        unsafe { AtomicU32::from_ptr(target.add(index)) }.store(value, Relaxed);
    }
}
