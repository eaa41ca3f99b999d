//! Shared buffers.

use std::sync::Arc;

use gpu_interop::{BufferSlice, Error, MappedBuffer, MemoryImport, Result};

use crate::check;
use crate::interop::Interop;
use crate::native::objects::{Exporter, Transfer};
use crate::object::{Handle, Object, Sealed, Shared};

/// A `wgpu::Buffer` whose memory the compute device maps, too. Created by [`Interop::create_buffer`].
///
/// wgpu uses [`wgpu`](Self::wgpu) as any other buffer, except that it cannot map it; streams use
/// [`mapped`](Self::mapped) while compute owns the buffer ([`Interop::begin_compute`]). It starts with zeroes and
/// belongs to wgpu.
///
/// May be dropped at any time, before or after clones of the `wgpu::Buffer`, with work of either side pending. The
/// memory is freed once, when wgpu has dropped its handle and completed its work, and the streams theirs.
#[derive(Debug)]
pub struct SharedBuffer {
    mapped: MappedBuffer,
    buffer: wgpu::Buffer,
    object: Arc<Object>,
    exporter: Exporter,
}

impl SharedBuffer {
    /// The buffer for wgpu.
    #[must_use]
    pub fn wgpu(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    /// The same memory for streams and kernels: `buffer.mapped().as_raw()` is the device address.
    #[must_use]
    pub fn mapped(&self) -> &MappedBuffer {
        &self.mapped
    }

    /// Exports the memory for another process, device or API: a new handle that the caller owns, allocation size, dedicated
    /// flag and device. It keeps the memory alive.
    ///
    /// The other side takes the place of compute: it uses the memory between [`Interop::begin_compute`] and
    /// [`HandOver::end`](crate::HandOver::end), and the application orders it with the stream's work. A Vulkan importer
    /// acquires the buffer first and releases it last.
    ///
    /// # Errors
    /// [`ErrorKind::System`](gpu_interop::ErrorKind::System) in a forked process, or out of descriptors; otherwise the
    /// driver's error.
    #[doc(alias("vkGetMemoryFdKHR", "vkGetMemoryWin32HandleKHR", "CreateSharedHandle"))]
    pub fn export(&self) -> Result<MemoryImport> {
        self.exporter.import_request()
    }

    /// Size, bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.mapped.size()
    }
}

impl<'a> From<&'a SharedBuffer> for BufferSlice<'a> {
    fn from(buffer: &'a SharedBuffer) -> Self {
        Self::from(&buffer.mapped)
    }
}

impl Sealed for SharedBuffer {
    fn object(&self) -> &Arc<Object> {
        &self.object
    }
}

impl Shared for SharedBuffer {}

impl Interop {
    /// Creates a buffer of both sides, filled with zeroes. `desc` is that of `wgpu::Device::create_buffer`, with every
    /// usage but `MAP_READ` and `MAP_WRITE`; to map the data, copy it to a buffer of wgpu's own.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](gpu_interop::ErrorKind::InvalidArgument) for a size of 0 or above the wgpu
    /// device's limit, no usage, an unknown one, or one that maps;
    /// [`ErrorKind::Unsupported`](gpu_interop::ErrorKind::Unsupported) if the wgpu device lacks the feature of a usage,
    /// or shares no buffers of it; [`ErrorKind::OutOfMemory`](gpu_interop::ErrorKind::OutOfMemory); otherwise the
    /// driver's error.
    #[doc(alias(
        "create_buffer_from_hal",
        "vkGetMemoryFdKHR",
        "vkGetMemoryWin32HandleKHR",
        "cuImportExternalMemory",
        "cudaImportExternalMemory",
        "hipImportExternalMemory",
        "cuExternalMemoryGetMappedBuffer",
        "cudaExternalMemoryGetMappedBuffer",
        "hipExternalMemoryGetMappedBuffer"
    ))]
    pub fn create_buffer(&self, desc: &wgpu::BufferDescriptor<'_>) -> Result<SharedBuffer> {
        const OPERATION: &str = "Interop::create_buffer";
        check::buffer(OPERATION, &self.inner.graphics, desc)?;
        // wgpu copies and clears whole words.
        let size = desc.size.checked_next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT);
        let size =
            size.ok_or_else(|| Error::invalid(OPERATION, "the size is too large").with_context("size", desc.size))?;
        let new = self.inner.graphics.checked(OPERATION, || self.native().create_buffer(self.device(), desc, size))?;
        let mapped = self.compute().import_memory(new.exporter.import_request()?)?.map_buffer(0..desc.size)?;
        let object = Object::new(Handle::Buffer(new.buffer.clone()), new.resource, self.id());
        self.inner.submit_internal(Transfer::Initialize, &object)?;
        Ok(SharedBuffer { mapped, buffer: new.buffer, object, exporter: new.exporter })
    }
}
