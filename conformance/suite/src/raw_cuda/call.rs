//! The raw calls.

use serde::{Deserialize, Serialize};

/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD`, and the semaphores' one of the same name.
pub(crate) const OPAQUE_FD: u32 = 1;
/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32`.
pub(crate) const OPAQUE_WIN32: u32 = 2;
/// `CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD`.
pub(crate) const DMA_BUF_FD: u32 = 9;
/// `CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD`.
pub(crate) const TIMELINE_FD: u32 = 9;

/// One call, or several that belong together. Kinds are the numbers of the driver's headers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum RawCall {
    /// Imports the descriptor as memory and ends the import.
    ImportMemory { kind: u32, size: u64, flags: u32 },
    /// Imports an invalid descriptor number as memory.
    ImportNumber { number: i32 },
    /// Imports the descriptor as a semaphore and ends the import.
    ImportSemaphore { kind: u32 },
    /// Imports the descriptor as memory, for the calls after this one.
    KeepMemory { size: u64 },
    /// Maps a range of the kept memory, and frees the mapping.
    MapBuffer { offset: u64, size: u64, flags: u32 },
    /// Maps the kept memory as RGBA8 texels, 256 x 128.
    MapMipmappedArray { levels: u32 },
    /// Destroys the kept memory while it is mapped, then uses and frees the mapping.
    DestroyWhileMapped,
    /// Destroys the kept memory twice.
    DestroyTwice,
    /// Imports the descriptor as a semaphore, for the calls after this one.
    KeepSemaphore { kind: u32 },
    /// Signals the kept semaphore and waits for the signal.
    Signal { value: u64, batch: Batch },
    /// Waits for the kept semaphore, which must be signalled already.
    Wait { value: u64, batch: Batch },
    /// Allocates memory and exports it as a dma-buf, whose descriptor is returned.
    ExportDmaBuf,
    /// Imports the descriptor, which must fail, lets another file reuse its number if it is free, and closes the
    /// number, as an application does that follows the documentation.
    CloseAfterFailure,
}

/// Form of a batch of signals or waits.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Batch {
    /// One semaphore and its parameters.
    One,
    /// A count of 0.
    Empty,
    /// One semaphore, and NULL for its parameters.
    NullParams,
    /// NULL instead of the semaphore.
    NullSemaphore,
}
