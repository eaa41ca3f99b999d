//! Pending work of the recorder's streams.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::backend::{DevicePtr, SignalMemory};

/// Content of freed signal memory.
const FREED: u64 = 0xf4ee_dddd_f4ee_dddd;

/// Width of a word operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    Low,
    Whole,
}

/// An item of work.
#[derive(Debug, Clone, Copy)]
pub(super) enum Item {
    /// Without effect.
    Plain,
    /// Completes once the word at this address has reached the value, in the drivers' comparison.
    Wait(u64, u64, Width),
    Write(u64, u64, Width),
}

/// Work is counted: item `n` has run once `done >= n`.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) held: bool,
    pub(super) enqueued: u64,
    /// Last item that may run.
    released: u64,
    pub(super) done: u64,
    /// Items after `done`.
    items: VecDeque<Item>,
}

impl Queue {
    pub(super) fn push(&mut self, item: Item) {
        self.enqueued += 1;
        self.items.push_back(item);
        if !self.held {
            self.release();
        }
    }

    /// Allows the enqueued items to run.
    pub(super) fn release(&mut self) {
        self.released = self.enqueued;
    }

    /// Runs the released items, up to an unsatisfied wait.
    pub(super) fn advance(&mut self, words: &Words) {
        while self.done < self.released {
            match self.items.front() {
                Some(Item::Wait(address, value, width)) if !words.is_reached(*address, *value, *width) => return,
                Some(Item::Write(address, value, width)) => words.write(*address, *value, *width),
                _ => {}
            }
            self.items.pop_front();
            self.done += 1;
        }
    }

    /// Completes all items without effect.
    pub(super) fn cancel(&mut self) {
        self.items.clear();
        self.release();
        self.done = self.enqueued;
    }
}

/// All signal memory ever allocated, to detect writes after a free.
#[derive(Debug, Default)]
pub(super) struct Words(Vec<Block>);

#[derive(Debug)]
struct Block {
    address: u64,
    words: Arc<[AtomicU64]>,
}

impl Words {
    pub(super) fn allocate(&mut self, address: u64, size: usize) -> SignalMemory {
        let words: Arc<[AtomicU64]> = (0..size / 8).map(|_| AtomicU64::new(0)).collect();
        let host = std::ptr::NonNull::from(&*words).cast();
        self.0.push(Block { address, words });
        SignalMemory { host, ptr: DevicePtr::new(address), size }
    }

    pub(super) fn free(&self, memory: SignalMemory) {
        let block = self.0.iter().find(|block| block.address == memory.ptr.get());
        block.into_iter().flat_map(|block| block.words.iter()).for_each(|word| word.store(FREED, Ordering::SeqCst));
    }

    /// Addresses of freed blocks that were written since.
    pub(super) fn written_after_free(&self) -> Vec<u64> {
        let freed = |block: &&Block| block.words.iter().any(|word| word.load(Ordering::SeqCst) == FREED);
        let written_after_free = |block: &Block| block.words.iter().any(|word| word.load(Ordering::SeqCst) != FREED);
        self.0.iter().filter(freed).filter(|block| written_after_free(block)).map(|block| block.address).collect()
    }

    fn word(&self, address: u64) -> Option<&AtomicU64> {
        let offset = |block: &Block| usize::try_from(address.checked_sub(block.address)?).ok();
        self.0.iter().find_map(|block| block.words.get(offset(block)? / 8))
    }

    fn is_reached(&self, address: u64, value: u64, width: Width) -> bool {
        let Some(word) = self.word(address) else { return true };
        let ahead = word.load(Ordering::SeqCst).wrapping_sub(value);
        match width {
            Width::Whole => ahead.cast_signed() >= 0,
            Width::Low => ahead & (1 << 31) == 0,
        }
    }

    fn write(&self, address: u64, value: u64, width: Width) {
        let Some(word) = self.word(address) else { return };
        let high = if width == Width::Low { word.load(Ordering::SeqCst) >> 32 << 32 } else { 0 };
        word.store(high | value, Ordering::SeqCst);
    }
}
