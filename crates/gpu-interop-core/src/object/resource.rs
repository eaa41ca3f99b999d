//! Driver objects owned by safe objects, and their parents.

use std::sync::atomic::{AtomicU64, Ordering};

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
    /// Memory of the application, or a range of a mapping, by its number.
    Borrowed(u64),
    Module(RawModule),
    Event(RawEvent),
    /// `owned` is false for a stream of the application.
    Stream {
        raw: RawStream,
        slot: usize,
        owned: bool,
    },
    /// A stream used only for a recording.
    Recorder(RawStream),
    Graph {
        raw: RawGraph,
        slot: usize,
    },
}

/// A resource with children, which must be freed before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Parent {
    Memory(RawMemory),
    Array(RawMipmappedArray),
}

/// A resource that may refer to an object of the exporter or the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Borrower {
    Memory(RawMemory),
    Semaphore(RawSemaphore),
    /// A stream of the application, by its slot.
    Stream(usize),
    /// Memory of the application, by its number.
    Borrowed(u64),
}

impl Resource {
    /// A borrowed range with a new number: one address may be borrowed several times.
    pub(super) fn next_borrowed() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self::Borrowed(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The resource as a borrower, if it may be one.
    pub(super) fn borrower(&self) -> Option<Borrower> {
        match self {
            Self::Memory(raw) => Some(Borrower::Memory(*raw)),
            Self::Semaphore(raw) => Some(Borrower::Semaphore(*raw)),
            Self::Stream { slot, owned: false, .. } => Some(Borrower::Stream(*slot)),
            Self::Borrowed(number) => Some(Borrower::Borrowed(*number)),
            _ => None,
        }
    }

    /// `true` if some drivers wait for all streams before they free it.
    pub(super) fn free_may_wait(&self) -> bool {
        !matches!(
            self,
            Self::Event(_) | Self::Borrowed(_) | Self::Stream { .. } | Self::Recorder(_) | Self::Graph { .. }
        )
    }

    /// Parents of the resource.
    pub(super) fn parents(&self) -> [Option<Parent>; 2] {
        match self {
            Self::Buffer { memory, .. } | Self::MipmappedArray { memory, .. } => [Some(Parent::Memory(*memory)), None],
            Self::Surface { array, memory, .. } | Self::Texture { array, memory, .. } => {
                [Some(Parent::Memory(*memory)), Some(Parent::Array(*array))]
            }
            _ => [None, None],
        }
    }

    /// The resource as a parent, if it may have children.
    pub(super) fn as_parent(&self) -> Option<Parent> {
        match self {
            Self::Memory(raw) => Some(Parent::Memory(*raw)),
            Self::MipmappedArray { raw, .. } => Some(Parent::Array(*raw)),
            _ => None,
        }
    }
}
