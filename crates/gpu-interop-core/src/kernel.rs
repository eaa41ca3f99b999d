//! Module images, kernel arguments and launch configurations.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

use crate::backend::DevicePtr;
use crate::object::BufferSlice;

/// Code of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModuleImage<'a> {
    /// Kernels built into the backend. Only the host backend has any.
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
    /// The image must be complete and well-formed: drivers take no length and trust the image's headers.
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

/// Grid, block and dynamic shared memory of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchConfig {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads per block in each dimension.
    pub block: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub shared_bytes: u32,
}

impl LaunchConfig {
    /// One-dimensional blocks of 256 threads for at least `count` threads; at least one block.
    #[must_use]
    pub fn linear(count: u64) -> Self {
        const BLOCK: u32 = 256;
        let blocks = u32::try_from(count.div_ceil(u64::from(BLOCK)).max(1)).unwrap_or(u32::MAX);
        Self { grid: [blocks, 1, 1], block: [BLOCK, 1, 1], shared_bytes: 0 }
    }
}

/// A kernel argument, passed by value.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum KernelArg<'a> {
    /// Address of a buffer or of a slice of it. The mapping is kept until the kernel has completed, even if it is
    /// dropped before.
    Buffer(BufferSlice<'a>),
    /// A device address. The caller must keep its memory valid until the kernel has completed: pass a
    /// [`KernelArg::Buffer`] or call [`Stream::keep`](crate::Stream::keep).
    Ptr(DevicePtr),
    /// A 32-bit integer.
    U32(u32),
    /// A 64-bit integer.
    U64(u64),
    /// A 32-bit float.
    F32(f32),
}
