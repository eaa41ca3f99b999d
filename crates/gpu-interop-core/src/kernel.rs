//! Module images, kernel arguments and launch configurations.

use std::ffi::CStr;
use std::fmt;

use crate::object::BufferSlice;
use crate::raw::DevicePtr;

/// Code of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModuleImage<'a> {
    /// Kernels built into the backend or registered with it. Only the host backend has any.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LaunchConfig {
    /// Blocks in each dimension.
    pub grid_dim: [u32; 3],
    /// Threads per block in each dimension.
    pub block_dim: [u32; 3],
    /// Dynamic shared memory per block, in bytes.
    pub shared_mem_bytes: u32,
}

impl LaunchConfig {
    /// Blocks and threads per block in each dimension, without dynamic shared memory.
    #[must_use]
    pub const fn new(grid_dim: [u32; 3], block_dim: [u32; 3]) -> Self {
        Self { grid_dim, block_dim, shared_mem_bytes: 0 }
    }

    /// Sets the dynamic shared memory per block, in bytes.
    #[must_use]
    pub const fn with_shared_mem_bytes(mut self, bytes: u32) -> Self {
        self.shared_mem_bytes = bytes;
        self
    }

    /// One-dimensional blocks of 256 threads for at least `count` threads; at least one block.
    #[must_use]
    pub fn linear(count: u64) -> Self {
        const BLOCK: u32 = 256;
        let blocks = u32::try_from(count.div_ceil(u64::from(BLOCK)).max(1)).unwrap_or(u32::MAX);
        Self { grid_dim: [blocks, 1, 1], block_dim: [BLOCK, 1, 1], shared_mem_bytes: 0 }
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
    /// An unsigned 8-bit integer.
    U8(u8),
    /// An unsigned 16-bit integer.
    U16(u16),
    /// An unsigned 32-bit integer.
    U32(u32),
    /// An unsigned 64-bit integer.
    U64(u64),
    /// A signed 8-bit integer.
    I8(i8),
    /// A signed 16-bit integer.
    I16(i16),
    /// A signed 32-bit integer.
    I32(i32),
    /// A signed 64-bit integer.
    I64(i64),
    /// A 32-bit float.
    F32(f32),
    /// A 64-bit float.
    F64(f64),
    /// A struct or an array ([`KernelArg::by_value`]).
    Value(ByValue<'a>),
}

impl<'a> KernelArg<'a> {
    /// A struct or an array, which launching copies. `T` has the layout of the kernel's parameter: a `#[repr(C)]`
    /// struct of the same fields, with `#[repr(align(..))]` where CUDA or HIP align a vector type such as `float4` more
    /// than its fields.
    #[must_use]
    pub fn by_value<T: Copy + Send + Sync>(value: &'a T) -> Self {
        Self::Value(ByValue(value))
    }

    /// The address of the value that the kernel takes, valid and aligned for its type while `self` is borrowed. For
    /// backends: drivers copy the argument from there. `None` for a buffer: launching passes its address to the
    /// backend.
    #[must_use]
    pub fn as_ptr(&self) -> Option<*const u8> {
        Some(match self {
            Self::Buffer(_) => return None,
            Self::Ptr(value) => std::ptr::from_ref(value).cast(),
            Self::U8(value) => value,
            Self::U16(value) => std::ptr::from_ref(value).cast(),
            Self::U32(value) => std::ptr::from_ref(value).cast(),
            Self::U64(value) => std::ptr::from_ref(value).cast(),
            Self::I8(value) => std::ptr::from_ref(value).cast(),
            Self::I16(value) => std::ptr::from_ref(value).cast(),
            Self::I32(value) => std::ptr::from_ref(value).cast(),
            Self::I64(value) => std::ptr::from_ref(value).cast(),
            Self::F32(value) => std::ptr::from_ref(value).cast(),
            Self::F64(value) => std::ptr::from_ref(value).cast(),
            Self::Value(value) => value.as_ptr(),
        })
    }
}

/// Plain data of any type.
trait Plain: Send + Sync {}

impl<T: Copy + Send + Sync> Plain for T {}

/// A struct or an array that a kernel takes by value.
#[derive(Clone, Copy)]
pub struct ByValue<'a>(&'a (dyn Plain + 'a));

impl ByValue<'_> {
    /// The address of the value. Padding between its fields is not initialised.
    #[must_use]
    pub fn as_ptr(self) -> *const u8 {
        std::ptr::from_ref(self.0).cast()
    }

    /// Its size, bytes.
    #[must_use]
    pub fn size(self) -> usize {
        size_of_val(self.0)
    }

    /// Its alignment, bytes.
    #[must_use]
    pub fn align(self) -> usize {
        align_of_val(self.0)
    }
}

/// The same object.
impl PartialEq for ByValue<'_> {
    fn eq(&self, other: &Self) -> bool {
        (self.as_ptr(), self.size()) == (other.as_ptr(), other.size())
    }
}

impl fmt::Debug for ByValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ByValue({} bytes aligned to {})", self.size(), self.align())
    }
}
