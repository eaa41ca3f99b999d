//! The stream's side of a hand-over, and the check of the data.

use std::cell::Cell;

use gpu_interop::{BufferSlice, MappedBuffer, Stream};
use gpu_interop_conformance::{Verdict, ensure_eq};

use super::side::{ALL, PART, Side};
use crate::bench::machine::Machine;
use crate::bench::sys::Answer;

/// Both sides of the memory. Every round has a word: the stream copies it from the first range to the second, and fills
/// the third with its complement. The exporter verifies both, which shows that each side saw the
/// other's data.
pub(super) struct Exchange<'a> {
    pub(super) side: &'a dyn Side,
    pub(super) stream: &'a Stream,
    shared: MappedBuffer,
    /// The word of the latest round.
    word: Cell<u32>,
}

impl<'a> Exchange<'a> {
    pub(super) fn new(machine: &'a Machine, side: &'a dyn Side) -> Verdict<Self> {
        let shared = machine.device.import_memory(side.memory()?)?.map_buffer(0..ALL)?;
        Ok(Self { side, stream: &machine.stream, shared, word: Cell::new(0) })
    }

    /// The word of a new round.
    pub(super) fn next(&self) -> u32 {
        self.word.set(self.word.get() + 1);
        self.word.get()
    }

    /// Enqueues the copy of what the exporter wrote.
    pub(super) fn copy(&self) -> Verdict {
        let (target, source) = self.copied()?;
        Ok(self.stream.copy(target, source)?)
    }

    /// Enqueues the complement.
    pub(super) fn fill(&self, word: u32) -> Verdict {
        Ok(self.stream.fill_u32(self.back()?, !word)?)
    }

    /// The same work for raw calls.
    pub(super) fn answer(&self, word: u32) -> Verdict<Answer<'_>> {
        Ok(Answer { copy: self.copied()?, fill: Some((self.back()?, !word)) })
    }

    /// Fails unless the exporter has read the expected words.
    pub(super) fn check(&self, word: u32) -> Verdict {
        ensure_eq!(self.side.fetched()?, [word, word, !word, !word], "what came back from the stream");
        Ok(())
    }

    fn copied(&self) -> Verdict<(BufferSlice<'_>, BufferSlice<'_>)> {
        Ok((self.shared.slice(PART..2 * PART)?, self.shared.slice(..PART)?))
    }

    fn back(&self) -> Verdict<BufferSlice<'_>> {
        Ok(self.shared.slice(2 * PART..)?)
    }
}
