//! Parameters and results of [`BackendDevice`](super::BackendDevice) methods, except raw values.

use std::ffi::c_void;
use std::ptr::NonNull;

use super::{DevicePtr, RawAllocation, RawArray, RawMipmappedArray, RawSemaphore};
use crate::semaphore_ops::{SignalParams, WaitParams};

/// Comparison of a stream's wait for a word in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum WaitCondition {
    /// `(word - value) as signed >= 0`: the word has reached the value, with wrap-around. HIP documents a plain `word
    /// >= value`: with HIP, restart from small values before half of the range is used.
    GreaterOrEqual,
    /// `word == value`.
    Equal,
    /// `word & value != 0`.
    And,
    /// `!(word | value) != 0`.
    Nor,
}

/// One signal of a batch, for a backend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RawSignal {
    /// The semaphore.
    pub semaphore: RawSemaphore,
    /// Signal parameters; the variant matches the semaphore's payload.
    pub params: SignalParams,
}

/// One wait of a batch, for a backend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RawWait {
    /// The semaphore.
    pub semaphore: RawSemaphore,
    /// Wait parameters; the variant matches the semaphore's payload.
    pub params: WaitParams,
}

/// Layout of a parameter block in an array of 8-byte words, all 0 except for the value of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockLayout {
    /// Size of a block in words.
    pub words: usize,
    /// Index of the word with the value, less than `words`.
    pub value: usize,
}

/// Layouts of the blocks of signals and waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SemaphoreBlocks {
    /// Block of a signal.
    pub signal: BlockLayout,
    /// Block of a wait.
    pub wait: BlockLayout,
}

/// A copy with an array on at least one side, for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayCopy {
    /// Destination.
    pub dst: ArrayCopySide,
    /// Source.
    pub src: ArrayCopySide,
    /// Bytes in a row, rows, slices; each at least 1.
    pub extent: [u64; 3],
}

/// One side of an [`ArrayCopy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayCopySide {
    /// Host memory. Only read if it is the source.
    Host {
        /// The first byte.
        ptr: *mut u8,
        /// Bytes from row to row.
        row_pitch: u64,
        /// Rows from slice to slice.
        rows: u64,
    },
    /// Linear device memory.
    Linear {
        /// The first byte.
        ptr: DevicePtr,
        /// Bytes from row to row.
        row_pitch: u64,
        /// Rows from slice to slice.
        rows: u64,
    },
    /// An array.
    Array {
        /// The array.
        raw: RawArray,
        /// Start of the copy: bytes in the row, row, slice.
        offset: [u64; 3],
    },
}

/// Source of a texture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextureSource {
    /// One level.
    Array(RawArray),
    /// Several levels.
    MipmappedArray {
        /// The array.
        raw: RawMipmappedArray,
        /// Number of levels sampled, from level 0 on; the array may have more.
        levels: u32,
    },
}

/// An exportable allocation of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportableAllocation {
    /// The allocation.
    pub raw: RawAllocation,
    /// Device address of the first byte.
    pub ptr: DevicePtr,
    /// Size in bytes: the requested size, rounded up to the device's granularity.
    pub size: u64,
}

/// Host memory of 8-byte words that streams wait for and write while the host reads and writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalMemory {
    /// Host address of the first byte, aligned to 8 bytes.
    pub host: NonNull<u8>,
    /// Device address of the first byte.
    pub ptr: DevicePtr,
    /// Size in bytes, at least 8.
    pub size: usize,
}

// SAFETY: the type only carries addresses; each unsafe access through them proves that the memory is live and atomic.
unsafe impl Send for SignalMemory {}
// SAFETY: as above.
unsafe impl Sync for SignalMemory {}

/// Function called in stream order:
/// [`BackendDevice::launch_host_function`](super::BackendDevice::launch_host_function).
pub type HostFunction = unsafe extern "C" fn(*mut c_void);
