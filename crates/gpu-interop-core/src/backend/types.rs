//! What the methods of a [`BackendDevice`](super::BackendDevice) take and give, beside raw values.

use std::ffi::c_void;
use std::ptr::NonNull;

use serde::{Deserialize, Serialize};

use super::{DevicePtr, RawAllocation, RawArray, RawMipmappedArray, RawSemaphore};
use crate::semaphore_ops::{SignalParams, WaitParams};

/// The comparison of a stream's wait for a word in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCondition {
    /// `(word - value) as signed >= 0`: the word reached the value, wrap-around included. HIP's runtimes document a plain
    /// `word >= value` instead: there, start again from small values before half of the range is used up.
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
    /// What to signal; of the variant that the semaphore's payload takes.
    pub params: SignalParams,
}

/// One wait of a batch, for a backend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RawWait {
    /// The semaphore.
    pub semaphore: RawSemaphore,
    /// What to wait for; of the variant that the semaphore's payload takes.
    pub params: WaitParams,
}

/// A copy that has an array on at least one side, for a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArrayCopy {
    /// What is written.
    pub dst: ArrayCopySide,
    /// What is read.
    pub src: ArrayCopySide,
    /// Bytes in a row, rows, slices; none is 0.
    pub extent: [u64; 3],
}

/// One side of an [`ArrayCopy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArrayCopySide {
    /// Host memory. A source is only read.
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
        /// Where the copy starts: bytes in the row, row, slice.
        offset: [u64; 3],
    },
}

/// What a texture samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextureSource {
    /// One level.
    Array(RawArray),
    /// Several levels.
    MipmappedArray {
        /// The array.
        raw: RawMipmappedArray,
        /// How many of its levels, from level 0 on; the array may have more.
        levels: u32,
    },
}

/// Exportable memory as a backend created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExportableAllocation {
    /// The allocation.
    pub raw: RawAllocation,
    /// Its first byte.
    pub ptr: DevicePtr,
    /// Its size in bytes: the requested size, rounded up to the device's granularity.
    pub size: u64,
}

/// Host memory that streams wait for and write, and the host reads and writes, at any time: words of 8 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalMemory {
    /// The first byte for the host. Aligned to 8 bytes.
    pub host: NonNull<u8>,
    /// The first byte for streams.
    pub ptr: DevicePtr,
    /// Its size in bytes: at least 8.
    pub size: usize,
}

// SAFETY: an address and no more; whoever uses it makes sure that the memory lives and is accessed atomically.
unsafe impl Send for SignalMemory {}
// SAFETY: as above.
unsafe impl Sync for SignalMemory {}

/// The function that a stream calls: [`BackendDevice::launch_host_function`](super::BackendDevice::launch_host_function).
pub type HostFunction = unsafe extern "C" fn(*mut c_void);
