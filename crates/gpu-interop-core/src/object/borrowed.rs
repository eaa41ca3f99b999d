//! Memory of the application or another library, as an operand of streams.

use std::any::Any;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::buffer::BufferSlice;
use super::device::Device;
use super::owned::Owned;
use super::resource::Resource;
use crate::backend::DevicePtr;
use crate::error::{Error, Result};

/// Device memory that the application or another library allocated. Copies, fills and kernels of this crate's streams
/// use it like a mapped buffer. Created by [`Device::borrow_memory`].
#[derive(Debug)]
pub struct BorrowedMemory {
    owned: Owned,
    ptr: DevicePtr,
    size: u64,
}

impl BorrowedMemory {
    /// Device address of the first byte.
    #[must_use]
    pub fn as_raw(&self) -> DevicePtr {
        self.ptr
    }

    /// Size in bytes, never 0.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns a range of the memory, in bytes.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) if the range is empty or past the end.
    pub fn slice(&self, range: impl RangeBounds<u64>) -> Result<BufferSlice<'_>> {
        BufferSlice::from(self).slice(range)
    }
}

impl<'a> From<&'a BorrowedMemory> for BufferSlice<'a> {
    fn from(memory: &'a BorrowedMemory) -> Self {
        Self::of(&memory.owned, memory.ptr, memory.size)
    }
}

impl Device {
    /// Wraps `size` bytes of device memory at `ptr`, which the application or another library allocated, and keeps
    /// `owner`, which owns that memory. Dropping the returned [`BorrowedMemory`] does not free the memory. For cudarc's
    /// `CudaSlice` see `SharedSlice` of `gpu_interop::cudarc`.
    ///
    /// The owner is dropped once the returned object has been dropped and the work of this crate's streams that uses
    /// the memory has completed: by that drop, or by the first call of [`Device::collect`], or of a method that
    /// collects implicitly, after that. A device that is closed with work that never completes leaks the owner. The
    /// owner must not contain this device or an object of it.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for address 0, a size of 0, or a range past
    /// the end of the address space. The owner is then dropped.
    ///
    /// # Safety
    /// Streams of this device may read and write the range, and it stays allocated as long as `owner` lives. The
    /// application orders its other accesses, and those of other libraries, with the work of these streams.
    #[doc(alias("cuMemAlloc", "cudaMalloc", "hipMalloc"))]
    pub unsafe fn borrow_memory(
        &self,
        ptr: DevicePtr,
        size: u64,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<BorrowedMemory> {
        if ptr.get() == 0 || size == 0 || ptr.get().checked_add(size).is_none() {
            let message = "the range is empty, starts at address 0 or exceeds the address space";
            let error =
                Error::invalid("Device::borrow_memory", message).with_context("address", format_args!("{ptr:?}"));
            return Err(self.inner.decorate(error.with_context("size", size)));
        }
        let resource = Resource::next_borrowed();
        self.inner.lifetimes.keep(resource, Some(&owner));
        Ok(BorrowedMemory { owned: Owned::new(self.inner.clone(), resource), ptr, size })
    }
}
