//! Copies and fills by string instructions, which access each byte once. The compiler makes no assumptions about
//! concurrent accesses by inline assembly.
//!
//! The direction flag is clear on entry, as Rust's rules for inline assembly guarantee.

use std::arch::asm;

/// Block size in bytes for copies whose target is a few bytes ahead of the source modulo the page size: string
/// instructions are tens of times slower there (AMD Zen 4).
const BLOCK: usize = 64;
const PAGE: usize = 4096;

/// Copies shared memory.
///
/// # Safety
/// Both ranges are valid for reads and writes of `size` bytes, and do not overlap.
pub unsafe fn copy(src: *mut u8, dst: *mut u8, size: usize) {
    // SAFETY: the caller guarantees valid ranges that do not overlap.
    unsafe { write(src, dst, size) };
}

/// Copies shared memory to memory of this process that nothing else accesses.
///
/// # Safety
/// Both ranges are valid for reads and writes of `size` bytes, and do not overlap. Nothing else accesses `dst`.
pub unsafe fn read(src: *mut u8, dst: *mut u8, size: usize) {
    // SAFETY: the caller guarantees valid ranges that do not overlap.
    unsafe { write(src, dst, size) };
}

/// Copies memory of this process that nothing writes to shared memory.
///
/// # Safety
/// `src` is valid for reads and `dst` for reads and writes of `size` bytes, and they do not overlap. Nothing writes
/// to `src`.
pub unsafe fn write(src: *const u8, dst: *mut u8, size: usize) {
    let ahead = dst.addr().wrapping_sub(src.addr()) % PAGE;
    let blocks = if (1..BLOCK).contains(&ahead) { size / BLOCK } else { 0 };
    let (mut src, mut dst) = (src, dst);
    if blocks > 0 {
        // SAFETY: the blocks are inside the ranges that the caller guarantees. The instructions change only these
        // registers and the flags.
        unsafe {
            asm!(
                "2:",
                "movups {a}, [{src}]",
                "movups {b}, [{src} + 16]",
                "movups {c}, [{src} + 32]",
                "movups {d}, [{src} + 48]",
                "movups [{dst}], {a}",
                "movups [{dst} + 16], {b}",
                "movups [{dst} + 32], {c}",
                "movups [{dst} + 48], {d}",
                "add {src}, 64",
                "add {dst}, 64",
                "dec {blocks}",
                "jnz 2b",
                src = inout(reg) src,
                dst = inout(reg) dst,
                blocks = inout(reg) blocks => _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack)
            );
        }
    }
    // SAFETY: the instruction reads and writes the rest of the ranges, and changes only these registers.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") size - blocks * BLOCK => _,
            inout("rsi") src => _,
            inout("rdi") dst => _,
            options(nostack, preserves_flags)
        );
    }
}

/// Sets every byte of shared memory.
///
/// # Safety
/// The range is valid for reads and writes of `size` bytes.
pub unsafe fn fill_u8(dst: *mut u8, value: u8, size: usize) {
    // SAFETY: the instruction writes the range that the caller guarantees, and changes only these registers.
    unsafe {
        asm!(
            "rep stosb",
            inout("rcx") size => _,
            inout("rdi") dst => _,
            in("al") value,
            options(nostack, preserves_flags)
        );
    }
}

/// Sets every 32-bit word of shared memory.
///
/// # Safety
/// The range is aligned and valid for reads and writes of `count` words.
pub unsafe fn fill_u32(dst: *mut u32, value: u32, count: usize) {
    // SAFETY: as in `fill_u8`.
    unsafe {
        asm!(
            "rep stosd",
            inout("rcx") count => _,
            inout("rdi") dst => _,
            in("eax") value,
            options(nostack, preserves_flags)
        );
    }
}
