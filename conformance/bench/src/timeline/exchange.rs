//! The stream's side of a hand-over, and the check of the data.

use std::cell::Cell;
use std::time::Duration;

use gpu_interop::vulkan::{
    BufferCopy, BufferOptions, ExportableBuffer, HeadlessContext, MemoryPlacement, OwnedBuffer, Submission,
};
use gpu_interop::{BufferSlice, ExportableMemory, MappedBuffer, MemoryImport, Stream};
use gpu_interop_conformance::{Verdict, ensure_eq, request};

use super::{ExportedTimeline, Exporter, Peer};
use crate::machine::{Machine, TRANSFER, WAIT_TIMEOUT, too_much};
use crate::sys::Answer;

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

    /// Enqueues the copy of the exporter's data.
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

/// Size of each of the three ranges of the memory, bytes: the exporter's data, the stream's copy of it, and the
/// stream's data.
pub(super) const PART: u64 = 32 << 10;
/// Size of the memory, bytes.
pub(super) const ALL: u64 = 3 * PART;

/// The exporting side. It owns the memory again after it has waited for the stream's work.
pub(super) trait Side {
    fn exporter(&self) -> Exporter<'_>;

    fn memory(&self) -> Verdict<MemoryImport>;

    /// Fills the first range with a word, releases the memory, and signals.
    fn give(&self, word: u32, signal: Option<(&ExportedTimeline, u64)>) -> Verdict<Work<'_>>;

    /// Waits, acquires the memory, and reads the other two ranges.
    fn take(&self, wait: Option<(&ExportedTimeline, u64)>) -> Verdict<Work<'_>>;

    /// Four of the words read last: the first and the last of both ranges.
    fn fetched(&self) -> Verdict<[u32; 4]>;
}

/// Work of the exporting side.
pub(super) enum Work<'a> {
    Vulkan(Submission),
    Own(&'a Stream),
}

impl Work<'_> {
    /// Blocks until completion.
    pub(super) fn wait(&self) -> Verdict {
        self.wait_for(WAIT_TIMEOUT)
    }

    fn wait_for(&self, timeout: Duration) -> Verdict {
        Ok(match self {
            Self::Vulkan(submission) => submission.wait(timeout),
            Self::Own(stream) => stream.synchronize_timeout(timeout),
        }?)
    }
}

/// Offsets of the verified words.
const VERIFIED_OFFSETS: [u64; 4] = [0, PART - 4, PART, 2 * PART - 4];

pub(super) struct VulkanSide<'a> {
    context: &'a HeadlessContext,
    shared: ExportableBuffer,
    local: OwnedBuffer,
    fetched: OwnedBuffer,
}

impl<'a> VulkanSide<'a> {
    pub(super) fn new(context: &'a HeadlessContext) -> Verdict<Self> {
        let interop = context.interop();
        let shared = ExportableBuffer::new(interop, &BufferOptions::new(ALL, TRANSFER))?;
        context.release(shared.buffer())?;
        let local = OwnedBuffer::new(interop, PART, TRANSFER, MemoryPlacement::DeviceLocal)?;
        let fetched = OwnedBuffer::new(interop, 2 * PART, TRANSFER, MemoryPlacement::HostVisible)?;
        Ok(Self { context, shared, local, fetched })
    }
}

impl Side for VulkanSide<'_> {
    fn exporter(&self) -> Exporter<'_> {
        Exporter::Vulkan(self.context)
    }

    fn memory(&self) -> Verdict<MemoryImport> {
        Ok(self.shared.import_request()?)
    }

    fn give(&self, word: u32, signal: Option<(&ExportedTimeline, u64)>) -> Verdict<Work<'_>> {
        let signals = signal.map(|(timeline, value)| timeline.op(value)).transpose()?;
        let shared = self.shared.buffer();
        let submission = self.context.submit(&[], signals.as_slice(), |recording| {
            recording.fill(&self.local, 0, PART, word)?;
            recording.acquire(shared)?;
            recording.copy(&self.local, 0, shared, 0, PART)?;
            recording.release(shared)
        })?;
        Ok(Work::Vulkan(submission))
    }

    fn take(&self, wait: Option<(&ExportedTimeline, u64)>) -> Verdict<Work<'_>> {
        let waits = wait.map(|(timeline, value)| timeline.op(value)).transpose()?;
        let (src, dst) = (self.shared.buffer(), &self.fetched);
        let copy = BufferCopy { src, src_offset: PART, dst, dst_offset: 0, size: 2 * PART };
        Ok(Work::Vulkan(self.context.receive(&[copy], waits.as_slice(), &[])?))
    }

    fn fetched(&self) -> Verdict<[u32; 4]> {
        words(|offset, word| Ok(self.fetched.read(offset, word)?))
    }
}

/// The backend itself, on a second opening of the device.
pub(super) struct OwnSide<'a> {
    peer: &'a Peer,
    shared: ExportableMemory,
    local: ExportableMemory,
    fetched: ExportableMemory,
}

impl<'a> OwnSide<'a> {
    pub(super) fn new(peer: &'a Peer) -> Verdict<Self> {
        let allocate = |size| peer.device.allocate_exportable(size).map_err(too_much);
        Ok(Self { peer, shared: allocate(ALL)?, local: allocate(PART)?, fetched: allocate(2 * PART)? })
    }
}

impl Side for OwnSide<'_> {
    fn exporter(&self) -> Exporter<'_> {
        Exporter::Own(self.peer)
    }

    fn memory(&self) -> Verdict<MemoryImport> {
        Ok(request::memory(self.shared.export()?, self.shared.size()))
    }

    fn give(&self, word: u32, signal: Option<(&ExportedTimeline, u64)>) -> Verdict<Work<'_>> {
        let stream = &self.peer.stream;
        stream.fill_u32(self.local.slice(..PART)?, word)?;
        stream.copy(self.shared.slice(..PART)?, self.local.slice(..PART)?)?;
        if let Some((timeline, value)) = signal {
            stream.signal(&[timeline.imported()?.signal_value(value)])?;
        }
        Ok(Work::Own(stream))
    }

    fn take(&self, wait: Option<(&ExportedTimeline, u64)>) -> Verdict<Work<'_>> {
        let stream = &self.peer.stream;
        if let Some((timeline, value)) = wait {
            stream.wait(&[timeline.imported()?.wait_value(value)])?;
        }
        stream.copy(self.fetched.slice(..2 * PART)?, self.shared.slice(PART..ALL)?)?;
        Ok(Work::Own(stream))
    }

    fn fetched(&self) -> Verdict<[u32; 4]> {
        words(|offset, word| Ok(self.peer.stream.read(self.fetched.slice(offset..offset + 4)?, word)?))
    }
}

fn words(mut read: impl FnMut(u64, &mut [u8]) -> Verdict) -> Verdict<[u32; 4]> {
    let mut words = [0; 4];
    for (word, offset) in words.iter_mut().zip(VERIFIED_OFFSETS) {
        let mut bytes = [0; 4];
        read(offset, &mut bytes)?;
        *word = u32::from_ne_bytes(bytes);
    }
    Ok(words)
}
