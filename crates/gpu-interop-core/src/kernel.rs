//! Modules, kernels and how they are launched.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

use crate::backend::DevicePtr;
use crate::object::BufferSlice;

/// The code of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModuleImage<'a> {
    /// The kernels that a backend has built in. Only the host backend has any.
    Builtin,
    /// PTX source, for CUDA.
    Ptx(&'a CStr),
    /// A compiled image.
    Binary(BinaryImage<'a>),
}

/// A compiled image: a cubin or fat binary for CUDA, a code object for HIP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BinaryImage<'a>(&'a [u8]);

impl<'a> BinaryImage<'a> {
    /// Wraps an image's bytes.
    ///
    /// # Safety
    /// The image must be complete and well-formed: drivers are told no length and trust the image's own headers.
    #[must_use]
    pub const unsafe fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// The size of a launch: blocks, threads a block, and dynamic shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchConfig {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, bytes.
    pub shared_bytes: u32,
}

impl LaunchConfig {
    /// Enough one-dimensional blocks of 256 threads for `count` threads, at least one block.
    #[must_use]
    pub fn linear(count: u64) -> Self {
        const BLOCK: u32 = 256;
        let blocks = u32::try_from(count.div_ceil(u64::from(BLOCK)).max(1)).unwrap_or(u32::MAX);
        Self { grid: [blocks, 1, 1], block: [BLOCK, 1, 1], shared_bytes: 0 }
    }
}

/// One argument of a kernel, passed by value.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum KernelArg<'a> {
    /// The address of a buffer, or of a part of one. The mapping stays until the kernel has run, also if it is dropped
    /// before.
    Buffer(BufferSlice<'a>),
    /// A device address. Whose memory it is in is not known: that must stay until the kernel has run.
    /// [`KernelArg::Buffer`] sees to it, and [`Stream::keep`](crate::Stream::keep).
    Ptr(DevicePtr),
    /// A 32-bit integer.
    U32(u32),
    /// A 64-bit integer.
    U64(u64),
    /// A 32-bit float.
    F32(f32),
}
