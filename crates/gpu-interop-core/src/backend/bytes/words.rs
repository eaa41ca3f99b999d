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
pub unsafe fn copy(src: *mut u8, dst: *mut u8, size: usize) {
    // SAFETY: the caller guarantees that each byte of the range is valid.
    let byte = |at| unsafe {
        AtomicU8::from_ptr(dst.add(at)).store(AtomicU8::from_ptr(src.add(at)).load(Relaxed), Relaxed);
    };
    if src.addr() % WORD != dst.addr() % WORD {
        return (0..size).for_each(byte);
    }
    // SAFETY: the caller guarantees valid ranges; the offset is that of an aligned word on both sides.
    each(dst, size, byte, |at| unsafe {
        let word = AtomicU64::from_ptr(src.add(at).cast()).load(Relaxed);
        AtomicU64::from_ptr(dst.add(at).cast()).store(word, Relaxed);
    });
}

/// Copies shared memory to memory of this process that nothing else accesses.
///
/// # Safety
/// Both ranges are valid for reads and writes of `size` bytes, and do not overlap. Nothing else accesses `dst`.
pub unsafe fn read(src: *mut u8, dst: *mut u8, size: usize) {
    // SAFETY: the caller guarantees that each byte of the range is valid.
    let byte = |at| unsafe { dst.add(at).write(AtomicU8::from_ptr(src.add(at)).load(Relaxed)) };
    // SAFETY: the caller guarantees valid ranges; the offset is that of an aligned word of the shared memory.
    each(src, size, byte, |at| unsafe {
        let word = AtomicU64::from_ptr(src.add(at).cast()).load(Relaxed);
        dst.add(at).cast::<u64>().write_unaligned(word);
    });
}

/// Copies memory of this process that nothing writes to shared memory.
///
/// # Safety
/// `src` is valid for reads and `dst` for reads and writes of `size` bytes, and they do not overlap. Nothing writes
/// to `src`.
pub unsafe fn write(src: *const u8, dst: *mut u8, size: usize) {
    // SAFETY: the caller guarantees that each byte of the range is valid.
    let byte = |at| unsafe { AtomicU8::from_ptr(dst.add(at)).store(src.add(at).read(), Relaxed) };
    // SAFETY: the caller guarantees valid ranges; the offset is that of an aligned word of the shared memory.
    each(dst, size, byte, |at| unsafe {
        let word = src.add(at).cast::<u64>().read_unaligned();
        AtomicU64::from_ptr(dst.add(at).cast()).store(word, Relaxed);
    });
}

/// Sets every byte of shared memory.
///
/// # Safety
/// The range is valid for reads and writes of `size` bytes.
pub unsafe fn fill_u8(dst: *mut u8, value: u8, size: usize) {
    let word = u64::from_ne_bytes([value; WORD]);
    // SAFETY: the caller guarantees that each byte of the range is valid.
    let byte = |at| unsafe { AtomicU8::from_ptr(dst.add(at)).store(value, Relaxed) };
    // SAFETY: the caller guarantees a valid range; the offset is that of an aligned word.
    each(dst, size, byte, |at| unsafe { AtomicU64::from_ptr(dst.add(at).cast()).store(word, Relaxed) });
}

/// Sets every 32-bit word of shared memory.
///
/// # Safety
/// The range is aligned and valid for reads and writes of `count` words.
pub unsafe fn fill_u32(dst: *mut u32, value: u32, count: usize) {
    for index in 0..count {
        // SAFETY: the caller guarantees that the aligned range is valid.
        unsafe { AtomicU32::from_ptr(dst.add(index)) }.store(value, Relaxed);
    }
}
