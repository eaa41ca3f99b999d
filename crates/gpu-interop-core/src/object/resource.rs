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
pub(super) enum Container {
    Memory(RawMemory),
    Array(RawMipmappedArray),
}

/// What may borrow from something of the exporter's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Import {
    Memory(RawMemory),
    Semaphore(RawSemaphore),
}

impl Resource {
    /// The import that this is, if it is one.
    pub(super) fn import(&self) -> Option<Import> {
        match self {
            Self::Memory(raw) => Some(Import::Memory(*raw)),
            Self::Semaphore(raw) => Some(Import::Semaphore(*raw)),
            _ => None,
        }
    }

    /// Whether it is one of those whose end some drivers delay until every stream is idle.
    pub(super) fn is_memory_or_module(&self) -> bool {
        matches!(self, Self::Memory(_) | Self::Allocation(_) | Self::Module(_))
    }

    /// What this lives in.
    pub(super) fn lives_in(&self) -> [Option<Container>; 2] {
        match self {
            Self::Buffer { memory, .. } | Self::MipmappedArray { memory, .. } => {
                [Some(Container::Memory(*memory)), None]
            }
            Self::Surface { array, memory, .. } | Self::Texture { array, memory, .. } => {
                [Some(Container::Memory(*memory)), Some(Container::Array(*array))]
            }
            _ => [None, None],
        }
    }

    /// What this is to the resources that live in it.
    pub(super) fn container(&self) -> Option<Container> {
        match self {
            Self::Memory(raw) => Some(Container::Memory(*raw)),
            Self::MipmappedArray { raw, .. } => Some(Container::Array(*raw)),
            _ => None,
        }
    }
}
