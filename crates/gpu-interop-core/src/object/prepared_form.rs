//! Parameters of prepared batches, whose values change in place.

use crate::backend::{BlockLayout, RawSignal, RawWait};
use crate::semaphore_ops::{SignalParams, WaitParams};

/// Parameters of a batch.
#[derive(Debug)]
pub(super) enum Form<R> {
    /// The driver's blocks, one for each semaphore.
    Blocks(Box<[u64]>),
    /// For backends without blocks.
    Raw(Box<[R]>),
}

/// A signal or a wait with a timeline's value.
pub(super) trait Valued {
    fn set(&mut self, value: u64);
    fn value(&self) -> u64;
}

impl Valued for RawSignal {
    fn set(&mut self, value: u64) {
        self.params = SignalParams::Value(value);
    }

    fn value(&self) -> u64 {
        if let SignalParams::Value(value) = self.params { value } else { 0 }
    }
}

impl Valued for RawWait {
    fn set(&mut self, value: u64) {
        self.params = WaitParams::Value(value);
    }

    fn value(&self) -> u64 {
        if let WaitParams::Value(value) = self.params { value } else { 0 }
    }
}

impl<R: Valued> Form<R> {
    /// Sets the value at a place; `None` if there is none.
    #[inline]
    pub(super) fn set(&mut self, place: usize, value: u64) -> Option<()> {
        match self {
            Self::Blocks(blocks) => blocks.get_mut(place).map(|word| *word = value),
            Self::Raw(all) => all.get_mut(place).map(|raw| raw.set(value)),
        }
    }
}

/// Words of a block of CUDA and HIP.
const VENDORS_WORDS: usize = 18;

impl BlockLayout {
    /// The blocks of CUDA and HIP: 144 bytes, of which the first 8 are the value. A constant layout needs fewer
    /// instructions for each block.
    pub(super) const VENDORS: Self = Self { words: VENDORS_WORDS, value: 0 };

    /// Sets the value of each block, in order, until there are no more blocks or values. A block is not empty
    /// (`Batch::new`).
    #[inline]
    pub(super) fn set_values(self, mut blocks: &mut [u64], values: impl Iterator<Item = u64>) {
        if self == Self::VENDORS {
            let (blocks, _) = blocks.as_chunks_mut::<VENDORS_WORDS>();
            blocks.iter_mut().zip(values).for_each(|(block, value)| block[0] = value);
            return;
        }
        // Without `chunks_exact_mut`, whose length needs a division.
        for value in values {
            let Some((block, rest)) = blocks.split_at_mut_checked(self.words) else { return };
            if let Some(word) = block.get_mut(self.value) {
                *word = value;
            }
            blocks = rest;
        }
    }

    /// The value of each of the vendors' blocks ([`VENDORS`](Self::VENDORS)).
    #[inline]
    pub(super) fn vendors_values(blocks: &[u64]) -> impl Iterator<Item = u64> {
        blocks.as_chunks::<VENDORS_WORDS>().0.iter().map(|block| block[0])
    }

    /// The values of the first `count` blocks.
    #[inline]
    pub(super) fn values(self, blocks: &[u64], count: usize) -> impl Iterator<Item = u64> {
        (0..count).map(move |block| blocks.get(block * self.words + self.value).copied().unwrap_or(0))
    }
}
