//! Copies and fills of memory that other threads and processes access concurrently.
//!
//! Safe code can enqueue unordered work on two streams that accesses the same bytes, and another process can access
//! shared memory at any time. Plain accesses would be data races, which are undefined behaviour in Rust. These
//! functions behave as if each byte was accessed by a relaxed atomic operation: a byte that is read while it is written
//! has the old or the new value.
//!
//! Backends and exporters that access such memory on the host call them.
//!
//! On x86-64 they use string instructions, which are as fast as `memcpy`. Other targets, and callers whose memory may
//! be uncached, use [`words`].

pub mod words;
#[cfg(all(not(miri), target_arch = "x86_64", target_pointer_width = "64"))]
mod x86_64;

#[cfg(any(miri, not(all(target_arch = "x86_64", target_pointer_width = "64"))))]
pub use words::{copy, fill_u8, fill_u32, read, write};
#[cfg(all(not(miri), target_arch = "x86_64", target_pointer_width = "64"))]
pub use x86_64::{copy, fill_u8, fill_u32, read, write};

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Bytes that differ from adjacent ones, from 0 and from 0xee.
    fn pattern(length: usize) -> Vec<u8> {
        (0..length).map(|index| u8::try_from(index % 199 + 1).expect("less than 256")).collect()
    }

    /// Copies with every alignment of both sides and lengths around word sizes; no other byte changes.
    macro_rules! alignments {
        ($module:ident) => {
            #[test]
            fn $module() {
                use super::$module::{copy, fill_u8, fill_u32, read, write};
                const ROOM: usize = 64;
                let src = pattern(ROOM);
                for (from, to) in (0..9).flat_map(|from| (0..9).map(move |to| (from, to))) {
                    for size in 0..ROOM - 9 {
                        let check = |what: &str, run: &dyn Fn(*mut u8, *mut u8)| {
                            let (mut src, mut dst) = (src.clone(), vec![0xee_u8; ROOM]);
                            run(src.as_mut_ptr().wrapping_add(from), dst.as_mut_ptr().wrapping_add(to));
                            let mut expected = vec![0xee; ROOM];
                            expected[to..to + size].copy_from_slice(&src[from..from + size]);
                            assert_eq!(dst, expected, "{what}: {size} bytes from {from} to {to}");
                        };
                        // SAFETY: both ranges are in their vectors, which differ.
                        check("copy", &|src, dst| unsafe { copy(src, dst, size) });
                        // SAFETY: as above.
                        check("read", &|src, dst| unsafe { read(src, dst, size) });
                        // SAFETY: as above.
                        check("write", &|src, dst| unsafe { write(src, dst, size) });
                    }
                }
                for (to, size) in (0..9).flat_map(|to| (0..ROOM - 9).map(move |size| (to, size))) {
                    let mut dst = vec![0xee; ROOM];
                    // SAFETY: the range is in the vector.
                    unsafe { fill_u8(dst.as_mut_ptr().add(to), 5, size) };
                    let mut expected = vec![0xee; ROOM];
                    expected[to..to + size].fill(5);
                    assert_eq!(dst, expected, "fill: {size} bytes from {to}");
                }
                // Destinations a few bytes ahead of the source modulo the page size, and others.
                let mut memory = vec![0_u8; 3 * 4096];
                for (from, to, size) in
                    (0..3).flat_map(|from| [1, 17, 63, 64, 500].map(|ahead| (from, 4096 + from + ahead, 1000 + ahead)))
                {
                    memory.fill(0xee);
                    memory[from..from + size].copy_from_slice(&pattern(size));
                    let mut expected = memory.clone();
                    expected.copy_within(from..from + size, to);
                    let start = memory.as_mut_ptr();
                    // SAFETY: both ranges are in the vector, and 4096 bytes apart.
                    unsafe { copy(start.add(from), start.add(to), size) };
                    assert!(memory == expected, "copy: {size} bytes from {from} to {to}");
                }
                for count in 0..9 {
                    let mut dst = [7_u32; 10];
                    // SAFETY: the range is in the array.
                    unsafe { fill_u32(dst.as_mut_ptr().add(1), 0x0102_0304, count) };
                    let mut expected = [7; 10];
                    expected[1..=count].fill(0x0102_0304);
                    assert_eq!(dst, expected, "fill: {count} words");
                }
            }
        };
    }

    alignments!(words);
    #[cfg(all(not(miri), target_arch = "x86_64", target_pointer_width = "64"))]
    alignments!(x86_64);

    /// Threads fill and copy the same bytes: each byte read is one that was written. Sanitizers report accesses that
    /// are not atomic.
    #[test]
    fn concurrently_written_bytes_are_old_or_new() {
        use super::words::{copy, fill_u8, read, write};
        const SIZE: usize = 4096;
        let memory = Box::leak(Box::new([[1_u64; SIZE / 8]; 2])).as_mut_ptr().cast::<u8>().expose_provenance();
        let done = AtomicBool::new(false);
        let pointers = || {
            let first = std::ptr::with_exposed_provenance_mut::<u8>(memory);
            (first, first.wrapping_add(SIZE))
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..200 {
                    let (first, second) = pointers();
                    // SAFETY: two disjoint ranges of leaked memory, and a local array of this thread.
                    unsafe {
                        fill_u8(first, 1 - round % 2, SIZE);
                        write([0; SIZE].as_ptr(), second, SIZE);
                        copy(first, second, SIZE);
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
            let mut found = vec![9; SIZE];
            while !done.load(Ordering::Relaxed) {
                // SAFETY: as above.
                unsafe { read(pointers().1, found.as_mut_ptr(), SIZE) };
                assert!(found.iter().all(|byte| *byte <= 1));
            }
        });
    }
}
