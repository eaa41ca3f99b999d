//! What the safe objects own: driver objects, and which of them live in which.

use crate::backend::{
    DevicePtr, ExportableAllocation, RawEvent, RawGraph, RawMemory, RawMipmappedArray, RawModule, RawSemaphore,
    RawStream, RawSurface, RawTexture,
};

/// A driver object that is freed exactly once.
#[derive(Debug, Clone, Copy)]
pub(super) enum Resource {
    Memory(RawMemory),
    Buffer {
        ptr: DevicePtr,
        memory: RawMemory,
    },
    MipmappedArray {
        raw: RawMipmappedArray,
        memory: RawMemory,
    },
    Surface {
        raw: RawSurface,
        array: RawMipmappedArray,
        memory: RawMemory,
    },
    Texture {
        raw: RawTexture,
        array: RawMipmappedArray,
        memory: RawMemory,
    },
    Semaphore(RawSemaphore),
    Allocation(ExportableAllocation),
    Module(RawModule),
    Event(RawEvent),
    /// `owned` is false for a stream that the application lent.
    Stream {
        raw: RawStream,
        slot: usize,
        owned: bool,
    },
    /// A stream that nothing but a recording was ever enqueued on.
    Recorder(RawStream),
    Graph {
        raw: RawGraph,
        slot: usize,
    },
}

/// What other resources live in, and which therefore must not go before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Parent {
    Memory(RawMemory),
    Array(RawMipmappedArray),
}

/// What may borrow from something of the exporter's or the application's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Borrower {
    Memory(RawMemory),
    Semaphore(RawSemaphore),
    /// A stream that the application lent, by its slot.
    Stream(usize),
}

impl Resource {
    /// The borrower that this is, if it may be one.
    pub(super) fn borrower(&self) -> Option<Borrower> {
        match self {
            Self::Memory(raw) => Some(Borrower::Memory(*raw)),
            Self::Semaphore(raw) => Some(Borrower::Semaphore(*raw)),
            Self::Stream { slot, owned: false, .. } => Some(Borrower::Stream(*slot)),
            _ => None,
        }
    }

    /// Whether it is one of those whose end some drivers delay until every stream is idle.
    pub(super) fn may_wait_to_end(&self) -> bool {
        !matches!(self, Self::Event(_) | Self::Stream { .. } | Self::Recorder(_) | Self::Graph { .. })
    }

    /// What this lives in.
    pub(super) fn parents(&self) -> [Option<Parent>; 2] {
        match self {
            Self::Buffer { memory, .. } | Self::MipmappedArray { memory, .. } => [Some(Parent::Memory(*memory)), None],
            Self::Surface { array, memory, .. } | Self::Texture { array, memory, .. } => {
                [Some(Parent::Memory(*memory)), Some(Parent::Array(*array))]
            }
            _ => [None, None],
        }
    }

    /// What this is to the resources that live in it.
    pub(super) fn container(&self) -> Option<Parent> {
        match self {
            Self::Memory(raw) => Some(Parent::Memory(*raw)),
            Self::MipmappedArray { raw, .. } => Some(Parent::Array(*raw)),
            _ => None,
        }
    }
}
