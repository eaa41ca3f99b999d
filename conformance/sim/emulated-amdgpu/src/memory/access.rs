//! Access to memory by a GPU's addresses.
//!
//! The CPU may access the same bytes at the same time, as with a real GPU. Plain copies may then be torn; words for
//! synchronisation are accessed with atomic instructions.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Memory;
use super::space::{Access, PageFault, Space};

type Result<T> = std::result::Result<T, PageFault>;

/// Copies are split into steps, so that the lock is held briefly.
const STEP: u64 = 16 << 20;

impl Memory {
    /// Calls a function with a GPU's address space, which does not change meanwhile.
    pub(crate) fn with_space<R>(
        &self,
        gpu: usize,
        address: u64,
        function: impl FnOnce(&Space) -> Result<R>,
    ) -> Result<R> {
        let spaces = self.spaces();
        let space = spaces.get(gpu).ok_or(PageFault { gpu, address, read_only: false })?;
        function(space)
    }

    /// Reads `N` bytes.
    pub(crate) fn read<const N: usize>(&self, gpu: usize, address: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.with_space(gpu, address, |space| {
            space.visit(gpu, address, N as u64, Access::Read, |from, offset, length| {
                let offset = usize::try_from(offset).unwrap_or(N);
                if let Some(to) = bytes.get_mut(offset..offset + length) {
                    // SAFETY: the space returns `length` readable bytes, and `to` has as many.
                    unsafe { std::ptr::copy(from, to.as_mut_ptr(), length) };
                }
            })
        })?;
        Ok(bytes)
    }

    pub(crate) fn read_u32(&self, gpu: usize, address: u64) -> Result<u32> {
        self.read(gpu, address).map(u32::from_le_bytes)
    }

    pub(crate) fn read_u64(&self, gpu: usize, address: u64) -> Result<u64> {
        self.read(gpu, address).map(u64::from_le_bytes)
    }

    /// Eight words, the first read with acquire ordering: an AQL packet.
    pub(crate) fn read_packet(&self, gpu: usize, address: u64) -> Result<[u64; 8]> {
        self.atomic_u64(gpu, address, Access::Read, |header| {
            let mut words = [header.load(Ordering::Acquire); 8];
            for (word, from) in words.iter_mut().zip(0..8).skip(1) {
                // SAFETY: a packet does not cross the end of its ring, which is one mapping.
                *word = unsafe { std::ptr::from_ref(header).cast::<u64>().add(from).read_volatile() };
            }
            words
        })
    }

    /// Calls a function with an aligned 32-bit word.
    pub(crate) fn atomic_u32<R>(
        &self,
        gpu: usize,
        address: u64,
        access: Access,
        function: impl FnOnce(&AtomicU32) -> R,
    ) -> Result<R> {
        self.atomic(gpu, address, 4, access, |pointer| {
            // SAFETY: the address is aligned, mapped, and accessed atomically here.
            function(unsafe { AtomicU32::from_ptr(pointer.cast()) })
        })
    }

    /// Calls a function with an aligned 64-bit word.
    pub(crate) fn atomic_u64<R>(
        &self,
        gpu: usize,
        address: u64,
        access: Access,
        function: impl FnOnce(&AtomicU64) -> R,
    ) -> Result<R> {
        self.atomic(gpu, address, 8, access, |pointer| {
            // SAFETY: the address is aligned, mapped, and accessed atomically here.
            function(unsafe { AtomicU64::from_ptr(pointer.cast()) })
        })
    }

    fn atomic<R>(
        &self,
        gpu: usize,
        address: u64,
        size: u64,
        access: Access,
        function: impl FnOnce(*mut u8) -> R,
    ) -> Result<R> {
        let fault = PageFault { gpu, address, read_only: false };
        if !address.is_multiple_of(size) {
            return Err(fault);
        }
        self.with_space(gpu, address, |space| {
            let mut word = None;
            space.visit(gpu, address, size, access, |pointer, _, _| word = Some(pointer))?;
            word.map(function).ok_or(fault)
        })
    }

    pub(crate) fn write_u32(&self, gpu: usize, address: u64, value: u32) -> Result<()> {
        self.atomic_u32(gpu, address, Access::Write, |word| word.store(value, Ordering::SeqCst))
    }

    pub(crate) fn write_u64(&self, gpu: usize, address: u64, value: u64) -> Result<()> {
        self.atomic_u64(gpu, address, Access::Write, |word| word.store(value, Ordering::SeqCst))
    }

    /// Passes every contiguous piece of a range to a function: its bytes, and its offset in the range.
    ///
    /// `function` must not keep the pointer.
    pub(crate) fn parts(
        &self,
        gpu: usize,
        address: u64,
        size: u64,
        access: Access,
        mut function: impl FnMut(*mut u8, u64, usize),
    ) -> Result<()> {
        self.with_space(gpu, address, |space| space.visit(gpu, address, size, access, &mut function))
    }

    /// Copies bytes. Copies nothing if any of the bytes causes a page fault.
    pub(crate) fn copy(&self, gpu: usize, to: u64, from: u64, size: u64) -> Result<()> {
        self.parts(gpu, to, size, Access::Write, |_, _, _| {})?;
        self.parts(gpu, from, size, Access::Read, |_, _, _| {})?;
        // The direction of the steps makes overlapping copies correct.
        let steps = size.div_ceil(STEP);
        for step in 0..steps {
            let start = if to <= from { step } else { steps - 1 - step } * STEP;
            self.copy_step(gpu, to + start, from + start, STEP.min(size - start))?;
        }
        Ok(())
    }

    fn copy_step(&self, gpu: usize, to: u64, from: u64, size: u64) -> Result<()> {
        self.with_space(gpu, to, |space| {
            let mut sources = Vec::new();
            space.visit(gpu, from, size, Access::Read, |pointer, _, length| sources.push((pointer, length)))?;
            let mut targets = Vec::new();
            space.visit(gpu, to, size, Access::Write, |pointer, _, length| targets.push((pointer, length)))?;
            let mut sources = sources.into_iter();
            let (mut source, mut available) = sources.next().unwrap_or((std::ptr::null_mut(), 0));
            for (mut target, mut wanted) in targets {
                while wanted > 0 {
                    if available == 0 {
                        let Some(next) = sources.next() else { break };
                        (source, available) = next;
                    }
                    let length = wanted.min(available);
                    // SAFETY: both are mapped for `length` bytes; `copy` permits an overlap.
                    unsafe { std::ptr::copy(source, target, length) };
                    (source, target) = (source.wrapping_add(length), target.wrapping_add(length));
                    (available, wanted) = (available - length, wanted - length);
                }
            }
            Ok(())
        })
    }

    /// Repeats a pattern over `size` bytes.
    pub(crate) fn fill(&self, gpu: usize, to: u64, size: u64, pattern: &[u8]) -> Result<()> {
        if pattern.is_empty() {
            return Ok(());
        }
        self.parts(gpu, to, size, Access::Write, |pointer, offset, length| {
            if pattern.iter().all(|byte| *byte == pattern[0]) {
                // SAFETY: `length` bytes are mapped.
                return unsafe { pointer.write_bytes(pattern[0], length) };
            }
            let phase = usize::try_from(offset % pattern.len() as u64).unwrap_or(0);
            for (at, byte) in (0..length).zip(pattern.iter().cycle().skip(phase)) {
                // SAFETY: `at` is below `length`, which is mapped.
                unsafe { pointer.add(at).write(*byte) };
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Owner, Span};
    use super::*;
    use crate::gpu::{Gpu, Model};

    fn memory() -> Memory {
        let address = "0000:03:00.0".parse().unwrap();
        let gpu = Gpu { index: 0, model: Model::named("gfx906").unwrap(), address, vram: 1 << 30, large_bar: true };
        let memory = Memory::new(&[gpu]).unwrap();
        for (start, length) in [(0x10000, 0x1000), (0x11000, 0x1000), (0x12000, 0x2000)] {
            let span = Span {
                length,
                storage: memory.new_system(length).unwrap(),
                offset: 0,
                writable: true,
                owner: Owner::Kfd,
            };
            memory.map(0, start, span).unwrap();
        }
        memory
    }

    #[test]
    fn a_copy_crosses_objects_on_both_sides() {
        let memory = memory();
        memory.fill(0, 0x10ff0, 0x18, &[1, 2, 3]).unwrap();
        memory.copy(0, 0x11ff5, 0x10ff0, 0x18).unwrap();
        let expected: Vec<u8> = [1, 2, 3].into_iter().cycle().take(0x18).collect();
        assert_eq!(memory.read::<0x18>(0, 0x11ff5).unwrap().to_vec(), expected);
        assert_eq!(memory.read::<1>(0, 0x11ff4).unwrap(), [0]);
        assert_eq!(memory.read::<1>(0, 0x11ff5 + 0x18).unwrap(), [0]);
    }

    #[test]
    fn a_faulting_copy_copies_nothing() {
        let memory = memory();
        memory.fill(0, 0x10000, 0x1000, &[7]).unwrap();
        let fault = memory.copy(0, 0x13800, 0x10000, 0x1000).unwrap_err();
        assert_eq!(fault, PageFault { gpu: 0, address: 0x14000, read_only: false });
        assert_eq!(memory.read::<4>(0, 0x13800).unwrap(), [0; 4]);
    }

    #[test]
    fn exported_memory_keeps_its_bytes_and_is_recognised() {
        use rustix::fd::AsFd as _;
        let memory = memory();
        let storage = memory.new_system(8192).unwrap();
        let length = storage.size();
        memory
            .map(
                0,
                0x80000,
                Span { length, storage: Arc::clone(&storage), offset: 0, writable: true, owner: Owner::Kfd },
            )
            .unwrap();
        memory.fill(0, 0x80000, 8192, &[5, 6]).unwrap();
        let file = memory.export(&storage).unwrap();
        let mut bytes = [0; 4];
        rustix::io::pread(&file, &mut bytes, 8192).unwrap();
        assert_eq!(bytes, [5, 6, 5, 6]);
        rustix::io::pwrite(&file, &[9], 4097).unwrap();
        assert_eq!(memory.read::<2>(0, 0x80000).unwrap(), [5, 9], "the GPU sees what is written to the file");
        assert!(Arc::ptr_eq(&memory.import(0, file.as_fd()).unwrap(), &storage));
        assert_eq!(
            rustix::fs::fstat(memory.export(&storage).unwrap()).unwrap().st_ino,
            rustix::fs::fstat(&file).unwrap().st_ino
        );
    }
}
